#include "models/language_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/mapping.h"
#include "base/sha256.h"
#include "models/weight_packing.h"

namespace suture {
namespace {

// The fewest rows with which attention, which takes 128 queries of one K/V head at a time, fills a
// whole tile and has a tile for every worker. The other kernels need no more.
int64_t warm_up_rows(int workers, const ModelConfig& config) {
  constexpr int64_t kTileQueries = 128;
  const int64_t whole_tile = kTileQueries * config.n_kv_heads / config.n_heads + 1;
  const int64_t tile_each = kTileQueries * workers / config.n_heads + 1;
  return std::min(std::max(whole_tile, tile_each), kPrefillGrid);
}

// Of a file, and of what stands in place of its own.
std::string fingerprint_with(const std::string& file, const ModelConfig& own,
                             const ModelConfig& config, const std::string& norms) {
  if (norms.empty() && config.ropes == own.ropes) return file;
  Sha256 hash;
  hash.update(file + describe_ropes(config) + norms);
  return hash.finish();
}

}  // namespace

Result<std::unique_ptr<LanguageModel>> LanguageModel::load(const std::filesystem::path& path,
                                                           const LoadOptions& options,
                                                           const NormWeights* norms) {
  auto model = std::unique_ptr<LanguageModel>(new LanguageModel());
  SUTURE_ASSIGN_OR_RETURN(model->checkpoint_, Checkpoint::open(path));
  model->config_ = model->checkpoint_->config();
  SUTURE_RETURN_IF_ERROR(check_runnable(model->config_, path.string()));
  SUTURE_RETURN_IF_ERROR(override_rope(options, model->config_));
  model->file_fingerprint_ = model->checkpoint_->fingerprint();
  SUTURE_ASSIGN_OR_RETURN(model->device_, open_device(options.device, options.threads));
  SUTURE_ASSIGN_OR_RETURN(model->stream_, model->device_->make_stream());
  SUTURE_ASSIGN_OR_RETURN(model->weights_,
                          load_weights(*model->checkpoint_, *model->device_, norms));
  if (model->device_->kind() == DeviceKind::kCpu)
    SUTURE_RETURN_IF_ERROR(pack_weights(*model->checkpoint_, model->file_fingerprint_,
                                        model->stream_->workers(), options.packed_memory,
                                        model->weights_));
  if (norms != nullptr) model->norms_ = digest(*norms);
  SUTURE_ASSIGN_OR_RETURN(model->forward_, Forward::create(model->config(), model->weights_,
                                                           *model->device_, *model->stream_));
  return model;
}

std::string LanguageModel::fingerprint() const {
  return fingerprint_with(file_fingerprint_, checkpoint_->config(), config_, norms_);
}

std::string fingerprint_of(const Checkpoint& checkpoint, const ModelConfig& config) {
  return fingerprint_with(checkpoint.fingerprint(), checkpoint.config(), config, {});
}

Status LanguageModel::warm_up() {
  for (const TensorInfo* tensor : checkpoint_->tensors()) {
    if (is_used_in_place(*tensor, weights_)) page_in(tensor->data);
    // Of the embedding a process needs the rows of its text alone.
    if (tensor->data.data() == weights_.embedding.data) read_ahead(tensor->data);
  }
  const int64_t rows = warm_up_rows(stream_->workers(), config());
  SUTURE_ASSIGN_OR_RETURN(const auto cache, make_cache(rows + 1));
  const std::vector<int32_t> ids(static_cast<size_t>(rows), 0);
  PrefillArgs args;
  args.token_ids = ids;
  args.cache = cache.get();
  SUTURE_RETURN_IF_ERROR(prefill(args));
  SUTURE_RETURN_IF_ERROR(decode(ids.front(), *cache));
  return stream_->synchronize();
}

Result<std::unique_ptr<KvCache>> LanguageModel::make_cache(int64_t capacity) {
  return make_heap_kv_cache(*device_, config().kv_shape(), capacity);
}

// Lengths only grow along a sequence, and epochs with them, so its ends speak for all between.
bool LanguageModel::rotated_for(const KvCache& cache, int64_t length) const {
  if (cache.size() == 0) return true;
  const int64_t epoch = rope_epoch(config_.ropes, length);
  return cache.rope_epoch(0) == epoch && cache.rope_epoch(cache.size() - 1) == epoch;
}

Result<const float*> LanguageModel::prefill(const PrefillArgs& args) {
  SUTURE_ASSIGN_OR_RETURN(PromptReader reader, prompt_reader(args));
  const float* last = nullptr;
  while (!reader.done()) {
    SUTURE_ASSIGN_OR_RETURN(last, reader.step());
  }
  return last;
}

Result<PromptReader> LanguageModel::prompt_reader(const PrefillArgs& args) {
  paged_in_ = true;
  return PromptReader::create(*forward_, config().vocab_size, args);
}

std::span<const SequenceLogits> LanguageModel::decode_batch(std::span<const DecodeItem> items) {
  paged_in_ = true;
  batch_.clear();
  for (const DecodeItem& item : items) {
    SequenceRows rows;
    rows.token_ids = std::span(&item.token_id, 1);
    rows.cache = item.cache;
    rows.plan = item.plan;
    rows.observation = item.observation;
    rows.first_logits_row = item.wants_logits ? 0 : 1;
    batch_.push_back(rows);
  }
  return forward_->run(batch_, MatmulPath::kDecode);
}

Result<const float*> LanguageModel::decode(int32_t token_id, KvCache& cache,
                                           const SequencePlan* plan) {
  const DecodeItem item = {token_id, &cache, plan};
  return decode_batch(std::span(&item, 1)).front();
}

}  // namespace suture
