// `suture score MODEL`: how likely a model finds a text, token by token.
#pragma once

#include "launcher/command.h"

namespace suture {

void add_score_command(CLI::App& app, CommandContext& context);

}  // namespace suture
