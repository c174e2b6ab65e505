// The bus under fire: owners and readers in processes of their own are killed, stopped and started
// again, and every byte that a reader is given is checked.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "bench/torture/child.h"
#include "bench/torture/run.h"

namespace suture::torture {
namespace {

// A bar on a terminal, a line per tenth elsewhere.
class Progress {
 public:
  explicit Progress(int64_t rounds) : rounds_(rounds) {}

  void update(int64_t done) {
    if (terminal_) {
      const auto filled = static_cast<int>(40 * done / rounds_);
      fmt::print(stderr, "\r[{:=>{}}{:{}}] {} of {} rounds{}", "", filled, "", 40 - filled, done,
                 rounds_, done == rounds_ ? "\n" : "");
    } else if (10 * done / rounds_ != 10 * (done - 1) / rounds_) {
      fmt::print(stderr, "{} of {} rounds\n", done, rounds_);
    }
  }

 private:
  int64_t rounds_;
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
};

int torture_main(int argc, char** argv) {
  RunOptions options;
  int64_t look_ms = options.look_interval.count();
  int64_t bound_s = options.wait_bound.count();
  bool json = false;
  CLI::App app{
      "Kills, stops and restarts owners and readers of K/V streams at random points and checks "
      "every byte. Exit code 0 if no byte was wrong, no block leaked and nothing hung."};
  app.add_option("--rounds", options.rounds, "rounds of faults")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{100'000'000}));
  app.add_option("--seed", options.seed, "names the schedule of faults")->capture_default_str();
  app.add_option("--look-ms", look_ms, "between two looks of the broker at every process")
      ->capture_default_str()
      ->check(CLI::Range(1, 60'000));
  app.add_option("--bound-s", bound_s, "a wait of this length is a hang")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600));
  app.add_flag("--json", json, "the result as one JSON value on one line");
  CLI11_PARSE(app, argc, argv);
  options.look_interval = std::chrono::milliseconds(look_ms);
  options.wait_bound = std::chrono::seconds(bound_s);

  const auto run = Run::start(options);
  if (!run) {
    fmt::print(stderr, "{}\n", run.error().message());
    return 1;
  }
  Progress progress(options.rounds);
  const Report report = (*run)->rounds([&](int64_t done) { progress.update(done); });
  fmt::print("{}\n", json ? report.json() : report.table());
  return report.sound() ? 0 : 1;
}

}  // namespace
}  // namespace suture::torture

int main(int argc, char** argv) {
  // Refused and ended processes are what this is about.
  spdlog::set_level(spdlog::level::err);
  if (argc == 4 && argv[1] == std::string_view(suture::torture::kChildFlag))
    return suture::torture::run_child(std::stoi(argv[2]), std::stoull(argv[3]));
  return suture::torture::torture_main(argc, argv);
}
