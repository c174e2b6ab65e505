// What `run` and `chat` print under an answer: what was out of the ordinary, and tables of figures.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "actors/answer.h"
#include "actors/figures.h"

namespace suture {

// A line each, without a line feed: whom it went on without, and why it ended early.
std::vector<std::string> answer_notes(const Answer& answer);

// One row a process, columns aligned, a line feed after each row.
std::string answer_table(std::span<const ProcessFigures> figures);
// What one turn of a chat read, took over from the turns before, and generated.
std::string chat_table(std::span<const ProcessFigures> figures);

}  // namespace suture
