// `suture bench MODEL`: how fast this machine runs a model, and how near that is to its limits.
#pragma once

#include "launcher/command.h"

namespace suture {

void add_bench_command(CLI::App& app, CommandContext& context);

}  // namespace suture
