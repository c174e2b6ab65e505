// Memory, open files and threads of processes over time.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bench/load/figures.h"

namespace suture {

struct ProcessSample {
  double pss_bytes = 0;   // its share of all pages that it has touched
  double heap_bytes = 0;  // its own: heap and stacks, without files and shared memory
  int64_t files = 0;
  int64_t threads = 0;
};

// Zeros when the process is gone.
ProcessSample sample_process(pid_t pid);

struct WatchedProcess {
  std::string name;
  pid_t pid = 0;
};

struct ProcessHistory {
  std::string name;
  std::vector<double> seconds;  // since the watch began
  std::vector<ProcessSample> samples;

  // Bytes of heap a minute, without the first fifth, in which caches fill. K/V memory is allocated
  // at start and counts in a process from when it is touched, which says nothing.
  Slope growth() const;
};

// Looks at the processes from a thread of its own.
class ProcessWatch {
 public:
  ProcessWatch(std::vector<WatchedProcess> processes, std::chrono::milliseconds interval);
  // Ends the watch.
  std::vector<ProcessHistory> finish();

 private:
  void look(double seconds);
  void run(const std::stop_token& stop);

  std::vector<WatchedProcess> processes_;
  const std::chrono::milliseconds interval_;
  std::vector<ProcessHistory> histories_;  // of the thread
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace suture
