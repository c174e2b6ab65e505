// Everything about a transfer benchmark that is known, and refused, before a process starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "fusion/projector.h"
#include "launcher/transfer/transfer_models.h"
#include "launcher/transfer/transfer_plan.h"
#include "launcher/transfer/transfer_report.h"
#include "launcher/transfer/transfer_run.h"

namespace suture {

struct TransferOptions {
  std::string source;
  std::string target;
  std::string projector;  // file; empty for one and the same model
  std::vector<std::string> texts;
  std::vector<int64_t> lengths = {};  // of contexts; empty: 128 to 8,192, as far as they fit
  int64_t continued = 96;
  int64_t sink = 4;
  int64_t reread = 32;
  int64_t limit = 24;  // texts a length
  int threads = 1;
  uint64_t seed = 0;
  bool held_out = false;        // leave out texts that the projector was fitted to
  bool write_evidence = false;  // what is measured goes into the projector's file
  bool force = false;           // measure what would be refused
};

struct TransferBenchmark {
  TransferModel source;
  TransferModel target;
  std::optional<Projector> projector;
  std::vector<TokenText> texts;
  std::vector<LengthPlan> plans;
  TransferReport report;  // with what is known already
};

// Pulls models of the manifest that are not there.
Result<TransferBenchmark> prepare_transfer(const TransferOptions& options);

// The launches of the arms, long enough for all that is planned.
TransferSetup transfer_setup(const TransferOptions& options, const TransferBenchmark& benchmark);

}  // namespace suture
