// `suture tokenize MODEL`: standard input as token ids.
#pragma once

#include "launcher/command.h"

namespace suture {

void add_tokenize_command(CLI::App& app, CommandContext& context);

}  // namespace suture
