#include "launcher/attention_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace suture {
namespace {

constexpr size_t kTopLayers = 3;

// What a table has a row or a column for.
struct Part {
  size_t topic = 0;
  size_t reader = 0;
  std::string title;
};

std::vector<Part> parts_of(const AttentionShares& shares) {
  std::vector<Part> parts;
  for (size_t topic = 0; topic < shares.topics(); ++topic)
    for (size_t reader = 0; reader < shares.readers.size(); ++reader) {
      if (topic > 0 && shares.mean(topic, reader) == 0) continue;
      std::string title = shares.readers[reader];
      if (reader == 0) title += " (own)";
      if (topic > 0) title = fmt::format("\"{}\" in {}", shares.keywords[topic - 1], title);
      parts.push_back({topic, reader, std::move(title)});
    }
  return parts;
}

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

std::string top_layers(const AttentionShares& shares, const Part& part) {
  std::vector<size_t> layers(static_cast<size_t>(shares.n_layers));
  std::iota(layers.begin(), layers.end(), size_t{0});
  const auto share = [&](size_t layer) { return shares.share(part.topic, layer, part.reader); };
  std::ranges::stable_sort(layers, [&](size_t a, size_t b) { return share(a) > share(b); });
  layers.resize(std::min(layers.size(), kTopLayers));
  std::string text;
  for (const size_t layer : layers)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", layer, percent(share(layer)));
  return text;
}

// What stands between the bars of a Markdown table.
std::string cell(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '|') safe += '\\';
    safe += letter == '\n' ? ' ' : letter;
  }
  return safe;
}

}  // namespace

std::string attention_table(const AttentionShares& shares) {
  const std::vector<Part> parts = parts_of(shares);
  size_t width = std::string_view("looks at").size();
  for (const Part& part : parts) width = std::max(width, part.title.size());
  std::string table = fmt::format("{:<{}}  {:>7}  most in layers\n", "looks at", width, "share %");
  for (const Part& part : parts)
    table += fmt::format("{:<{}}  {:>7}  {}\n", part.title, width,
                         percent(shares.mean(part.topic, part.reader)), top_layers(shares, part));
  return table;
}

std::string attention_markdown(const AttentionShares& shares) {
  const std::vector<Part> parts = parts_of(shares);
  std::string titles = "| layer |";
  std::string rule = "|---|";
  std::string means = "| all |";
  for (const Part& part : parts) {
    titles += fmt::format(" {} |", cell(part.title));
    rule += "---|";
    means += fmt::format(" {} |", percent(shares.mean(part.topic, part.reader)));
  }
  std::string table = titles + "\n" + rule + "\n" + means + "\n";
  for (size_t layer = 0; layer < static_cast<size_t>(shares.n_layers); ++layer) {
    table += fmt::format("| {} |", layer);
    for (const Part& part : parts)
      table += fmt::format(" {} |", percent(shares.share(part.topic, layer, part.reader)));
    table += "\n";
  }
  return table;
}

}  // namespace suture
