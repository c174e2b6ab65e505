// Model processes without a coordinator, for work that reads texts and looks at what comes of them:
// each reads tokens into a stream when it is asked to, and publishes it on the bus, where the
// caller reads the K/V in place. A process that ends is not started again.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/membership.h"
#include "actors/messages.h"
#include "actors/model_service.h"
#include "actors/supervisor.h"
#include "actors/tls_identity.h"
#include "base/error.h"
#include "bus/broker.h"
#include "bus/broker_client.h"
#include "bus/slab.h"
#include "bus/stream_reader.h"

namespace suture {

struct ModelProcessesOptions {
  std::filesystem::path program = "/proc/self/exe";  // run as: program worker --ticket FD
  // A process that shows no sign of life for so long is ended.
  std::chrono::milliseconds hung_after{30'000};
  // "source: loaded in 0.4 s". May be empty.
  std::function<void(const std::string&)> on_progress;
  // Once it is set, waits end soon with kCancelled. nullptr: nobody will.
  const std::atomic<bool>* cancelled = nullptr;
};

// A text that a process has read. Its rows lie in the process until the key is dropped and this
// object is gone.
struct TextStream {
  uint64_t key = 0;
  StreamInfo info;
  StreamReader reader;
  ProcessFigures figures;  // of the reading
};

class ModelProcesses {
 public:
  // One process for each load, whose names must differ; returns when all have loaded. Incarnations
  // are set here.
  static Result<std::unique_ptr<ModelProcesses>> start(std::vector<ModelLoad> loads,
                                                       ModelProcessesOptions options);
  // Ends all processes.
  ~ModelProcesses();
  ModelProcesses(const ModelProcesses&) = delete;
  ModelProcesses& operator=(const ModelProcesses&) = delete;

  // From any thread.
  //
  // Asks a process to read tokens into a new stream and returns its key at once. At most
  // max_sequences of its load's max_seq_len fit beside each other.
  uint64_t read(const std::string& process, std::vector<int32_t> token_ids);
  // Until all of it has been read. kLost with the reason when its process has ended, kCancelled
  // after cancel(), or why it could not be read.
  Result<TextStream> wait(uint64_t key);
  // Nobody wants the stream any more; also one that nobody has waited for.
  void drop(uint64_t key);

  std::vector<pid_t> pids() const { return supervisor_->pids(); }
  // Seconds of CPU time that the processes have used so far.
  double cpu_seconds() const;

 private:
  struct Actors;
  struct Reading {
    std::string process;
    std::optional<StreamRef> stream;  // once it has been opened
    std::optional<ReadDone> done;
  };

  ModelProcesses(std::vector<ModelLoad> loads, ModelProcessesOptions options);
  Status start_all();
  Status start_broker();
  Status publish_actor();
  Status wait_until_joined();
  template <typename Condition>
  Status wait_until(std::unique_lock<std::mutex>& lock, const Condition& condition);
  Result<ReadDone> wait_until_read(uint64_t key, StreamRef& stream, std::string& process);
  // With that many tokens committed.
  Result<StreamReader> attach(const StreamRef& stream, int64_t tokens);
  // How the process ended, if it did; otherwise what was seen.
  Error why_lost(const std::string& process, Error seen);
  bool note_joined(const Joined& joined);
  void note_opened(const ReadOpened& opened);
  void note_done(ReadDone done);
  void note_end(const std::optional<ProcessEnd>& end);

  std::vector<ModelLoad> loads_;
  const ModelProcessesOptions options_;
  std::string secret_;
  uint16_t port_ = 0;  // of the actor
  std::optional<TlsIdentity> identity_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Membership membership_;                    // guarded by mutex_
  std::map<std::string, std::string> ends_;  // why, by process; guarded by mutex_
  std::map<uint64_t, Reading> readings_;     // by key; guarded by mutex_
  uint64_t next_key_ = 1;                    // guarded by mutex_
  bool stopping_ = false;                    // guarded by mutex_

  // Their threads call what is above.
  std::unique_ptr<Actors> actors_;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<BrokerClient> client_;
};

}  // namespace suture
