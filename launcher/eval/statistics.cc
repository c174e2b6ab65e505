#include "launcher/eval/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "models/philox.h"

namespace suture {
namespace {

constexpr double kNormal975 = 1.959963984540054;  // 97.5 % quantile of the normal distribution
constexpr size_t kMostTossedExactly = 20;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// 128 random bits for each counter.
std::array<uint32_t, 4> draw(uint64_t seed, uint64_t round, uint64_t step) {
  return philox_4x32_10({static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32),
                         static_cast<uint32_t>(round), static_cast<uint32_t>(round >> 32)},
                        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// Calls take(index) for as many of `n` items, drawn with replacement.
template <typename Take>
void resample(size_t n, uint64_t seed, uint64_t round, Take take) {
  std::array<uint32_t, 4> bits{};
  for (size_t i = 0; i < n; ++i) {
    if (i % bits.size() == 0) bits = draw(seed, round, i / bits.size());
    // Scaling 32 bits by n favours no item by more than n / 2^32.
    take((uint64_t{bits[i % bits.size()]} * n) >> 32);
  }
}

double resampled_mean(std::span<const double> values, uint64_t seed, uint64_t round) {
  double sum = 0;
  resample(values.size(), seed, round, [&](size_t i) { sum += values[i]; });
  return sum / static_cast<double>(values.size());
}

// The p-quantile of sorted values, linear between two of them.
double quantile(std::span<const double> sorted, double p) {
  const double at = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

// Two-sided probability of at most min(first, second) heads, or tails, in first + second tosses.
double binomial_two_sided(int64_t first, int64_t second) {
  const int64_t n = first + second;
  double log_term = -static_cast<double>(n) * std::log(2.0);  // of 0 heads
  double tail = std::exp(log_term);
  for (int64_t heads = 1; heads <= std::min(first, second); ++heads) {
    log_term += std::log(static_cast<double>(n - heads + 1) / static_cast<double>(heads));
    tail += std::exp(log_term);
  }
  return std::min(1.0, 2 * tail);
}

// Sum of the differences with the signs of round `round`: bit i of `tosses`, or drawn.
double tossed_sum(std::span<const double> differences, uint64_t tosses) {
  double sum = 0;
  for (size_t i = 0; i < differences.size(); ++i)
    sum += (tosses >> i & 1) != 0 ? -differences[i] : differences[i];
  return sum;
}

double drawn_sum(std::span<const double> differences, uint64_t seed, uint64_t round) {
  constexpr size_t kBits = 32;
  double sum = 0;
  for (size_t i = 0; i < differences.size(); i += kBits)
    sum += tossed_sum(differences.subspan(i, std::min(kBits, differences.size() - i)),
                      draw(seed, round, i / kBits)[0]);
  return sum;
}

}  // namespace

Interval wilson_interval(int64_t successes, int64_t n) {
  SUTURE_CHECK(successes >= 0 && successes <= n, "{} of {}", successes, n);
  if (n == 0) return {0, 1};
  const double count = static_cast<double>(n);
  const double p = static_cast<double>(successes) / count;
  const double z2 = kNormal975 * kNormal975;
  const double centre = p + z2 / (2 * count);
  const double spread = kNormal975 * std::sqrt(p * (1 - p) / count + z2 / (4 * count * count));
  const double scale = 1 + z2 / count;
  // Rounding must not leave the range.
  return {std::max(0.0, (centre - spread) / scale), std::min(1.0, (centre + spread) / scale)};
}

Interval bootstrap_interval(std::span<const double> values, uint64_t seed, int rounds) {
  SUTURE_CHECK(rounds > 0, "{} rounds", rounds);
  if (values.empty()) return {};
  std::vector<double> means;
  for (int round = 0; round < rounds; ++round)
    means.push_back(resampled_mean(values, seed, static_cast<uint64_t>(round)));
  std::ranges::sort(means);
  return {quantile(means, 0.025), quantile(means, 0.975)};
}

Interval bootstrap_ratio_interval(std::span<const double> parts, std::span<const double> wholes,
                                  uint64_t seed, int rounds) {
  SUTURE_CHECK(rounds > 0, "{} rounds", rounds);
  SUTURE_CHECK(parts.size() == wholes.size(), "{} of {}", parts.size(), wholes.size());
  if (parts.empty()) return {};
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    double part = 0, whole = 0;
    resample(parts.size(), seed, static_cast<uint64_t>(round), [&](size_t i) {
      part += parts[i];
      whole += wholes[i];
    });
    ratios.push_back(whole > 0 ? part / whole : std::copysign(kInfinity, part));
  }
  std::ranges::sort(ratios);
  return {quantile(ratios, 0.025), quantile(ratios, 0.975)};
}

double mcnemar_exact(const PairedCounts& counts) {
  return binomial_two_sided(counts.only_first, counts.only_second);
}

double sign_test(std::span<const double> differences) {
  return binomial_two_sided(std::ranges::count_if(differences, [](double d) { return d > 0; }),
                            std::ranges::count_if(differences, [](double d) { return d < 0; }));
}

double permutation_test(std::span<const double> differences, uint64_t seed, int rounds) {
  SUTURE_CHECK(rounds > 0, "{} rounds", rounds);
  double sum = 0, size = 0;
  for (const double d : differences) {
    sum += d;
    size += std::abs(d);
  }
  // Sums that are equal but for rounding count as equal.
  const double bound = std::abs(sum) - 1e-12 * size;
  const bool exact = differences.size() <= kMostTossedExactly;
  const uint64_t tosses = exact ? uint64_t{1} << differences.size() : static_cast<uint64_t>(rounds);
  uint64_t as_far = 0;
  for (uint64_t round = 0; round < tosses; ++round) {
    const double tossed =
        exact ? tossed_sum(differences, round) : drawn_sum(differences, seed, round);
    if (std::abs(tossed) >= bound) ++as_far;
  }
  // Of drawn tosses the observed one counts as another, so that p is never 0.
  return exact ? static_cast<double>(as_far) / static_cast<double>(tosses)
               : static_cast<double>(as_far + 1) / static_cast<double>(tosses + 1);
}

}  // namespace suture
