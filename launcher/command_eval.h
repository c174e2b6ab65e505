// `suture eval`: what a topology is worth beside its parts, on sets of questions.
#pragma once

#include "launcher/command.h"

namespace suture {

void add_eval_command(CLI::App& app, CommandContext& context);

}  // namespace suture
