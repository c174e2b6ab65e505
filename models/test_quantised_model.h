// A small model of quantised weights with random values, as GGUF bytes.
#pragma once

#include <cstddef>
#include <vector>

namespace suture {

// A llama of 2 layers: hidden 256, 4 heads of 64, 2 K/V heads, MLP of 256, 96 tokens; Q4_K, Q6_K,
// Q4_0 and Q8_0 matrices.
std::vector<std::byte> quantised_llama();

}  // namespace suture
