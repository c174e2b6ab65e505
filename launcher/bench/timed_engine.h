// A model that runs what a benchmark wants timed. Texts are made up: what they say changes no
// speed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "launcher/bench/engine_work.h"
#include "launcher/bench/rewindable_cache.h"
#include "models/language_model.h"

namespace suture {

class TimedEngine {
 public:
  // Ready to answer, with K/V for `capacity` tokens. kInvalidArgument if that is more than the
  // model was trained for.
  static Result<TimedEngine> load(const std::filesystem::path& path, int threads, int64_t capacity);

  // From the call of load() until the first token could be read.
  double load_seconds() const { return load_seconds_; }
  std::string target() const;  // instruction set: "avx512_vnni"
  LanguageModel& model() { return *model_; }
  const EngineWork& work() const { return *work_; }

  // Seconds to read `n_tokens` as a prompt.
  Result<double> prefill(int64_t n_tokens);
  int64_t history() const { return cache_->size(); }
  // Reads as many tokens as are missing to `history`, or takes back those that are too many.
  Status set_history(int64_t history);
  // Seconds to generate `n_tokens` after set_history(), which does not count.
  Result<double> decode(int64_t history, int64_t n_tokens);

  // Seconds to generate `n_tokens` in each of `n_sequences` that are decoded together, each with
  // a history of its own, which does not count.
  Result<double> decode_batch(int64_t n_sequences, int64_t history, int64_t n_tokens);

 private:
  TimedEngine() = default;
  Status read(RewindableCache& cache, int64_t n_tokens);
  Status set_history(RewindableCache& cache, int64_t history);
  Result<std::unique_ptr<RewindableCache>> make_cache(int64_t capacity);
  int32_t token_at(int64_t position) const;

  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<EngineWork> work_;
  std::unique_ptr<RewindableCache> cache_;
  std::vector<std::unique_ptr<RewindableCache>> batch_;  // [sequences], for decode_batch()
  double load_seconds_ = 0;
};

}  // namespace suture
