#include "models/chat_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace suture {
namespace {

ChatFormat chatml() {
  return {.name = "chatml",
          .system_open = "<|im_start|>system\n",
          .system_close = "<|im_end|>\n",
          .user_open = "<|im_start|>user\n",
          .user_close = "<|im_end|>\n",
          .assistant_open = "<|im_start|>assistant\n",
          .assistant_close = "<|im_end|>\n",
          .stop = {"<|im_end|>"}};
}

ChatFormat llama3() {
  return {.name = "llama3",
          .system_open = "<|start_header_id|>system<|end_header_id|>\n\n",
          .system_close = "<|eot_id|>",
          .user_open = "<|start_header_id|>user<|end_header_id|>\n\n",
          .user_close = "<|eot_id|>",
          .assistant_open = "<|start_header_id|>assistant<|end_header_id|>\n\n",
          .assistant_close = "<|eot_id|>",
          .stop = {"<|eot_id|>"}};
}

// From 3.1 on the system turn is always there and begins with two dates; this is the day that the
// template takes where nobody gives one.
ChatFormat llama31() {
  ChatFormat format = llama3();
  format.name = "llama3.1";
  format.system_open += "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
  format.system_always = true;
  return format;
}

ChatFormat phi3() {
  return {.name = "phi3",
          .system_open = "<|system|>\n",
          .system_close = "<|end|>\n",
          .user_open = "<|user|>\n",
          .user_close = "<|end|>\n",
          .assistant_open = "<|assistant|>\n",
          .assistant_close = "<|end|>\n",
          .stop = {"<|end|>"}};
}

ChatFormat gemma() {
  return {.name = "gemma",
          .system_open = "",
          .system_close = "\n\n",
          .user_open = "<start_of_turn>user\n",
          .user_close = "<end_of_turn>\n",
          .assistant_open = "<start_of_turn>model\n",
          .assistant_close = "<end_of_turn>\n",
          .system_in_user = true,
          .stop = {"<end_of_turn>"}};
}

// A format, and what its templates contain and no other's do.
struct KnownFormat {
  ChatFormat (*make)();
  std::array<std::string_view, 2> marks;
  std::string_view other = {};  // a mark of another format that shares these
};
// The first whose marks are all there is taken.
constexpr KnownFormat kFormats[] = {
    {chatml, {"<|im_start|>", ""}, "<|im_sep|>"},
    {llama31, {"<|start_header_id|>", "Cutting Knowledge Date: December 2023"}},
    {llama3, {"<|start_header_id|>", "<|eot_id|>"}},
    {phi3, {"<|user|>", "<|end|>"}},
    {gemma, {"<start_of_turn>", "<end_of_turn>"}},
};

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
  if (format.name != "chatml") return {};
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
      "say with chat_format in the topology how the model was trained, as a name ({}) or as a "
      "table "
      "of the pieces around each turn",
      known_names());
  const std::string& source = vocabulary.chat_template;
  if (source.empty())
    return fail(ErrorCode::kUnsupported, "the model has no chat template",
                "tokenizer.chat_template", remedy);
  for (const KnownFormat& known : kFormats) {
    const auto is_there = [&](std::string_view mark) {
      return source.find(mark) != std::string::npos;
    };
    if (!std::ranges::all_of(known.marks, is_there)) continue;
    if (!known.other.empty() && is_there(known.other)) continue;
    ChatFormat format = known.make();
    format.default_system = find_default_system(source, format);
    return format;
  }
  return fail(ErrorCode::kUnsupported, "the model's chat template is of no known format",
              "tokenizer.chat_template", remedy);
}

Result<ChatFormat> ChatFormat::named(std::string_view name) {
  for (const KnownFormat& known : kFormats)
    if (ChatFormat format = known.make(); format.name == name) return format;
  return fail(ErrorCode::kUnsupported, fmt::format("chat format \"{}\" is not known", name),
              "chat_format", fmt::format("known: {}", known_names()));
}

std::string ChatFormat::known_names() {
  std::string names;
  for (const KnownFormat& known : kFormats)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known.make().name);
  return names;
}

}  // namespace suture
