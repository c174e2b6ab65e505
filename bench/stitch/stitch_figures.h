// What stitching costs the tokens of a master.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/bench/estimate.h"

namespace suture {

// Tokens a second of the master, one after the other in the same round. N is the same everywhere.
struct StitchRound {
  double stitched = 0;       // N tokens of its own and N of a slave that follows it
  double alone_as_many = 0;  // 2 N of its own, without a slave: as much to look at
  double alone = 0;          // N of its own
  double silent = 0;         // N of its own, and a slave whose gain is -inf
};

struct StitchFigures {
  std::string model;
  std::string slave;   // its model
  int64_t tokens = 0;  // N
  Estimate stitched_tok_s;
  Estimate alone_as_many_tok_s;
  Estimate alone_tok_s;
  Estimate silent_tok_s;
  // Shares by which a token takes longer: 0.05 is 5 %.
  Estimate overhead_as_many;  // stitched against alone_as_many
  Estimate overhead;          // stitched against alone
  Estimate silent_overhead;   // silent against alone
};

StitchFigures stitch_figures(const std::vector<StitchRound>& rounds);
std::string stitch_table(const StitchFigures& figures);
nlohmann::json to_json(const StitchFigures& figures);

}  // namespace suture
