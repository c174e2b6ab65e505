#include "launcher/answer_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "models/unicode.h"

namespace suture {
namespace {

using Row = std::vector<std::string>;

constexpr size_t kShownOfDraft = 2000;  // bytes
constexpr size_t kTextColumns = 2;      // the first ones are left-aligned
constexpr int kProjectionColumn = 4;

// In one line.
std::string shown(const DraftedText& draft) {
  std::string text = draft.text;
  std::ranges::replace(text, '\n', ' ');
  return fmt::format("'{}' {} {} tokens in {:.2f} s: {}", draft.slave,
                     draft.handed_over ? "handed over" : "drafted", draft.token_ids.size(),
                     draft.seconds, printable(text, kShownOfDraft));
}

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / 1e6);
}

std::string decode_rate(const ProcessFigures& figures) {
  if (figures.decoded_tokens == 0 || figures.decode_seconds <= 0) return "-";
  return fmt::format("{:.2f}",
                     static_cast<double>(figures.decoded_tokens) / figures.decode_seconds);
}

Row row_of(const ProcessFigures& figures, bool with_projection) {
  Row row = {figures.name,
             figures.role,
             fmt::to_string(figures.prompt_tokens),
             fmt::format("{:.2f}", figures.prefill_seconds),
             decode_rate(figures),
             figures.bus_waits == 0
                 ? "0"
                 : fmt::format("{} ({:.2f} s)", figures.bus_waits, figures.bus_wait_seconds),
             megabytes(figures.kv_bytes_published),
             megabytes(figures.kv_bytes_read),
             megabytes(figures.resident_bytes)};
  if (with_projection)
    row.insert(
        row.begin() + kProjectionColumn,
        figures.projection_seconds > 0 ? fmt::format("{:.2f}", figures.projection_seconds) : "-");
  return row;
}

// All rows as long as the first, which holds the titles.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const Row& row : rows)
    for (size_t c = 0; c < widths.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string table;
  for (const Row& row : rows) {
    for (size_t c = 0; c < widths.size(); ++c) {
      if (c > 0) table += "  ";
      table += c < kTextColumns ? fmt::format("{:<{}}", row[c], widths[c])
                                : fmt::format("{:>{}}", row[c], widths[c]);
    }
    table += '\n';
  }
  return table;
}

}  // namespace

std::vector<std::string> answer_notes(const Answer& answer) {
  std::vector<std::string> notes;
  for (const DraftedText& draft : answer.drafts) notes.push_back(shown(draft));
  for (const Degraded& lost : answer.degraded)
    notes.push_back(
        fmt::format("went on without '{}' from token {}: {}", lost.slave, lost.token, lost.why));
  for (const Replayed& replay : answer.replayed)
    notes.push_back(
        fmt::format("went on with another master from token {}, which may say other "
                    "things than the first would have: {}",
                    replay.token, replay.why));
  for (const std::string& what : answer.forced) notes.push_back("used by force: " + what);
  if (answer.reason == FinishReason::kLength)
    notes.push_back(
        fmt::format("stopped after {} tokens; -n asks for more", answer.token_ids.size()));
  if (answer.reason == FinishReason::kDeadline)
    notes.push_back(fmt::format("ended by its deadline after {:.1f} s", answer.seconds));
  return notes;
}

std::string answer_table(std::span<const ProcessFigures> figures) {
  const bool with_projection = std::ranges::any_of(
      figures, [](const ProcessFigures& process) { return process.projection_seconds > 0; });
  std::vector<Row> rows = {{"process", "role", "prompt tokens", "prefill s", "decode tok/s",
                            "bus waits", "K/V out (MB)", "K/V in (MB)", "memory (MB)"}};
  if (with_projection) rows[0].insert(rows[0].begin() + kProjectionColumn, "projection s");
  for (const ProcessFigures& process : figures) rows.push_back(row_of(process, with_projection));
  return aligned(rows);
}

std::string chat_table(std::span<const ProcessFigures> figures) {
  std::vector<Row> rows = {
      {"process", "role", "tokens read", "reused", "generated", "prefill s", "decode tok/s"}};
  for (const ProcessFigures& process : figures)
    rows.push_back({process.name, process.role, fmt::to_string(process.prompt_tokens),
                    fmt::to_string(process.reused_tokens), fmt::to_string(process.decoded_tokens),
                    fmt::format("{:.2f}", process.prefill_seconds), decode_rate(process)});
  return aligned(rows);
}

}  // namespace suture
