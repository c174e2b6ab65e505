#include "actors/membership.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace suture {
namespace {

std::string describe(const std::string& how, PeerEnd end, const std::string& detail) {
  std::string why = fmt::format("process {}", peer_end_name(end));
  if (!how.empty()) why += fmt::format(" ({})", how);
  const bool all_said = end == PeerEnd::kExited && !how.empty();
  return all_said || detail.empty() ? why : fmt::format("{}: {}", why, detail);
}

}  // namespace

Membership::Membership(const std::vector<std::string>& names, RestartOptions restarts) {
  for (const std::string& name : names)
    members_.emplace(name, State{{}, RestartPolicy(restarts), std::nullopt});
}

uint64_t Membership::begin(const std::string& name) {
  Member& member = members_.at(name).shown;
  member.incarnation = next_incarnation_++;
  return member.incarnation;
}

bool Membership::joined(const Joined& joined, Clock::time_point now) {
  const auto found = members_.find(joined.name);
  if (found == members_.end()) return false;
  State& state = found->second;
  if (joined.incarnation != state.shown.incarnation || state.shown.state == MemberState::kGone)
    return false;
  if (joined.outcome.failed) {
    state.load_failure = joined.outcome.status().error();
    if (!complete_ && !start_failure_) start_failure_ = state.load_failure;
    return true;
  }
  state.shown = {MemberState::kJoined, joined.incarnation, {}};
  state.policy.joined(now);
  complete_ = complete_ || all_joined();
  return true;
}

void Membership::connected(PeerId peer, pid_t pid) {
  if (unseen_.erase(pid) == 0) on_bus_[peer] = pid;
}

std::optional<ProcessEnd> Membership::disconnected(PeerId peer, const std::string& name,
                                                   PeerEnd how, const std::string& detail,
                                                   Clock::time_point now) {
  const auto connection = on_bus_.extract(peer);
  if (connection.empty() || !members_.contains(name)) return std::nullopt;
  const pid_t pid = connection.mapped();
  if (pid == ::getpid()) return end(name, describe("", how, detail), now);
  const auto exit = reaped_.extract(pid);
  if (!exit.empty()) return end(name, describe(exit.mapped().how, how, detail), now);
  off_bus_[pid] = {how, detail};
  return std::nullopt;
}

std::optional<ProcessEnd> Membership::exited(const WorkerExit& exit, Clock::time_point now) {
  const auto off = off_bus_.extract(exit.pid);
  if (!off.empty())
    return end(exit.name, describe(exit.how, off.mapped().end, off.mapped().detail), now);
  const auto same_pid = [&](const auto& entry) { return entry.second == exit.pid; };
  if (exit.pid != 0 && std::ranges::any_of(on_bus_, same_pid)) {
    reaped_[exit.pid] = exit;
    return std::nullopt;
  }
  if (exit.pid != 0) unseen_.insert(exit.pid);
  return end(exit.name, describe(exit.how, PeerEnd::kExited, "") + " before it had joined the bus",
             now);
}

ProcessEnd Membership::end(const std::string& name, std::string why, Clock::time_point now) {
  State& state = members_.at(name);
  if (const auto failure = std::exchange(state.load_failure, {}))
    why = fmt::format("could not load: {}", failure->what);
  if (!complete_ && !start_failure_)
    start_failure_ = Error{ErrorCode::kLost, why, name, "run again with -v for its messages"};
  const auto delay = complete_ ? state.policy.ended(now) : std::nullopt;
  const int most = state.policy.most_tries();
  ProcessEnd ended{name, std::move(why), delay, {}};
  if (delay)
    ended.next =
        fmt::format("started again in {:.1f} s (try {} of {})",
                    static_cast<double>(delay->count()) / 1000, state.policy.tries(), most);
  else if (complete_ && most > 0)
    ended.next = fmt::format("given up after {} tries", most);
  state.shown.state = delay ? MemberState::kRestarting : MemberState::kGone;
  state.shown.why = ended.story();
  return ended;
}

bool Membership::all_joined() const {
  return std::ranges::all_of(
      members_, [](const auto& entry) { return entry.second.shown.state == MemberState::kJoined; });
}

}  // namespace suture
