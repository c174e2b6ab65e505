// The CPU's side of kernels/matmul.h; arguments have been checked by the dispatcher.
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/matmul.h"

namespace suture {

const MatmulKernels& matmul_kernels(Isa isa);

Status matmul_cpu(Stream& stream, const MatmulGroupArgs& args);
void dequantise_cpu(DType dtype, const std::byte* source, int64_t elements, float* target);

}  // namespace suture
