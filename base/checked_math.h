// Arithmetic on sizes that come from files or other processes: no silent wrap-around.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

namespace suture {

inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// Product of all factors, or nothing when it does not fit 64 bits.
inline std::optional<uint64_t> checked_product(std::initializer_list<uint64_t> factors) {
  std::optional<uint64_t> product = 1;
  for (uint64_t factor : factors) {
    product = checked_mul(*product, factor);
    if (!product) return std::nullopt;
  }
  return product;
}

}  // namespace suture
