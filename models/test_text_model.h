// A small model that reads and writes text: random weights and a vocabulary of the test's choice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/test_models.h"
#include "models/vocabulary.h"

namespace suture {

struct TextModelOptions {
  Vocabulary vocabulary;  // byte-level: see make_byte_vocabulary()
  int32_t n_layers = 1;
  uint32_t kv_heads = 2;  // 1, 2 or 4
  uint32_t seed = 1;      // equal seeds and shapes: equal weights
  float theta = 10000;
  // Rows of q and k in the order of one or the other; the weights are those of the same model.
  RopePairing pairing = RopePairing::kHalves;
  bool half_precision = false;  // one matrix is f16, which makes K/V f16
  float norm_scale = 1;         // of all norm weights
  uint32_t positions = 256;     // that it says it was trained for
};

// Hidden size 32, 4 heads of 8, MLP of 48.
// The bytes of its GGUF file.
std::vector<std::byte> text_model(const TextModelOptions& options);

}  // namespace suture
