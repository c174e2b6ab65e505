#include "bench/load/client.h"

#include <utility>

#include "actors/trace_log.h"
#include "launcher/answer_json.h"
#include "launcher/attach_socket.h"
#include "launcher/snapshot_json.h"

namespace suture {
namespace {

constexpr const char* kWhere = "client";

}  // namespace

Result<LoadConnection> LoadConnection::open(const std::string& name) {
  SUTURE_ASSIGN_OR_RETURN(UniqueFd fd, connect_to_launch(name));
  return LoadConnection(LineSocket(std::move(fd)));
}

Result<nlohmann::json> LoadConnection::next() {
  SUTURE_ASSIGN_OR_RETURN(auto line, socket_.receive(kSilenceMs));
  if (!line) return fail(ErrorCode::kTimeout, "the launch says nothing", kWhere);
  if (!line->contains("error")) return std::move(*line);
  SUTURE_ASSIGN_OR_RETURN(Error error, error_from_json(line->at("error")));
  return tl::unexpected<Error>(std::move(error));
}

Status LoadConnection::begin_conversation() {
  SUTURE_RETURN_IF_ERROR(socket_.send({{"conversation", nlohmann::json::array()}}));
  SUTURE_ASSIGN_OR_RETURN(const nlohmann::json line, next());
  if (line.contains("tokens")) return {};
  return fail(ErrorCode::kCorrupt, "no number of tokens: " + line.dump(), kWhere);
}

Result<LaunchSnapshot> LoadConnection::snapshot() {
  SUTURE_RETURN_IF_ERROR(socket_.send({{"snapshot", true}}));
  SUTURE_ASSIGN_OR_RETURN(const nlohmann::json line, next());
  return snapshot_from_json(line.contains("snapshot") ? line.at("snapshot") : line);
}

LoadOutcome LoadConnection::ask(AskOptions question, const Interference& interference) {
  LoadOutcome outcome;
  outcome.interference = interference;
  question.deadline_seconds = interference.deadline_seconds;
  const int64_t asked_ns = monotonic_ns();
  Status status = socket_.send(to_json(question));
  if (status) status = follow(outcome);
  if (!status) outcome.error = std::move(status).error();
  outcome.seconds = seconds_since(asked_ns);
  return outcome;
}

// Until the answer, or until the client has hung up.
Status LoadConnection::follow(LoadOutcome& outcome) {
  const auto [whim, after, deadline] = outcome.interference;
  bool cancelled = false;
  int64_t piece_ns = 0;
  for (size_t pieces = 0;; ++pieces) {
    if (whim == Whim::kHangUp && pieces >= after) return {};
    if (whim == Whim::kCancel && pieces >= after && !std::exchange(cancelled, true))
      SUTURE_RETURN_IF_ERROR(socket_.send({{"cancel", true}}));
    SUTURE_ASSIGN_OR_RETURN(const nlohmann::json line, next());
    if (line.contains("answer")) {
      SUTURE_ASSIGN_OR_RETURN(outcome.answer, answer_from_json(line.at("answer")));
      return {};
    }
    const auto piece = line.find("piece");
    if (piece == line.end() || !piece->is_string())
      return fail(ErrorCode::kCorrupt, "neither piece nor answer: " + line.dump(), kWhere);
    outcome.text += piece->get<std::string>();
    const int64_t now_ns = monotonic_ns();
    if (piece_ns != 0) outcome.gaps.push_back(static_cast<double>(now_ns - piece_ns) * 1e-9);
    piece_ns = now_ns;
  }
}

}  // namespace suture
