// What a parallel region of the CPU's workers costs, and what becomes of engines that share cores.
//
// An engine here is a process that does what decoding does: regions in which all workers read a
// part of a large array, and a short serial part between them.
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/thread_pool.h"

namespace suture {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

double seconds_since(Clock::time_point start) { return Seconds(Clock::now() - start).count(); }

void busy(double seconds) {
  for (const auto start = Clock::now(); seconds_since(start) < seconds;) {
  }
}

// Microseconds from the call of an empty region to its end (median), after a serial part.
double region_us(ThreadPool& pool, double serial_us) {
  std::vector<double> times(static_cast<size_t>(std::clamp(2e5 / (serial_us + 1), 200.0, 2e4)));
  for (double& time : times) {
    busy(serial_us * 1e-6);
    const auto start = Clock::now();
    pool.parallel_for(pool.size(), [](int64_t, int64_t, int) {});
    time = seconds_since(start) * 1e6;
  }
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

// Bytes of the matrices of one layer of a model of half a billion parameters.
constexpr int64_t kRegionBytes[] = {640 << 10, 448 << 10, 4864 << 10, 2560 << 10};
constexpr int64_t kArrayBytes = 256 << 20;
constexpr double kSerialSeconds = 5e-6;
constexpr int64_t kGrainBytes = 4096;

uint64_t sum(const uint64_t* begin, const uint64_t* end) {
  uint64_t sums[8] = {};
  for (const uint64_t* p = begin; p < end; p += 8) {
    for (int i = 0; i < 8; ++i) sums[i] += p[i];
  }
  uint64_t total = 0;
  for (const uint64_t s : sums) total += s;
  return total;
}

struct Board {  // in memory that the engines share with the bench
  std::atomic<int> ready = 0;
  std::atomic<bool> go = false;
  std::atomic<bool> stop = false;
  std::atomic<int64_t> bytes = 0;
};

void run_engine(int threads, Board& board) {
  ThreadPool pool(threads);
  const std::vector<uint64_t> array(kArrayBytes / sizeof(uint64_t), 1);
  std::atomic<uint64_t> total = 0;
  ++board.ready;
  while (!board.go) usleep(1000);
  int64_t offset = 0;
  for (size_t region = 0; !board.stop; ++region) {
    const int64_t size = kRegionBytes[region % std::size(kRegionBytes)];
    if (offset + size > kArrayBytes) offset = 0;
    const uint64_t* first = array.data() + offset / 8;
    pool.parallel_for(size / kGrainBytes, [&](int64_t begin, int64_t end, int) {
      total += sum(first + begin * kGrainBytes / 8, first + end * kGrainBytes / 8);
    });
    busy(kSerialSeconds);
    offset += size;
    board.bytes += size;
  }
}

// GB/s that all engines read together.
double engines_gb_s(int engines, int threads, double seconds) {
  void* memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  SUTURE_CHECK(memory != MAP_FAILED, "mmap");
  Board& board = *new (memory) Board;
  for (int i = 0; i < engines; ++i) {
    if (fork() != 0) continue;
    run_engine(threads, board);
    _exit(0);
  }
  while (board.ready < engines) usleep(1000);
  board.go = true;
  const auto start = Clock::now();
  usleep(static_cast<useconds_t>(seconds * 1e6));
  const double rate = static_cast<double>(board.bytes) / seconds_since(start) / 1e9;
  board.stop = true;
  while (wait(nullptr) > 0) {
  }
  munmap(memory, sizeof(Board));
  return rate;
}

double median_gb_s(int engines, int threads, double seconds, int rounds) {
  std::vector<double> rates;
  for (int i = 0; i < rounds; ++i) rates.push_back(engines_gb_s(engines, threads, seconds));
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

int bench_main(int argc, char** argv) {
  int rounds = 5;
  double seconds = 1;
  bool as_json = false;
  CLI::App app{
      "Measures an empty parallel region after serial parts of several lengths, and how fast one, "
      "two and four engines read memory on all cores together and on a single one."};
  app.add_option("--rounds", rounds, "of each set of engines")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", seconds, "of each round")->check(CLI::Range(0.1, 60.0));
  app.add_flag("--json", as_json, "one JSON value on one line");
  CLI11_PARSE(app, argc, argv);

  cpu_set_t allowed;
  SUTURE_CHECK(sched_getaffinity(0, sizeof(allowed), &allowed) == 0, "sched_getaffinity");
  const int cores = CPU_COUNT(&allowed);
  nlohmann::json result = {{"cores", cores}};
  std::string table = fmt::format("{:<44}{:>10}\n", "empty region after a serial part of", "us");
  {
    ThreadPool pool(cores);
    for (const double serial : {0.0, 5.0, 20.0, 100.0, 1000.0}) {
      const double us = region_us(pool, serial);
      result["region_us"][fmt::format("{}", serial)] = us;
      table += fmt::format("{:<44}{:>10.2f}\n", fmt::format("  {} us", serial), us);
    }
  }
  const auto measure = [&](const char* where, int threads) {
    table += fmt::format("{:<44}{:>10}\n", where, "GB/s");
    for (const int engines : {1, 2, 4}) {
      const double rate = median_gb_s(engines, threads, seconds, rounds);
      result["gb_s"][where][std::to_string(engines)] = rate;
      table += fmt::format("{:<44}{:>10.1f}\n",
                           fmt::format("  {} engines, {} threads each", engines, threads), rate);
    }
  };
  measure("all cores", cores);
  cpu_set_t first;
  CPU_ZERO(&first);
  for (int cpu = 0; CPU_COUNT(&first) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &first);
  }
  SUTURE_CHECK(sched_setaffinity(0, sizeof(first), &first) == 0, "sched_setaffinity");
  measure("one core", cores);
  fmt::print("{}", as_json ? result.dump() + "\n" : table);
  return 0;
}

}  // namespace
}  // namespace suture

int main(int argc, char** argv) { return suture::bench_main(argc, argv); }
