// The processes of a launch and who speaks for them: broker, supervisor, coordinator. Starts them,
// starts again what has ended, and ends them all with the launch.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/coordinator.h"
#include "actors/launch.h"
#include "actors/launch_preparation.h"
#include "actors/launch_snapshot.h"
#include "actors/membership.h"
#include "actors/supervisor.h"
#include "bus/broker.h"
#include "bus/broker_client.h"

namespace suture {

class LaunchProcesses {
 public:
  struct Events {  // on threads of this object
    std::function<void(AnswerReport)> on_report;
    // What the requests that run have given so far.
    std::function<std::vector<Delivered>()> delivered;
  };

  // Takes over prepared.setup. Nothing runs before start().
  LaunchProcesses(const LaunchSpec& spec, const LaunchOptions& options, PreparedLaunch& prepared,
                  Events events);
  // Ends all processes.
  ~LaunchProcesses();
  LaunchProcesses(const LaunchProcesses&) = delete;
  LaunchProcesses& operator=(const LaunchProcesses&) = delete;

  // Until all have joined, as long as it takes: a process that ends on the way is noticed, one that
  // cannot load says so itself.
  Status start();

  // The launcher's own connection to the broker.
  BrokerClient& client() { return *client_; }
  void ask(Question question);
  void cancel(uint64_t request);
  void release(uint64_t conversation);

  ProcessSnapshot look_at(const ModelSpec& model) const;
  std::vector<pid_t> pids() const;

 private:
  struct Actors;

  Status start_broker();
  void start_coordinator(CoordinatorSetup setup);
  Status publish_coordinator();
  Status start_in_process();
  Status wait_until_joined();
  void start_process(const std::string& name, std::chrono::milliseconds delay);
  void kill(const std::string& name, uint64_t incarnation);
  bool note_joined(const Joined& joined);
  void note_end(const std::optional<ProcessEnd>& end);

  const LaunchSpec spec_;
  const LaunchOptions options_;
  const Events events_;
  PreparedLaunch& prepared_;
  std::map<std::string, ModelLoad> loads_;  // by name of process
  std::string secret_;
  uint16_t port_ = 0;                    // of the coordinator
  std::optional<TlsIdentity> identity_;  // placement "processes" only, as the supervisor

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Membership membership_;  // guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_

  // The broker's and the supervisor's threads call each other and the coordinator.
  std::unique_ptr<Actors> actors_;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<BrokerClient> client_;
};

}  // namespace suture
