#include "bench/torture/run.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <utility>
#include <vector>

#include "base/check.h"
#include "bench/torture/child.h"
#include "bench/torture/rows.h"
#include "bus/doorbell.h"
#include "bus/liveness.h"
#include "bus/memfd.h"

namespace suture::torture {
namespace {

double ms_between(int64_t from_ns, int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) / 1e6;
}

std::string random_secret() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

template <size_t N>
void copy_text(const std::string& text, std::array<char, N>& to) {
  SUTURE_CHECK(text.size() < N, "{} bytes", text.size());
  std::ranges::copy(text, to.begin());
}

}  // namespace

Run::Run(const RunOptions& options, UniqueFd board_fd, Mapping board)
    : options_(options), board_fd_(std::move(board_fd)), mapping_(std::move(board)) {
  report_.seed = options.seed;
  report_.look_interval_ms = options.look_interval.count();
}

Result<std::unique_ptr<Run>> Run::start(const RunOptions& options) {
  SUTURE_ASSIGN_OR_RETURN(UniqueFd fd, create_memfd("torture-board", sizeof(BoardData)));
  SUTURE_ASSIGN_OR_RETURN(
      Mapping board, Mapping::shared(fd.get(), sizeof(BoardData), Mapping::Access::kReadWrite));
  std::unique_ptr<Run> run(new Run(options, std::move(fd), std::move(board)));
  SUTURE_RETURN_IF_ERROR(run->start_broker());
  for (int child = 0; child < kChildren; ++child) SUTURE_RETURN_IF_ERROR(run->start_child(child));
  return run;
}

Status Run::start_broker() {
  BrokerOptions options;
  options.secret = random_secret();
  options.look_interval = options_.look_interval;
  options.on_peer_end = [this](PeerId peer, const std::string&, PeerEnd how, const std::string&) {
    on_end(peer, how);
  };
  options.on_peer_joined = [this](PeerId peer, const std::string&, pid_t pid) {
    on_joined(peer, pid);
  };
  copy_text(options.secret, board().secret);
  board().wait_bound_ns = std::chrono::nanoseconds(options_.wait_bound).count();
  SUTURE_ASSIGN_OR_RETURN(broker_, Broker::start(std::move(options)));
  copy_text(broker_->address(), board().address);
  return {};
}

Run::~Run() {
  for (int child = 0; child < kChildren; ++child) {
    if (pid(child) == 0) continue;
    signal_child(child, SIGKILL);
    reap(child);
  }
}

void Run::on_end(PeerId peer, PeerEnd how) {
  {
    const std::lock_guard lock(mutex_);
    ends_[peer] = {how, now_ns()};
    const auto joined = joined_.find(peer);
    if (joined == joined_.end() || !doomed_.contains(joined->second)) ++unexpected_ends_;
  }
  ring_doorbell(board().events);
}

void Run::on_joined(PeerId peer, pid_t pid) {
  const std::lock_guard lock(mutex_);
  joined_[peer] = pid;
}

std::optional<Run::End> Run::end_of(PeerId peer) {
  const std::lock_guard lock(mutex_);
  const auto end = ends_.find(peer);
  return end == ends_.end() ? std::nullopt : std::optional(end->second);
}

// Every peer that this process has been.
bool Run::has_ended(pid_t pid) {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(
      joined_, [&](const auto& peer) { return peer.second != pid || ends_.contains(peer.first); });
}

Status Run::start_child(int child) {
  const uint64_t seed =
      mix(options_.seed, static_cast<uint64_t>(child), ++incarnations_[static_cast<size_t>(child)]);
  data(child).progress = 0;
  data(child).peer = 0;
  std::vector<std::string> words = {"bus_torture", kChildFlag, fmt::format("{}", child),
                                    fmt::format("{}", seed)};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, board_fd_.get(), kBoardFd);
  const int error =
      ::posix_spawn(&pid(child), "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return fail_errno("cannot start a child", error);
  const std::lock_guard lock(mutex_);
  doomed_.erase(pid(child));  // of a former process of that number
  return {};
}

void Run::signal_child(int child, int number) {
  {
    const std::lock_guard lock(mutex_);
    doomed_.insert(pid(child));
  }
  ::kill(pid(child), number);
}

void Run::reap(int child) {
  while (::waitpid(pid(child), nullptr, 0) < 0 && errno == EINTR) {
  }
  pid(child) = 0;
}

bool Run::broken() {
  const std::lock_guard lock(mutex_);
  return unexpected_ends_ > 0 || board().counts.hangs.load() > 0;
}

bool Run::await(const std::string& what, DoorbellData& bell, const std::function<bool()>& ready) {
  wait_for_doorbell(bell, deadline_in(options_.wait_bound), [&] { return ready() || broken(); });
  if (ready()) return true;
  if (!broken()) ++report_.hangs;
  show_state(what);
  return false;
}

void Run::show_state(const std::string& what) {
  fmt::print(stderr, "\nround {}: waited in vain for {}\n", report_.rounds + 1, what);
  for (int child = 0; child < kChildren; ++child) {
    const auto state = read_process_state(pid(child));
    fmt::print(stderr, "  {:<9} pid {} state {} peer {} steps {} acknowledged {} of {}\n",
               child_name(child), pid(child), state ? *state : '-', data(child).peer.load(),
               data(child).progress.load(), data(child).acknowledged.load(),
               board().command.load());
  }
  const std::lock_guard lock(mutex_);
  fmt::print(stderr, "  {} joined, {} ended, {} of these unexpectedly\n", joined_.size(),
             ends_.size(), unexpected_ends_);
}

Report Run::rounds(const std::function<void(int64_t done)>& progress) {
  const int64_t start = now_ns();
  Schedule schedule(options_.seed);
  bool fine = await("all children's first steps", board().events, [&] {
    return std::ranges::all_of(
        board().children.begin() + kOwners, board().children.end(), [](const ChildData& reader) {
          return std::ranges::all_of(reader.first_rows,
                                     [](const auto& e) { return e.peer.load() != 0; });
        });
  });
  fine = fine && rest(true);
  report_.before = report_.after;
  while (fine && report_.rounds < options_.rounds) {
    fine = one_round(schedule.next()) && rest(report_.rounds + 1 == options_.rounds);
    if (fine) progress(++report_.rounds);
  }
  report_.schedule = schedule.fingerprint();
  report_.seconds = static_cast<double>(now_ns() - start) / 1e9;
  report_.take_counts(board().counts);
  const std::lock_guard lock(mutex_);
  report_.unexpected_ends = unexpected_ends_;
  return report_;
}

bool Run::one_round(const Round& round) {
  std::vector<Hit> hits;
  for (const Fault& fault : round.faults)
    if (!inject(fault, hits)) return false;
  for (const Hit& hit : hits) {
    if (!await_end(hit) || !await_informed(hit, hits)) return false;
    reap(hit.fault.child);
  }
  for (const Hit& hit : hits) {
    if (!start_child(hit.fault.child)) return false;
    if (&hit != hits.data()) continue;
    for (const uint64_t steps : round.early_kills)
      if (!kill_early(hit.fault.child, steps)) return false;
  }
  return std::ranges::all_of(hits, [&](const Hit& hit) { return await_successor(hit); });
}

bool Run::inject(const Fault& fault, std::vector<Hit>& hits) {
  ChildData& victim = data(fault.child);
  const uint64_t steps = victim.progress.load() + fault.after_steps;
  if (!await(fmt::format("step {} of {}", steps, child_name(fault.child)), victim.bell,
             [&] { return victim.progress.load(std::memory_order_acquire) >= steps; }))
    return false;
  for (uint32_t i = 0; i < fault.spins; ++i) spin_pause();
  Hit hit{fault, PeerId{victim.peer.load()}, now_ns(), {}};
  for (int reader = 0; reader < kReaders && fault.child < kOwners; ++reader)
    hit.knew.at(static_cast<size_t>(reader)) =
        data(kOwners + reader).mapped.at(static_cast<size_t>(fault.child)).load() == hit.peer.value;
  signal_child(fault.child, fault.kind == FaultKind::kKill ? SIGKILL : SIGSTOP);
  ++(fault.child < kOwners ? report_.owner_faults : report_.reader_faults);
  switch (fault.kind) {
    case FaultKind::kKill: ++report_.kills; break;
    case FaultKind::kStop: ++report_.stops; break;
    case FaultKind::kPause: {
      ++report_.pauses;
      signal_child(fault.child, SIGCONT);
      bool ended = false;
      if (!await_pause(hit, ended)) return false;
      if (!ended) return true;
      ++report_.pauses_taken_for_stops;
    }
  }
  hits.push_back(hit);
  return true;
}

// It goes on, unless this process was kept from continuing it for so long that the broker took it
// for stopped.
bool Run::await_pause(const Hit& hit, bool& ended) {
  ChildData& victim = data(hit.fault.child);
  const uint64_t steps = victim.progress.load() + 1;
  const auto gone = [&] { return end_of(hit.peer).has_value(); };
  const bool fine =
      await(fmt::format("{} to go on", child_name(hit.fault.child)), victim.bell,
            [&] { return victim.progress.load(std::memory_order_acquire) > steps || gone(); });
  ended = gone();
  if (ended || !fine) return fine;
  const std::lock_guard lock(mutex_);
  doomed_.erase(pid(hit.fault.child));
  return true;
}

bool Run::await_end(const Hit& hit) {
  const bool killed = hit.fault.kind == FaultKind::kKill;
  if (!await(fmt::format("the end of {}", child_name(hit.fault.child)), board().events,
             [&] { return end_of(hit.peer).has_value(); }))
    return false;
  const End end = *end_of(hit.peer);
  if (end.how != (killed ? PeerEnd::kExited : PeerEnd::kStopped)) {
    const std::lock_guard lock(mutex_);
    ++unexpected_ends_;
    return false;
  }
  (killed ? report_.detect_ms : report_.stop_detect_ms).push_back(ms_between(hit.ns, end.ns));
  return true;
}

// Readers that were hit in the same round are not asked.
bool Run::await_informed(const Hit& hit, const std::vector<Hit>& hits) {
  int64_t last = 0;
  for (int reader = 0; reader < kReaders; ++reader) {
    const int child = kOwners + reader;
    if (!hit.knew.at(static_cast<size_t>(reader)) ||
        std::ranges::any_of(hits, [&](const Hit& other) { return other.fault.child == child; }))
      continue;
    const EventData& lost = data(child).lost.at(static_cast<size_t>(hit.fault.child));
    if (!await(fmt::format("{} to learn that {} is gone", child_name(child),
                           child_name(hit.fault.child)),
               board().events, [&] { return lost.happened_to(hit.peer); }))
      return false;
    last = std::max(last, lost.ns.load());
  }
  if (last != 0 && hit.fault.kind == FaultKind::kKill)
    report_.owner_informed_ms.push_back(ms_between(hit.ns, last));
  return true;
}

// A process that is killed while it joins may or may not have become a peer.
bool Run::kill_early(int child, uint64_t steps) {
  const ChildData& victim = data(child);
  if (!await(fmt::format("step {} of a new {}", steps, child_name(child)), data(child).bell,
             [&] { return victim.progress.load(std::memory_order_acquire) >= steps; }))
    return false;
  const pid_t killed = pid(child);
  signal_child(child, SIGKILL);
  ++report_.early_kills;
  reap(child);
  if (!await(fmt::format("the end of a new {}", child_name(child)), board().events,
             [&] { return has_ended(killed); }))
    return false;
  return start_child(child).has_value();
}

bool Run::await_successor(const Hit& hit) {
  const ChildData& successor = data(hit.fault.child);
  int64_t first = 0;
  const auto in_use = [&] {
    const PeerId peer{successor.peer.load(std::memory_order_acquire)};
    if (!peer.valid()) return false;
    const auto happened = [&](const EventData& event) {
      if (event.happened_to(peer)) first = event.ns.load();
      return event.happened_to(peer);
    };
    if (hit.fault.child >= kOwners) return happened(successor.first_check);
    return std::ranges::any_of(
        board().children.begin() + kOwners, board().children.end(), [&](const ChildData& reader) {
          return happened(reader.first_rows.at(static_cast<size_t>(hit.fault.child)));
        });
  };
  if (!await(fmt::format("the successor of {}", child_name(hit.fault.child)), board().events,
             in_use))
    return false;
  report_.recovered_ms.push_back(ms_between(hit.ns, first));
  return true;
}

// All streams closed and all leases ended: every block must be free again.
bool Run::rest(bool measure) {
  if (!command(Phase::kRelease) || !command(Phase::kCount)) return false;
  for (int owner = 0; owner < kOwners; ++owner) {
    const ChildData& counted = data(owner);
    const auto leaked = static_cast<int64_t>(counted.blocks - counted.blocks_free);
    report_.leaked_blocks += leaked;
    if (leaked == 0) continue;
    show_state(fmt::format("{} leaked blocks of {} closed streams", leaked,
                           counted.streams_deferred.load()));
    return false;
  }
  if (measure) report_.after = footprint();
  return command(Phase::kWork);
}

bool Run::command(Phase phase) {
  const uint64_t now = ++commands_ << 2 | static_cast<uint64_t>(phase);
  // release: pairs with the children's acquire in Child::obey.
  board().command.store(now, std::memory_order_release);
  ring_doorbell(board().command_bell);
  if (phase == Phase::kWork) return true;
  return await("all children to rest", board().events, [&] {
    return std::ranges::all_of(board().children, [&](const ChildData& child) {
      return child.acknowledged.load(std::memory_order_acquire) == now;
    });
  });
}

Footprint Run::footprint() const {
  Footprint footprint;
  namespace fs = std::filesystem;
  footprint.parent_fds = std::distance(fs::directory_iterator("/proc/self/fd"), {});
  std::vector<pid_t> all(pids_.begin(), pids_.end());
  all.push_back(::getpid());
  for (const pid_t pid : all) {
    std::ifstream maps(fmt::format("/proc/{}/maps", pid));
    for (std::string line; std::getline(maps, line);)
      if (line.find("/memfd:suture-") != std::string::npos) ++footprint.mappings;
    std::ifstream rollup(fmt::format("/proc/{}/smaps_rollup", pid));
    for (std::string line; std::getline(rollup, line);)
      if (line.starts_with("Pss:")) footprint.pss_kib += std::stoll(line.substr(4));
  }
  return footprint;
}

}  // namespace suture::torture
