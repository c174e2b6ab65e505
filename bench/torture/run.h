// The parent of bus_torture: the broker, the children, and one round of faults after another.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "base/mapping.h"
#include "base/unique_fd.h"
#include "bench/torture/board.h"
#include "bench/torture/report.h"
#include "bench/torture/schedule.h"
#include "bus/broker.h"

namespace suture::torture {

struct RunOptions {
  int64_t rounds = 300;
  uint64_t seed = 1;
  std::chrono::milliseconds look_interval{20};
  std::chrono::seconds wait_bound{30};  // a wait of this length is a hang
};

class Run {
 public:
  static Result<std::unique_ptr<Run>> start(const RunOptions& options);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // All rounds, or up to the first one that hangs.
  Report rounds(const std::function<void(int64_t done)>& progress);

 private:
  struct End {
    PeerEnd how = PeerEnd::kExited;
    int64_t ns = 0;
  };
  // A fault that was injected, and what must come of it.
  struct Hit {
    Fault fault;
    PeerId peer;
    int64_t ns = 0;
    std::array<bool, kReaders> knew{};  // readers that have mapped the victim's slab
  };

  Run(const RunOptions& options, UniqueFd board_fd, Mapping board);

  BoardData& board() const { return *reinterpret_cast<BoardData*>(mapping_.data()); }
  ChildData& data(int child) const { return board().children.at(static_cast<size_t>(child)); }
  pid_t& pid(int child) { return pids_.at(static_cast<size_t>(child)); }

  Status start_broker();
  void on_end(PeerId peer, PeerEnd how);
  void on_joined(PeerId peer, pid_t pid);
  std::optional<End> end_of(PeerId peer);
  bool has_ended(pid_t pid);

  Status start_child(int child);
  void signal_child(int child, int number);
  void reap(int child);

  bool one_round(const Round& round);
  bool inject(const Fault& fault, std::vector<Hit>& hits);
  bool await_pause(const Hit& hit, bool& ended);
  bool await_end(const Hit& hit);
  bool await_informed(const Hit& hit, const std::vector<Hit>& hits);
  bool kill_early(int child, uint64_t steps);
  bool await_successor(const Hit& hit);
  bool rest(bool measure);
  bool command(Phase phase);
  Footprint footprint() const;

  // False, and a hang is counted, if it is not true within the bound or the run is broken.
  bool await(const std::string& what, DoorbellData& bell, const std::function<bool()>& ready);
  bool broken();
  void show_state(const std::string& what);

  RunOptions options_;
  UniqueFd board_fd_;
  Mapping mapping_;
  std::array<pid_t, kChildren> pids_{};
  std::array<uint64_t, kChildren> incarnations_{};
  uint64_t commands_ = 0;
  Report report_;

  std::mutex mutex_;  // guards what follows; the broker's thread writes it
  std::map<PeerId, pid_t> joined_;
  std::map<PeerId, End> ends_;
  std::set<pid_t> doomed_;  // that we have killed or stopped
  int64_t unexpected_ends_ = 0;

  std::unique_ptr<Broker> broker_;  // last: its thread uses what is above
};

}  // namespace suture::torture
