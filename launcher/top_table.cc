#include "launcher/top_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace suture {
namespace {

uint64_t allocated_bytes(const SlabFigures& slab) { return slab.blocks_used * slab.block_bytes; }

// Counters only grow; a process that was replaced starts again at 0.
uint64_t growth(uint64_t before, uint64_t now) { return now >= before ? now - before : now; }

ProcessRates rates_between(const SlabFigures& before, const SlabFigures& now, double seconds) {
  ProcessRates rates;
  const uint64_t generated = growth(before.tokens_generated, now.tokens_generated);
  const uint64_t computed = growth(before.tokens_computed, now.tokens_computed);
  rates.generated_per_second = static_cast<double>(generated) / seconds;
  rates.read_per_second = static_cast<double>(computed - std::min(computed, generated)) / seconds;
  rates.waits = static_cast<int64_t>(growth(before.waits, now.waits));
  rates.wait_seconds = static_cast<double>(growth(before.wait_ns, now.wait_ns)) * 1e-9;
  return rates;
}

std::vector<RequestKv> kv_of_requests(const LaunchSnapshot& snapshot) {
  std::map<uint64_t, RequestKv> requests;
  for (const ProcessSnapshot& process : snapshot.processes) {
    std::map<uint64_t, uint64_t> bytes;
    for (const StreamFigures& stream : process.slab.streams) {
      requests[stream.request].tokens += stream.tokens;
      bytes[stream.request] += stream.blocks * process.slab.block_bytes;
    }
    for (const auto& [request, used] : bytes) {
      requests[request].bytes += used;
      requests[request].by_process.emplace_back(process.name, used);
    }
  }
  std::vector<RequestKv> all;
  for (auto& [request, kv] : requests) {
    kv.request = request;
    all.push_back(std::move(kv));
  }
  return all;
}

// What a user should look at.
std::vector<std::string> warnings_of(const LaunchSnapshot& before, const LaunchSnapshot& now) {
  constexpr double kFullShare = 0.9;
  constexpr int64_t kSilentNs = 2'000'000'000;  // heartbeats come four times a second
  std::vector<std::string> warnings;
  for (const ProcessSnapshot& process : now.processes) {
    const SlabFigures& slab = process.slab;
    if (process.state == ProcessState::kLost)
      warnings.push_back(fmt::format("{} is lost: {}", process.name, process.why));
    if (process.state == ProcessState::kRestarting)
      warnings.push_back(fmt::format("{} has ended: {}", process.name, process.why));
    if (slab.blocks > 0 && slab.blocks_used > kFullShare * slab.blocks)
      warnings.push_back(fmt::format("{}: {} of {} K/V blocks are used; raise max_sequences",
                                     process.name, slab.blocks_used, slab.blocks));
    if (reserves_too_much(process.device, slab.payload_bytes, allocated_bytes(slab)))
      warnings.push_back(
          fmt::format("{}: more than twice the K/V memory in use is reserved", process.name));
    const auto earlier = std::ranges::find(before.processes, process.name, &ProcessSnapshot::name);
    const bool silent = earlier != before.processes.end() && earlier->slab.heartbeats != 0 &&
                        earlier->slab.heartbeats == slab.heartbeats;
    if (silent && now.time_ns - before.time_ns >= kSilentNs)
      warnings.push_back(fmt::format("{} does not respond", process.name));
  }
  return warnings;
}

std::string megabytes(uint64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / 1e6);
}

std::string process_row(const ProcessSnapshot& process, const ProcessRates& rates) {
  const SlabFigures& slab = process.slab;
  const auto open = std::ranges::count(slab.streams, StreamState::kOpen, &StreamFigures::state);
  return fmt::format(
      "{:<16.16} {:<10} {:>4} {:>10.1f} {:>10.1f} {:>6} {:>8.1f} {:>18} {:>9} {:>9} "
      "{:>9}\n",
      process.name, process_state_name(process.state), open, rates.read_per_second,
      rates.generated_per_second, rates.waits, rates.wait_seconds * 1e3,
      fmt::format("{}/{}/{}", slab.blocks_used, slab.blocks_leased, slab.blocks),
      megabytes(slab.payload_bytes), megabytes(allocated_bytes(slab)),
      megabytes(static_cast<uint64_t>(std::max<int64_t>(process.resident_bytes, 0))));
}

std::string request_row(const RequestKv& kv) {
  std::string parts;
  for (const auto& [name, bytes] : kv.by_process)
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", name, megabytes(bytes));
  return fmt::format("{:<16} {:>10} {:>10}  {}\n",
                     kv.request == 0 ? "contexts" : fmt::to_string(kv.request), kv.tokens,
                     megabytes(kv.bytes), parts);
}

std::string span_text(int64_t ns) {
  const int64_t seconds = ns / 1'000'000'000;
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

}  // namespace

bool reserves_too_much(const std::string& device, uint64_t reserved_bytes,
                       uint64_t allocated_bytes) {
  return !device.starts_with("cpu") && reserved_bytes > 2 * allocated_bytes;
}

TopFigures top_figures(std::string launch, const LaunchSnapshot& before, LaunchSnapshot now) {
  TopFigures figures;
  const double seconds =
      static_cast<double>(std::max<int64_t>(now.time_ns - before.time_ns, 1)) * 1e-9;
  for (const ProcessSnapshot& process : now.processes) {
    const auto earlier = std::ranges::find(before.processes, process.name, &ProcessSnapshot::name);
    figures.rates.push_back(earlier == before.processes.end()
                                ? ProcessRates()
                                : rates_between(earlier->slab, process.slab, seconds));
  }
  figures.launch = std::move(launch);
  figures.requests = kv_of_requests(now);
  figures.warnings = warnings_of(before, now);
  figures.now = std::move(now);
  return figures;
}

std::string top_table(const TopFigures& figures) {
  const LaunchSnapshot& now = figures.now;
  std::string text =
      fmt::format("{}  up {}  requests: {} running, {} waiting\n\n", figures.launch,
                  span_text(now.time_ns - now.started_ns), now.requests - now.waiting, now.waiting);
  text += fmt::format("{:<16} {:<10} {:>4} {:>10} {:>10} {:>6} {:>8} {:>18} {:>9} {:>9} {:>9}\n",
                      "process", "state", "seq", "read tok/s", "dec. tok/s", "waits", "wait ms",
                      "blocks used/lea/all", "res. MB", "alloc. MB", "RSS MB");
  for (size_t i = 0; i < now.processes.size(); ++i)
    text += process_row(now.processes[i], figures.rates[i]);
  text += fmt::format("\n{:<16} {:>10} {:>10}\n", "request", "tokens", "K/V MB");
  for (const RequestKv& kv : figures.requests) text += request_row(kv);
  for (const std::string& warning : figures.warnings) text += fmt::format("\nwarning: {}", warning);
  if (!figures.warnings.empty()) text += "\n";
  return text;
}

nlohmann::json to_json(const TopFigures& figures) {
  nlohmann::json processes = nlohmann::json::array();
  for (size_t i = 0; i < figures.now.processes.size(); ++i) {
    const ProcessSnapshot& process = figures.now.processes[i];
    const ProcessRates& rates = figures.rates[i];
    processes.push_back({{"name", process.name},
                         {"role", process.role == Role::kMaster ? "master" : "slave"},
                         {"device", process.device},
                         {"pid", process.pid},
                         {"state", process_state_name(process.state)},
                         {"why", process.why},
                         {"sequences", std::ranges::count(process.slab.streams, StreamState::kOpen,
                                                          &StreamFigures::state)},
                         {"read_tokens_per_second", rates.read_per_second},
                         {"generated_tokens_per_second", rates.generated_per_second},
                         {"bus_waits", rates.waits},
                         {"bus_wait_seconds", rates.wait_seconds},
                         {"kv_blocks", process.slab.blocks},
                         {"kv_blocks_used", process.slab.blocks_used},
                         {"kv_blocks_leased", process.slab.blocks_leased},
                         {"reserved_bytes", process.slab.payload_bytes},
                         {"allocated_bytes", allocated_bytes(process.slab)},
                         {"resident_bytes", process.resident_bytes},
                         {"lazily_built", process.slab.lazily_built}});
  }
  nlohmann::json requests = nlohmann::json::array();
  for (const RequestKv& kv : figures.requests) {
    nlohmann::json by_process = nlohmann::json::object();
    for (const auto& [name, bytes] : kv.by_process) by_process[name] = bytes;
    requests.push_back({{"request", kv.request},
                        {"tokens", kv.tokens},
                        {"kv_bytes", kv.bytes},
                        {"kv_bytes_by_process", std::move(by_process)}});
  }
  return {
      {"launch", figures.launch},
      {"running_seconds", static_cast<double>(figures.now.time_ns - figures.now.started_ns) * 1e-9},
      {"requests_running", figures.now.requests - figures.now.waiting},
      {"requests_waiting", figures.now.waiting},
      {"processes", std::move(processes)},
      {"requests", std::move(requests)},
      {"warnings", figures.warnings}};
}

}  // namespace suture
