#include "actors/engine_thread.h"

#include <utility>

#include "bus/doorbell_set.h"

namespace suture {

EngineThread::EngineThread(EngineWork& work) : work_(work), thread_([this] { run(); }) {}

EngineThread::~EngineThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ring_doorbell(posted_);
  thread_.join();
}

void EngineThread::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  ring_doorbell(posted_);
}

void EngineThread::run() {
  while (true) {
    if (run_job() || work_.work()) continue;
    if (has_job_or_end()) {
      const std::lock_guard lock(mutex_);
      if (jobs_.empty()) return;
    } else {
      wait();
    }
  }
}

bool EngineThread::run_job() {
  std::function<void()> job;
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.empty()) return false;
    job = std::move(jobs_.front());
    jobs_.pop_front();
  }
  job();
  return true;
}

bool EngineThread::has_job_or_end() {
  const std::lock_guard lock(mutex_);
  return stopping_ || !jobs_.empty();
}

void EngineThread::wait() {
  doorbells_.assign(1, &posted_);
  work_.add_doorbells(doorbells_);
  wait_for_doorbells(doorbells_, Deadline::max(),
                     [this] { return has_job_or_end() || work_.ready(); });
}

}  // namespace suture
