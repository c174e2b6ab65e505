// A projector from two models and texts: reading, gathering, solving.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "fusion/projector.h"
#include "launcher/fit/fit_memory.h"
#include "launcher/fit/fit_trials.h"
#include "launcher/fit/gathering.h"

namespace suture {

struct FitModel {
  std::string name;  // for people
  std::filesystem::path path;
};

struct FitOptions {
  FitModel source;
  FitModel target;
  std::vector<std::filesystem::path> texts;
  std::filesystem::path out;
  std::filesystem::path held_out;  // file for the texts held out; empty = none is written
  uint64_t memory_bytes = 0;       // may be used
  int64_t tokens = 512;            // of the target, the longest text
  int64_t max_texts = 0;           // 0 = all
  std::vector<int32_t> windows;    // source layers, 0 = all of them; empty = several are tried
  std::vector<double> ridges;      // empty = several are tried
  bool own_first_layer = true;     // maps take the target's first layer too
  double held_out_share = 0.1;
  int threads = 1;
  bool resume = false;
  std::filesystem::path program = "/proc/self/exe";  // run as: program worker --ticket FD
};

struct FitSurroundings {
  // Before anything is loaded.
  std::function<void(const FitPlan&, int64_t texts)> on_plan;
  std::function<void(const std::string&)> on_message;
  std::function<void(std::string_view what, int64_t done, int64_t total)> on_progress;
  const std::atomic<bool>& cancelled;
};

struct FitReport {
  Projector projector;
  FitPlan plan;
  GatheringTimes times;
  FitTrials trials;
  HeldOutKind fitted;  // how the maps do on the texts that they were fitted to
  double solve_seconds = 0;
};

// Where an interrupted fit of that file leaves what it has gathered.
std::filesystem::path checkpoint_path(const std::filesystem::path& out);

// Writes the projector to options.out. When it is interrupted, or a process ends, what was gathered
// stays beside it.
Result<FitReport> run_fit(const FitOptions& options, const FitSurroundings& surroundings);

}  // namespace suture
