// Picks the next token from a row of logits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "kernels/device.h"

namespace suture {

inline constexpr int32_t kMaxCandidates = 1024;

struct SamplingOptions {
  float temperature = 0;  // 0 = greedy
  int32_t top_k = 40;     // 0 = all; bounded by kMaxCandidates
  float top_p = 1;        // smallest set of candidates whose probability reaches top_p
  uint64_t seed = 0;
};

// kInvalidArgument for NaN, negative or out-of-range values, by name.
Status validate(const SamplingOptions& options);

// Uniform in [0, 1) from a counter-based generator (Philox 4x32-10, Salmon et al., 2011) keyed by
// seed and position: the draw for a position does not depend on what was drawn before.
double counter_uniform(uint64_t seed, uint64_t position);

// Index into `logits`, the candidates [1 .. kMaxCandidates] best first, that `uniform` in [0, 1)
// falls on once temperature (> 0) and top_p have shaped their probabilities. NaN counts as -inf.
size_t pick_candidate(std::span<const float> logits, const SamplingOptions& options,
                      double uniform);

class Sampler {
 public:
  // Holds device scratch for up to kMaxCandidates of `vocab_size` logits.
  static Result<std::unique_ptr<Sampler>> create(Device& device, int32_t vocab_size);
  // `logits` [vocab_size] in device memory; `position` of the token to be drawn.
  // kInvalidArgument when no logit is finite: such a model has no next token.
  Result<int32_t> sample(Stream& stream, const float* logits, const SamplingOptions& options,
                         int64_t position);
  ~Sampler();

 private:
  struct State;
  explicit Sampler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace suture
