// The other processes of bus_bench: the program starts itself again to play the reader.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/mapping.h"
#include "base/unique_fd.h"
#include "bench/bus/board.h"
#include "bus/ids.h"
#include "bus/slab.h"

namespace suture::bus_bench {

inline constexpr const char* kChildFlag = "--bus-bench-child";

enum class Role {
  kPong,   // answers the parent's word with its own
  kFutex,  // sleeps on a bare futex
  kSpin,   // looks at a stream's count all the time
  kSleep,  // waits for a stream's rows, sleeping
  kRead,   // reads and copies a stream's rows
};

// Memory that all processes of one measurement share.
class Board {
 public:
  static Board create();
  // In a child.
  static Board inherited();

  BoardData& operator*() const { return *reinterpret_cast<BoardData*>(mapping_.data()); }
  BoardData* operator->() const { return &**this; }
  int fd() const { return fd_.get(); }

 private:
  Board(UniqueFd fd, Mapping mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {}

  UniqueFd fd_;
  Mapping mapping_;
};

struct ChildOptions {
  Role role = Role::kPong;
  int core = 0;
  uint64_t n = 0;  // events, or rounds
  uint32_t index = 0;
  StreamId stream;
};

// Killed if it still runs when this object goes.
class Child {
 public:
  Child(const Board& board, const Slab* slab, const ChildOptions& options);
  ~Child();
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The measurement fails unless it ended well.
  void wait();

 private:
  pid_t pid_ = -1;
};

// The exit status of a program that was started as a child with these arguments.
int run_child(char** arguments);

}  // namespace suture::bus_bench
