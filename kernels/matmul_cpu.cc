#include "kernels/cpu/cpu_matmul.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/prefill.h"

namespace suture {

const MatmulKernels& matmul_kernels(Isa isa) {
  switch (isa) {
    case Isa::kScalar: break;
    case Isa::kAvx2: return kMatmulAvx2;
    case Isa::kAvx512: return kMatmulAvx512;
    case Isa::kAvx512Vnni:
    case Isa::kAvx512Bf16:
    case Isa::kAmx: return kMatmulAvx512Vnni;
  }
  return kMatmulScalar;
}

Status matmul_cpu(Stream& stream, const MatmulGroupArgs& args) {
  CpuStream& cpu = as_cpu(stream);
  if (args.path == MatmulPath::kDecode) return decode_cpu(cpu, args);
  for (const MatmulPart& part : args.parts) {
    if (part.w.rows == 0) continue;
    if (part.w.layout == WeightLayout::kTiles)
      return fail(ErrorCode::kUnsupported, "prompts with packed weights", "matmul");
    SUTURE_RETURN_IF_ERROR(
        prefill_cpu(cpu, {args.x, part.w, part.bias, part.out, args.n_rows, args.path}));
  }
  return {};
}

void dequantise_cpu(DType dtype, const std::byte* source, int64_t elements, float* target) {
  // The reference table: conversion has the same bits in all of them.
  kMatmulScalar.dequantise[static_cast<size_t>(dtype)](source, elements, target);
}

}  // namespace suture
