#include "bus/warning_limit.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace suture {
namespace {

// What came from the other side must not steer a terminal or forge lines.
std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, '?');
  return text;
}

}  // namespace

WarningLimit::~WarningLimit() {
  for (const auto& [kind, state] : kinds_) {
    if (state.left_out > 0) spdlog::warn("{}: {}: {} left out", source_, kind, state.left_out);
  }
}

void WarningLimit::warn(std::string_view kind, std::string_view text) {
  if (const auto let_through = line(kind, text, Clock::now())) spdlog::warn("{}", *let_through);
}

std::optional<std::string> WarningLimit::line(std::string_view kind, std::string_view text,
                                              Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  auto found = kinds_.find(kind);
  if (found == kinds_.end()) found = kinds_.emplace(kind, Kind()).first;
  Kind& state = found->second;
  if (state.last && now - *state.last < std::chrono::seconds(1)) {
    ++state.left_out;
    return std::nullopt;
  }
  state.last = now;
  const uint64_t left_out = std::exchange(state.left_out, 0);
  const std::string more = left_out > 0 ? fmt::format(", and {} more before", left_out) : "";
  return printable(fmt::format("{}: {}: {}{}", source_, kind, text, more));
}

}  // namespace suture
