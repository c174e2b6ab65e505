// `suture dump MODEL`: logits, K and V of a prompt as a safetensors file.
#pragma once

#include "launcher/command.h"

namespace suture {

void add_dump_command(CLI::App& app, CommandContext& context);

}  // namespace suture
