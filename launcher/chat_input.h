// Puts the messages of a chat together from the lines in which they come.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace suture {

// A line that ends in a backslash goes on with the next one. A line that begins with """ opens a
// text that ends with the line that ends in """; in between, lines are taken as they are.
class MessageAssembler {
 public:
  // The message, once it is complete.
  std::optional<std::string> add(std::string_view line);
  // The input has ended: what has come of an unfinished message.
  std::optional<std::string> finish();

  bool unfinished() const { return quoted_ || continued_; }
  void clear();

 private:
  std::optional<std::string> add_quoted(std::string_view line);
  std::string take();

  std::string text_;
  bool quoted_ = false;
  bool continued_ = false;
};

}  // namespace suture
