// suture top
#pragma once

#include "launcher/command.h"

namespace suture {

void add_top_command(CLI::App& app, CommandContext& context);

}  // namespace suture
