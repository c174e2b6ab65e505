// Which instruction sets Highway compiles a kernel for: AVX-512, AVX2 with FMA, and the baseline.
// Include before any Highway header. The others would cost compile time and gain nothing here.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
