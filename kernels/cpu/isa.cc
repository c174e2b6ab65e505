#include "kernels/cpu/isa.h"

#include <cpuid.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace suture {

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return "scalar";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
    case Isa::kAvx512Vnni: return "avx512_vnni";
  }
  return "unknown";
}

namespace {

// clang's __builtin_cpu_supports does not know this one.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

Isa best_isa() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) {
    return Isa::kScalar;
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return Isa::kAvx2;
  }
  return __builtin_cpu_supports("avx512vnni") ? Isa::kAvx512Vnni : Isa::kAvx512;
}

Result<Isa> limited_isa(std::string_view limit) {
  if (limit.empty()) return best_isa();
  for (Isa isa : kAllIsas) {
    if (isa_name(isa) == limit) return std::min(isa, best_isa());
  }
  return fail(ErrorCode::kInvalidArgument, "unknown instruction set '" + std::string(limit) + "'",
              "SUTURE_ISA", "use avx512_vnni, avx512, avx2 or scalar, or unset it");
}

Result<Isa> isa_from_environment() {
  const char* limit = std::getenv("SUTURE_ISA");
  return limited_isa(limit != nullptr ? limit : "");
}

std::string cpu_model_name() {
  // The brand string: three CPUID leaves of 16 characters each.
  std::array<unsigned, 12> words{};
  for (unsigned i = 0; i < 3; ++i) {
    unsigned* word = &words[4 * i];
    if (!__get_cpuid(0x80000002u + i, word, word + 1, word + 2, word + 3)) return "unknown";
  }
  std::array<char, sizeof(words) + 1> text{};
  std::memcpy(text.data(), words.data(), sizeof(words));
  const std::string name(text.data());
  const size_t first = name.find_first_not_of(' ');
  if (first == std::string::npos) return "unknown";
  return name.substr(first, name.find_last_not_of(' ') - first + 1);
}

}  // namespace suture
