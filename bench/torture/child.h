// What owners and readers of bus_torture have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>

#include "base/mapping.h"
#include "bench/torture/board.h"
#include "bus/broker_client.h"
#include "bus/doorbell.h"

namespace suture::torture {

inline constexpr int kBoardFd = 3;
inline constexpr const char* kChildFlag = "--torture-child";

std::string child_name(int index);
std::string ring_name(int owner_index);

class Child {
 public:
  // Joins the broker, waiting for the name if its last holder has only just died.
  static Result<Child> join(int index, uint64_t seed);

  BoardData& board() const { return *reinterpret_cast<BoardData*>(mapping_.data()); }
  CountsData& counts() const { return board().counts; }
  ChildData& mine() const { return board().children[static_cast<size_t>(index_)]; }
  int index() const { return index_; }
  PeerId self() const { return client_->self(); }
  BrokerClient& client() { return *client_; }

  // One step done: faults are drawn in these.
  void step() const;
  // What the parent wants, until it wants work again.
  void obey(const std::function<void(Phase)>& act);

  // 0 .. n - 1.
  int64_t draw(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return draw(100) < percent; }

  Deadline wait_bound() const;
  void tell_event(EventData& event, PeerId who) const;
  void count_wrong(uint64_t bytes, const std::string& where) const;
  // A typed error that the bus may give here is counted; any other is a failure of the run.
  void count_error(const Error& error, std::initializer_list<ErrorCode> allowed) const;

 private:
  Child(Mapping mapping, int index, uint64_t seed);

  void complain(const std::string& text) const;

  Mapping mapping_;
  int index_ = 0;
  std::mt19937_64 random_;
  std::unique_ptr<BrokerClient> client_;
};

int run_owner(Child child);
int run_reader(Child child);
// The exit status of a program that was started as child `index`.
int run_child(int index, uint64_t seed);

}  // namespace suture::torture
