// `suture check TOPOLOGY`: whether the models of a topology fit together and into memory.
#pragma once

#include "launcher/command.h"

namespace suture {

void add_check_command(CLI::App& app, CommandContext& context);

}  // namespace suture
