// Picks the next token from a row of logits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "kernels/device.h"

namespace suture {

struct SamplingOptions {
  float temperature = 0;   // 0 = greedy
  int32_t top_k = 40;      // 0 = all; bounded by 1024 candidates
  float top_p = 1;         // smallest set of candidates whose probability reaches top_p
  uint64_t seed = 0;
};

// kInvalidArgument for NaN, negative or out-of-range values, by name.
Status validate(const SamplingOptions& options);

// Uniform in [0, 1) from a counter-based generator (Philox 4x32-10, Salmon et al., 2011) keyed by
// seed and position: the draw for a position does not depend on what was drawn before.
double counter_uniform(uint64_t seed, uint64_t position);

class Sampler {
 public:
  // Holds device scratch for up to 1024 candidates of `vocab_size` logits.
  static Result<std::unique_ptr<Sampler>> create(Device& device, int32_t vocab_size);
  // `logits` [vocab_size] in device memory; `position` of the token to be drawn.
  Result<int32_t> sample(Stream& stream, const float* logits, const SamplingOptions& options,
                         int64_t position);
  ~Sampler();

 private:
  struct State;
  explicit Sampler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace suture
