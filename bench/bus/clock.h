// Time, cores and percentiles for bus_bench.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace suture::bus_bench {

// CLOCK_MONOTONIC: the same in all processes, with a resolution of 1 ns.
uint64_t now_ns();
// The time that this thread has run: a busy machine does not count.
uint64_t cpu_ns();
// What one call of now_ns() costs.
double clock_cost_ns();

// Cores this process may use.
std::vector<int> allowed_cores();
void pin_to(int core);

void busy_wait(uint64_t ns);
// Spins; the program ends with an error if it takes half a minute.
void await(const std::function<bool()>& condition);

struct Spread {
  double p50 = 0;
  double p99 = 0;
};
Spread spread_of(std::vector<double> samples);
// Of n calls in batches, so that the clock's cost does not count: ns per call.
Spread time_calls(int n_batches, int batch, const std::function<void()>& call);

}  // namespace suture::bus_bench
