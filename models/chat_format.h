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
  std::string name;          // "chatml"
  std::string system_open;   // "<|im_start|>system\n"
  std::string system_close;  // "<|im_end|>\n"
  std::string user_open;
  std::string user_close;
  std::string assistant_open;
  std::string assistant_close;
  std::string default_system;  // what the model's template says when no system prompt is given

  // Recognised from the template; kUnsupported says that `chat_format` in the topology names one.
  static Result<ChatFormat> detect(const Vocabulary& vocabulary);
  static Result<ChatFormat> named(std::string_view name);
};

}  // namespace suture
