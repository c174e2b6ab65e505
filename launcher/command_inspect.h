// `suture inspect MODEL`: what a model file holds.
#pragma once

#include "launcher/command.h"

namespace suture {

void add_inspect_command(CLI::App& app, CommandContext& context);

}  // namespace suture
