#include "launcher/chat_input.h"

#include <utility>

namespace suture {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";

}  // namespace

std::optional<std::string> MessageAssembler::add(std::string_view line) {
  if (quoted_) return add_quoted(line);
  if (!continued_ && line.starts_with(kQuotes)) {
    quoted_ = true;
    line.remove_prefix(kQuotes.size());
    return line.empty() ? std::nullopt : add_quoted(line);
  }
  continued_ = line.ends_with('\\');
  if (continued_) line.remove_suffix(1);
  text_ += line;
  if (!continued_) return take();
  text_ += '\n';
  return std::nullopt;
}

std::optional<std::string> MessageAssembler::add_quoted(std::string_view line) {
  const bool last = line.ends_with(kQuotes);
  if (last) line.remove_suffix(kQuotes.size());
  text_ += line;
  if (last) return take();
  text_ += '\n';
  return std::nullopt;
}

std::optional<std::string> MessageAssembler::finish() {
  if (!unfinished() || text_.empty()) return std::nullopt;
  text_.pop_back();  // the line feed before the line that did not come
  return take();
}

void MessageAssembler::clear() { take(); }

std::string MessageAssembler::take() {
  quoted_ = continued_ = false;
  return std::exchange(text_, {});
}

}  // namespace suture
