#include "models/chat_format.h"

#include <fmt/format.h>

namespace suture {
namespace {

constexpr std::string_view kKnownFormats = "chatml";

ChatFormat chatml() {
  return {
      .name = "chatml",
      .system_open = "<|im_start|>system\n",
      .system_close = "<|im_end|>\n",
      .user_open = "<|im_start|>user\n",
      .user_close = "<|im_end|>\n",
      .assistant_open = "<|im_start|>assistant\n",
      .assistant_close = "<|im_end|>\n",
      .default_system = {},
  };
}

// Reads literal text of a Jinja template up to `quote`, or to the next "{" where the text stands
// outside of expressions (quote 0), and resolves the escapes that strings have.
std::string read_literal(std::string_view source, char quote) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    const char c = source[i];
    if (c == (quote != 0 ? quote : '{')) break;
    if (c != '\\' || quote == 0 || i + 1 == source.size()) {
      text.push_back(c);
      continue;
    }
    const char escaped = source[++i];
    text.push_back(escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped);
  }
  return text;
}

// The system turn that the template writes out in full is the one for conversations without one;
// any other takes its text from the messages.
std::string find_default_system(std::string_view source, const ChatFormat& format) {
  const std::string_view start = "<|im_start|>system";
  const std::string_view end = "<|im_end|>";
  for (size_t at = source.find(start); at != std::string_view::npos;
       at = source.find(start, at + 1)) {
    const char before = at == 0 ? '\0' : source[at - 1];
    const bool quoted = before == '\'' || before == '"';
    const std::string turn = read_literal(source.substr(at), quoted ? before : '\0');
    const size_t close = turn.find(end);
    if (!turn.starts_with(format.system_open) || close == std::string::npos) continue;
    return turn.substr(format.system_open.size(), close - format.system_open.size());
  }
  return {};
}

}  // namespace

Result<ChatFormat> ChatFormat::detect(const Vocabulary& vocabulary) {
  const std::string remedy = fmt::format(
      "name the format that the model was trained on with chat_format in the "
      "topology; known: {}",
      kKnownFormats);
  if (vocabulary.chat_template.empty()) {
    return fail(ErrorCode::kUnsupported, "the model has no chat template",
                "tokenizer.chat_template", remedy);
  }
  if (vocabulary.chat_template.find("<|im_start|>") == std::string::npos) {
    return fail(ErrorCode::kUnsupported, "the model's chat template is of no known format",
                "tokenizer.chat_template", remedy);
  }
  ChatFormat format = chatml();
  format.default_system = find_default_system(vocabulary.chat_template, format);
  return format;
}

Result<ChatFormat> ChatFormat::named(std::string_view name) {
  if (name == "chatml") return chatml();
  return fail(ErrorCode::kUnsupported, fmt::format("chat format \"{}\" is not known", name),
              "chat_format", fmt::format("known: {}", kKnownFormats));
}

}  // namespace suture
