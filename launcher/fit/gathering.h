// Two model processes read texts, and the moments of what they publish are gathered.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/model_processes.h"
#include "base/error.h"
#include "fusion/fit_moments.h"
#include "fusion/plain_rows.h"
#include "fusion/projector.h"
#include "fusion/token_pairing.h"
#include "kernels/device.h"

namespace suture {

// Names of the processes.
inline constexpr const char* kFitSource = "source";
inline constexpr const char* kFitTarget = "target";
// Texts that each may hold at once: while one is gathered the next is read.
inline constexpr int32_t kFitTextsAtOnce = 2;

// What both models read of one text.
struct FitReading {
  std::vector<int32_t> source_ids;
  std::vector<int32_t> target_ids;
  std::vector<TokenPair> pairs;
  std::optional<int32_t> held_out_kind;  // nothing: to fit to
};

struct GatheringTimes {
  double wall_seconds = 0;
  double gather_cpu_seconds = 0;  // of this process: rows and moments
  double models_cpu_seconds = 0;  // of both model processes
  int64_t source_tokens = 0;
  int64_t target_tokens = 0;
};

// Progress that can be saved and taken up again.
struct Gathered {
  int64_t texts = 0;  // of the readings, from the first on
  FitMoments key;
  FitMoments value;
  GatheringTimes times;
};

struct GatheringSetup {
  ModelProcesses& processes;
  const ProjectorSide& source;  // what the processes' streams must be
  const ProjectorSide& target;
  const std::vector<FitReading>& readings;
  int threads = 1;
};

class TextGathering {
 public:
  // What the setup refers to must outlive the object.
  static Result<std::unique_ptr<TextGathering>> create(const GatheringSetup& setup);

  // Reads what is left and adds each text as a whole. `on_text` is called after each; an error that
  // it returns ends the work. Errors of ModelProcesses::wait() as they come: what was gathered
  // until then is sound.
  Status run(Gathered& gathered, const std::function<Status()>& on_text);

 private:
  struct Asked {
    uint64_t source_key = 0;
    uint64_t target_key = 0;
  };
  struct Rows {
    PlainRows source;
    PlainRows target;
  };

  explicit TextGathering(const GatheringSetup& setup) : setup_(setup) {}
  Asked ask(const FitReading& reading);
  Status take(const FitReading& reading, const Asked& asked);
  Status take_rows(uint64_t key, const std::vector<int32_t>& entries, const ProjectorSide& side,
                   const char* process, PlainRows& rows);
  void add(const FitReading& reading, Gathered& gathered);

  const GatheringSetup setup_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Rows rows_;  // of the text that is gathered
};

}  // namespace suture
