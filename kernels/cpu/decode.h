// Products with generated tokens: activations in 8 bits meet quantised weights as they are stored.
#pragma once

#include "kernels/cpu/cpu_stream.h"
#include "kernels/matmul.h"

namespace suture {

Status decode_cpu(CpuStream& stream, const MatmulGroupArgs& args);

}  // namespace suture
