#include "launcher/line_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <utility>

namespace suture {
namespace {

std::pair<LineSocket, LineSocket> connected(LineLimits limits = {}) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {LineSocket(UniqueFd(ends[0])), LineSocket(UniqueFd(ends[1]), limits)};
}

void send_raw(const LineSocket& socket, const std::string& bytes) {
  EXPECT_EQ(::send(socket.fd(), bytes.data(), bytes.size(), 0), std::ssize(bytes));
}

TEST(LineSocketTest, ValuesComeOneByOneHoweverTheyAreCut) {
  auto [a, b] = connected();
  ASSERT_TRUE(a.send({{"text", "line\nfeed 苏州"}}));
  send_raw(a, "{\"x\":");
  EXPECT_EQ((**b.receive(-1))["text"], "line\nfeed 苏州");
  const auto nothing = b.receive(0);
  ASSERT_TRUE(nothing.has_value());
  EXPECT_FALSE(nothing->has_value());
  send_raw(a, "1}\n[2]\n");
  EXPECT_EQ((**b.receive(-1))["x"], 1);
  EXPECT_EQ((**b.receive(-1))[0], 2);
}

TEST(LineSocketTest, WhatIsNotJsonIsCorrupt) {
  auto [a, b] = connected();
  send_raw(a, "{\"x\": nonsense}\n");
  const auto line = b.receive(-1);
  ASSERT_FALSE(line.has_value());
  EXPECT_EQ(line.error().code, ErrorCode::kCorrupt);
}

TEST(LineSocketTest, LongAndDeepLinesAreCorrupt) {
  auto [a, b] = connected({.max_bytes = 100, .max_depth = 3});
  send_raw(a, R"({"x":{"y":{"z":1}}})"
              "\n");
  EXPECT_EQ((**b.receive(-1))["x"]["y"]["z"], 1);
  send_raw(a, R"({"x":{"y":{"z":[1]}}})"
              "\n");
  EXPECT_EQ(b.receive(-1).error().code, ErrorCode::kCorrupt);
  send_raw(a, std::string(50, ' '));
  EXPECT_TRUE(b.receive(0).has_value());
  send_raw(a, std::string(51, ' '));
  EXPECT_EQ(b.receive(0).error().code, ErrorCode::kCorrupt);
}

TEST(LineSocketTest, AnotherSideThatReadsNothingIsGivenUp) {
  auto [a, b] = connected({.send_patience_ms = 10});
  const nlohmann::json text = {{"text", std::string(1 << 20, 'x')}};
  EXPECT_EQ(b.send(text).error().code, ErrorCode::kTimeout);
}

TEST(LineSocketTest, TheEndIsClosedOnBothSides) {
  auto [a, b] = connected();
  { const LineSocket gone = std::move(a); }
  EXPECT_EQ(b.receive(-1).error().code, ErrorCode::kClosed);
  EXPECT_EQ(b.send({{"x", 1}}).error().code, ErrorCode::kClosed);
}

}  // namespace
}  // namespace suture
