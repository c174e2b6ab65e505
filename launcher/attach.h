// How another terminal reaches a running launch: a Unix socket in the user's run-time folder that
// only this user can open. One JSON value a line:
//   client: {"hello": true}
//   server: {"defaults": {...}}          how questions are answered that do not say it themselves
//   client: {"text": ..., "max_tokens": ..., ...}                 (launcher/answer_json.h)
//   server: {"piece": TEXT} ..., then {"answer": {...}} or {"error": {...}}
// A client that hangs up cancels its request.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "actors/launch.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace suture {

// Something that answers: a launch of this process, or a running one that was attached to.
using Asker = std::function<Result<Answer>(const AskOptions& options,
                                           const std::function<void(std::string_view)>& on_text,
                                           const std::atomic<bool>& cancelled)>;

// $XDG_RUNTIME_DIR/suture/NAME.sock, or /tmp/suture-UID/NAME.sock. Creates the folder, mode 0700;
// kPermission if it is not this user's alone. Names: 1 to 63 of A-Z a-z 0-9 . _ -
Result<std::filesystem::path> attach_socket_path(const std::string& name);

// What clients may ask for.
struct AttachServices {
  Asker ask;
  AskOptions defaults = {};
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

struct Attached {
  Asker ask;  // each request makes a connection of its own
  AskOptions defaults;
};

// kNotFound if no launch of that name lives.
Result<Attached> attach(const std::string& name);

}  // namespace suture
