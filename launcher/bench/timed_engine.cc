#include "launcher/bench/timed_engine.h"

#include <fmt/format.h>

#include <chrono>

#include "kernels/cpu/isa.h"

namespace suture {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Result<TimedEngine> TimedEngine::load(const std::filesystem::path& path, int threads,
                                      int64_t capacity) {
  TimedEngine engine;
  const auto start = Clock::now();
  SUTURE_ASSIGN_OR_RETURN(engine.model_, LanguageModel::load(path, {.threads = threads}));
  SUTURE_RETURN_IF_ERROR(engine.model_->warm_up());
  engine.load_seconds_ = seconds_since(start);
  const ModelConfig& config = engine.model_->config();
  if (capacity > config.max_positions)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} tokens, more than the {} the model was trained for", capacity,
                            config.max_positions),
                path.string(), "ask for a shorter prompt or fewer generated tokens");
  SUTURE_ASSIGN_OR_RETURN(engine.cache_, engine.make_cache(capacity));
  engine.work_ = std::make_unique<EngineWork>(config, engine.model_->weights());
  return engine;
}

std::string TimedEngine::target() const {
  const auto isa = isa_from_environment();
  return isa ? std::string(isa_name(*isa)) : "unknown";
}

int32_t TimedEngine::token_at(int64_t position) const {
  const int64_t vocabulary = model_->config().vocab_size;
  return static_cast<int32_t>((position * 7919 + 10) % vocabulary);
}

Result<std::unique_ptr<RewindableCache>> TimedEngine::make_cache(int64_t capacity) {
  SUTURE_ASSIGN_OR_RETURN(auto memory, model_->make_cache(capacity));
  return std::make_unique<RewindableCache>(std::move(memory));
}

Status TimedEngine::read(RewindableCache& cache, int64_t n_tokens) {
  const int64_t first = cache.size();
  std::vector<int32_t> ids(static_cast<size_t>(n_tokens));
  for (int64_t i = 0; i < n_tokens; ++i) ids[static_cast<size_t>(i)] = token_at(first + i);
  PrefillArgs args;
  args.token_ids = ids;
  args.cache = &cache;
  SUTURE_RETURN_IF_ERROR(model_->prefill(args));
  return model_->stream().synchronize();
}

Result<double> TimedEngine::prefill(int64_t n_tokens) {
  cache_->rewind(0);
  const auto start = Clock::now();
  SUTURE_RETURN_IF_ERROR(read(*cache_, n_tokens));
  return seconds_since(start);
}

Status TimedEngine::set_history(RewindableCache& cache, int64_t history) {
  cache.rewind(history);
  return cache.size() < history ? read(cache, history - cache.size()) : Status();
}

Status TimedEngine::set_history(int64_t history) { return set_history(*cache_, history); }

Result<double> TimedEngine::decode(int64_t history, int64_t n_tokens) {
  SUTURE_RETURN_IF_ERROR(set_history(history));
  const auto start = Clock::now();
  for (int64_t i = 0; i < n_tokens; ++i)
    SUTURE_RETURN_IF_ERROR(model_->decode(token_at(history + i), *cache_));
  SUTURE_RETURN_IF_ERROR(model_->stream().synchronize());
  return seconds_since(start);
}

Result<double> TimedEngine::decode_batch(int64_t n_sequences, int64_t history, int64_t n_tokens) {
  const int64_t capacity = history + n_tokens;
  std::erase_if(batch_, [capacity](const auto& cache) { return cache->capacity() < capacity; });
  std::vector<DecodeItem> items(static_cast<size_t>(n_sequences));
  for (size_t i = 0; i < items.size(); ++i) {
    if (i == batch_.size()) {
      SUTURE_ASSIGN_OR_RETURN(batch_.emplace_back(), make_cache(capacity));
    }
    SUTURE_RETURN_IF_ERROR(set_history(*batch_[i], history));
    items[i].cache = batch_[i].get();
  }
  const auto start = Clock::now();
  for (int64_t token = 0; token < n_tokens; ++token) {
    for (DecodeItem& item : items) item.token_id = token_at(history + token);
    for (const SequenceLogits& logits : model_->decode_batch(items))
      if (!logits) return tl::unexpected<Error>(logits.error());
  }
  SUTURE_RETURN_IF_ERROR(model_->stream().synchronize());
  return seconds_since(start);
}

}  // namespace suture
