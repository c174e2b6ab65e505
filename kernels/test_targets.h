// Runs a test once for each instruction set that the kernels are compiled for and this CPU has.
#pragma once

#include "kernels/cpu/simd_targets.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <vector>

namespace suture {

template <class Test>
void for_each_target(const Test& test) {
  std::vector<int64_t> targets = {HWY_SCALAR};
  for (int64_t target : {HWY_AVX2, HWY_AVX3}) {
    if (hwy::SupportedTargets() & target) targets.push_back(target);
  }
  for (int64_t target : targets) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    test();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace suture
