// How fast an engine runs a model, beside how fast the machine would let it.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "launcher/bench/estimate.h"
#include "launcher/bench/machine_limits.h"
#include "launcher/bench/timed_engine.h"

namespace suture {

struct EngineTask {
  int64_t prompt_tokens = 512;
  int64_t generated_tokens = 48;  // after the prompt
  int64_t rounds = 5;
};

struct EngineFigures {
  std::string model;
  int threads = 0;
  std::string target;  // instruction set: "avx512_vnni"
  EngineTask task;
  Estimate prefill_tok_s;
  Estimate decode_tok_s;
  Estimate read_bytes_s;  // while it generates: weights, K and V
  Estimate flop_s;        // while it reads the prompt
  double limit_bytes_s = 0;
  double limit_flop_s = 0;
  std::string limit_instruction;
  int64_t resident_bytes = 0;
  double load_seconds = 0;
};

// Runs engine and limits in turns, so that a machine that is busy for a while slows down both.
// `progress` is told what comes next, with the steps done and to do.
Result<EngineFigures> measure_engine(
    TimedEngine& engine, MachineLimits& limits, const EngineTask& task,
    const std::function<void(std::string_view what, int64_t done, int64_t total)>& progress);

// `what` as in `--json`: tokens, GB and GFLOP a second.
nlohmann::json to_json(const EngineFigures& figures);
std::string engine_table(const EngineFigures& figures);

// "[########----]" with `width` characters between the brackets; a share above 1 fills them all.
std::string share_bar(double share, int width);

}  // namespace suture
