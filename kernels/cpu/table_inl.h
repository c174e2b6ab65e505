// The table of one target, from the templates of the other *_inl.h files.
#pragma once

#include "kernels/cpu/pack_inl.h"
#include "kernels/cpu/packed_decode_inl.h"
#include "kernels/cpu/plain_decode_inl.h"
#include "kernels/cpu/quantise_inl.h"
#include "kernels/cpu/unpack_inl.h"

namespace suture {
namespace {

template <DType kType, typename Format, typename PackFormat = Format>
constexpr void add_quantised(MatmulKernels& kernels) {
  constexpr auto kIndex = static_cast<size_t>(kType);
  kernels.dequantise[kIndex] = dequantise_blocks<Format>;
  kernels.pack[kIndex] = pack_tile<PackFormat, kType>;
  kernels.decode_tile[kIndex] = decode_tile<kType>;
  kernels.unpack_tile[kIndex] = unpack_tile<kType>;
}

template <typename Format>
constexpr void add_plain(MatmulKernels& kernels, DType dtype) {
  kernels.decode_plain[static_cast<size_t>(dtype)] = decode_rows<Format>;
  kernels.dequantise[static_cast<size_t>(dtype)] = widen_plain<Format>;
}

constexpr MatmulKernels make_kernels() {
  MatmulKernels kernels = {.quantise = quantise_row};
  add_plain<F32>(kernels, DType::kF32);
  add_plain<F16>(kernels, DType::kF16);
  add_plain<Bf16>(kernels, DType::kBf16);
  add_quantised<DType::kQ4_0, Q40>(kernels);
  add_quantised<DType::kQ4_1, Q41>(kernels);
  add_quantised<DType::kQ5_0, Q50>(kernels);
  add_quantised<DType::kQ5_1, Q51>(kernels);
  add_quantised<DType::kQ8_0, Q80>(kernels);
  add_quantised<DType::kQ2_K, Q2K>(kernels);
  add_quantised<DType::kQ3_K, Q3K>(kernels);
  add_quantised<DType::kQ4_K, Q4K>(kernels);
  add_quantised<DType::kQ5_K, Q5K>(kernels);
  add_quantised<DType::kQ6_K, Q6K>(kernels);
  add_quantised<DType::kIq4Nl, Iq4Nl, Q40>(kernels);
  return kernels;
}

}  // namespace
}  // namespace suture
