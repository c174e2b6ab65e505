#include "models/language_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/mapping.h"
#include "base/sha256.h"

namespace suture {
namespace {

// The fewest rows with which attention, which takes 64 queries of one K/V head at a time, fills a
// whole tile and has a tile for every worker. The other kernels need no more.
int64_t warm_up_rows(int workers, const ModelConfig& config) {
  constexpr int64_t kTileQueries = 64;
  const int64_t whole_tile = kTileQueries * config.n_kv_heads / config.n_heads + 1;
  const int64_t tile_each = kTileQueries * workers / config.n_heads + 1;
  return std::min(std::max(whole_tile, tile_each), kPrefillGrid);
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
  SUTURE_ASSIGN_OR_RETURN(model->device_, open_device(options.device, options.threads));
  SUTURE_ASSIGN_OR_RETURN(model->stream_, model->device_->make_stream());
  SUTURE_ASSIGN_OR_RETURN(model->weights_,
                          load_weights(*model->checkpoint_, *model->device_, norms));
  if (norms != nullptr) model->norms_ = digest(*norms);
  SUTURE_ASSIGN_OR_RETURN(model->forward_, Forward::create(model->config(), model->weights_,
                                                           *model->device_, *model->stream_));
  return model;
}

std::string LanguageModel::fingerprint() const {
  const std::string of_file = checkpoint_->fingerprint();
  if (norms_.empty() && config_.ropes == checkpoint_->config().ropes) return of_file;
  Sha256 hash;
  hash.update(of_file + describe_ropes(config_) + norms_);
  return hash.finish();
}

Status LanguageModel::warm_up() {
  for (const TensorInfo* tensor : checkpoint_->tensors()) page_in(tensor->data);
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
  if (args.token_ids.empty() || args.cache == nullptr)
    return fail(ErrorCode::kInvalidArgument, "a prompt needs a token and a K/V cache", "prefill");
  const auto n_tokens = static_cast<int64_t>(args.token_ids.size());
  const float* last = nullptr;
  int64_t begin = 0;  // row of token_ids
  while (begin < n_tokens) {
    const int64_t room = kPrefillGrid - args.cache->size() % kPrefillGrid;
    const int64_t end = std::min(begin + room, n_tokens);
    SUTURE_ASSIGN_OR_RETURN(last, run_chunk(args, begin, end));
    begin = end;
  }
  return last;
}

// Rows [begin, end) of the prompt; returns the logits of the last if it is the prompt's last.
Result<const float*> LanguageModel::run_chunk(const PrefillArgs& args, int64_t begin, int64_t end) {
  paged_in_ = true;
  const int64_t rows = end - begin;
  const int64_t n_tokens = std::ssize(args.token_ids);
  const bool is_last = end == n_tokens;
  const int64_t first_entry = args.cache->size();
  if (args.on_chunk) SUTURE_RETURN_IF_ERROR(args.on_chunk(first_entry, first_entry + rows));
  ForwardArgs pass;
  pass.token_ids = args.token_ids.subspan(static_cast<size_t>(begin), static_cast<size_t>(rows));
  pass.path = args.path;
  pass.cache = args.cache;
  pass.plan = args.plan;
  pass.gate = args.gate;
  // All chunks of a prompt are rotated as if it had been read in one go.
  const int64_t last_entry = first_entry + n_tokens - begin - 1;
  pass.total_length = (args.plan == nullptr ? last_entry : position_of(*args.plan, last_entry)) + 1;
  pass.first_logits_row = is_last && !args.on_logits ? rows - 1 : rows;
  SUTURE_ASSIGN_OR_RETURN(const float* logits, forward_->run(pass));
  if (!args.on_logits) return logits;

  for (int64_t row = 0; row < rows; row += Forward::kMaxLogitsRows) {
    const int64_t n = std::min(Forward::kMaxLogitsRows, rows - row);
    SUTURE_ASSIGN_OR_RETURN(logits, forward_->logits(row, n));
    for (int64_t i = 0; i < n; ++i)
      SUTURE_RETURN_IF_ERROR(args.on_logits(begin + row + i, logits + i * config().vocab_size));
    logits += (n - 1) * config().vocab_size;
  }
  return logits;
}

Result<const float*> LanguageModel::decode(int32_t token_id, KvCache& cache,
                                           const SequencePlan* plan) {
  paged_in_ = true;
  ForwardArgs pass;
  pass.token_ids = std::span(&token_id, 1);
  pass.path = MatmulPath::kDecode;
  pass.cache = &cache;
  pass.plan = plan;
  return forward_->run(pass);
}

}  // namespace suture
