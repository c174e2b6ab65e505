#include "bench/engine/engine_report.h"

#include <gtest/gtest.h>

#include "bench/engine/contention.h"

namespace suture {
namespace {

EngineReport made_up() {
  EngineReport r;
  r.model = "small";
  r.threads = 2;
  r.target = "avx2";
  r.prefill = {{512, {200, 190, 210, 5}, {50e9, 40e9, 60e9, 5}, 100e9}};
  r.decode = {512, {20, 19, 21, 5}, {12e9, 11e9, 13e9, 5}};
  r.long_decode = {8192, {10, 9, 11, 5}, {8e9, 7e9, 9e9, 5}};
  r.attention_share = {0.45, 0.4, 0.5, 5};
  r.batch = {{4, {60, 59, 61, 5}, {3, 2.9, 3.1, 5}}};
  r.contention = {{1, 2, {20, 19, 21, 5}, {19, 18, 20, 5}, {0.95, 0.9, 1, 5}}};
  r.limit_bytes_s = 16e9;
  r.limit_flop_s = 200e9;
  r.limit_instruction = "multiply";
  r.resident_bytes = 123'000'000;
  r.load_seconds = 0.5;
  return r;
}

TEST(EngineReportTest, JsonHasEveryFigureAndItsShareOfTheLimit) {
  const nlohmann::json expected = {{"model", "small"},
                                   {"threads", 2},
                                   {"target", "avx2"},
                                   {"prefill",
                                    {{{"tokens", 512},
                                      {"n", 5},
                                      {"tok_s", 200.0},
                                      {"interval", {190.0, 210.0}},
                                      {"gflop_s", 50.0},
                                      {"share_of_limit", 0.25},
                                      {"onednn_bf16_gflop_s", 100.0},
                                      {"share_of_onednn_bf16", 0.5}}}},
                                   {"decode",
                                    {{"history", 512},
                                     {"n", 5},
                                     {"tok_s", 20.0},
                                     {"interval", {19.0, 21.0}},
                                     {"read_gb_s", 12.0},
                                     {"share_of_limit", 0.75}}},
                                   {"long_decode",
                                    {{"history", 8192},
                                     {"n", 5},
                                     {"tok_s", 10.0},
                                     {"interval", {9.0, 11.0}},
                                     {"read_gb_s", 8.0},
                                     {"share_of_limit", 0.5},
                                     {"attention_share", 0.45}}},
                                   {"batch",
                                    {{{"sequences", 4},
                                      {"n", 5},
                                      {"tok_s", 60.0},
                                      {"interval", {59.0, 61.0}},
                                      {"speedup", 3.0},
                                      {"speedup_interval", {2.9, 3.1}}}}},
                                   {"contention",
                                    {{{"cores", 1},
                                      {"threads", 2},
                                      {"n", 5},
                                      {"alone_tok_s", 20.0},
                                      {"together_tok_s", 19.0},
                                      {"ratio", 0.95},
                                      {"ratio_interval", {0.9, 1.0}}}}},
                                   {"limit_gb_s", 16.0},
                                   {"limit_gflop_s", 200.0},
                                   {"limit_instruction", "multiply"},
                                   {"rss_bytes", 123'000'000},
                                   {"load_s", 0.5}};
  EXPECT_EQ(to_json(made_up()), expected) << to_json(made_up()).dump(2);
}

TEST(EngineReportTest, WhatWasNotMeasuredIsLeftOut) {
  EngineReport report = made_up();
  report.long_decode = {};
  report.prefill.front().onednn_flop_s = 0;
  const auto json = to_json(report);
  EXPECT_FALSE(json.contains("long_decode"));
  EXPECT_FALSE(json["prefill"][0].contains("onednn_bf16_gflop_s"));
  EXPECT_EQ(report_table(report).find("oneDNN"), std::string::npos);
}

TEST(EngineReportTest, TableNamesEverything) {
  const std::string table = report_table(made_up());
  for (const char* part :
       {"small, 2 threads, avx2; ready after 0.50 s, 123 MB resident", "prefill 512",
        "50.0 of 200.0 GFLOP/s [#####---------------] 25 %", "100.0 GFLOP/s, 50 %",
        "decode after 512", "12.0 of 16.0 GB/s [###############-----] 75 %", "decode after 8192",
        "share of the time: 45 %", "4 sequences", "3.00 x one alone", "two of 2 on 1 core",
        "95 % (90 to 100)"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
}

TEST(ContentionTest, TogetherCountsUntilTheSlowerIsDone) {
  // 10 tokens: alone 1 s, so 10 tok/s; together 20 tokens in 2.5 s, 8 tok/s.
  const ContentionFigures figures = contention_figures({{1, 2, 2.5}, {1, 2.5, 1}}, 10);
  EXPECT_DOUBLE_EQ(figures.alone_tok_s.median, 10);
  EXPECT_DOUBLE_EQ(figures.together_tok_s.median, 8);
  EXPECT_DOUBLE_EQ(figures.ratio.median, 0.8);
  EXPECT_EQ(figures.ratio.count, 2);
}

}  // namespace
}  // namespace suture
