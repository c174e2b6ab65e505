#include "bench/torture/child.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <thread>
#include <utility>

namespace suture::torture {

std::string child_name(int index) {
  return index < kOwners ? fmt::format("owner-{}", index)
                         : fmt::format("reader-{}", index - kOwners);
}

std::string ring_name(int owner_index) { return fmt::format("answer-{}", owner_index); }

Child::Child(Mapping mapping, int index, uint64_t seed)
    : mapping_(std::move(mapping)), index_(index), random_(seed) {}

Result<Child> Child::join(int index, uint64_t seed) {
  SUTURE_ASSIGN_OR_RETURN(
      Mapping mapping, Mapping::shared(kBoardFd, sizeof(BoardData), Mapping::Access::kReadWrite));
  Child child(std::move(mapping), index, seed);
  child.mine().peer.store(0, std::memory_order_relaxed);
  child.step();
  const BoardData& board = child.board();
  while (true) {
    auto client = BrokerClient::connect(board.address.data(), board.secret.data(),
                                        child_name(index), [] { ::_exit(0); });
    if (client) {
      child.client_ = std::move(*client);
      break;
    }
    if (client.error().code != ErrorCode::kBusy) return tl::unexpected<Error>(client.error());
    std::this_thread::yield();
  }
  // release: whoever sees who we are sees what we have cleared.
  child.mine().peer.store(child.self().value, std::memory_order_release);
  child.step();
  return child;
}

void Child::step() const {
  mine().progress.fetch_add(1, std::memory_order_release);
  ring_doorbell(mine().bell);
}

void Child::obey(const std::function<void(Phase)>& act) {
  while (true) {
    // acquire and release: the parent's and the children's counts travel with commands and answers.
    const uint64_t command = board().command.load(std::memory_order_acquire);
    const auto phase = static_cast<Phase>(command & 3);
    if (phase == Phase::kWork) return;
    if (mine().acknowledged.load(std::memory_order_relaxed) != command) {
      act(phase);
      mine().acknowledged.store(command, std::memory_order_release);
      ring_doorbell(board().events);
    }
    wait_for_doorbell(board().command_bell, wait_bound(),
                      [&] { return board().command.load(std::memory_order_acquire) != command; });
  }
}

Deadline Child::wait_bound() const {
  return deadline_in(std::chrono::nanoseconds(board().wait_bound_ns));
}

void Child::tell_event(EventData& event, PeerId who) const {
  if (event.happened_to(who)) return;
  event.set(who);
  ring_doorbell(board().events);
}

void Child::count_wrong(uint64_t bytes, const std::string& where) const {
  if (bytes == 0) return;
  counts().wrong_bytes += bytes;
  complain(fmt::format("{} wrong bytes in {}", bytes, where));
}

void Child::count_error(const Error& error, std::initializer_list<ErrorCode> allowed) const {
  ++counts().errors[static_cast<size_t>(error.code)];
  if (std::ranges::find(allowed, error.code) != allowed.end()) return;
  ++(error.code == ErrorCode::kTimeout ? counts().hangs : counts().strange_errors);
  complain(error.message());
}

void Child::complain(const std::string& text) const {
  constexpr uint64_t kComplaints = 20;  // the first ones tell enough
  if (counts().complaints.fetch_add(1) < kComplaints)
    fmt::print(stderr, "{}: {}\n", child_name(index_), text);
}

int run_child(int index, uint64_t seed) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto child = Child::join(index, seed);
  if (!child) {
    fmt::print(stderr, "{}: {}\n", child_name(index), child.error().message());
    return 1;
  }
  return index < kOwners ? run_owner(std::move(*child)) : run_reader(std::move(*child));
}

}  // namespace suture::torture
