// The tables that `run` and `chat` print under an answer.
#pragma once

#include <span>
#include <string>

#include "actors/figures.h"

namespace suture {

// One row a process, columns aligned, a line feed after each row.
std::string answer_table(std::span<const ProcessFigures> figures);
// What one turn of a chat read, took over from the turns before, and generated.
std::string chat_table(std::span<const ProcessFigures> figures);

}  // namespace suture
