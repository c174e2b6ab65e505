// suture run: answers questions on a topology, or on a running launch.
#pragma once

#include "launcher/command.h"

namespace suture {

void add_run_command(CLI::App& app, CommandContext& context);

}  // namespace suture
