#include "actors/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace suture {
namespace {

constexpr std::chrono::milliseconds kSlice{100};  // then look whether the request was cancelled
constexpr double kNewestShare = 0.2;              // of the moving average
constexpr double kFirstGuessSeconds = 1;          // before any request has ended
// How long a place is kept for who was refused: the hint is an estimate, and clients are late.
constexpr double kKeptTimesTheHint = 2;
constexpr double kKeptSeconds = 1;

tl::unexpected<Error> ending() {
  return fail(ErrorCode::kClosed, "the launch is ending", "launch", "ask again when it is back");
}

}  // namespace

Result<Admission::Ticket> Admission::enter(Asker asker, Deadline deadline,
                                           const std::atomic<bool>& cancelled) {
  const uint64_t client = asker.client;
  std::unique_lock lock(mutex_);
  if (closed_) return ending();
  SUTURE_RETURN_IF_ERROR(take_place(asker));
  Waiter waiter;
  waiter.conversation = asker.conversation;
  std::deque<Waiter*>& queue = queues_[client];
  if (queue.empty()) turns_.push_back(client);
  queue.push_back(&waiter);
  ++waiting_;
  admit_next();
  const Status came = wait_for_turn(lock, waiter, deadline, cancelled);
  if (!came) {
    withdraw(client, waiter);
    return tl::unexpected<Error>(came.error());
  }
  return Ticket(*this, asker.conversation, now_ns_());
}

Status Admission::take_place(const Asker& asker) {
  const int64_t now_ns = now_ns_();
  std::erase_if(refused_, [&](const Refused& one) { return one.until_ns < now_ns; });
  const auto found = std::ranges::find(refused_, asker.client, &Refused::client);
  if (!may_begin(asker) && !may_wait(found - refused_.begin(), now_ns))
    return refuse(asker.client, now_ns);
  if (found != refused_.end()) refused_.erase(found);
  return {};
}

// At once: whoever waits while there is room waits for another request of its conversation.
bool Admission::may_begin(const Asker& asker) const {
  return running_ < limits_.running && !talking_.contains(asker.conversation) &&
         !queues_.contains(asker.client);
}

// `before` clients were refused earlier than this one; without a queue the first may wait when it
// is due.
bool Admission::may_wait(int64_t before, int64_t now_ns) const {
  const int64_t free = limits_.waiting - waiting_;
  if (limits_.waiting == 0)
    return waiting_ == 0 && before == 0 && !refused_.empty() && refused_.front().due_ns <= now_ns;
  return free > before || (free > 0 && waiting_ == 0);
}

// Places are kept for at most as many as may wait, or run where nobody may; more are told the same
// time.
tl::unexpected<Error> Admission::refuse(uint64_t client, int64_t now_ns) {
  const auto found = std::ranges::find(refused_, client, &Refused::client);
  Error error = busy(found - refused_.begin() + 1 + waiting_ - limits_.waiting);
  const auto after = [now_ns](double seconds) {
    return now_ns + static_cast<int64_t>(seconds * 1e9);
  };
  const int64_t due_ns = after(error.retry_after_seconds);
  const int64_t until_ns = after(kKeptTimesTheHint * error.retry_after_seconds + kKeptSeconds);
  const int64_t most = limits_.waiting > 0 ? limits_.waiting : limits_.running;
  if (found != refused_.end())
    *found = {client, found->due_ns > now_ns ? found->due_ns : due_ns, until_ns};
  else if (std::ssize(refused_) < most)
    refused_.push_back({client, due_ns, until_ns});
  return tl::unexpected<Error>(std::move(error));
}

Status Admission::wait_for_turn(std::unique_lock<std::mutex>& lock, Waiter& waiter,
                                Deadline deadline, const std::atomic<bool>& cancelled) const {
  while (!waiter.admitted) {
    if (stopped_) return ending();
    if (cancelled.load())
      return fail(ErrorCode::kCancelled, "cancelled before its turn came", "launch");
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline)
      return fail(ErrorCode::kTimeout,
                  fmt::format("the deadline passed while {} other requests were in the launch",
                              running_ + waiting_ - 1),
                  "launch", "allow more time, or ask when it is less busy");
    waiter.changed.wait_until(lock, std::min(deadline, now + kSlice));
  }
  return {};
}

void Admission::admit_next() {
  while (running_ < limits_.running) {
    const auto turn = next_turn();
    if (turn == turns_.end()) return;
    const uint64_t client = *turn;
    turns_.erase(turn);
    const auto found = queues_.find(client);
    Waiter& waiter = *found->second.front();
    found->second.pop_front();
    if (found->second.empty())
      queues_.erase(found);
    else
      turns_.push_back(client);
    --waiting_;
    ++running_;
    if (waiter.conversation != 0) talking_.insert(waiter.conversation);
    waiter.admitted = true;
    waiter.changed.notify_one();
  }
}

// The first client whose next request may run beside those that do.
std::deque<uint64_t>::iterator Admission::next_turn() {
  return std::ranges::find_if(turns_, [this](uint64_t client) {
    return !talking_.contains(queues_.at(client).front()->conversation);
  });
}

void Admission::withdraw(uint64_t client, const Waiter& waiter) {
  const auto found = queues_.find(client);
  std::erase(found->second, &waiter);
  if (found->second.empty()) {
    queues_.erase(found);
    std::erase(turns_, client);
  }
  --waiting_;
  admit_next();  // the client's next request may not have to wait for what this one waited for
}

void Admission::leave(uint64_t conversation, int64_t began_ns) {
  const std::lock_guard lock(mutex_);
  talking_.erase(conversation);
  const double seconds = static_cast<double>(now_ns_() - began_ns) * 1e-9;
  mean_seconds_ = mean_seconds_ == 0 ? seconds : std::lerp(mean_seconds_, seconds, kNewestShare);
  --running_;
  admit_next();
}

// `ahead` requests end before there is a place.
Error Admission::busy(int64_t ahead) const {
  const double each = mean_seconds_ == 0 ? kFirstGuessSeconds : mean_seconds_;
  const double seconds = each * static_cast<double>(ahead) / static_cast<double>(limits_.running);
  return {ErrorCode::kBusy,
          fmt::format("{} requests are in the launch already", running_ + waiting_), "launch",
          fmt::format("retry in about {:.0f} s, or raise max_queue in [bus]",
                      std::max(1.0, std::ceil(seconds))),
          seconds};
}

void Admission::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void Admission::stop() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  stopped_ = true;
  for (const auto& [client, queue] : queues_)
    for (Waiter* waiter : queue) waiter->changed.notify_one();
}

AdmissionCounts Admission::counts() const {
  const std::lock_guard lock(mutex_);
  return {running_, waiting_};
}

}  // namespace suture
