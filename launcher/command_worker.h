// suture worker: one model process. Started by the launcher, not by hand, and not in the help.
#pragma once

#include "launcher/command.h"

namespace suture {

void add_worker_command(CLI::App& app, CommandContext& context);

}  // namespace suture
