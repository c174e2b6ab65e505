#include "bench/bus/clock.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "bus/doorbell.h"

namespace suture::bus_bench {
namespace {

constexpr uint64_t kPatienceNs = 30'000'000'000;

uint64_t read_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

uint64_t now_ns() { return read_ns(CLOCK_MONOTONIC); }
uint64_t cpu_ns() { return read_ns(CLOCK_THREAD_CPUTIME_ID); }

double clock_cost_ns() {
  return time_calls(200, 1000, [] { now_ns(); }).p50;
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  SUTURE_CHECK(::sched_getaffinity(0, sizeof(set), &set) == 0, "errno={}", errno);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  SUTURE_CHECK(::sched_setaffinity(0, sizeof(set), &set) == 0, "core={} errno={}", core, errno);
}

void busy_wait(uint64_t ns) {
  const uint64_t end = now_ns() + ns;
  while (now_ns() < end) spin_pause();
}

void await(const std::function<bool()>& condition) {
  const uint64_t end = now_ns() + kPatienceNs;
  while (!condition()) {
    spin_pause();
    SUTURE_CHECK(now_ns() < end, "the other process does not answer, patience={} ns", kPatienceNs);
  }
}

Spread spread_of(std::vector<double> samples) {
  SUTURE_CHECK(!samples.empty(), "samples={}", samples.size());
  std::ranges::sort(samples);
  const auto at = [&](size_t percent) { return samples[(samples.size() - 1) * percent / 100]; };
  return {at(50), at(99)};
}

Spread time_calls(int n_batches, int batch, const std::function<void()>& call) {
  std::vector<double> samples;
  for (int i = 0; i < n_batches; ++i) {
    const uint64_t start = now_ns();
    for (int j = 0; j < batch; ++j) call();
    samples.push_back(static_cast<double>(now_ns() - start) / batch);
  }
  return spread_of(std::move(samples));
}

}  // namespace suture::bus_bench
