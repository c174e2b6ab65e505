// Intervals and paired tests for what an evaluation counts.
#pragma once

#include <cstdint>
#include <span>

namespace suture {

struct Interval {
  double low = 0;
  double high = 0;
};

// 95 % interval of a proportion (Wilson, 1927). [0, 1] for n = 0.
Interval wilson_interval(int64_t successes, int64_t n);

// 95 % interval of the mean: the middle of the means of `rounds` samples drawn from `values` with
// replacement (percentile bootstrap). Draws depend on the seed only. [0, 0] without values.
Interval bootstrap_interval(std::span<const double> values, uint64_t seed, int rounds = 10'000);

// The same of sum(parts) / sum(wholes), both of the same items. Not finite where too many
// samples' wholes add up to nothing.
Interval bootstrap_ratio_interval(std::span<const double> parts, std::span<const double> wholes,
                                  uint64_t seed, int rounds = 10'000);

// Pairs of right and wrong answers to the same items by two arms.
struct PairedCounts {
  int64_t both = 0;
  int64_t only_first = 0;
  int64_t only_second = 0;
  int64_t neither = 0;
};

// Exact McNemar test, two-sided: how probable at least such a difference is if either arm is as
// likely to be the only right one.
double mcnemar_exact(const PairedCounts& counts);

// Sign test, two-sided, of paired differences; zeros say nothing.
double sign_test(std::span<const double> differences);

// Permutation test, two-sided: how often the sum of the differences is as far from zero when every
// sign is tossed. All tosses for up to 20 differences, `rounds` seeded ones for more.
double permutation_test(std::span<const double> differences, uint64_t seed, int rounds = 100'000);

}  // namespace suture
