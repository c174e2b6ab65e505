#include "launcher/bench/peak_loop.h"

#include <immintrin.h>

namespace suture {
namespace {

// Independent sums: no fewer than an instruction's latency times the number that begin each cycle.
constexpr int kSums = 12;

// In each loop the sums are unrolled into registers, and an empty assembler line keeps the compiler
// from computing the same thing only once.

void run_scalar(int64_t turns) {
  __m128 sums[kSums] = {};
  const __m128 value = _mm_set1_ps(1e-9f);
  for (int64_t turn = 0; turn < turns; ++turn) {
#pragma GCC unroll 12
    for (__m128& sum : sums) {
      sum = _mm_add_ps(sum, _mm_mul_ps(value, value));
      asm volatile("" : "+x"(sum));
    }
  }
}

__attribute__((target("avx2,fma"))) void run_avx2(int64_t turns) {
  __m256 sums[kSums] = {};
  const __m256 value = _mm256_set1_ps(1e-9f);
  for (int64_t turn = 0; turn < turns; ++turn) {
#pragma GCC unroll 12
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(value, value, sum);
      asm volatile("" : "+x"(sum));
    }
  }
}

__attribute__((target("avx512f"))) void run_avx512(int64_t turns) {
  __m512 sums[kSums] = {};
  const __m512 value = _mm512_set1_ps(1e-9f);
  for (int64_t turn = 0; turn < turns; ++turn) {
#pragma GCC unroll 12
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(value, value, sum);
      asm volatile("" : "+v"(sum));
    }
  }
}

__attribute__((target("avx512f,avx512vnni"))) void run_avx512_vnni(int64_t turns) {
  __m512i sums[kSums] = {};
  const __m512i value = _mm512_set1_epi8(1);
  for (int64_t turn = 0; turn < turns; ++turn) {
#pragma GCC unroll 12
    for (__m512i& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, value, value);
      asm volatile("" : "+v"(sum));
    }
  }
}

// What ldtilecfg reads: eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

constexpr int kTileSums = 4;

__attribute__((target("amx-tile,amx-bf16"))) void run_amx(int64_t turns) {
  const TileConfig config;
  // Not _tile_loadconfig: to g++ 12 it reads eight bytes, so that the others are never stored.
  asm volatile("ldtilecfg %0" : : "m"(config));
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (int64_t turn = 0; turn < turns; ++turn) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
}

}  // namespace

PeakLoop peak_loop(Isa isa) {
  constexpr double kFlop = 2.0 * kSums;  // for each lane of a vector and turn
  switch (isa) {
    case Isa::kScalar: return {"mulps and addps", 4 * kFlop, run_scalar};
    case Isa::kAvx2: return {"vfmadd231ps, 256 bits", 8 * kFlop, run_avx2};
    case Isa::kAvx512: return {"vfmadd231ps, 512 bits", 16 * kFlop, run_avx512};
    case Isa::kAvx512Vnni:
    case Isa::kAvx512Bf16: return {"vpdpbusd, 512 bits", 64 * kFlop, run_avx512_vnni};
    case Isa::kAmx: return {"tdpbf16ps", 2.0 * 16 * 16 * 32 * kTileSums, run_amx};
  }
  return {};
}

}  // namespace suture
