// One turn of a conversation.
#pragma once

#include <string>

namespace suture {

// A question of a conversation with what was answered.
struct ChatTurn {
  std::string question;
  std::string answer;

  bool operator==(const ChatTurn&) const = default;
};

}  // namespace suture
