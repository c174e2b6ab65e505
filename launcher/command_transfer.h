// `suture transfer`: what a context read by one model is worth on another, and how fast that is.
#pragma once

#include <CLI/CLI.hpp>

#include "launcher/command.h"

namespace suture {

void add_transfer_command(CLI::App& app, CommandContext& context);

}  // namespace suture
