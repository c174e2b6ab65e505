// Picks the next token from a row of logits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "kernels/device.h"

namespace suture {

inline constexpr int32_t kMaxCandidates = 1024;

inline constexpr float kMaxRepetitionPenalty = 10;
inline constexpr int64_t kMaxRepetitionWindow = 1 << 20;

struct SamplingOptions {
  float temperature = 0;  // 0 = greedy
  int32_t top_k = 40;     // 0 = all; bounded by kMaxCandidates
  float top_p = 1;        // smallest set of candidates whose probability reaches top_p
  uint64_t seed = 0;
  float min_p = 0;                 // candidates of at least min_p times the best one's probability
  float repetition_penalty = 1;    // of the tokens in the window; 1 = none; greedy too
  int64_t repetition_window = 64;  // last tokens of the text; 0 = none, -1 = all

  bool operator==(const SamplingOptions&) const = default;
};

// kInvalidArgument for NaN, negative or out-of-range values, by name.
Status validate(const SamplingOptions& options);

// Uniform in [0, 1) from a counter-based generator (Philox 4x32-10, Salmon et al., 2011) keyed by
// seed and position: the draw for a position does not depend on what was drawn before.
double counter_uniform(uint64_t seed, uint64_t position);

// Index into `logits`, the candidates [1 .. kMaxCandidates] best first, that `uniform` in [0, 1)
// falls on once temperature (> 0), min_p and top_p, in this order, have shaped their
// probabilities. NaN counts as -inf.
size_t pick_candidate(std::span<const float> logits, const SamplingOptions& options,
                      double uniform);

class Sampler {
 public:
  // Holds device scratch for up to kMaxCandidates of `vocab_size` logits.
  static Result<std::unique_ptr<Sampler>> create(Device& device, int32_t vocab_size);
  // `logits` [vocab_size] in device memory; `position` of the token to be drawn; `text`: the
  // tokens before it, for the repetition penalty.
  // kInvalidArgument when no logit is finite: such a model has no next token.
  Result<int32_t> sample(Stream& stream, const float* logits, const SamplingOptions& options,
                         int64_t position, std::span<const int32_t> text = {});
  ~Sampler();

 private:
  Result<const float*> penalized(Stream& stream, const float* logits,
                                 const SamplingOptions& options, std::span<const int32_t> text);
  struct State;
  explicit Sampler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace suture
