#include "bench/load/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <thread>

#include "bus/doorbell.h"

namespace suture {
namespace {

class Client {
 public:
  Client(const StageOptions& options, size_t number, Deadline end,
         const std::vector<LoadScript>& scripts, const std::vector<Reference>& references)
      : launch_(options.launch),
        number_(number),
        end_(end),
        scripts_(scripts),
        references_(references),
        random_(options.seed * 1000 + number) {}

  ClientTally run();

 private:
  bool over() const { return std::chrono::steady_clock::now() >= end_; }
  void play(size_t index);
  bool connect(bool conversation);
  bool ask(size_t script, size_t turn, const Interference& interference);
  void note(const LoadOutcome& outcome, size_t script, size_t turn);
  void note_answer(const LoadOutcome& outcome);
  void fault(const std::string& what);

  const std::string& launch_;
  const size_t number_;
  const Deadline end_;
  const std::vector<LoadScript>& scripts_;
  const std::vector<Reference>& references_;
  std::mt19937_64 random_;
  std::optional<LoadConnection> connection_;
  ClientTally tally_;
};

// Every client goes through all scripts, in an order of its own, so that all want the same.
ClientTally Client::run() {
  std::vector<size_t> order(scripts_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  while (!over() && tally_.faults.empty()) {
    std::ranges::shuffle(order, random_);
    for (const size_t index : order) {
      if (over() || !tally_.faults.empty()) break;
      play(index);
    }
  }
  return std::move(tally_);
}

// A conversation that was disturbed has another history than its reference: it is left, or begun
// anew on the same connection.
void Client::play(size_t index) {
  const LoadScript& script = scripts_[index];
  if (!connect(script.conversation)) return;
  bool begun_anew = false;
  for (size_t turn = 0; turn < script.turns.size() && !over();) {
    const Interference interference = begun_anew ? Interference{} : draw_interference(random_);
    if (ask(index, turn, interference)) {
      ++turn;
      continue;
    }
    const bool again = script.conversation && connection_ && !begun_anew && random_() % 2 == 0;
    if (!again || !tally_.faults.empty()) break;
    begun_anew = true;
    turn = 0;
    if (const Status begun = connection_->begin_conversation(); !begun)
      return fault(begun.error().message());
  }
  if (script.conversation) connection_.reset();
}

// Single questions may share a connection.
bool Client::connect(bool conversation) {
  if (conversation || random_() % 2 == 0) connection_.reset();
  if (connection_) return true;
  auto opened = LoadConnection::open(launch_);
  Status status;
  if (!opened) {
    status = tl::unexpected<Error>(opened.error());
  } else {
    connection_.emplace(std::move(*opened));
    if (conversation) status = connection_->begin_conversation();
  }
  if (!status) fault(status.error().message());
  return status.has_value();
}

// Asks until it is not refused any more. True if the answer was completed.
bool Client::ask(size_t script, size_t turn, const Interference& interference) {
  while (true) {
    const LoadOutcome outcome = connection_->ask(scripts_[script].turns[turn], interference);
    const int64_t completed = tally_.completed;
    note(outcome, script, turn);
    if (interference.whim == Whim::kHangUp && !outcome.error && !outcome.answer)
      connection_.reset();
    if (!refused(outcome)) return tally_.completed > completed;
    const auto hint = std::chrono::duration<double>(outcome.error->retry_after_seconds);
    std::this_thread::sleep_until(
        std::min(end_, std::chrono::steady_clock::now() +
                           std::chrono::duration_cast<std::chrono::nanoseconds>(hint)));
    if (over()) return false;
  }
}

void Client::note(const LoadOutcome& outcome, size_t script, size_t turn) {
  const Answer& alone = references_[script][turn];
  const std::string wrong = fault_of(outcome, alone);
  if (!wrong.empty()) return fault(fmt::format("script {}, turn {}: {}", script, turn, wrong));
  if (read_again(outcome, alone)) ++tally_.read_again;
  if (refused(outcome))
    ++tally_.refusals;
  else if (outcome.error)
    ++tally_.timeouts;
  else if (outcome.answer)
    note_answer(outcome);
  else
    ++tally_.hung_up;
  tally_.gaps.insert(tally_.gaps.end(), outcome.gaps.begin(), outcome.gaps.end());
}

void Client::note_answer(const LoadOutcome& outcome) {
  const Answer& answer = *outcome.answer;
  if (!answer.token_ids.empty()) {
    tally_.first_token_seconds.push_back(answer.first_token_seconds);
    tally_.computed_seconds.push_back(answer.first_token_seconds - answer.waited_seconds);
  }
  tally_.waited_seconds.push_back(answer.waited_seconds);
  if (answer.reason == FinishReason::kCancelled) {
    ++tally_.cancelled;
  } else if (answer.reason == FinishReason::kDeadline) {
    ++tally_.ended_by_deadline;
  } else {
    ++tally_.completed;
    tally_.completed_tokens += std::ssize(answer.token_ids);
    tally_.request_seconds.push_back(outcome.seconds);
  }
}

void Client::fault(const std::string& what) {
  tally_.faults.push_back(fmt::format("client {}: {}", number_, what));
  connection_.reset();
}

}  // namespace

std::vector<ClientTally> run_stage(const StageOptions& options,
                                   const std::vector<LoadScript>& scripts,
                                   const std::vector<Reference>& references) {
  const Deadline end = deadline_in(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(options.seconds)));
  std::vector<ClientTally> tallies(options.clients);
  std::vector<std::jthread> threads;
  for (size_t number = 0; number < options.clients; ++number)
    threads.emplace_back(
        [&, number] { tallies[number] = Client(options, number, end, scripts, references).run(); });
  threads.clear();
  return tallies;
}

}  // namespace suture
