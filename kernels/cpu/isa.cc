#include "kernels/cpu/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    case Isa::kAvx512Bf16: return "avx512_bf16";
    case Isa::kAmx: return "amx";
  }
  return "unknown";
}

namespace {

struct CpuidLeaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;  // all 0 where the processor has no such leaf

  CpuidLeaf(unsigned leaf, unsigned subleaf) {
    __get_cpuid_count(leaf, subleaf, &eax, &ebx, &ecx, &edx);
  }
};

// clang's __builtin_cpu_supports does not know this one.
bool has_f16c() { return (CpuidLeaf(1, 0).ecx & bit_F16C) != 0; }

bool has_avx512_bf16() { return (CpuidLeaf(7, 1).eax & 1u << 5) != 0; }

// Does the operating system save the tiles and their configuration when it switches threads?
bool tiles_are_saved() {
  if ((CpuidLeaf(1, 0).ecx & bit_OSXSAVE) == 0) return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTileState = 3u << 17;
  return (low & kTileState) == kTileState;
}

// Linux gives the tiles' 8 KiB only to processes that ask, for all their threads.
bool tiles_are_granted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool has_amx_bf16() {
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  constexpr unsigned kBoth = kAmxBf16 | kAmxTile;
  return (CpuidLeaf(7, 0).edx & kBoth) == kBoth && tiles_are_saved() && tiles_are_granted();
}

Isa find_best_isa() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) {
    return Isa::kScalar;
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return Isa::kAvx2;
  }
  if (!__builtin_cpu_supports("avx512vnni")) return Isa::kAvx512;
  if (!has_avx512_bf16()) return Isa::kAvx512Vnni;
  return has_amx_bf16() ? Isa::kAmx : Isa::kAvx512Bf16;
}

}  // namespace

Isa best_isa() {
  static const Isa best = find_best_isa();
  return best;
}

Result<Isa> limited_isa(std::string_view limit) {
  if (limit.empty()) return best_isa();
  for (Isa isa : kAllIsas) {
    if (isa_name(isa) == limit) return std::min(isa, best_isa());
  }
  return fail(ErrorCode::kInvalidArgument, "unknown instruction set '" + std::string(limit) + "'",
              "SUTURE_ISA",
              "use amx, avx512_bf16, avx512_vnni, avx512, avx2 or scalar, or unset it");
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
