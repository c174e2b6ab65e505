#include "kernels/kv_map.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "kernels/test_kv.h"

namespace suture {
namespace {

constexpr int32_t kHeads = 2, kDim = 16;
constexpr int64_t kTokens = 70, kRows = 45;

std::vector<float> frequencies_of(double theta) {
  std::vector<float> frequencies;
  for (int32_t i = 0; i < kDim; i += 2)
    frequencies.push_back(static_cast<float>(std::pow(theta, -i / static_cast<double>(kDim))));
  return frequencies;
}

size_t first_of_pair(RopePairing pairing, size_t i) {
  return pairing == RopePairing::kHalves ? i : 2 * i;
}
size_t second_of_pair(RopePairing pairing, size_t i) {
  return pairing == RopePairing::kHalves ? i + kDim / 2 : 2 * i + 1;
}

struct Rows {
  std::vector<float> key;    // [kv_head][rows][kDim]
  std::vector<float> value;  // the same
};

Rows gather(const KvShape& shape, const KvLayerView& kv, int64_t begin, int64_t end) {
  Rows rows;
  rows.key.resize(static_cast<size_t>(kHeads * (end - begin) * kDim));
  rows.value.resize(rows.key.size());
  EXPECT_TRUE(
      kv_gather(*cpu_stream(1), {rows.key.data(), rows.value.data(), begin, end, shape, kv}));
  return rows;
}

class KvMapTest : public testing::Test {
 protected:
  KvMapTest() {
    for (int32_t row = 0; row < kRows; ++row) {
      entries_.push_back((row * 29 + 3) % static_cast<int32_t>(kTokens));
      from_positions_.push_back(entries_.back() + 5);
      to_positions_.push_back(1000 - 7 * row);
    }
  }

  KvMapArgs args(TestSequence& from, TestSequence& to) {
    KvMapArgs args;
    args.from_shape = from.shape;
    args.from = from.view();
    args.from_entries = entries_.data();
    args.from_rotation = {slow_.data(), 1.25f, RopePairing::kHalves, from_positions_.data()};
    args.to_shape = to.shape;
    args.to = to.view();
    args.first_entry = 20;
    args.to_rotation = {quick_.data(), 0.5f, RopePairing::kHalves, to_positions_.data()};
    args.n_rows = kRows;
    return args;
  }

  std::mt19937 random_{3};
  std::vector<int32_t> entries_, from_positions_, to_positions_;
  std::vector<float> quick_ = frequencies_of(1e4), slow_ = frequencies_of(1e6);
};

// Row by row as complex numbers: turned back by the source's angle, on by the target's.
TEST_F(KvMapTest, TurnsBackAndOnAsComplexNumbers) {
  for (const RopePairing from_pairing : {RopePairing::kHalves, RopePairing::kNeighbours}) {
    for (const RopePairing to_pairing : {RopePairing::kHalves, RopePairing::kNeighbours}) {
      TestSequence from({1, kHeads, kDim, DType::kF16}, kTokens, random_);
      TestSequence to({1, kHeads, kDim, DType::kF32}, kTokens, random_);
      KvMapArgs map = args(from, to);
      map.from_rotation.pairing = from_pairing;
      map.to_rotation.pairing = to_pairing;
      ASSERT_TRUE(kv_map(*cpu_stream(2), map));
      const Rows rows = gather(to.shape, to.view(), 20, 20 + kRows);
      for (size_t row = 0; row < kRows; ++row) {
        for (size_t head = 0; head < kHeads; ++head) {
          const auto entry = static_cast<size_t>(entries_[row]);
          const float* key = from.key.data() + (entry * kHeads + head) * kDim;
          const float* value = from.value.data() + (entry * kHeads + head) * kDim;
          const float* actual = rows.key.data() + (head * kRows + row) * kDim;
          for (size_t i = 0; i < kDim / 2; ++i) {
            const auto stored = std::complex<double>(key[first_of_pair(from_pairing, i)],
                                                     key[second_of_pair(from_pairing, i)]);
            const auto plain =
                stored / std::polar(1.25, from_positions_[row] * static_cast<double>(slow_[i]));
            const auto turned =
                plain * std::polar(0.5, to_positions_[row] * static_cast<double>(quick_[i]));
            ASSERT_NEAR(actual[first_of_pair(to_pairing, i)], turned.real(), 1e-6);
            ASSERT_NEAR(actual[second_of_pair(to_pairing, i)], turned.imag(), 1e-6);
          }
          for (size_t i = 0; i < kDim; ++i)
            ASSERT_EQ(rows.value[(head * kRows + row) * kDim + i], value[i]);
        }
      }
    }
  }
}

TEST_F(KvMapTest, SameRotationLeavesTheBitsInEveryType) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    TestSequence from({1, kHeads, kDim, dtype}, kTokens, random_);
    TestSequence to({1, kHeads, kDim, dtype}, kTokens, random_);
    KvMapArgs map = args(from, to);
    map.to_rotation = map.from_rotation;
    ASSERT_TRUE(kv_map(*cpu_stream(1), map));
    const Rows rows = gather(to.shape, to.view(), 20, 20 + kRows);
    for (size_t row = 0; row < kRows; ++row)
      for (size_t i = 0; i < kDim; ++i)
        ASSERT_EQ(rows.key[row * kDim + i],
                  from.key[static_cast<size_t>(entries_[row]) * kHeads * kDim + i]);
  }
}

TEST_F(KvMapTest, ThreadsGiveTheSameBitsAndOtherRowsStay) {
  TestSequence from({1, kHeads, kDim, DType::kF16}, kTokens, random_);
  TestSequence to({1, kHeads, kDim, DType::kF16}, kTokens, random_);
  const Rows before = gather(to.shape, to.view(), 0, 20);
  ASSERT_TRUE(kv_map(*cpu_stream(1), args(from, to)));
  const Rows one = gather(to.shape, to.view(), 20, 20 + kRows);
  ASSERT_TRUE(kv_map(*cpu_stream(3), args(from, to)));
  const Rows three = gather(to.shape, to.view(), 20, 20 + kRows);
  EXPECT_EQ(one.key, three.key);
  EXPECT_EQ(one.value, three.value);
  EXPECT_EQ(gather(to.shape, to.view(), 0, 20).key, before.key);
}

TEST_F(KvMapTest, RefusesArgumentsOutsideTheContract) {
  TestSequence from({1, kHeads, kDim, DType::kF16}, kTokens, random_);
  TestSequence to({1, kHeads, kDim, DType::kF16}, kTokens, random_);
  auto stream = cpu_stream(1);
  const KvMapArgs good = args(from, to);
  EXPECT_TRUE(kv_map(*stream, good));
  KvMapArgs bad = good;
  bad.to_shape.head_dim = 8;
  EXPECT_FALSE(kv_map(*stream, bad));
  bad = good;
  bad.from_entries = nullptr;
  EXPECT_FALSE(kv_map(*stream, bad));
  bad = good;
  bad.from_rotation.attention_factor = 0;
  EXPECT_FALSE(kv_map(*stream, bad));
  bad = good;
  bad.to_rotation.frequencies = nullptr;
  EXPECT_FALSE(kv_map(*stream, bad));
  bad = good;
  bad.n_rows = -1;
  EXPECT_FALSE(kv_map(*stream, bad));
}

}  // namespace
}  // namespace suture
