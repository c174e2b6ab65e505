// Seeded random input, for tests of what strangers send.
//
//   SUTURE_FUZZ_ROUNDS=100000 SUTURE_FUZZ_SEED=7 build/asan/bus/bus_test --gtest_filter='*Fuzz*'
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

namespace suture {

inline uint64_t fuzz_setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

inline uint64_t fuzz_rounds(uint64_t usual) { return fuzz_setting("SUTURE_FUZZ_ROUNDS", usual); }

// Everything it says follows from the seed and the round.
class FuzzRandom {
 public:
  explicit FuzzRandom(uint64_t round)
      : random_(fuzz_setting("SUTURE_FUZZ_SEED", 1) * 1'000'003 + round) {}

  // `n` is not 0.
  size_t below(size_t n) { return random_() % n; }
  bool one_in(size_t n) { return below(n) == 0; }

  std::string bytes(size_t n) {
    std::string text(n, '\0');
    for (char& c : text) c = static_cast<char>(random_());
    return text;
  }

  // `valid` after one to four changes.
  std::string damaged(std::string valid) {
    for (size_t changes = 1 + below(4); changes > 0; --changes) change(valid);
    return valid;
  }

 private:
  void change(std::string& text) {
    const size_t at = text.empty() ? 0 : below(text.size());
    switch (text.empty() ? 3 : below(5)) {
      case 0: text[at] = static_cast<char>(text[at] ^ (1 << below(8))); return;
      case 1: put_integer(text, at); return;
      case 2: text.resize(at); return;
      case 3: text.insert(at, bytes(1 + below(64))); return;
      default: text.insert(at, text.substr(at, 1 + below(64)));
    }
  }

  void put_integer(std::string& text, size_t at) {
    constexpr std::array<uint64_t, 6> kExtremes = {
        0, 1, 0x7fff'ffff, 0xffff'ffff, 0x7fff'ffff'ffff'ffff, 0xffff'ffff'ffff'ffff};
    const uint64_t value = kExtremes[below(kExtremes.size())];
    std::memcpy(text.data() + at, &value, std::min(sizeof(value), text.size() - at));
  }

  std::mt19937_64 random_;
};

}  // namespace suture
