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
  return args.path == MatmulPath::kDecode ? decode_cpu(cpu, args) : prefill_cpu(cpu, args);
}

void dequantise_cpu(DType dtype, const std::byte* source, int64_t elements, float* target) {
  // The reference table: conversion has the same bits in all of them.
  kMatmulScalar.dequantise[static_cast<size_t>(dtype)](source, elements, target);
}

}  // namespace suture
