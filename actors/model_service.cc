#include "actors/model_service.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <span>
#include <utility>

#include "actors/generation.h"
#include "actors/process_memory.h"
#include "bus/token_ring.h"
#include "fusion/norm_override.h"

namespace suture {
namespace {

constexpr std::chrono::milliseconds kBeat{250};
constexpr std::chrono::milliseconds kRingSlice{200};  // then look whether it was cancelled
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

}  // namespace

Result<std::unique_ptr<ModelService>> ModelService::load(const ModelLoad& load,
                                                         std::unique_ptr<BrokerClient> broker) {
  const int64_t start = monotonic_ns();
  SUTURE_ASSIGN_OR_RETURN(auto model, load_model(load, *broker));
  SUTURE_ASSIGN_OR_RETURN(auto vocabularies,
                          Vocabularies::load(model->checkpoint(), load.vocabularies));
  SUTURE_ASSIGN_OR_RETURN(auto slab, Slab::create({.shape = model->config().kv_shape(),
                                                   .max_seq_len = load.max_seq_len,
                                                   .max_sequences = load.max_sequences,
                                                   .owner = broker->self()}));
  SUTURE_RETURN_IF_ERROR(broker->publish_slab(slab->payload_fd(), slab->control_fd()));
  std::unique_ptr<ModelService> service(new ModelService(load, std::move(broker), std::move(model),
                                                         std::move(vocabularies), std::move(slab)));
  service->trace_.add("load", start);
  service->load_seconds_ = seconds_since(start);
  return service;
}

ModelService::ModelService(ModelLoad load, std::unique_ptr<BrokerClient> broker,
                           std::unique_ptr<LanguageModel> model, Vocabularies vocabularies,
                           std::shared_ptr<Slab> slab)
    : load_(std::move(load)),
      broker_(std::move(broker)),
      model_(std::move(model)),
      vocabularies_(std::move(vocabularies)),
      slab_(std::move(slab)),
      fingerprint_(model_->fingerprint()),
      trace_(load_.name, load_.trace),
      meter_(slab_->control().figures()),
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
    wake.wait_for(lock, stopped, kBeat, [] { return false; });
  }
}

StreamInfo ModelService::stream_info(std::vector<int32_t> token_ids) const {
  const ModelConfig& config = model_->config();
  StreamInfo info;
  info.model_fingerprint = fingerprint_;
  info.shape = config.kv_shape();
  info.rope_pairing = config.rope_pairing;
  info.ropes = config.ropes;
  for (const LayerRule& rule : config.layer_rules) info.layer_ropes.push_back(rule.rope);
  info.token_ids = std::move(token_ids);
  return info;
}

ReadOpened ModelService::open(const ReadRequest& request) {
  ReadOpened opened;
  opened.key = request.key;
  const auto body = [&]() -> Status {
    if (request.token_ids.empty())
      return fail(ErrorCode::kInvalidArgument, "there is nothing to read", load_.name);
    OpenStream stream{
        .request = request, .token_ids = request.token_ids, .alignment = nullptr, .cache = nullptr};
    int64_t head_entries = request.head_entries;
    int64_t capacity = std::max<int64_t>(request.capacity, std::ssize(request.token_ids));
    if (!request.text_of.empty()) {
      SUTURE_ASSIGN_OR_RETURN(head_entries, translate(stream));
      const int64_t later = capacity - std::ssize(request.token_ids);
      const int64_t wanted = std::ssize(stream.token_ids) + later * kTokensForOne + kTokensHeld;
      capacity = std::max(std::ssize(stream.token_ids), std::min(wanted, load_.max_seq_len));
    }
    SUTURE_ASSIGN_OR_RETURN(
        stream.cache, open_stream(request.head_key, head_entries, stream.token_ids, capacity));
    const StreamWriter& writer = stream.cache->writer();
    const std::vector<std::byte> info = encode_stream_info(writer.info());
    const auto* bytes = reinterpret_cast<const char*>(info.data());
    opened.stream = {load_.name, writer.id().slot, writer.id().generation,
                     std::vector<char>(bytes, bytes + info.size())};
    stream.cache->writer().set_request(request.request);
    streams_[request.key] = std::move(stream);
    return {};
  };
  opened.outcome = Outcome::of(body());
  return opened;
}

// Turns another vocabulary's tokens into own ones, as far as they are certain, and returns how many
// of them begin the stream that is to be taken over.
Result<int64_t> ModelService::translate(OpenStream& stream) const {
  SUTURE_ASSIGN_OR_RETURN(const Tokenizer* theirs, vocabularies_.of(stream.request.text_of));
  SUTURE_ASSIGN_OR_RETURN(const Tokenizer* own, vocabularies_.own());
  stream.alignment = std::make_unique<TokenAlignment>(*theirs, *own);
  for (const int32_t token : stream.request.token_ids) stream.alignment->push(token);
  stream.token_ids = stream.alignment->slave_ids();
  const auto head = streams_.find(stream.request.head_key);
  if (head == streams_.end() || stream.request.head_entries == 0) return 0;
  return std::min(common_prefix(head->second.token_ids, stream.token_ids),
                  head->second.cache->size());
}

ReadDone ModelService::read(uint64_t key) {
  ReadDone done;
  done.key = key;
  const auto found = streams_.find(key);
  if (found == streams_.end()) {
    done.outcome = Outcome::of(fail(ErrorCode::kNotFound, fmt::format("no stream {}", key)));
    return done;
  }
  OpenStream& stream = found->second;
  done.figures = new_figures();
  const int64_t built_before = lazily_built();
  const auto body = [&]() -> Status {
    if (!begin(key)) return fail(ErrorCode::kCancelled, "the request was cancelled");
    const WorkMeter::Shift shift(meter_, OwnerWork::kReading, stream.request.request);
    const int64_t start = monotonic_ns();
    done.figures.reused_tokens = stream.cache->size();
    SUTURE_RETURN_IF_ERROR(read_prompt(stream));
    done.figures.prompt_tokens = std::ssize(stream.token_ids) - done.figures.reused_tokens;
    done.figures.prefill_seconds = seconds_since(start);
    if (stream.request.follow_ring.empty()) return {};
    meter_.show(OwnerWork::kFollowing, stream.request.request);
    return follow(stream, done.figures);
  };
  const Status status = body();
  done.outcome = Outcome::of(status);
  done.figures.kv_bytes_published = static_cast<int64_t>(stream.cache->writer().bytes_published());
  done.figures.resident_bytes = resident_bytes();
  done.figures.lazily_built = lazily_built() - built_before;
  meter_.set_lazily_built(lazily_built());
  done.spans = trace_.take();
  if (!status) {
    streams_.erase(found);  // readers that still wait for rows learn that they will not come
  } else if (!stream.request.follow_ring.empty()) {
    done.token_ids = stream.request.token_ids;
    keep(key, std::move(stream));
  }
  return done;
}

Status ModelService::read_prompt(OpenStream& stream) {
  const int64_t start = monotonic_ns();
  const int64_t begin = stream.cache->size();
  const int64_t size = std::ssize(stream.token_ids);
  // What was translated has other tokens, and none of them is known to have been followed.
  std::span<const AnswerRun> answers = stream.request.answers;
  if (stream.alignment) answers = {};
  while (stream.cache->size() < size) {
    const TextPart part = part_at(answers, stream.cache->size(), size);
    SUTURE_RETURN_IF_ERROR(read_part(stream, part));
  }
  if (size > begin) trace_.add(fmt::format("read {} tokens", size - begin), start);
  return {};
}

Status ModelService::read_part(OpenStream& stream, const TextPart& part) {
  const auto check = [this]() -> Status {
    if (cancelled_.load(std::memory_order_acquire))
      return fail(ErrorCode::kCancelled, "the request was cancelled");
    return {};
  };
  const auto ids = std::span(stream.token_ids)
                       .first(static_cast<size_t>(part.end))
                       .subspan(static_cast<size_t>(stream.cache->size()));
  if (part.answered) {
    for (const int32_t id : ids) {
      SUTURE_RETURN_IF_ERROR(check());
      SUTURE_RETURN_IF_ERROR(model_->decode(id, *stream.cache));
    }
    return {};
  }
  PrefillArgs args;
  args.token_ids = ids;
  args.cache = stream.cache.get();
  args.on_chunk = [&](int64_t, int64_t) { return check(); };
  SUTURE_RETURN_IF_ERROR(model_->prefill(args));
  return {};
}

// Reads the master's tokens as they come, with the kernels of generated tokens: the same rows as
// those of a master of the same weights.
Status ModelService::follow(OpenStream& stream, ProcessFigures& figures) {
  SUTURE_ASSIGN_OR_RETURN(const UniqueFd fd, broker_->ring(stream.request.follow_ring));
  SUTURE_ASSIGN_OR_RETURN(auto ring, TokenRing::attach(fd.get()));
  TokenRingReader tokens(std::move(ring));
  const BusKvCache& cache = *stream.cache;
  while (!cancelled_.load(std::memory_order_acquire)) {
    const auto next = tokens.wait_next(deadline_in(kRingSlice));
    if (!next && next.error().code == ErrorCode::kTimeout) continue;
    if (!next) return tl::unexpected<Error>(next.error());
    // The last token of a full stream is not needed: no row of the master comes after it.
    if (!next->has_value() || cache.size() == cache.capacity()) return {};
    SUTURE_RETURN_IF_ERROR(follow_token((*next)->id, stream, figures));
  }
  return fail(ErrorCode::kCancelled, "the request was cancelled");
}

Status ModelService::follow_token(int32_t token, OpenStream& stream, ProcessFigures& figures) {
  std::vector<int32_t> ids = {token};
  if (stream.alignment) {
    stream.alignment->push(token);
    const auto& certain = stream.alignment->slave_ids();
    ids.assign(certain.begin() + stream.cache->size(), certain.end());
  }
  for (const int32_t id : ids) {
    if (stream.cache->size() == stream.cache->capacity()) return {};
    const int64_t start = monotonic_ns();
    SUTURE_RETURN_IF_ERROR(model_->decode(id, *stream.cache));
    stream.token_ids.push_back(id);
    trace_.add("follow", start);
    meter_.add_token();
    figures.decoded_tokens += 1;
    figures.decode_seconds += seconds_since(start);
  }
  stream.request.token_ids.push_back(token);
  return {};
}

void ModelService::drop(uint64_t key) { streams_.erase(key); }

Result<std::unique_ptr<BusKvCache>> ModelService::open_stream(uint64_t head_key,
                                                              int64_t head_entries,
                                                              const std::vector<int32_t>& token_ids,
                                                              int64_t capacity) {
  const auto head = streams_.find(head_key);
  const bool forks = head != streams_.end() && head_entries > 0;
  StreamInfo info = stream_info(token_ids);
  SUTURE_ASSIGN_OR_RETURN(auto writer, forks ? slab_->fork_stream(head->second.cache->writer(),
                                                                  head_entries, info, capacity)
                                             : slab_->open_stream(info, capacity));
  return std::make_unique<BusKvCache>(std::move(writer));
}

// Gives back what was reserved for tokens that did not come, where a fork of exact size is to be
// had; whole blocks are shared, not copied.
void ModelService::keep(uint64_t key, OpenStream stream) {
  const int64_t entries = stream.cache->size();
  auto exact =
      slab_->fork_stream(stream.cache->writer(), entries, stream_info(stream.token_ids), entries);
  if (exact) stream.cache = std::make_unique<BusKvCache>(std::move(*exact));
  stream.request.key = key;
  stream.alignment.reset();
  streams_[key] = std::move(stream);
}

GenerateDone ModelService::generate(const GenerateRequest& request) {
  GenerateDone done;
  done.request = request.request;
  done.attempt = request.attempt;
  const int64_t built_before = lazily_built();
  const OpenStreamFn open_answer = [&](bool take_over_head) -> Result<std::unique_ptr<BusKvCache>> {
    SUTURE_ASSIGN_OR_RETURN(
        auto cache,
        open_stream(request.head_key, take_over_head ? request.head_entries : 0, request.token_ids,
                    std::ssize(request.token_ids) + request.max_tokens));
    cache->writer().set_request(request.request);
    return cache;
  };
  const auto body = [&]() -> Status {
    SUTURE_ASSIGN_OR_RETURN(const UniqueFd fd, broker_->ring(request.ring));
    SUTURE_ASSIGN_OR_RETURN(auto ring, TokenRing::attach(fd.get()));
    SUTURE_ASSIGN_OR_RETURN(TokenRingWriter tokens, TokenRingWriter::open(std::move(ring)));
    Status status = fail(ErrorCode::kCancelled, "the request was cancelled");
    if (begin(request.request)) {
      const WorkMeter::Shift shift(meter_, OwnerWork::kReading, request.request);
      Generation generation(request, *model_, vocabularies_, load_.rope_crossing, *broker_,
                            cancelled_, trace_, meter_);
      status = generation.run(open_answer, tokens, done);
      if (!status)
        done.reason = status.error().code == ErrorCode::kCancelled ? FinishReason::kCancelled
                                                                   : FinishReason::kError;
      keep_answer(request, generation, done);
    } else {
      done.reason = FinishReason::kCancelled;
    }
    tokens.finish(static_cast<uint32_t>(done.reason));
    return done.reason == FinishReason::kCancelled ? Status() : status;
  };
  done.outcome = Outcome::of(body());
  const ProcessFigures own = new_figures();
  done.figures.name = own.name;
  done.figures.role = own.role;
  done.figures.resident_bytes = own.resident_bytes;
  done.figures.lazily_built = lazily_built() - built_before;
  meter_.set_lazily_built(lazily_built());
  done.spans = trace_.take();
  return done;
}

// The stream of an answer goes on to the next turn of its conversation.
void ModelService::keep_answer(const GenerateRequest& request, Generation& generation,
                               GenerateDone& done) {
  if (request.keep_key == 0 || done.reason == FinishReason::kError) return;
  auto cache = generation.take_cache();
  if (!cache) return;
  done.token_ids = generation.text();
  done.token_ids.resize(static_cast<size_t>(cache->size()));
  OpenStream stream{
      .request = {}, .token_ids = done.token_ids, .alignment = nullptr, .cache = std::move(cache)};
  stream.request.token_ids = done.token_ids;
  keep(request.keep_key, std::move(stream));
}

ProcessFigures ModelService::new_figures() const {
  ProcessFigures figures;
  figures.name = load_.name;
  figures.role = role_name(load_.role);
  figures.resident_bytes = resident_bytes();
  return figures;
}

bool ModelService::begin(uint64_t request) {
  const std::lock_guard lock(cancel_mutex_);
  running_ = request;
  const bool runs = !stopping_ && last_cancelled_ != request;
  cancelled_.store(!runs, std::memory_order_release);
  return runs;
}

void ModelService::cancel(uint64_t request) {
  const std::lock_guard lock(cancel_mutex_);
  last_cancelled_ = request;
  if (running_ == request) cancelled_.store(true, std::memory_order_release);
}

void ModelService::stop() {
  const std::lock_guard lock(cancel_mutex_);
  stopping_ = true;
  cancelled_.store(true, std::memory_order_release);
}

}  // namespace suture
