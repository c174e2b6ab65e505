// What a model process does, as plain methods: read contexts into published streams, follow a
// master's tokens, generate. Runs on the process's engine thread (actors/engine_thread.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "actors/launch_spec.h"
#include "actors/messages.h"
#include "actors/trace_log.h"
#include "actors/vocabularies.h"
#include "actors/work_meter.h"
#include "base/error.h"
#include "bus/broker_client.h"
#include "bus/slab.h"
#include "fusion/token_alignment.h"
#include "models/bus_kv_cache.h"
#include "models/language_model.h"

namespace suture {

class Generation;

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
  uint64_t incarnation = 0;  // of the process; never reused within a launch
};

class ModelService {
 public:
  // Loads the model, allocates its slab and publishes it on the broker.
  static Result<std::unique_ptr<ModelService>> load(const ModelLoad& load,
                                                    std::unique_ptr<BrokerClient> broker);
  ~ModelService();

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
  ReadDone read(uint64_t key);
  void drop(uint64_t key);
  GenerateDone generate(const GenerateRequest& request);

  // From any thread: the read or generation that runs now, or that key when it starts, ends soon.
  void cancel(uint64_t request);
  void stop();

 private:
  struct OpenStream {
    ReadRequest request;
    std::vector<int32_t> token_ids;             // read or to be read, in the own vocabulary
    std::unique_ptr<TokenAlignment> alignment;  // where the request's are of another
    std::unique_ptr<BusKvCache> cache;
  };

  ModelService(ModelLoad load, std::unique_ptr<BrokerClient> broker,
               std::unique_ptr<LanguageModel> model, Vocabularies vocabularies,
               std::shared_ptr<Slab> slab);

  StreamInfo stream_info(std::vector<int32_t> token_ids) const;
  Status read_prompt(OpenStream& stream);
  Status read_part(OpenStream& stream, const TextPart& part);
  // A stream of `capacity` tokens, forked from the stream `head_key` if there is one.
  Result<std::unique_ptr<BusKvCache>> open_stream(uint64_t head_key, int64_t head_entries,
                                                  const std::vector<int32_t>& token_ids,
                                                  int64_t capacity);
  void keep(uint64_t key, OpenStream stream);
  void keep_answer(const GenerateRequest& request, Generation& generation, GenerateDone& done);
  Result<int64_t> translate(OpenStream& stream) const;
  Status follow(OpenStream& stream, ProcessFigures& figures);
  Status follow_token(int32_t token, OpenStream& stream, ProcessFigures& figures);
  ProcessFigures new_figures() const;
  // Marks `request` as the one that runs; false if it was cancelled before.
  bool begin(uint64_t request);
  int64_t lazily_built() const;
  void beat(const std::stop_token& stopped) const;

  const ModelLoad load_;
  std::unique_ptr<BrokerClient> broker_;
  std::unique_ptr<LanguageModel> model_;
  const Vocabularies vocabularies_;
  std::shared_ptr<Slab> slab_;
  std::string fingerprint_;
  TraceLog trace_;
  WorkMeter meter_;
  double load_seconds_ = 0;
  std::map<uint64_t, OpenStream> streams_;  // by key; engine thread only

  std::mutex cancel_mutex_;
  uint64_t running_ = 0;                 // guarded by cancel_mutex_
  uint64_t last_cancelled_ = 0;          // guarded by cancel_mutex_
  bool stopping_ = false;                // guarded by cancel_mutex_
  std::atomic<bool> cancelled_ = false;  // ends the waits of what runs now
  std::jthread heartbeat_;               // last: beats while the rest lives
};

}  // namespace suture
