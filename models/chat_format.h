// How a conversation is laid out as text for one model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/vocabulary.h"

namespace suture {

// The pieces around a turn. Only these pieces are encoded with SpecialTokens::kParse; what users
// and documents say is always kAsText, so that text cannot forge a turn.
struct ChatFormat {
  std::string name;          // "chatml"; empty for one given in pieces
  std::string system_open;   // "<|im_start|>system\n"
  std::string system_close;  // "<|im_end|>\n"
  std::string user_open;
  std::string user_close;
  std::string assistant_open;
  std::string assistant_close;
  std::string default_system;   // what the model's template says when no system prompt is given
  bool system_in_user = false;  // the system text begins the first user turn, behind user_open
  bool system_always = false;   // the system turn is there even when it has no text
  // What ends an answer, beside the tokens that end a text in every model.
  std::vector<std::string> stop;

  bool operator==(const ChatFormat&) const = default;

  // Recognised from the template; kUnsupported says that `chat_format` in the topology names one.
  static Result<ChatFormat> detect(const Vocabulary& vocabulary);
  static Result<ChatFormat> named(std::string_view name);
  static std::string known_names();  // "chatml, llama3, ..."
};

}  // namespace suture
