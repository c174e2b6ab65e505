// Speed of the K/V bus between two processes, beside what the machine itself allows.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "bench/bus/child.h"
#include "bench/bus/figures.h"

namespace suture::bus_bench {
namespace {

int bench_main(int argc, char** argv) {
  Options options;
  bool as_json = false;
  CLI::App app{
      "Measures the bus between processes pinned to two cores: how soon a commit is seen, what "
      "commits, attaching and leases cost, how fast K/V is read and copied; beside it, in the same "
      "run, a cache line's way between the cores, a bare futex and memcpy."};
  app.add_option("--samples", options.samples, "of each latency")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{100}, static_cast<int64_t>(kMaxSamples)));
  app.add_option("--rounds", options.rounds, "of reading and copying 64 MiB")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  app.add_flag("--json", as_json, "one JSON value on one line");
  CLI11_PARSE(app, argc, argv);
  const Figures figures = measure(
      options, [](const std::string& next) { fmt::print(stderr, "measuring: {}\n", next); });
  fmt::print("{}\n", as_json ? json(figures) : table(figures));
  return 0;
}

}  // namespace
}  // namespace suture::bus_bench

int main(int argc, char** argv) {
  if (argc == 8 && argv[1] == std::string_view(suture::bus_bench::kChildFlag))
    return suture::bus_bench::run_child(argv + 2);
  return suture::bus_bench::bench_main(argc, argv);
}
