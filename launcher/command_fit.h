// `suture fit`: a projector from the K/V of one model to that of another.
#pragma once

#include "launcher/command.h"

namespace suture {

void add_fit_command(CLI::App& app, CommandContext& context);

}  // namespace suture
