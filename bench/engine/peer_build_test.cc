#include "bench/engine/peer_build.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

TEST(PeerBuildTest, FlagsAreWhatTheProcessorHas) {
  const std::string flags = peer_cmake_flags({"fpu", "avx", "avx2", "avx512_vnni", "amx_tile"});
  EXPECT_EQ(flags.rfind("-DGGML_NATIVE=OFF ", 0), 0u) << flags;
  for (const char* on : {"AVX=ON", "AVX2=ON", "AVX512_VNNI=ON", "AMX_TILE=ON"})
    EXPECT_NE(flags.find(std::string(" -DGGML_") + on), std::string::npos) << on;
  for (const char* off : {"AVX512=OFF", "AVX512_BF16=OFF", "AVX_VNNI=OFF", "AMX_BF16=OFF"})
    EXPECT_NE(flags.find(std::string(" -DGGML_") + off), std::string::npos) << off;
}

TEST(PeerBuildTest, ThisProcessorHasFlags) {
  EXPECT_TRUE(cpu_flags().contains("sse2"));  // as every x86-64 has
}

}  // namespace
}  // namespace suture
