// The table of one target, from the templates of the other *_inl.h files.
#pragma once

#include "kernels/cpu/decode_inl.h"

namespace suture {
namespace {

template <typename Format>
constexpr void add_quantised(MatmulKernels& kernels, DType dtype) {
  kernels.decode[static_cast<size_t>(dtype)] = decode_rows<Quantised<Format>>;
  kernels.dequantise[static_cast<size_t>(dtype)] = dequantise_blocks<Format>;
}

template <typename Format>
constexpr void add_plain(MatmulKernels& kernels, DType dtype) {
  kernels.decode[static_cast<size_t>(dtype)] = decode_rows<Plain<Format>>;
  kernels.dequantise[static_cast<size_t>(dtype)] = widen_plain<Format>;
}

constexpr MatmulKernels make_kernels() {
  MatmulKernels kernels = {quantise_row, {}, {}};
  add_plain<F32>(kernels, DType::kF32);
  add_plain<F16>(kernels, DType::kF16);
  add_plain<Bf16>(kernels, DType::kBf16);
  add_quantised<Q40>(kernels, DType::kQ4_0);
  add_quantised<Q41>(kernels, DType::kQ4_1);
  add_quantised<Q50>(kernels, DType::kQ5_0);
  add_quantised<Q51>(kernels, DType::kQ5_1);
  add_quantised<Q80>(kernels, DType::kQ8_0);
  add_quantised<Q2K>(kernels, DType::kQ2_K);
  add_quantised<Q3K>(kernels, DType::kQ3_K);
  add_quantised<Q4K>(kernels, DType::kQ4_K);
  add_quantised<Q5K>(kernels, DType::kQ5_K);
  add_quantised<Q6K>(kernels, DType::kQ6_K);
  add_quantised<Iq4Nl>(kernels, DType::kIq4Nl);
  return kernels;
}

}  // namespace
}  // namespace suture
