#include "launcher/score.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/sampling.h"

namespace suture {
namespace {

constexpr int64_t kTop = 20;

// Reads small results off rows of logits in device memory.
class LogitsReader {
 public:
  static Result<LogitsReader> create(LanguageModel& model) {
    LogitsReader reader(model);
    SUTURE_ASSIGN_OR_RETURN(reader.value_, model.device().allocate(sizeof(float)));
    SUTURE_ASSIGN_OR_RETURN(reader.ids_, model.device().allocate(kTop * sizeof(int32_t)));
    SUTURE_ASSIGN_OR_RETURN(reader.logits_, model.device().allocate(kTop * sizeof(float)));
    return reader;
  }

  Result<float> log_sum_exp(const float* logits) {
    SUTURE_RETURN_IF_ERROR(
        suture::log_sum_exp(stream(), logits, vocab_size(), value_->as<float>()));
    return read(value_->as<float>());
  }

  Result<float> read(const float* device_value) {
    float value = 0;
    SUTURE_RETURN_IF_ERROR(copy(std::span(&value, 1), device_value));
    return value;
  }

  // The k best, k <= kTop.
  Result<std::vector<std::pair<int32_t, float>>> top(const float* logits, int64_t k) {
    k = std::min<int64_t>(k, vocab_size());
    SUTURE_RETURN_IF_ERROR(suture::top_k(stream(), logits, vocab_size(), k, ids_->as<int32_t>(),
                                         logits_->as<float>()));
    std::array<int32_t, kTop> ids{};
    std::array<float, kTop> values{};
    SUTURE_RETURN_IF_ERROR(copy(std::span(ids), ids_->as<int32_t>()));
    SUTURE_RETURN_IF_ERROR(copy(std::span(values), logits_->as<float>()));
    std::vector<std::pair<int32_t, float>> best;
    for (size_t i = 0; i < static_cast<size_t>(k); ++i) best.emplace_back(ids[i], values[i]);
    return best;
  }

 private:
  explicit LogitsReader(LanguageModel& model) : model_(&model) {}

  template <typename T, size_t N>
  Status copy(std::span<T, N> host, const T* device) {
    SUTURE_RETURN_IF_ERROR(stream().copy_to_host(std::as_writable_bytes(host),
                                                 reinterpret_cast<const std::byte*>(device)));
    return stream().synchronize();
  }
  Stream& stream() { return model_->stream(); }
  int64_t vocab_size() const { return model_->config().vocab_size; }

  LanguageModel* model_;
  std::unique_ptr<Buffer> value_;
  std::unique_ptr<Buffer> ids_;
  std::unique_ptr<Buffer> logits_;
};

// What follows the prompt whose last row has these logits.
Result<std::vector<int32_t>> decode_greedily(LanguageModel& model, KvCache& cache,
                                             LogitsReader& reader, int32_t first, int64_t count) {
  std::vector<int32_t> ids;
  int32_t next = first;
  while (std::ssize(ids) < count) {
    ids.push_back(next);
    if (std::ssize(ids) == count) break;
    SUTURE_ASSIGN_OR_RETURN(const float* logits, model.decode(next, cache));
    SUTURE_ASSIGN_OR_RETURN(const auto best, reader.top(logits, 1));
    next = best.front().first;
  }
  return ids;
}

}  // namespace

Result<Score> score(LanguageModel& model, KvCache& cache, std::span<const int32_t> ids,
                    int64_t greedy, MatmulPath path) {
  Score result;
  SUTURE_ASSIGN_OR_RETURN(LogitsReader reader, LogitsReader::create(model));
  PrefillArgs args;
  args.token_ids = ids;
  args.cache = &cache;
  args.path = path;
  args.on_logits = [&](int64_t row, const float* logits) -> Status {
    SUTURE_ASSIGN_OR_RETURN(result.logsumexp, reader.log_sum_exp(logits));
    const auto next = static_cast<size_t>(row) + 1;
    if (next == ids.size()) return {};
    SUTURE_ASSIGN_OR_RETURN(const float logit, reader.read(logits + ids[next]));
    result.token_nll.push_back(result.logsumexp - logit);
    return {};
  };
  SUTURE_ASSIGN_OR_RETURN(const float* last, model.prefill(args));
  SUTURE_ASSIGN_OR_RETURN(result.top, reader.top(last, kTop));
  const double sum = std::accumulate(result.token_nll.begin(), result.token_nll.end(), 0.0);
  if (!result.token_nll.empty()) result.mean_nll = sum / std::size(result.token_nll);
  if (greedy > 0) {
    SUTURE_ASSIGN_OR_RETURN(
        result.greedy, decode_greedily(model, cache, reader, result.top.front().first, greedy));
  }
  return result;
}

}  // namespace suture
