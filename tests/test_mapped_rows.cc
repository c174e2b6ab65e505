#include "tests/test_mapped_rows.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "fusion/projector_file.h"
#include "fusion/test_projector.h"
#include "fusion/token_alignment.h"
#include "models/logits_reader.h"
#include "models/test_text_model.h"
#include "models/test_vocabulary.h"

namespace suture {
namespace {

constexpr uint32_t kPositions = 2048;

}  // namespace

std::unique_ptr<LanguageModel> load_model(const std::filesystem::path& path) {
  auto model = LanguageModel::load(path, {});
  EXPECT_TRUE(model.has_value()) << model.error().message();
  return std::move(*model);
}

std::unique_ptr<Tokenizer> tokenizer_of(const LanguageModel& model) {
  return Tokenizer::create(model.checkpoint().vocabulary().value()).value();
}

std::vector<std::byte> mapping_master() {
  return text_model(
      {.vocabulary = make_chat_vocabulary({}), .n_layers = 4, .positions = kPositions});
}

std::vector<std::byte> mapped_slave() {
  return text_model({.vocabulary = make_chat_vocabulary({}),
                     .n_layers = 3,
                     .kv_heads = 4,
                     .seed = 3,
                     .theta = 5e5f,
                     .pairing = RopePairing::kNeighbours,
                     .half_precision = true,
                     .positions = kPositions});
}

std::vector<std::byte> mapped_stranger() {
  return text_model({.vocabulary = make_chat_vocabulary({"t h", "th e", "i n", "o n", "e r"}),
                     .n_layers = 3,
                     .kv_heads = 1,
                     .seed = 5,
                     .positions = kPositions});
}

std::vector<std::byte> mapping_talker() {
  return text_model({.vocabulary = make_chat_vocabulary({}), .n_layers = 4, .seed = 4});
}

Projector make_random_projector(const std::filesystem::path& slave,
                                const std::filesystem::path& master,
                                const std::filesystem::path& path) {
  const auto source = load_model(slave);
  const auto target = load_model(master);
  TestProjector made(DType::kBf16, {{{0, 2}, {1}}, {{1}, {0, 1, 2}}, {{0}, {2}}, {{2}, {0}}},
                     source->config(), target->config(), 1, /*own_first_layer=*/true);
  for (const auto& [side, model] :
       {std::pair(&made.value.source, source.get()), std::pair(&made.value.target, target.get())}) {
    side->kv.model_fingerprint = model->fingerprint();
    side->vocabulary_hash = tokenizer_of(*model)->vocabulary_hash();
  }
  const Status written = write_projector(path, made.value);
  EXPECT_TRUE(written) << written.error().message();
  return made.value;
}

AppliedProjector::AppliedProjector(const Projector& projector, LanguageModel& master,
                                   int64_t max_rows) {
  ProjectionSetup setup{std::make_shared<const Projector>(projector), projector.source.kv,
                        projector.target.kv, max_rows};
  if (projector.own_first_layer) {
    first_layer_ =
        FirstLayer::create(master.checkpoint(), master.device(), master.stream(), max_rows).value();
    setup.first_layer = [this](auto... args) { return first_layer_->rows(args...); };
  }
  projection_ = Projection::create(master.device(), master.stream(), std::move(setup)).value();
}

void AppliedProjector::map(KvCache& read, std::span<const int32_t> entries,
                           std::span<const int32_t> ids, MatmulPath path, KvCache& mapped) {
  std::vector<KvLayerView> views;
  for (int32_t layer = 0; layer < read.shape().n_layers; ++layer)
    views.push_back(read.layer_view(layer));
  const int64_t begin = mapped.size();
  std::vector<int32_t> positions(entries.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(begin));
  EXPECT_TRUE(projection_->read({.source = views,
                                 .source_entries = entries,
                                 .source_positions = entries,
                                 .target_positions = positions,
                                 .target_tokens = ids,
                                 .path = path}));
  for (int32_t layer = 0; layer < mapped.shape().n_layers; ++layer) {
    EXPECT_TRUE(projection_->write(layer, mapped.layer_view(layer), begin));
    mapped.commit(layer, begin + std::ssize(entries));
  }
}

MappedRows::MappedRows(const std::filesystem::path& slave, LanguageModel& master,
                       const std::vector<int32_t>& ids, const Projector* projector,
                       int64_t capacity)
    : master_(master), slave_(load_model(slave)) {
  std::vector<int32_t> slave_ids = ids;
  std::vector<int32_t> entries(ids.size());
  std::iota(entries.begin(), entries.end(), 0);
  const auto own = tokenizer_of(master);
  const auto other = tokenizer_of(*slave_);
  if (own->vocabulary_hash() != other->vocabulary_hash()) {
    TokenAlignment alignment(*own, *other);
    for (const int32_t id : ids) alignment.push(id);
    alignment.finish();
    slave_ids = alignment.slave_ids();
    for (size_t i = 0; i < entries.size(); ++i)
      entries[i] = static_cast<int32_t>(alignment.matches()[i].slave_entry);
  }
  read_ = slave_->make_cache(std::ssize(slave_ids) + capacity).value();
  PrefillArgs args;
  args.token_ids = slave_ids;
  args.cache = read_.get();
  EXPECT_TRUE(slave_->prefill(args).has_value());
  if (projector == nullptr) return;
  mapped_ = master.make_cache(std::ssize(ids) + capacity).value();
  projector_ = std::make_unique<AppliedProjector>(*projector, master, std::ssize(ids));
  projector_->map(*read_, entries, ids, MatmulPath::kPrefill, *mapped_);
}

void MappedRows::follow(int32_t id) {
  EXPECT_TRUE(slave_->decode(id, *read_).has_value());
  const auto entry = static_cast<int32_t>(read_->size() - 1);
  if (mapped_)
    projector_->map(*read_, std::span(&entry, 1), std::span(&id, 1), MatmulPath::kDecode, *mapped_);
}

ForeignSegment MappedRows::segment(int64_t begin, int64_t end) {
  KvCache& rows = mapped_ ? *mapped_ : *read_;
  ForeignSegment segment;
  for (int32_t layer = 0; layer < master_.config().n_layers; ++layer)
    segment.layers.push_back(rows.layer_view(layer));
  segment.begin = begin;
  segment.end = end;
  segment.visibility = Visibility::kUpTo;
  return segment;
}

const float* read_alone(LanguageModel& master, KvCache& cache, std::span<const int32_t> ids) {
  PrefillArgs args;
  args.token_ids = ids.subspan(static_cast<size_t>(cache.size()));
  args.cache = &cache;
  const auto logits = master.prefill(args);
  EXPECT_TRUE(logits.has_value());
  return logits.value_or(nullptr);
}

std::vector<float> logprobs_of(LanguageModel& master, const SequencePlan& plan,
                               const std::vector<int32_t>& ids, int64_t scored, int64_t alone) {
  const auto cache = master.make_cache(std::ssize(ids)).value();
  if (alone > 0) read_alone(master, *cache, std::span(ids).first(static_cast<size_t>(alone)));
  auto reader =
      LogitsReader::create(master.device(), master.stream(), master.config().vocab_size).value();
  std::vector<float> logprobs;
  PrefillArgs args;
  args.token_ids = std::span(ids).subspan(static_cast<size_t>(alone));
  args.cache = cache.get();
  args.plan = &plan;
  args.first_logits_row = std::ssize(args.token_ids) - scored - 1;
  args.on_logits = [&](int64_t row, const float* logits) -> Status {
    const auto next = static_cast<size_t>(alone + row) + 1;
    if (next == ids.size()) return {};
    SUTURE_ASSIGN_OR_RETURN(const float all, reader.log_sum_exp(logits));
    SUTURE_ASSIGN_OR_RETURN(const float logit, reader.read(logits + ids[next]));
    logprobs.push_back(logit - all);
    return {};
  };
  EXPECT_TRUE(master.prefill(args).has_value());
  return logprobs;
}

std::vector<int32_t> answer_beside(LanguageModel& master, MappedRows& rows,
                                   const std::vector<int32_t>& text, int64_t alone, int64_t tokens,
                                   const std::function<SequencePlan(int64_t entry)>& plan_for) {
  const auto cache = master.make_cache(std::ssize(text) + tokens).value();
  SequencePlan plan = plan_for(std::ssize(text) - 1);
  read_alone(master, *cache, std::span(text).first(static_cast<size_t>(alone)));
  PrefillArgs args;
  args.token_ids = std::span(text).subspan(static_cast<size_t>(alone));
  args.cache = cache.get();
  args.plan = &plan;
  const float* logits = master.prefill(args).value();
  std::vector<int32_t> answer;
  while (std::ssize(answer) < tokens) {
    answer.push_back(best_token(master, logits));
    plan = plan_for(cache->size());
    logits = master.decode(answer.back(), *cache, &plan).value();
    rows.follow(answer.back());
  }
  return answer;
}

int32_t best_token(LanguageModel& model, const float* logits) {
  auto reader =
      LogitsReader::create(model.device(), model.stream(), model.config().vocab_size).value();
  return reader.top(logits, 1).value().front().first;
}

}  // namespace suture
