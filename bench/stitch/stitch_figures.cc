#include "bench/stitch/stitch_figures.h"

#include <fmt/format.h>

#include <utility>

namespace suture {
namespace {

template <typename Value>
Estimate estimate_of(const std::vector<StitchRound>& rounds, Value value) {
  std::vector<double> values;
  values.reserve(rounds.size());
  for (const StitchRound& round : rounds) values.push_back(value(round));
  return estimate(std::move(values));
}

nlohmann::json percent(const Estimate& e) {
  return {{"percent", 100 * e.median}, {"interval", {100 * e.low, 100 * e.high}}};
}

std::string row(std::string_view name, const Estimate& tok_s) {
  return fmt::format("{:<36}{:>8.2f} tok/s  {:.2f} to {:.2f}\n", name, tok_s.median, tok_s.low,
                     tok_s.high);
}

std::string row_with(std::string_view name, const Estimate& tok_s, std::string_view against,
                     const Estimate& overhead) {
  std::string text = row(name, tok_s);
  text.pop_back();
  return text + fmt::format("  {:+.1f} % a token against {} ({:+.1f} to {:+.1f})\n",
                            100 * overhead.median, against, 100 * overhead.low,
                            100 * overhead.high);
}

}  // namespace

StitchFigures stitch_figures(const std::vector<StitchRound>& rounds) {
  using R = StitchRound;
  StitchFigures f;
  f.stitched_tok_s = estimate_of(rounds, [](const R& r) { return r.stitched; });
  f.alone_as_many_tok_s = estimate_of(rounds, [](const R& r) { return r.alone_as_many; });
  f.alone_tok_s = estimate_of(rounds, [](const R& r) { return r.alone; });
  f.silent_tok_s = estimate_of(rounds, [](const R& r) { return r.silent; });
  f.overhead_as_many =
      estimate_of(rounds, [](const R& r) { return r.alone_as_many / r.stitched - 1; });
  f.overhead = estimate_of(rounds, [](const R& r) { return r.alone / r.stitched - 1; });
  f.silent_overhead = estimate_of(rounds, [](const R& r) { return r.alone / r.silent - 1; });
  return f;
}

std::string stitch_table(const StitchFigures& f) {
  const std::string as_many = fmt::format("alone, {} own", 2 * f.tokens);
  const std::string alone = fmt::format("alone, {} own", f.tokens);
  return fmt::format("{} stitched to {}, one thread each; medians of {} rounds\n", f.model,
                     f.slave == f.model ? "itself" : f.slave, f.stitched_tok_s.count) +
         row(as_many, f.alone_as_many_tok_s) + row(alone, f.alone_tok_s) +
         row_with(fmt::format("stitched, {0} own and {0} foreign", f.tokens), f.stitched_tok_s,
                  as_many, f.overhead_as_many) +
         row_with(fmt::format("stitched, {0} own and {0} foreign", f.tokens), f.stitched_tok_s,
                  alone, f.overhead) +
         row_with(fmt::format("gain -inf, {} own", f.tokens), f.silent_tok_s, alone,
                  f.silent_overhead);
}

nlohmann::json to_json(const StitchFigures& f) {
  return {{"model", f.model},
          {"slave", f.slave},
          {"tokens", f.tokens},
          {"n", f.stitched_tok_s.count},
          {"stitched_tok_s", f.stitched_tok_s.median},
          {"alone_as_many_tok_s", f.alone_as_many_tok_s.median},
          {"alone_tok_s", f.alone_tok_s.median},
          {"silent_tok_s", f.silent_tok_s.median},
          {"overhead_against_as_many", percent(f.overhead_as_many)},
          {"overhead_against_alone", percent(f.overhead)},
          {"overhead_of_silent", percent(f.silent_overhead)}};
}

}  // namespace suture
