// Lines that a user types at a terminal, with editing and a history that stays.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "base/error.h"

namespace suture {

enum class LineEnd { kLine, kEnd, kInterrupted };

struct TypedLine {
  LineEnd end = LineEnd::kEnd;  // kEnd: Ctrl-D or no more input
  std::string text;             // UTF-8, without the line feed; kLine only
};

class LineEditor {
 public:
  // Reads from terminal `input` and shows prompt and line on `output`. A byte that can be read
  // from `wake_fd` ends a line that is being typed (kInterrupted). `history_file` is read now and
  // written when the editor goes; empty = none.
  static Result<std::unique_ptr<LineEditor>> create(std::FILE* input, std::FILE* output,
                                                    int wake_fd,
                                                    std::filesystem::path history_file);
  ~LineEditor();

  TypedLine read(const std::string& prompt);

 private:
  struct State;
  explicit LineEditor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// $XDG_STATE_HOME/suture/chat_history, or ~/.local/state/suture/chat_history; creates the folder,
// for this user alone. Empty if there is no home.
std::filesystem::path chat_history_file();

}  // namespace suture
