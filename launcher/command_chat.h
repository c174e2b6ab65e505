// suture chat: a conversation at the terminal, or through a pipe.
#pragma once

#include "launcher/command.h"

namespace suture {

void add_chat_command(CLI::App& app, CommandContext& context);

}  // namespace suture
