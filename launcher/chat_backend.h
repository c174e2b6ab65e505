// Something a conversation can be held with: a launch of this process, or one that was attached to.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "actors/launch.h"
#include "base/error.h"

namespace suture {

class ChatBackend {
 public:
  virtual ~ChatBackend() = default;
  // Begins the conversation anew, after turns that are read as prompt with the next question;
  // gives the number of their tokens.
  virtual Result<int64_t> restart(const std::vector<ChatTurn>& history) = 0;
  // The next turn. Without a restart before it, the first one.
  virtual Result<Answer> ask(const AskOptions& options,
                             const std::function<void(std::string_view)>& on_text,
                             const std::atomic<bool>& cancelled) = 0;
};

// A conversation with a launch, which must outlive it; released when it is destroyed.
class LaunchChat final : public ChatBackend {
 public:
  explicit LaunchChat(Launch& launch) : launch_(launch) {}
  ~LaunchChat() override;
  LaunchChat(const LaunchChat&) = delete;
  LaunchChat& operator=(const LaunchChat&) = delete;

  Result<int64_t> restart(const std::vector<ChatTurn>& history) override;
  Result<Answer> ask(const AskOptions& options,
                     const std::function<void(std::string_view)>& on_text,
                     const std::atomic<bool>& cancelled) override;

 private:
  Launch& launch_;
  uint64_t conversation_ = 0;  // 0 = none yet
};

}  // namespace suture
