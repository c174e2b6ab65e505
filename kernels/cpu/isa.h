// Which vector instructions the CPU kernels may use, decided at run time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace suture {

// Each level includes those before it.
enum class Isa : uint8_t { kScalar, kAvx2, kAvx512, kAvx512Vnni, kAvx512Bf16, kAmx };

inline constexpr Isa kAllIsas[] = {Isa::kScalar,     Isa::kAvx2,       Isa::kAvx512,
                                   Isa::kAvx512Vnni, Isa::kAvx512Bf16, Isa::kAmx};

std::string_view isa_name(Isa isa);  // as written in SUTURE_ISA: "avx512_vnni"

// The highest level this processor and its operating system support. The first call asks the system
// for the tiles of kAmx, so it must come before threads that use them start.
Isa best_isa();

// best_isa(), lowered to the level named by `limit` unless that is empty.
Result<Isa> limited_isa(std::string_view limit);

// limited_isa() of the environment variable SUTURE_ISA.
Result<Isa> isa_from_environment();

std::string cpu_model_name();  // "AMD EPYC 9654", "unknown" if the processor does not tell

}  // namespace suture
