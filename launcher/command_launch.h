// suture launch: keeps a topology running for `suture run --attach`.
#pragma once

#include "launcher/command.h"

namespace suture {

void add_launch_command(CLI::App& app, CommandContext& context);

}  // namespace suture
