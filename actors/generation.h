// One answer of the master: reads its own tokens, then draws token after token while its slaves'
// K/V takes part. A slave that is lost is let go between two tokens.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "actors/messages.h"
#include "actors/stitching.h"
#include "actors/trace_log.h"
#include "actors/work_meter.h"
#include "base/error.h"
#include "bus/token_ring.h"
#include "models/bus_kv_cache.h"
#include "models/language_model.h"
#include "models/sampler.h"

namespace suture {

// Opens the stream of the answer anew, if wanted with the head's entries already in it.
using OpenStreamFn = std::function<Result<std::unique_ptr<BusKvCache>>(bool take_over_head)>;

class Generation {
 public:
  Generation(const GenerateRequest& request, LanguageModel& model, const Vocabularies& vocabularies,
             RopeCrossing rope_crossing, BrokerClient& broker, const std::atomic<bool>& cancelled,
             TraceLog& trace, const WorkMeter& meter);

  // Runs to the end; tokens go to `ring`. Fills figures and what was degraded even on failure.
  // Every generated token is in the stream then if the request keeps it.
  Status run(const OpenStreamFn& open_stream, TokenRingWriter& ring, GenerateDone& done);

  // All own tokens, of the prompt and generated.
  const std::vector<int32_t>& text() const { return text_; }
  // The answer's stream once its prompt has been read; nothing before that.
  std::unique_ptr<BusKvCache> take_cache() { return logits_ ? std::move(cache_) : nullptr; }

 private:
  Status read_prompt(const OpenStreamFn& open_stream);
  Status read_text(const OpenStreamFn& open_stream);
  Status open(const OpenStreamFn& open_stream);
  Status read_own_tokens();
  Status read_as_prompt(int64_t end);
  Status read_answer(int64_t end);
  bool must_reread() const;
  Status decode(const OpenStreamFn& open_stream, TokenRingWriter& ring, GenerateDone& done);
  Result<std::optional<int32_t>> next_token(int64_t index, TokenRingWriter& ring);
  Status step(const OpenStreamFn& open_stream, int64_t index);
  void show_waits();
  Status wait_for_credit(TokenRingWriter& ring) const;
  int64_t position_of(int64_t entry) const;

  const GenerateRequest& request_;
  LanguageModel& model_;
  const RopeCrossing rope_crossing_;
  const std::atomic<bool>& cancelled_;
  TraceLog& trace_;
  const WorkMeter& meter_;
  std::vector<int32_t> text_;  // all own tokens so far
  Stitching stitching_;
  std::unique_ptr<BusKvCache> cache_;
  std::unique_ptr<Sampler> sampler_;
  const float* logits_ = nullptr;  // [vocab] of the last row, device memory
  ProcessFigures figures_;
  ProcessFigures shown_;  // of these, the waits that the meter has shown
};

}  // namespace suture
