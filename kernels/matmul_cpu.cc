// Splits a product over the workers of the stream; the inner loops are in cpu/*_inl.h.
//
// Output features are split, never the sum over k: which worker computes an element, and what else
// it computes, cannot change the element's bits.
#include <vector>

#include "kernels/cpu/cpu_matmul.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/cpu/prefill.h"

namespace suture {

const MatmulKernels& matmul_kernels(Isa isa) {
  switch (isa) {
    case Isa::kScalar: break;
    case Isa::kAvx2: return kMatmulAvx2;
    case Isa::kAvx512: return kMatmulAvx512;
    case Isa::kAvx512Vnni: return kMatmulAvx512Vnni;
  }
  return kMatmulScalar;
}

namespace {

int64_t row_bytes(const WeightView& w) { return dtype_bytes(w.dtype, w.cols).value(); }

Status decode(CpuStream& stream, const MatmulKernels& kernels, const MatmulArgs& args) {
  const WeightView& w = args.w;
  std::vector<QuantisedRow> rows;
  if (is_quantised(w.dtype)) {
    const int64_t padded = (w.cols + kQuantChunk - 1) / kQuantChunk * kQuantChunk;
    const int64_t groups = padded / kQuantGroup;
    const int64_t bytes_per_row = padded + 4 * groups * static_cast<int64_t>(sizeof(float));
    SUTURE_ASSIGN_OR_RETURN(std::byte * memory,
                            stream.scratch(static_cast<size_t>(args.n_rows * bytes_per_row)));
    rows.reserve(static_cast<size_t>(args.n_rows));
    for (int64_t r = 0; r < args.n_rows; ++r, memory += bytes_per_row) {
      auto* scale = reinterpret_cast<float*>(memory + padded);
      rows.push_back(
          {reinterpret_cast<int8_t*>(memory), scale, scale + groups, scale + 2 * groups});
      kernels.quantise(args.x + r * w.cols, w.cols, rows.back());
    }
  }
  const DecodeJob job = {.w = w.data,
                         .row_bytes = row_bytes(w),
                         .cols = w.cols,
                         .bias = args.bias,
                         .x = args.x,
                         .qx = rows.data(),
                         .n_rows = args.n_rows,
                         .out = args.out,
                         .out_stride = w.rows};
  const auto decode_rows = kernels.decode[static_cast<size_t>(w.dtype)];
  stream.pool().parallel_for(
      w.rows, [&](int64_t begin, int64_t end, int) { decode_rows(job, begin, end); });
  return {};
}

}  // namespace

Status matmul_cpu(Stream& stream, const MatmulArgs& args) {
  CpuStream& cpu = as_cpu(stream);
  return args.path == MatmulPath::kDecode ? decode(cpu, matmul_kernels(cpu.isa()), args)
                                          : prefill_cpu(cpu, args);
}

void dequantise_cpu(DType dtype, const std::byte* source, int64_t elements, float* target) {
  // The reference table: conversion has the same bits in all of them.
  kMatmulScalar.dequantise[static_cast<size_t>(dtype)](source, elements, target);
}

}  // namespace suture
