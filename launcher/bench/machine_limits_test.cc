#include "launcher/bench/machine_limits.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

TEST(MachineLimitsTest, BestOfAllMeasurementsIsKept) {
  MachineLimits limits = MachineLimits::create(2, best_isa(), 4 << 20).value();
  EXPECT_EQ(limits.read_bytes_per_second(), 0);
  EXPECT_EQ(limits.peak_flop_per_second(), 0);
  double read = 0;
  double peak = 0;
  for (int i = 0; i < 3; ++i) {
    limits.measure_read();
    limits.measure_peak();
    EXPECT_GE(limits.read_bytes_per_second(), read);
    EXPECT_GE(limits.peak_flop_per_second(), peak);
    read = limits.read_bytes_per_second();
    peak = limits.peak_flop_per_second();
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(peak, 0);
}

TEST(MachineLimitsTest, TooMuchMemoryIsAnError) {
  const auto limits = MachineLimits::create(1, Isa::kScalar, size_t{1} << 60);
  ASSERT_FALSE(limits);
  EXPECT_EQ(limits.error().code, ErrorCode::kIo);
}

TEST(PeakLoopTest, EveryInstructionSetThatRunsHereHasOne) {
  for (const Isa isa : kAllIsas) {
    const PeakLoop loop = peak_loop(isa);
    EXPECT_FALSE(loop.instruction.empty());
    EXPECT_GT(loop.flop_per_turn, 0);
    ASSERT_NE(loop.run, nullptr);
    if (isa <= best_isa()) loop.run(10);
  }
}

}  // namespace
}  // namespace suture
