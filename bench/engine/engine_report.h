// What engine_bench measures of one model.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/bench/estimate.h"

namespace suture {

struct PrefillFigures {
  int64_t tokens = 0;
  Estimate tok_s;
  Estimate flop_s;
  double onednn_flop_s = 0;  // bf16 products of the same shapes; 0 = not measured
};

struct DecodeFigures {
  int64_t history = 0;
  Estimate tok_s;
  Estimate bytes_s;
};

struct BatchFigures {
  int64_t sequences = 0;
  Estimate tok_s;    // of all together
  Estimate speedup;  // against one alone, in the same round
};

// Two engines at once against one of them alone.
struct ContentionFigures {
  int cores = 0;    // that both share
  int threads = 0;  // of each
  Estimate alone_tok_s;
  Estimate together_tok_s;  // the sum of both
  Estimate ratio;
};

struct EngineReport {
  std::string model;
  int threads = 0;
  std::string target;
  std::vector<PrefillFigures> prefill;
  DecodeFigures decode;
  DecodeFigures long_decode;  // history 0 = not measured
  Estimate attention_share;   // of the time of a token after the long history
  std::vector<BatchFigures> batch;
  std::vector<ContentionFigures> contention;
  double limit_bytes_s = 0;
  double limit_flop_s = 0;
  std::string limit_instruction;
  int64_t resident_bytes = 0;
  double load_seconds = 0;
};

nlohmann::json to_json(const EngineReport& report);
std::string report_table(const EngineReport& report);

}  // namespace suture
