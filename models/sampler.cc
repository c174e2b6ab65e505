#include "models/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/sampling.h"
#include "models/philox.h"

namespace suture {

namespace {

// ids = the distinct tokens that the penalty applies to, sorted.
void find_repeated(std::span<const int32_t> text, int64_t window, std::vector<int32_t>& ids) {
  const auto size = window < 0 ? text.size() : std::min(text.size(), static_cast<size_t>(window));
  const auto last = text.last(size);
  ids.assign(last.begin(), last.end());
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace

Status validate(const SamplingOptions& options) {
  const auto refuse = [](const char* name, const auto& value, const char* expected) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is {}, expected {}", name, value, expected), name);
  };
  if (!std::isfinite(options.temperature) || options.temperature < 0) {
    return refuse("temperature", options.temperature, "a number from 0 (greedy) up");
  }
  if (options.top_k < 0 || options.top_k > kMaxCandidates) {
    return refuse("top_k", options.top_k, "0 (all) to 1024");
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return refuse("top_p", options.top_p, "above 0, up to 1");
  }
  if (!(options.min_p >= 0 && options.min_p <= 1)) {
    return refuse("min_p", options.min_p, "0 (off) to 1");
  }
  if (!(options.repetition_penalty > 0 && options.repetition_penalty <= kMaxRepetitionPenalty)) {
    return refuse("repetition_penalty", options.repetition_penalty, "above 0, up to 10; 1 is off");
  }
  if (options.repetition_window < -1 || options.repetition_window > kMaxRepetitionWindow) {
    return refuse("repetition_window", options.repetition_window,
                  "0 (off) to 1048576 tokens, or -1 (all)");
  }
  return {};
}

double counter_uniform(uint64_t seed, uint64_t position) {
  const auto low = [](uint64_t value) { return static_cast<uint32_t>(value); };
  const auto high = [](uint64_t value) { return static_cast<uint32_t>(value >> 32); };
  const auto words = philox_4x32_10({low(position), high(position), 0, 0}, {low(seed), high(seed)});
  // The upper 53 bits of two words: every multiple of 2^-53 is as likely.
  const uint64_t bits = (uint64_t{words[1]} << 32 | words[0]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

size_t pick_candidate(std::span<const float> logits, const SamplingOptions& options,
                      double uniform) {
  SUTURE_CHECK(!logits.empty() && logits.size() <= kMaxCandidates, "{} candidates", logits.size());
  std::array<double, kMaxCandidates> room;
  // Of weights relative to the best candidate.
  const auto cumulative = std::span(room).first(logits.size());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double below_best = static_cast<double>(logits[i]) - logits[0];
    const double weight = std::isnan(below_best) ? 0 : std::exp(below_best / options.temperature);
    if (weight >= options.min_p) sum += weight;
    cumulative[i] = sum;
  }
  const auto reach = [&](double target) {
    const auto found = std::lower_bound(cumulative.begin(), cumulative.end(), target);
    return std::min<size_t>(static_cast<size_t>(found - cumulative.begin()), logits.size() - 1);
  };
  const size_t last = reach(options.top_p * sum);
  const double target = uniform * cumulative[last];
  const auto found = std::upper_bound(
      cumulative.begin(), cumulative.begin() + static_cast<std::ptrdiff_t>(last), target);
  return static_cast<size_t>(found - cumulative.begin());
}

struct Sampler::State {
  Device* device = nullptr;
  int32_t vocab_size = 0;
  std::unique_ptr<Buffer> ids;     // int32 [min(kMaxCandidates, vocab)]
  std::unique_ptr<Buffer> values;  // float [same]
  // Made when a penalty is first asked for.
  std::unique_ptr<Buffer> penalized;  // float [vocab]
  std::unique_ptr<Buffer> repeated;   // int32 [vocab]
  std::vector<int32_t> repeated_ids;  // keeps its memory from token to token
};

Sampler::Sampler(std::unique_ptr<State> state) : state_(std::move(state)) {}
Sampler::~Sampler() = default;

Result<std::unique_ptr<Sampler>> Sampler::create(Device& device, int32_t vocab_size) {
  if (vocab_size < 1) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} logits to sample from", vocab_size));
  }
  auto state = std::make_unique<State>();
  state->device = &device;
  state->vocab_size = vocab_size;
  const auto candidates = static_cast<size_t>(std::min(kMaxCandidates, vocab_size));
  SUTURE_ASSIGN_OR_RETURN(state->ids, device.allocate(candidates * sizeof(int32_t)));
  SUTURE_ASSIGN_OR_RETURN(state->values, device.allocate(candidates * sizeof(float)));
  return std::unique_ptr<Sampler>(new Sampler(std::move(state)));
}

// `logits` as they are if nothing is repeated.
Result<const float*> Sampler::penalized(Stream& stream, const float* logits,
                                        const SamplingOptions& options,
                                        std::span<const int32_t> text) {
  if (options.repetition_penalty == 1) return logits;
  std::vector<int32_t>& ids = state_->repeated_ids;
  find_repeated(text, options.repetition_window, ids);
  const auto vocab = static_cast<size_t>(state_->vocab_size);
  if (ids.empty() || ids.size() > vocab) return logits;
  if (!state_->penalized) {
    SUTURE_ASSIGN_OR_RETURN(state_->penalized, state_->device->allocate(vocab * sizeof(float)));
    SUTURE_ASSIGN_OR_RETURN(state_->repeated, state_->device->allocate(vocab * sizeof(int32_t)));
  }
  SUTURE_RETURN_IF_ERROR(
      stream.copy_to_device(state_->repeated->data(), std::as_bytes(std::span(ids))));
  SUTURE_RETURN_IF_ERROR(penalize(stream, logits, state_->vocab_size,
                                  state_->repeated->as<int32_t>(), std::ssize(ids),
                                  options.repetition_penalty, state_->penalized->as<float>()));
  SUTURE_RETURN_IF_ERROR(stream.synchronize());  // `ids` must outlive the copy
  return state_->penalized->as<float>();
}

Result<int32_t> Sampler::sample(Stream& stream, const float* logits, const SamplingOptions& options,
                                int64_t position, std::span<const int32_t> text) {
  SUTURE_RETURN_IF_ERROR(validate(options));
  SUTURE_ASSIGN_OR_RETURN(logits, penalized(stream, logits, options, text));
  const bool greedy = options.temperature == 0;
  const int32_t wanted = greedy ? 1 : options.top_k == 0 ? kMaxCandidates : options.top_k;
  const auto k = static_cast<size_t>(std::min(wanted, state_->vocab_size));
  SUTURE_RETURN_IF_ERROR(top_k(stream, logits, state_->vocab_size, static_cast<int64_t>(k),
                               state_->ids->as<int32_t>(), state_->values->as<float>()));
  std::array<int32_t, kMaxCandidates> id_room;
  std::array<float, kMaxCandidates> value_room;
  const auto ids = std::span(id_room).first(k);
  const auto values = std::span(value_room).first(k);
  SUTURE_RETURN_IF_ERROR(stream.copy_to_host(std::as_writable_bytes(ids), state_->ids->data()));
  SUTURE_RETURN_IF_ERROR(
      stream.copy_to_host(std::as_writable_bytes(values), state_->values->data()));
  SUTURE_RETURN_IF_ERROR(stream.synchronize());
  if (!std::isfinite(values[0])) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the best logit for position {} is {}", position, values[0]), "logits",
                "the weights or the K/V that the model reads are damaged: check the model's file");
  }
  if (greedy) return ids[0];
  const double uniform = counter_uniform(options.seed, static_cast<uint64_t>(position));
  return ids[pick_candidate(values, options, uniform)];
}

}  // namespace suture
