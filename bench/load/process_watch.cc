#include "bench/load/process_watch.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "actors/trace_log.h"

namespace suture {
namespace {

void read_memory(const std::filesystem::path& folder, ProcessSample& sample) {
  std::ifstream file(folder / "smaps_rollup");
  for (std::string word; file >> word;) {
    double kilobytes = 0;
    if (word == "Pss:" && file >> kilobytes) sample.pss_bytes = kilobytes * 1024;
    if (word == "Pss_Anon:" && file >> kilobytes) sample.heap_bytes = kilobytes * 1024;
  }
}

int64_t entries(const std::filesystem::path& folder) {
  std::error_code error;
  int64_t count = 0;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    ++count;
  return count;
}

}  // namespace

ProcessSample sample_process(pid_t pid) {
  const std::filesystem::path folder = fmt::format("/proc/{}", pid);
  ProcessSample sample{.files = entries(folder / "fd"), .threads = entries(folder / "task")};
  read_memory(folder, sample);
  return sample;
}

Slope ProcessHistory::growth() const {
  std::vector<double> minutes;
  std::vector<double> bytes;
  for (size_t i = samples.size() / 5; i < samples.size(); ++i) {
    minutes.push_back(seconds[i] / 60);
    bytes.push_back(samples[i].heap_bytes);
  }
  return least_squares_slope(minutes, bytes);
}

ProcessWatch::ProcessWatch(std::vector<WatchedProcess> processes,
                           std::chrono::milliseconds interval)
    : processes_(std::move(processes)), interval_(interval) {
  for (const WatchedProcess& process : processes_) histories_.push_back({process.name, {}, {}});
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

std::vector<ProcessHistory> ProcessWatch::finish() {
  thread_.request_stop();
  thread_.join();
  return std::move(histories_);
}

void ProcessWatch::look(double seconds) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    histories_[i].seconds.push_back(seconds);
    histories_[i].samples.push_back(sample_process(processes_[i].pid));
  }
}

void ProcessWatch::run(const std::stop_token& stop) {
  const int64_t start_ns = monotonic_ns();
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    look(seconds_since(start_ns));
    wake_.wait_for(lock, stop, interval_, [] { return false; });
  }
  look(seconds_since(start_ns));
}

}  // namespace suture
