// How another terminal reaches a running launch: a Unix socket in the user's run-time folder that
// only this user can open. One JSON value a line:
//   client: {"hello": true}
//   server: {"defaults": {...}}          how questions are answered that do not say it themselves
//   client: {"text": ..., "max_tokens": ..., ...}                 (launcher/answer_json.h)
//   server: {"piece": TEXT} ..., then {"answer": {...}} or {"error": {...}}
//   client: {"cancel": true}             ends an answer that is on its way
//   client: {"conversation": [{"question": TEXT, "answer": TEXT}, ...]}
//   server: {"tokens": N}                of these earlier turns; questions are now turns of it
//   client: {"snapshot": true}
//   server: {"snapshot": {...}}         (launcher/snapshot_json.h)
// A client that hangs up cancels its request and ends its conversation.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/launch.h"
#include "base/error.h"

namespace suture {

// Something that answers: a launch of this process, or a running one that was attached to.
using Asker = std::function<Result<Answer>(const AskOptions& options,
                                           const std::function<void(std::string_view)>& on_text,
                                           const std::atomic<bool>& cancelled)>;

// What clients may ask for.
struct AttachServices {
  Asker ask;
  AskOptions defaults = {};
  std::function<Result<OpenedConversation>(const std::vector<ChatTurn>&)> open_conversation = {};
  std::function<void(uint64_t)> close_conversation = {};
  std::function<LaunchSnapshot()> watch = {};  // called from several threads
};

class AttachServer {
 public:
  // kBusy if a launch of that name lives. A socket that a killed launch left behind is replaced.
  static Result<std::unique_ptr<AttachServer>> start(const std::string& name,
                                                     AttachServices services);
  // Ends all connections; requests in progress are cancelled.
  ~AttachServer();
  AttachServer(const AttachServer&) = delete;
  AttachServer& operator=(const AttachServer&) = delete;

 private:
  struct State;
  explicit AttachServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace suture
