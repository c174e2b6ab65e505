#include "bench/engine/engine_report.h"

#include <fmt/format.h>

#include "launcher/bench/engine_figures.h"

namespace suture {
namespace {

constexpr double kGiga = 1e9;
constexpr int kBarWidth = 20;

nlohmann::json interval(const Estimate& e) { return {e.low, e.high}; }

nlohmann::json to_json(const PrefillFigures& f, double limit_flop_s) {
  nlohmann::json json = {{"tokens", f.tokens},
                         {"n", f.tok_s.count},
                         {"tok_s", f.tok_s.median},
                         {"interval", interval(f.tok_s)},
                         {"gflop_s", f.flop_s.median / kGiga},
                         {"share_of_limit", f.flop_s.median / limit_flop_s}};
  if (f.onednn_flop_s > 0) {
    json["onednn_bf16_gflop_s"] = f.onednn_flop_s / kGiga;
    json["share_of_onednn_bf16"] = f.flop_s.median / f.onednn_flop_s;
  }
  return json;
}

nlohmann::json to_json(const DecodeFigures& f, double limit_bytes_s) {
  return {{"history", f.history},
          {"n", f.tok_s.count},
          {"tok_s", f.tok_s.median},
          {"interval", interval(f.tok_s)},
          {"read_gb_s", f.bytes_s.median / kGiga},
          {"share_of_limit", f.bytes_s.median / limit_bytes_s}};
}

nlohmann::json to_json(const BatchFigures& f) {
  return {{"sequences", f.sequences},    {"n", f.tok_s.count},
          {"tok_s", f.tok_s.median},     {"interval", interval(f.tok_s)},
          {"speedup", f.speedup.median}, {"speedup_interval", interval(f.speedup)}};
}

nlohmann::json to_json(const ContentionFigures& f) {
  return {{"cores", f.cores},
          {"threads", f.threads},
          {"n", f.ratio.count},
          {"alone_tok_s", f.alone_tok_s.median},
          {"together_tok_s", f.together_tok_s.median},
          {"ratio", f.ratio.median},
          {"ratio_interval", interval(f.ratio)}};
}

std::string rate_row(std::string_view name, const Estimate& tok_s, const Estimate& used,
                     double limit, std::string_view unit) {
  const double share = used.median / limit;
  return fmt::format("{:<22}{:>8.1f}  {:>8.1f} to {:<8.1f}{:>8.1f} of {:.1f} {} {} {:.0f} %\n",
                     name, tok_s.median, tok_s.low, tok_s.high, used.median / kGiga, limit / kGiga,
                     unit, share_bar(share, kBarWidth), 100 * share);
}

std::string prefill_rows(const EngineReport& report) {
  std::string rows;
  for (const PrefillFigures& f : report.prefill) {
    rows += rate_row(fmt::format("prefill {}", f.tokens), f.tok_s, f.flop_s, report.limit_flop_s,
                     "GFLOP/s");
    if (f.onednn_flop_s > 0)
      rows += fmt::format("{:<22}bf16 products of oneDNN, same shapes: {:.1f} GFLOP/s, {:.0f} %\n",
                          "", f.onednn_flop_s / kGiga, 100 * f.flop_s.median / f.onednn_flop_s);
  }
  return rows;
}

std::string decode_rows(const EngineReport& report) {
  std::string rows;
  for (const DecodeFigures* f : {&report.decode, &report.long_decode})
    if (f->tok_s.count > 0)
      rows += rate_row(fmt::format("decode after {}", f->history), f->tok_s, f->bytes_s,
                       report.limit_bytes_s, "GB/s");
  if (report.long_decode.tok_s.count > 0)
    rows += fmt::format("{:<22}history's share of the time: {:.0f} %\n", "",
                        100 * report.attention_share.median);
  return rows;
}

}  // namespace

nlohmann::json to_json(const EngineReport& report) {
  nlohmann::json json = {{"model", report.model},
                         {"threads", report.threads},
                         {"target", report.target},
                         {"decode", to_json(report.decode, report.limit_bytes_s)},
                         {"limit_gb_s", report.limit_bytes_s / kGiga},
                         {"limit_gflop_s", report.limit_flop_s / kGiga},
                         {"limit_instruction", report.limit_instruction},
                         {"rss_bytes", report.resident_bytes},
                         {"load_s", report.load_seconds}};
  for (const char* list : {"prefill", "batch", "contention"}) json[list] = nlohmann::json::array();
  for (const auto& f : report.prefill) json["prefill"].push_back(to_json(f, report.limit_flop_s));
  for (const auto& f : report.batch) json["batch"].push_back(to_json(f));
  for (const auto& f : report.contention) json["contention"].push_back(to_json(f));
  if (report.long_decode.tok_s.count > 0) {
    json["long_decode"] = to_json(report.long_decode, report.limit_bytes_s);
    json["long_decode"]["attention_share"] = report.attention_share.median;
  }
  return json;
}

std::string report_table(const EngineReport& report) {
  std::string table =
      fmt::format("{}, {} {}, {}; ready after {:.2f} s, {:.0f} MB resident\n", report.model,
                  report.threads, report.threads == 1 ? "thread" : "threads", report.target,
                  report.load_seconds, static_cast<double>(report.resident_bytes) / 1e6);
  table += fmt::format("{:<22}{:>8}  {:>20}  {}\n", "", "tok/s", "interval",
                       "used of what the machine allows");
  table += prefill_rows(report) + decode_rows(report);
  for (const BatchFigures& f : report.batch)
    table += fmt::format("{:<22}{:>8.1f}  {:>8.1f} to {:<8.1f}{:>8.2f} x one alone\n",
                         fmt::format("{} sequences", f.sequences), f.tok_s.median, f.tok_s.low,
                         f.tok_s.high, f.speedup.median);
  for (const ContentionFigures& f : report.contention)
    table += fmt::format(
        "{:<22}{:>8.1f}  alone {:.1f}: {:.0f} % ({:.0f} to {:.0f})\n",
        fmt::format("two of {} on {} {}", f.threads, f.cores, f.cores == 1 ? "core" : "cores"),
        f.together_tok_s.median, f.alone_tok_s.median, 100 * f.ratio.median, 100 * f.ratio.low,
        100 * f.ratio.high);
  return table;
}

}  // namespace suture
