// One connection to a running launch, as the attach protocol has it (launcher/attach.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/launch_snapshot.h"
#include "bench/load/workload.h"
#include "launcher/line_socket.h"

namespace suture {

// What became of one question.
struct LoadOutcome {
  Interference interference;
  std::optional<Answer> answer;
  std::optional<Error> error;  // neither: the client hung up
  std::string text;            // of all pieces
  double seconds = 0;          // from asking to the end
  std::vector<double> gaps;    // seconds between two pieces
};

class LoadConnection {
 public:
  static Result<LoadConnection> open(const std::string& name);

  Status begin_conversation();
  // A launch that says nothing for kSilence is an error of code kTimeout from where "client".
  LoadOutcome ask(AskOptions question, const Interference& interference);
  Result<LaunchSnapshot> snapshot();

  int fd() const { return socket_.fd(); }

  static constexpr int kSilenceMs = 180'000;

 private:
  explicit LoadConnection(LineSocket socket) : socket_(std::move(socket)) {}
  Result<nlohmann::json> next();
  Status follow(LoadOutcome& outcome);

  LineSocket socket_;
};

}  // namespace suture
