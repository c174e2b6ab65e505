#include "launcher/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace suture {

std::string progress_bar(double share, int width) {
  const int filled = static_cast<int>(share * width);
  std::string bar(static_cast<size_t>(filled), '=');
  if (filled < width) bar += '>';
  bar.resize(static_cast<size_t>(width), ' ');
  return "[" + bar + "]";
}

std::string progress_text(uint64_t done, uint64_t total, double bytes_per_second, int width) {
  const double share = total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / total);
  return fmt::format("{} {:3} %  {} of {} MB  {:.0f} MB/s", progress_bar(share, width),
                     static_cast<int>(share * 100), done / 1'000'000, total / 1'000'000,
                     bytes_per_second / 1e6);
}

std::string duration_text(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

ProgressLine::ProgressLine(std::string title)
    : title_(std::move(title)), terminal_(::isatty(STDERR_FILENO) == 1), started_(Clock::now()) {}

ProgressLine::~ProgressLine() {
  if (drawn_ && terminal_) fmt::print(stderr, "\n");
}

void ProgressLine::update(uint64_t done_bytes, uint64_t total_bytes) {
  constexpr int kWidth = 30;
  constexpr auto kRedraw = std::chrono::milliseconds(100);
  const auto now = Clock::now();
  const bool last = done_bytes == total_bytes;
  const uint64_t tenth = total_bytes == 0 ? 10 : done_bytes * 10 / total_bytes;
  if (!drawn_) first_bytes_ = done_bytes;
  if (drawn_ && (terminal_ ? now - shown_ < kRedraw && !last : tenth == shown_tenth_)) return;
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const double rate =
      seconds > 0 ? static_cast<double>(done_bytes - std::min(first_bytes_, done_bytes)) / seconds
                  : 0;
  const std::string text = progress_text(done_bytes, total_bytes, rate, kWidth);
  fmt::print(stderr, "{}{} {}{}", terminal_ ? "\r" : "", title_, text, terminal_ ? "" : "\n");
  std::fflush(stderr);
  drawn_ = true;
  shown_ = now;
  shown_tenth_ = tenth;
}

StepProgress::StepProgress(std::string title)
    : title_(std::move(title)), terminal_(::isatty(STDERR_FILENO) == 1) {}

StepProgress::~StepProgress() {
  if (shown_tenth_ >= 0 && terminal_) fmt::print(stderr, "\n");
}

void StepProgress::update(std::string_view what, int64_t done, int64_t total) {
  constexpr int kWidth = 30;
  const double share = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  const auto tenth = static_cast<int64_t>(10 * share);
  if (!terminal_ && tenth == shown_tenth_) return;
  // Spaces cover what a longer name has left behind.
  fmt::print(stderr, "{}{} {} {:3.0f} %  {:<12}{}", terminal_ ? "\r" : "", title_,
             progress_bar(share, kWidth), 100 * share, what, terminal_ ? "" : "\n");
  std::fflush(stderr);
  shown_tenth_ = tenth;
}

}  // namespace suture
