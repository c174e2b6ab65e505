// A model ready to run: file, weights and forward pass on one device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/device.h"
#include "models/checkpoint.h"
#include "models/forward.h"
#include "models/kv_cache.h"
#include "models/load_options.h"
#include "models/prompt_reader.h"
#include "models/weights.h"

namespace suture {

// One generated token of one sequence.
struct DecodeItem {
  int32_t token_id = 0;
  KvCache* cache = nullptr;                     // the token becomes its entry size()
  const SequencePlan* plan = nullptr;           // nullptr = the sequence alone
  AttentionObservation* observation = nullptr;  // see SequenceRows
  bool wants_logits = true;                     // if not, the answer is nullptr
};

class LanguageModel {
 public:
  // `norms`, if given, take the place of the checkpoint's own.
  static Result<std::unique_ptr<LanguageModel>> load(const std::filesystem::path& path,
                                                     const LoadOptions& options,
                                                     const NormWeights* norms = nullptr);

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  // That of the checkpoint, with what the options of loading put in its place.
  const ModelConfig& config() const { return config_; }
  // The same string: the same weights, tokenizer and rope.
  std::string fingerprint() const;
  const Weights& weights() const { return weights_; }
  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  Forward& forward() { return *forward_; }

  // Does now what the first prompt and the first token would have to do once: read in the file's
  // pages, give the kernels their scratch. Call it on the thread that will run the model, since
  // some of that scratch belongs to the thread.
  Status warm_up();
  // Things made on first use so far; after warm_up() no pass adds any.
  int64_t lazily_built() const { return stream_->lazily_built() + (paged_in_ ? 1 : 0); }

  // K/V of one sequence of at most `capacity` tokens, on this model's device.
  Result<std::unique_ptr<KvCache>> make_cache(int64_t capacity);

  // Whether all entries of the cache were rotated as a text of `length` positions rotates them.
  bool rotated_for(const KvCache& cache, int64_t length) const;

  // Runs a prompt in chunks cut at multiples of kPrefillGrid of the cache's entries, and returns
  // the logits [vocab] of its last row in device memory, valid until the next pass.
  Result<const float*> prefill(const PrefillArgs& args);
  // The same, one chunk at a time.
  Result<PromptReader> prompt_reader(const PrefillArgs& args);

  static constexpr int64_t kMaxBatch = Forward::kMaxSequences;
  // Runs one generated token of each of up to kMaxBatch sequences in one pass with the decode
  // kernels: the weights are read once for all, and each row has the bits that it has alone. The
  // answer holds, in the order of the items, the logits [vocab] of each in device memory, or why
  // that one could not be run; then its cache is as before, and the others have run. Valid until
  // the next pass.
  std::span<const SequenceLogits> decode_batch(std::span<const DecodeItem> items);
  // A batch of one.
  Result<const float*> decode(int32_t token_id, KvCache& cache, const SequencePlan* plan = nullptr);

 private:
  LanguageModel() = default;

  std::unique_ptr<Checkpoint> checkpoint_;
  ModelConfig config_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::string file_fingerprint_;
  std::string norms_;  // digest of norm weights that are not the checkpoint's own, or empty
  Weights weights_;
  std::unique_ptr<Forward> forward_;
  std::vector<SequenceRows> batch_;  // of the last decode_batch(), kept for its memory
  bool paged_in_ = false;            // the file's pages, by warm_up() or by the first pass
};

// The fingerprint of a model that runs in this configuration, with the checkpoint's own norm
// weights.
std::string fingerprint_of(const Checkpoint& checkpoint, const ModelConfig& config);

}  // namespace suture
