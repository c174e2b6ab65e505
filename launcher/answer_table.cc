#include "launcher/answer_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace suture {
namespace {

constexpr size_t kColumns = 9;
using Row = std::array<std::string, kColumns>;

constexpr std::array<std::string_view, kColumns> kTitles = {
    "process",   "role",         "prompt tokens", "prefill s",  "decode tok/s",
    "bus waits", "K/V out (MB)", "K/V in (MB)",   "memory (MB)"};
constexpr size_t kTextColumns = 2;  // the first ones are left-aligned

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / 1e6);
}

Row row_of(const ProcessFigures& figures) {
  const bool decoded = figures.decoded_tokens > 0 && figures.decode_seconds > 0;
  return {figures.name,
          figures.role,
          fmt::to_string(figures.prompt_tokens),
          fmt::format("{:.2f}", figures.prefill_seconds),
          decoded ? fmt::format("{:.2f}", static_cast<double>(figures.decoded_tokens) /
                                              figures.decode_seconds)
                  : "-",
          figures.bus_waits == 0
              ? "0"
              : fmt::format("{} ({:.2f} s)", figures.bus_waits, figures.bus_wait_seconds),
          megabytes(figures.kv_bytes_published),
          megabytes(figures.kv_bytes_read),
          megabytes(figures.resident_bytes)};
}

}  // namespace

std::string answer_table(std::span<const ProcessFigures> figures) {
  std::vector<Row> rows(1);
  std::copy(kTitles.begin(), kTitles.end(), rows[0].begin());
  for (const ProcessFigures& process : figures) rows.push_back(row_of(process));
  std::array<size_t, kColumns> widths{};
  for (const Row& row : rows)
    for (size_t c = 0; c < kColumns; ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string table;
  for (const Row& row : rows) {
    for (size_t c = 0; c < kColumns; ++c) {
      if (c > 0) table += "  ";
      table += c < kTextColumns ? fmt::format("{:<{}}", row[c], widths[c])
                                : fmt::format("{:>{}}", row[c], widths[c]);
    }
    table += '\n';
  }
  return table;
}

}  // namespace suture
