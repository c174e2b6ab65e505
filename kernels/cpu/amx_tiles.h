// The matrix tiles of AMX, as instructions: what prefill_amx_inl.h asks for.
//
// Written as assembly: the intrinsics of g++ 12 do not tell the compiler that a tile load reads
// memory and a store writes it, and it drops most of a configuration that it believes unread.
#pragma once

#include <cstdint>

namespace suture {

class AmxTiles {
 public:
  AmxTiles() {
    Configuration configuration;
    asm volatile("ldtilecfg %0" : : "m"(configuration));
  }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
  // Threads with empty tiles are cheaper to switch, and the core may clock higher.
  ~AmxTiles() { asm volatile("tilerelease" : : : "memory"); }

  template <int kTile>
  void load(const void* memory, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(memory), "r"(stride), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  void store(void* memory, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
                 :
                 : "r"(memory), "r"(stride), "i"(kTile)
                 : "memory");
  }
  template <int kSum, int kX, int kW>
  void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kX), "i"(kW));
  }

 private:
  // Palette 1: eight tiles of 16 rows of 64 bytes.
  struct alignas(64) Configuration {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static_assert(sizeof(Configuration) == 64);
};

}  // namespace suture
