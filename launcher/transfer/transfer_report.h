// What a transfer benchmark found, for people and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/transfer/transfer_bound.h"
#include "launcher/transfer/transfer_metrics.h"
#include "launcher/transfer/transfer_run.h"

namespace suture {

struct LengthReport {
  int64_t tokens = 0;
  bool joined = false;  // no text is as long: timed only, on several texts after one another
  int64_t passages = 0;
  TransferSummary all;
  std::vector<std::pair<std::string, TransferSummary>> kinds;
  TransferTimes times;
  TransferWork work;

  // NaN before all of it has been timed.
  double speedup_with_source() const;
  double speedup_without_source() const;
};

struct TransferReport {
  std::string source;
  std::string target;
  std::string projector;  // empty: the rows are taken as they are
  int64_t sink = 0;
  int64_t reread = 0;
  int64_t continued = 0;
  int threads = 1;
  uint64_t seed = 0;
  int64_t texts = 0;                // that were measured or could have been
  int64_t duplicates = 0;           // left out
  int64_t fitted = 0;               // of the texts that the projector was fitted to ...
  bool fitted_measured = false;     // ... which were measured all the same, or left out
  std::vector<std::string> forced;  // why the projector is not for these models, used all the same
  std::vector<std::string> notes;
  std::vector<LengthReport> lengths;  // rising
  std::optional<Error> ended_by;
  double seconds = 0;
};

LengthReport length_report(const LengthPlan& plan, const LengthResult& result,
                           const TransferWork& work, uint64_t seed);

// Why the numbers must not be relied on; empty if they may be.
std::string unsound(const TransferReport& report);
// One paragraph: what is kept, what it beats, how fast it is.
std::string transfer_verdict(const TransferReport& report);

nlohmann::json transfer_json(const TransferReport& report);
std::string transfer_text(const TransferReport& report);

// For the projector's file: what was measured on texts of each length.
ProjectorEvidence evidence_of(const TransferReport& report);

// Where each arm's negative log-likelihood lies between the least and the greatest of all lengths,
// and how much faster a transfer is: a row a length.
std::string transfer_plot(const std::vector<LengthReport>& lengths);

}  // namespace suture
