// `suture models list|pull|verify`: the models known by name and their cache.
#pragma once

#include "launcher/command.h"

namespace suture {

void add_models_command(CLI::App& app, CommandContext& context);

}  // namespace suture
