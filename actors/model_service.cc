#include "actors/model_service.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <span>
#include <utility>

#include "actors/drafting.h"
#include "actors/generation.h"
#include "actors/process_memory.h"
#include "actors/stream_reading.h"
#include "fusion/norm_override.h"

namespace suture {
namespace {

constexpr std::chrono::milliseconds kBeat{250};
// Room for a text that comes in another vocabulary: own tokens for one of its tokens, and those
// that are held back until they are certain.
constexpr int64_t kTokensForOne = 2;
constexpr int64_t kTokensHeld = 64;

std::string_view role_name(Role role) { return role == Role::kMaster ? "master" : "slave"; }

Result<std::unique_ptr<LanguageModel>> load_model(const ModelLoad& load, BrokerClient& broker) {
  const LoadOptions options{
      .device = load.device,
      .threads = load.threads,
      .rope_scaling = load.rope_scaling,
      .rope_length = load.rope_length,
      .packed_memory = [&broker](const std::string& key, uint64_t bytes, const FillMemory& fill) {
        return broker.shared_blob(key, bytes, fill);
      }};
  if (load.norms_of.empty()) return LanguageModel::load(load.path, options);
  SUTURE_ASSIGN_OR_RETURN(const auto source, Checkpoint::open(load.norms_of));
  SUTURE_ASSIGN_OR_RETURN(const auto own, Checkpoint::open(load.path));
  SUTURE_ASSIGN_OR_RETURN(const NormWeights norms, norms_from_master(*source, own->config()));
  SUTURE_ASSIGN_OR_RETURN(auto model, LanguageModel::load(load.path, options, &norms));
  SUTURE_RETURN_IF_ERROR(verify_norms(model->weights(), model->stream(), model->config(), *source));
  return model;
}

Result<std::unique_ptr<ProjectedStreams>> load_projection(
    const ModelLoad& load, LanguageModel& model, const ModelService::ConnectToBroker& connect) {
  if (!load.projection) return nullptr;
  const std::string owner = projected_owner(load.name, load.projection->other);
  SUTURE_ASSIGN_OR_RETURN(auto broker, connect(owner));
  SUTURE_ASSIGN_OR_RETURN(auto projector, RowProjector::create(*load.projection, model,
                                                               Role::kSlave, load.max_seq_len));
  return ProjectedStreams::create(std::move(projector),
                                  {owner, load.max_seq_len, load.max_sequences}, std::move(broker));
}

Result<RowProjectors> load_projectors(const ModelLoad& load, LanguageModel& model) {
  RowProjectors projectors;
  for (const ProjectionLoad& projection : load.slave_projections) {
    SUTURE_ASSIGN_OR_RETURN(
        projectors[projection.other],
        RowProjector::create(projection, model, Role::kMaster, load.max_seq_len));
  }
  return projectors;
}

}  // namespace

Result<std::unique_ptr<ModelService>> ModelService::load(const ModelLoad& load,
                                                         const ConnectToBroker& connect) {
  SUTURE_ASSIGN_OR_RETURN(auto broker, connect(load.name));
  const int64_t start = monotonic_ns();
  SUTURE_ASSIGN_OR_RETURN(auto model, load_model(load, *broker));
  SUTURE_ASSIGN_OR_RETURN(auto vocabularies,
                          Vocabularies::load(model->checkpoint(), load.vocabularies));
  SUTURE_ASSIGN_OR_RETURN(auto slab, Slab::create({.shape = model->config().kv_shape(),
                                                   .max_seq_len = load.max_seq_len,
                                                   .max_sequences = load.max_sequences,
                                                   .owner = broker->self()}));
  SUTURE_RETURN_IF_ERROR(broker->publish_slab(slab->payload_fd(), slab->control_fd()));
  SUTURE_ASSIGN_OR_RETURN(auto projected, load_projection(load, *model, connect));
  SUTURE_ASSIGN_OR_RETURN(RowProjectors projectors, load_projectors(load, *model));
  std::unique_ptr<ModelService> service(
      new ModelService(load, std::move(broker), std::move(model), std::move(vocabularies),
                       std::move(slab), std::move(projected), std::move(projectors)));
  service->trace_.add("load", start);
  service->load_seconds_ = seconds_since(start);
  return service;
}

ModelService::ModelService(ModelLoad load, std::unique_ptr<BrokerClient> broker,
                           std::unique_ptr<LanguageModel> model, Vocabularies vocabularies,
                           std::shared_ptr<Slab> slab, std::unique_ptr<ProjectedStreams> projected,
                           RowProjectors projectors)
    : load_(std::move(load)),
      broker_(std::move(broker)),
      model_(std::move(model)),
      vocabularies_(std::move(vocabularies)),
      slab_(std::move(slab)),
      projected_(std::move(projected)),
      projectors_(std::move(projectors)),
      trace_(load_.name, load_.trace),
      meter_(slab_->control().figures()),
      streams_(slab_, model_->config(), model_->fingerprint()),
      scheduler_(*model_, meter_),
      heartbeat_([this](const std::stop_token& stopped) { beat(stopped); }) {}

ModelService::~ModelService() { stop(); }

Result<double> ModelService::warm_up() {
  if (!load_.warm_up) return 0.0;
  const int64_t start = monotonic_ns();
  SUTURE_RETURN_IF_ERROR(model_->warm_up());
  trace_.add("warm up", start);
  meter_.set_lazily_built(lazily_built());
  return seconds_since(start);
}

void ModelService::import_slabs(const std::vector<std::string>& owners) {
  for (const std::string& owner : owners)
    if (const auto view = broker_->slab(owner); !view)
      spdlog::debug("{}: slab of {}: {}", load_.name, owner, view.error().message());
  meter_.set_lazily_built(lazily_built());
}

int64_t ModelService::lazily_built() const {
  return model_->lazily_built() + broker_->imported_slabs();
}

// Says "alive" to the broker even while a long prompt is read (design §3: slow is not dead).
void ModelService::beat(const std::stop_token& stopped) const {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!stopped.stop_requested()) {
    slab_->heartbeat();
    if (projected_) projected_->heartbeat();
    wake.wait_for(lock, stopped, kBeat, [] { return false; });
  }
}

ReadOpened ModelService::open(const ReadRequest& request) {
  ReadOpened opened;
  opened.key = request.key;
  auto stream = open_stream(request);
  if (!stream) {
    cancellations_.forget(request.key);
    opened.outcome = Outcome::of(tl::unexpected<Error>(stream.error()));
    return opened;
  }
  opened.stream = announce(**stream, projected_ ? projected_->owner() : load_.name);
  streams_.add(request.key, std::move(*stream));
  return opened;
}

Result<std::shared_ptr<OpenStream>> ModelService::open_stream(const ReadRequest& request) {
  if (request.token_ids.empty())
    return fail(ErrorCode::kInvalidArgument, "there is nothing to read", load_.name);
  auto stream = std::make_shared<OpenStream>();
  stream->request = request;
  stream->token_ids = request.token_ids;
  int64_t head_entries = request.head_entries;
  int64_t capacity = std::max<int64_t>(request.capacity, std::ssize(request.token_ids));
  if (!request.text_of.empty()) {
    SUTURE_ASSIGN_OR_RETURN(head_entries, translate(*stream));
    const int64_t later = capacity - std::ssize(request.token_ids);
    const int64_t wanted = std::ssize(stream->token_ids) + later * kTokensForOne + kTokensHeld;
    capacity = std::max(std::ssize(stream->token_ids), std::min(wanted, load_.max_seq_len));
  }
  SUTURE_ASSIGN_OR_RETURN(
      stream->cache,
      streams_.open(request.head_key, head_entries, stream->token_ids, capacity, request.request));
  if (projected_) SUTURE_RETURN_IF_ERROR(open_projected(*stream));
  return stream;
}

Status ModelService::open_projected(OpenStream& stream) const {
  const ReadRequest& request = stream.request;
  ProjectedText text;
  text.token_ids = request.token_ids;
  text.capacity = std::max<int64_t>(request.capacity, std::ssize(request.token_ids));
  text.answers = request.answers;
  text.alignment = stream.alignment.get();
  text.request = request.request;
  const auto head = streams_.find(request.head_key);
  SUTURE_ASSIGN_OR_RETURN(stream.projected,
                          projected_->open(text, head ? head->projected.get() : nullptr,
                                           request.head_entries, stream.cache->size()));
  return {};
}

// Turns another vocabulary's tokens into own ones, as far as they are certain, and returns how many
// of them begin the stream that is to be taken over.
Result<int64_t> ModelService::translate(OpenStream& stream) const {
  SUTURE_ASSIGN_OR_RETURN(const Tokenizer* theirs, vocabularies_.of(stream.request.text_of));
  SUTURE_ASSIGN_OR_RETURN(const Tokenizer* own, vocabularies_.own());
  stream.alignment = std::make_unique<TokenAlignment>(*theirs, *own);
  for (const int32_t token : stream.request.token_ids) stream.alignment->push(token);
  if (stream.request.follow_ring.empty()) stream.alignment->finish();
  stream.token_ids = stream.alignment->slave_ids();
  const auto head = streams_.find(stream.request.head_key);
  if (!head || stream.request.head_entries == 0) return 0;
  return std::min(common_prefix(head->token_ids, stream.token_ids), head->cache->size());
}

void ModelService::drop(uint64_t key) { streams_.drop(key); }

void ModelService::read(uint64_t key, std::function<void(ReadDone)> on_done) {
  auto stream = streams_.find(key);
  if (!stream) return on_done(not_found(key));
  scheduler_.add(std::make_unique<StreamReading>(
      std::move(stream), StreamReading::Engine{*model_, *broker_, streams_, meter_},
      cancellations_.flag(key), TraceLog(load_.name, load_.trace),
      completion(key, std::move(on_done))));
}

void ModelService::draft(ReadRequest request, std::function<void(ReadDone)> on_done) {
  const uint64_t key = request.key;
  scheduler_.add(std::make_unique<Drafting>(
      std::move(request),
      Drafting::Engine{load_.name, load_.max_seq_len, *model_, vocabularies_, streams_,
                       projected_.get(), meter_},
      cancellations_.flag(key), TraceLog(load_.name, load_.trace),
      completion(key, std::move(on_done))));
}

std::function<void(ReadDone)> ModelService::completion(uint64_t key,
                                                       std::function<void(ReadDone)> on_done) {
  return [this, key, built = lazily_built(), on_done = std::move(on_done)](ReadDone done) {
    cancellations_.forget(key);
    complete(done.figures, built);
    std::ranges::move(trace_.take(), std::back_inserter(done.spans));
    on_done(std::move(done));
  };
}

ReadDone ModelService::not_found(uint64_t key) const {
  ReadDone done;
  done.key = key;
  done.outcome = Outcome::of(fail(ErrorCode::kNotFound, fmt::format("no stream {}", key)));
  return done;
}

void ModelService::generate(GenerateRequest request, std::function<void(GenerateDone)> on_done) {
  const uint64_t key = request.request;
  scheduler_.add(std::make_unique<Generation>(
      std::move(request),
      Generation::Engine{*model_, vocabularies_, projectors_, load_.rope_crossing, *broker_,
                         streams_, meter_},
      cancellations_.flag(key), TraceLog(load_.name, load_.trace),
      [this, key, built = lazily_built(), on_done = std::move(on_done)](GenerateDone done) {
        cancellations_.forget(key);
        complete(done.figures, built);
        std::ranges::move(trace_.take(), std::back_inserter(done.spans));
        on_done(std::move(done));
      }));
}

void ModelService::complete(ProcessFigures& figures, int64_t built_before) const {
  figures.name = load_.name;
  figures.role = role_name(load_.role);
  figures.resident_bytes = resident_bytes();
  figures.lazily_built = lazily_built() - built_before;
  meter_.set_lazily_built(lazily_built());
}

void ModelService::add_doorbells(std::vector<DoorbellData*>& doorbells) {
  doorbells.push_back(&cancellations_.doorbell());
  scheduler_.add_doorbells(doorbells);
}

}  // namespace suture
