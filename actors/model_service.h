// What a model process does, as plain methods: read contexts into published streams, follow a
// master's tokens, generate. Runs on the process's engine thread (actors/engine_thread.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "actors/batch_scheduler.h"
#include "actors/cancellations.h"
#include "actors/launch_spec.h"
#include "actors/messages.h"
#include "actors/model_streams.h"
#include "actors/projected_streams.h"
#include "actors/trace_log.h"
#include "actors/vocabularies.h"
#include "actors/work_meter.h"
#include "base/error.h"
#include "bus/broker_client.h"
#include "bus/slab.h"
#include "models/language_model.h"

namespace suture {

struct ModelLoad {
  std::string name;  // of the process
  Role role = Role::kMaster;
  std::filesystem::path path;
  std::string device = "cpu";
  int threads = 1;
  int64_t max_seq_len = 8192;
  int32_t max_sequences = 4;
  // Vocabularies of models whose text it reads or whose reading it follows, by name of process.
  std::map<std::string, std::filesystem::path> vocabularies = {};
  // Whose norm weights it runs with; empty = its own.
  std::filesystem::path norms_of = {};
  bool trace = false;
  bool warm_up = true;
  std::optional<RopeScalingOverride> rope_scaling;
  int64_t rope_length = 0;
  RopeCrossing rope_crossing = RopeCrossing::kKeep;
  std::optional<ProjectionLoad> projection = {};       // of its rows, before they are published
  std::vector<ProjectionLoad> slave_projections = {};  // of its slaves' rows, which it maps itself
  uint64_t incarnation = 0;  // of the process; never reused within a launch
};

class ModelService final : public EngineWork {
 public:
  // Connects to the broker under the name that is given.
  using ConnectToBroker =
      std::function<Result<std::unique_ptr<BrokerClient>>(const std::string& name)>;

  // Loads the model, allocates its slab and publishes it on the broker; the same for rows that it
  // maps, on a connection of their own.
  static Result<std::unique_ptr<ModelService>> load(const ModelLoad& load,
                                                    const ConnectToBroker& connect);
  ~ModelService() override;

  const std::string& name() const { return load_.name; }
  uint64_t incarnation() const { return load_.incarnation; }
  double load_seconds() const { return load_seconds_; }

  // On the engine thread.
  //
  // What the first request would have to make, if the load asks for it; returns the seconds.
  Result<double> warm_up();
  // Maps the slabs of these processes, as far as they are there.
  void import_slabs(const std::vector<std::string>& owners);
  ReadOpened open(const ReadRequest& request);
  void drop(uint64_t key);
  // Begin what goes on in work(), and is reported there when it has ended.
  void read(uint64_t key, std::function<void(ReadDone)> on_done);
  void draft(ReadRequest request, std::function<void(ReadDone)> on_done);
  void generate(GenerateRequest request, std::function<void(GenerateDone)> on_done);

  bool work() override { return scheduler_.work(); }
  bool ready() override { return scheduler_.ready(); }
  void add_doorbells(std::vector<DoorbellData*>& doorbells) override;

  // From any thread.
  //
  // A read or generation with this key will come, and may be cancelled from now on.
  void expect(uint64_t key) { cancellations_.expect(key); }
  // Ends it soon.
  void cancel(uint64_t key) { cancellations_.cancel(key); }
  // Ends all, and what comes.
  void stop() { cancellations_.stop(); }

 private:
  ModelService(ModelLoad load, std::unique_ptr<BrokerClient> broker,
               std::unique_ptr<LanguageModel> model, Vocabularies vocabularies,
               std::shared_ptr<Slab> slab, std::unique_ptr<ProjectedStreams> projected,
               RowProjectors projectors);

  Result<std::shared_ptr<OpenStream>> open_stream(const ReadRequest& request);
  Status open_projected(OpenStream& stream) const;
  Result<int64_t> translate(OpenStream& stream) const;
  ReadDone not_found(uint64_t key) const;
  // Ends a reading of `key` that begins now.
  std::function<void(ReadDone)> completion(uint64_t key, std::function<void(ReadDone)> on_done);
  // Of this process, in a request that began when so many things had been built.
  void complete(ProcessFigures& figures, int64_t built_before) const;
  int64_t lazily_built() const;
  void beat(const std::stop_token& stopped) const;

  const ModelLoad load_;
  std::unique_ptr<BrokerClient> broker_;
  std::unique_ptr<LanguageModel> model_;
  const Vocabularies vocabularies_;
  std::shared_ptr<Slab> slab_;
  std::unique_ptr<ProjectedStreams> projected_;  // nullptr where rows are published as they are
  const RowProjectors projectors_;               // of slaves whose rows are mapped here
  TraceLog trace_;  // of what belongs to no request; goes out with the first
  WorkMeter meter_;
  double load_seconds_ = 0;
  Cancellations cancellations_;
  ModelStreams streams_;
  BatchScheduler scheduler_;  // after what its sequences use
  std::jthread heartbeat_;    // last: beats while the rest lives
};

}  // namespace suture
