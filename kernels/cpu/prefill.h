// The matrix product of prompts: weights are unpacked panel by panel, products are floating point.
//
// Output features are split over the workers, never the sum over k: which worker computes an
// element, and what else it computes, cannot change the element's bits.
#pragma once

#include "kernels/cpu/cpu_stream.h"
#include "kernels/matmul.h"

namespace suture {

// matmul() on MatmulPath::kPrefill; arguments have been checked by the dispatcher.
Status prefill_cpu(CpuStream& stream, const MatmulArgs& args);

}  // namespace suture
