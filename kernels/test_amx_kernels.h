// The kernels for AMX with its instructions emulated, for machines without them.
#pragma once

#include "kernels/cpu/prefill_kernels.h"

namespace suture {

const PrefillKernels& emulated_amx_kernels();

}  // namespace suture
