// The one thread of a model process on which its engine runs: jobs in the order they were posted,
// and between them the work that goes on. Actors stay free to answer meanwhile.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "bus/layout.h"

namespace suture {

// Work of many small pieces.
class EngineWork {
 public:
  virtual ~EngineWork() = default;
  // Does a piece. False if there is none until a doorbell rings or a job has run.
  virtual bool work() = 0;
  // Whether there is a piece.
  virtual bool ready() = 0;
  // After work() has found none: what rings when there may be one.
  virtual void add_doorbells(std::vector<DoorbellData*>& doorbells) = 0;
};

class EngineThread {
 public:
  // `work` must outlive the object.
  explicit EngineThread(EngineWork& work);
  // Runs what was posted before, and the pieces that need no waiting, then joins.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  void post(std::function<void()> job);

 private:
  void run();
  bool run_job();
  bool has_job_or_end();
  void wait();

  EngineWork& work_;
  DoorbellData posted_{};  // this process's own
  std::mutex mutex_;
  std::deque<std::function<void()>> jobs_;  // guarded by mutex_
  bool stopping_ = false;                   // guarded by mutex_
  std::vector<DoorbellData*> doorbells_;    // of one wait
  std::thread thread_;                      // last: starts when the rest is ready
};

}  // namespace suture
