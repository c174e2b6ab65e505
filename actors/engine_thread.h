// The one thread of a model process on which its engine runs: jobs in the order they were posted.
// Actors stay free to answer while a long prompt is being read.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace suture {

class EngineThread {
 public:
  EngineThread();
  // Runs what was posted before, then joins.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  void post(std::function<void()> job);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> jobs_;  // guarded by mutex_
  bool stopping_ = false;                   // guarded by mutex_
  std::thread thread_;                      // last: starts when the rest is ready
};

}  // namespace suture
