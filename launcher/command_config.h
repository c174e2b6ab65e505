// suture config
#pragma once

#include "launcher/command.h"

namespace suture {

void add_config_command(CLI::App& app, CommandContext& context);

}  // namespace suture
