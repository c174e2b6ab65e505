// `suture doctor`: whether this computer has what Suture needs.
#pragma once

#include "launcher/command.h"

namespace suture {

void add_doctor_command(CLI::App& app, CommandContext& context);

}  // namespace suture
