#include "actors/projected_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "fusion/projector_file.h"
#include "models/checkpoint.h"

namespace suture {
namespace {

// The master as it runs.
Result<ProjectorSide> master_side(const ProjectionLoad& load, std::string vocabulary_hash) {
  SUTURE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(load.master_path));
  ModelConfig config = checkpoint->config();
  SUTURE_RETURN_IF_ERROR(
      override_rope({.rope_scaling = load.rope_scaling, .rope_length = load.rope_length}, config));
  return projector_side(load.master, fingerprint_of(*checkpoint, config),
                        std::move(vocabulary_hash), config);
}

// The slave's entry of each of the master's first tokens, as far as that is below `source_entries`.
// Never falls.
void append_known(const TokenAlignment* alignment, int64_t source_entries,
                  std::vector<int32_t>& known) {
  const auto next = std::ssize(known);
  if (alignment == nullptr) {
    known.resize(static_cast<size_t>(std::max(next, source_entries)));
    std::iota(known.begin() + next, known.end(), static_cast<int32_t>(next));
    return;
  }
  const auto& matches = alignment->matches();
  for (auto i = known.size(); i < matches.size() && matches[i].slave_entry < source_entries; ++i)
    known.push_back(static_cast<int32_t>(matches[i].slave_entry));
}

}  // namespace

std::string projected_owner(std::string_view slave, std::string_view master) {
  return fmt::format("{}>{}", slave, master);
}

Result<std::unique_ptr<ProjectedStreams>> ProjectedStreams::create(
    const ProjectionLoad& load, LanguageModel& model, const ProjectedSlab& slab,
    std::unique_ptr<BrokerClient> broker) {
  SUTURE_ASSIGN_OR_RETURN(Projector read, read_projector(load.projector));
  const auto projector = std::make_shared<const Projector>(std::move(read));
  // The launcher has compared the vocabularies; the file may be another one since.
  const ProjectorSide source = projector_side("the slave", model.fingerprint(),
                                              projector->source.vocabulary_hash, model.config());
  SUTURE_ASSIGN_OR_RETURN(const ProjectorSide target,
                          master_side(load, projector->target.vocabulary_hash));
  SUTURE_RETURN_IF_ERROR(check_projector(*projector, source, target, load.force));
  SUTURE_RETURN_IF_ERROR(check_one_rope_epoch(source, slab.max_seq_len));
  SUTURE_RETURN_IF_ERROR(check_one_rope_epoch(target, slab.max_seq_len));

  std::unique_ptr<ProjectedStreams> streams(new ProjectedStreams());
  streams->owner_ = slab.owner;
  streams->info_ = target.kv;
  SUTURE_ASSIGN_OR_RETURN(streams->projection_, Projection::create(model.device(), model.stream(),
                                                                   {.projector = projector,
                                                                    .source = source.kv,
                                                                    .target = target.kv,
                                                                    .max_rows = kPrefillGrid}));
  SUTURE_ASSIGN_OR_RETURN(streams->slab_, Slab::create({.shape = target.kv.shape,
                                                        .max_seq_len = slab.max_seq_len,
                                                        .max_sequences = slab.max_sequences,
                                                        .owner = broker->self()}));
  SUTURE_RETURN_IF_ERROR(
      broker->publish_slab(streams->slab_->payload_fd(), streams->slab_->control_fd()));
  streams->broker_ = std::move(broker);
  streams->views_.resize(static_cast<size_t>(source.n_layers()));
  streams->target_positions_.reserve(static_cast<size_t>(kPrefillGrid));
  return streams;
}

Result<std::unique_ptr<ProjectedStream>> ProjectedStreams::open(const ProjectedText& text,
                                                                const ProjectedStream* head,
                                                                int64_t head_entries,
                                                                int64_t source_entries) {
  std::vector<int32_t> known;
  known.reserve(static_cast<size_t>(text.capacity));
  if (head != nullptr) {
    append_known(text.alignment, source_entries, known);
    known.resize(std::min(
        {known.size(), static_cast<size_t>(head_entries), static_cast<size_t>(head->size())}));
    const auto shared = std::ranges::mismatch(known, head->source_entries_);
    known.erase(shared.in1, known.end());
  }
  StreamInfo info = info_;
  info.token_ids.assign(text.token_ids.begin(), text.token_ids.end());
  SUTURE_ASSIGN_OR_RETURN(
      auto writer,
      known.empty() ? slab_->open_stream(info, text.capacity)
                    : slab_->fork_stream(head->writer(), std::ssize(known), info, text.capacity));
  writer->set_request(text.request);
  return std::unique_ptr<ProjectedStream>(new ProjectedStream(
      *this, text, std::make_unique<BusKvCache>(std::move(writer)), std::move(known)));
}

ProjectedStream::ProjectedStream(ProjectedStreams& streams, const ProjectedText& text,
                                 std::unique_ptr<BusKvCache> cache,
                                 std::vector<int32_t> source_entries)
    : streams_(streams),
      cache_(std::move(cache)),
      source_entries_(std::move(source_entries)),
      answers_(text.answers),
      read_tokens_(std::ssize(text.token_ids)),
      first_entry_(text.alignment == nullptr ? 0 : text.alignment->first_matched()) {}

Status ProjectedStream::extend(BusKvCache& source, const TokenAlignment* alignment) {
  append_known(alignment, source.size(), source_entries_);
  const int64_t end = std::min(std::ssize(source_entries_), cache_->capacity());
  while (size() < end) SUTURE_RETURN_IF_ERROR(map_run(source, run_end(end)));
  return {};
}

// Entries of one kind: without a row, of a text that was read, or generated.
int64_t ProjectedStream::run_end(int64_t end) const {
  const int64_t begin = size();
  const auto first = source_entries_.begin() + begin;
  if (*first < 0)
    return std::find_if(first, source_entries_.begin() + end, [](int32_t e) { return e >= 0; }) -
           source_entries_.begin();
  if (begin < read_tokens_) end = std::min(end, part_at(answers_, begin, read_tokens_).end);
  return std::min(end, begin + kPrefillGrid);
}

Status ProjectedStream::map_run(BusKvCache& source, int64_t end) {
  const int64_t begin = size();
  const auto entries = std::span(source_entries_)
                           .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  const bool has_rows = entries.front() >= 0;
  const int64_t epoch = rope_epoch(streams_.info_.ropes, end);
  cache_->set_rope_epoch(begin, end - begin, epoch);
  if (has_rows) {
    for (size_t layer = 0; layer < streams_.views_.size(); ++layer)
      streams_.views_[layer] = source.layer_view(static_cast<int32_t>(layer));
    auto& positions = streams_.target_positions_;
    positions.resize(entries.size());
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(begin));
    const bool generated = begin >= read_tokens_ || part_at(answers_, begin, read_tokens_).answered;
    // A sequence's own rows lie at the positions of their entries.
    SUTURE_RETURN_IF_ERROR(streams_.projection_->read(
        {.source = streams_.views_,
         .source_entries = entries,
         .source_positions = entries,
         .source_epoch = source.rope_epoch(entries.front()),
         .target_positions = positions,
         .target_epoch = epoch,
         .path = generated ? MatmulPath::kDecode : MatmulPath::kPrefill}));
  }
  for (int32_t layer = 0; layer < cache_->shape().n_layers; ++layer) {
    if (has_rows)
      SUTURE_RETURN_IF_ERROR(streams_.projection_->write(layer, cache_->layer_view(layer), begin));
    cache_->commit(layer, end);
  }
  return {};
}

void ProjectedStream::trim() {
  auto exact = streams_.slab_->fork_stream(writer(), size(), streams_.info_, size());
  if (!exact) return;
  cache_ = std::make_unique<BusKvCache>(std::move(*exact));
  source_entries_.resize(static_cast<size_t>(size()));
}

}  // namespace suture
