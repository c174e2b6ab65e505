#include "bench/load/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace suture {
namespace {

constexpr double kJudgedSeconds = 600;
constexpr double kMaxGrowth = 1 << 20;     // bytes a minute
constexpr int64_t kEnoughToBeStarved = 5;  // requests that the others have ended on average
constexpr double kMega = 1e6;

int64_t sum(const std::vector<ClientTally>& clients, int64_t ClientTally::*count) {
  return std::accumulate(
      clients.begin(), clients.end(), int64_t{0},
      [&](int64_t before, const ClientTally& client) { return before + client.*count; });
}

std::vector<double> each(const std::vector<ClientTally>& clients, int64_t ClientTally::*count) {
  std::vector<double> values;
  for (const ClientTally& client : clients) values.push_back(static_cast<double>(client.*count));
  return values;
}

Quantiles all(const std::vector<ClientTally>& clients, std::vector<double> ClientTally::*list) {
  std::vector<double> values;
  for (const ClientTally& client : clients)
    values.insert(values.end(), (client.*list).begin(), (client.*list).end());
  return quantiles(std::move(values));
}

struct TimeRow {
  const char* name;
  const char* key;
  std::vector<double> ClientTally::*list;
};

constexpr TimeRow kTimes[] = {
    {"first token, from asking", "first_token_s", &ClientTally::first_token_seconds},
    {"first token, from its turn", "first_token_without_wait_s", &ClientTally::computed_seconds},
    {"waiting for its turn", "waited_s", &ClientTally::waited_seconds},
    {"between two pieces", "between_pieces_s", &ClientTally::gaps},
    {"whole answer", "answer_s", &ClientTally::request_seconds}};

struct CountColumn {
  const char* name;
  const char* key;
  int64_t ClientTally::*count;
};

constexpr CountColumn kCounts[] = {
    {"as alone", "completed", &ClientTally::completed},
    {"cancelled", "cancelled", &ClientTally::cancelled},
    {"ended by their deadline", "ended_by_deadline", &ClientTally::ended_by_deadline},
    {"too late for a turn", "timeouts", &ClientTally::timeouts},
    {"hung up", "hung_up", &ClientTally::hung_up},
    {"of a conversation read again", "read_again", &ClientTally::read_again},
    {"refused with a hint", "refusals", &ClientTally::refusals}};

std::string process_row(const ProcessHistory& history) {
  if (history.samples.empty()) return {};
  const Slope growth = history.growth();
  const auto most = [&](int64_t ProcessSample::*count) {
    return (*std::ranges::max_element(history.samples, {}, count)).*count;
  };
  const ProcessSample& first = history.samples.front();
  const ProcessSample& last = history.samples.back();
  return fmt::format(
      "  {:<20}{:>8.1f}{:>8.1f}{:>8.1f}{:>8.1f}{:>8.2f}  {:>7.2f} to {:<7.2f}{:>6}{:>9}\n",
      history.name, first.pss_bytes / kMega, last.pss_bytes / kMega, first.heap_bytes / kMega,
      last.heap_bytes / kMega, growth.slope / kMega, growth.low / kMega, growth.high / kMega,
      most(&ProcessSample::files), most(&ProcessSample::threads));
}

nlohmann::json process_json(const ProcessHistory& history) {
  nlohmann::json json = {{"name", history.name},
                         {"heap_bytes_per_minute", to_json(history.growth())},
                         {"samples", nlohmann::json::array()}};
  for (size_t i = 0; i < history.samples.size(); ++i)
    json["samples"].push_back({{"seconds", history.seconds[i]},
                               {"pss_bytes", history.samples[i].pss_bytes},
                               {"heap_bytes", history.samples[i].heap_bytes},
                               {"files", history.samples[i].files},
                               {"threads", history.samples[i].threads}});
  return json;
}

}  // namespace

std::vector<std::string> faults_of(const StageReport& report) {
  std::vector<std::string> faults;
  int64_t ended = 0;
  for (const ClientTally& client : report.clients) {
    faults.insert(faults.end(), client.faults.begin(), client.faults.end());
    ended += client.ended();
  }
  const int64_t fair = ended / std::max<int64_t>(1, std::ssize(report.clients));
  for (size_t i = 0; i < report.clients.size(); ++i)
    if (report.clients[i].ended() == 0 && fair >= kEnoughToBeStarved)
      faults.push_back(fmt::format("client {} was starved: others ended {} requests", i, fair));
  for (const ProcessHistory& process : report.processes)
    if (report.seconds >= kJudgedSeconds && process.growth().low > kMaxGrowth)
      faults.push_back(fmt::format("{} grows by {:.1f} MB a minute", process.name,
                                   process.growth().slope / kMega));
  return faults;
}

std::string stage_table(const StageReport& report) {
  std::string text =
      fmt::format("\n{} clients, {:.1f} s\n ", report.clients.size(), report.seconds);
  for (const CountColumn& column : kCounts)
    text += fmt::format(" {} {}{}", sum(report.clients, column.count), column.name,
                        &column == std::end(kCounts) - 1 ? "\n" : ",");
  const int64_t tokens = sum(report.clients, &ClientTally::completed_tokens);
  const auto answers = each(report.clients, &ClientTally::completed);
  const auto [fewest, most] = std::ranges::minmax(answers);
  text += fmt::format("  {:.1f} tokens/s in answers that were completed\n",
                      static_cast<double>(tokens) / report.seconds);
  text +=
      fmt::format("  shares (Jain's index): answers {:.3f} ({} to {} a client), tokens {:.3f}\n",
                  jain_index(answers), fewest, most,
                  jain_index(each(report.clients, &ClientTally::completed_tokens)));
  text += fmt::format("\n  {:<26}{:>10}{:>10}{:>10}\n", "", "p50 ms", "p99 ms", "count");
  for (const TimeRow& row : kTimes) {
    const Quantiles found = all(report.clients, row.list);
    text += fmt::format("  {:<26}{:>10.1f}{:>10.1f}{:>10}\n", row.name, found.p50 * 1e3,
                        found.p99 * 1e3, found.count);
  }
  text += fmt::format("\n  {:<20}{:>8}{:>8}{:>8}{:>8}{:>8}  {:<18}{:>6}{:>9}\n", "", "PSS MB",
                      "then", "heap MB", "then", "MB/min", "with 95 % within", "files", "threads");
  for (const ProcessHistory& process : report.processes) text += process_row(process);
  for (const std::string& fault : report.faults) text += fmt::format("  FAULT {}\n", fault);
  return text;
}

nlohmann::json to_json(const StageReport& report) {
  nlohmann::json json = {{"clients", report.clients.size()},
                         {"seconds", report.seconds},
                         {"completed_tokens", sum(report.clients, &ClientTally::completed_tokens)},
                         {"faults", report.faults},
                         {"processes", nlohmann::json::array()}};
  for (const CountColumn& column : kCounts) json[column.key] = sum(report.clients, column.count);
  for (const TimeRow& row : kTimes) json[row.key] = to_json(all(report.clients, row.list));
  const auto answers = each(report.clients, &ClientTally::completed);
  json["shares"] = {
      {"answers_jain", jain_index(answers)},
      {"tokens_jain", jain_index(each(report.clients, &ClientTally::completed_tokens))},
      {"answers", answers}};
  for (const ProcessHistory& process : report.processes)
    json["processes"].push_back(process_json(process));
  return json;
}

}  // namespace suture
