// The matrix product of prompts.
//
// Output features are split over the workers, never the sum over k: which worker computes an
// element, and what else it computes, cannot change the element's bits.
#pragma once

#include "kernels/cpu/cpu_stream.h"
#include "kernels/cpu/prefill_kernels.h"
#include "kernels/matmul.h"

namespace suture {

// matmul() on MatmulPath::kPrefill; arguments have been checked by the dispatcher.
Status prefill_cpu(CpuStream& stream, const MatmulGroupArgs& args);

// The same with kernels of the caller's choice, for all parts: tests use it for tables that no
// instruction set of the machine selects.
Status prefill_with(CpuStream& stream, const PrefillKernels& kernels, const MatmulGroupArgs& args);

}  // namespace suture
