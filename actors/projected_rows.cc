#include "actors/projected_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "fusion/projector_file.h"

namespace suture {
namespace {

// The pair's other model as it runs.
Result<ProjectorSide> other_side(const ProjectionLoad& load, const Checkpoint& checkpoint,
                                 std::string vocabulary_hash) {
  ModelConfig config = checkpoint.config();
  SUTURE_RETURN_IF_ERROR(
      override_rope({.rope_scaling = load.rope_scaling, .rope_length = load.rope_length}, config));
  return projector_side(load.other, fingerprint_of(checkpoint, config), std::move(vocabulary_hash),
                        config);
}

}  // namespace

Result<std::unique_ptr<RowProjector>> RowProjector::create(const ProjectionLoad& load,
                                                           LanguageModel& model, Role role,
                                                           int64_t max_seq_len) {
  SUTURE_ASSIGN_OR_RETURN(Projector read, read_projector(load.projector));
  const auto projector = std::make_shared<const Projector>(std::move(read));
  const bool is_slave = role == Role::kSlave;
  // The launcher has compared the vocabularies; the file may be another one since.
  const auto own_hash = (is_slave ? projector->source : projector->target).vocabulary_hash;
  const auto other_hash = (is_slave ? projector->target : projector->source).vocabulary_hash;
  ProjectorSide own = projector_side(is_slave ? "the slave" : "the master", model.fingerprint(),
                                     own_hash, model.config());
  SUTURE_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::open(load.other_path));
  SUTURE_ASSIGN_OR_RETURN(ProjectorSide other, other_side(load, *checkpoint, other_hash));
  const ProjectorSide& source = is_slave ? own : other;
  const ProjectorSide& target = is_slave ? other : own;
  SUTURE_RETURN_IF_ERROR(check_projector(*projector, source, target, load.force));
  SUTURE_RETURN_IF_ERROR(check_one_rope_epoch(source, max_seq_len));
  SUTURE_RETURN_IF_ERROR(check_one_rope_epoch(target, max_seq_len));

  std::unique_ptr<RowProjector> made(new RowProjector());
  made->source_ = source.kv;
  made->target_ = target.kv;
  made->other_ = std::move(checkpoint);
  ProjectionSetup setup{
      .projector = projector, .source = source.kv, .target = target.kv, .max_rows = kPrefillGrid};
  if (projector->own_first_layer) {
    SUTURE_ASSIGN_OR_RETURN(made->first_layer_,
                            FirstLayer::create(is_slave ? *made->other_ : model.checkpoint(),
                                               model.device(), model.stream(), kPrefillGrid));
    setup.first_layer = [layer = made->first_layer_.get()](auto... args) {
      return layer->rows(args...);
    };
  }
  SUTURE_ASSIGN_OR_RETURN(made->projection_,
                          Projection::create(model.device(), model.stream(), std::move(setup)));
  made->views_.resize(static_cast<size_t>(source.n_layers()));
  made->target_positions_.reserve(static_cast<size_t>(kPrefillGrid));
  return made;
}

// Entries never fall.
void append_source_entries(const TokenAlignment* alignment, int64_t source_entries,
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

ProjectedRows::ProjectedRows(RowProjector& projector, int64_t read_tokens,
                             std::vector<AnswerRun> answers, std::vector<int32_t> known)
    : projector_(projector),
      read_tokens_(read_tokens),
      answers_(std::move(answers)),
      source_entries_(std::move(known)) {}

Status ProjectedRows::extend(const RowSource& source, int64_t source_entries,
                             const MasterText& text, int64_t end, KvCache& target) {
  append_source_entries(text.alignment, source_entries, source_entries_);
  end = std::min({end, std::ssize(source_entries_), std::ssize(text.token_ids), target.capacity()});
  while (target.size() < end)
    SUTURE_RETURN_IF_ERROR(map_run(source, text.token_ids, run_end(target.size(), end), target));
  return {};
}

// Entries of one kind: without a row, of a text that was read, or generated.
int64_t ProjectedRows::run_end(int64_t begin, int64_t end) const {
  const auto first = source_entries_.begin() + begin;
  if (*first < 0)
    return std::find_if(first, source_entries_.begin() + end, [](int32_t e) { return e >= 0; }) -
           source_entries_.begin();
  if (begin < read_tokens_) end = std::min(end, part_at(answers_, begin, read_tokens_).end);
  return std::min(end, begin + kPrefillGrid);
}

Status ProjectedRows::map_run(const RowSource& source, std::span<const int32_t> token_ids,
                              int64_t end, KvCache& target) {
  const int64_t begin = target.size();
  const auto run_of = [begin, end](std::span<const int32_t> list) {
    return list.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  };
  const auto entries = run_of(source_entries_);
  const bool has_rows = entries.front() >= 0;
  const int64_t epoch = rope_epoch(projector_.target_.ropes, end);
  target.set_rope_epoch(begin, end - begin, epoch);
  if (has_rows) {
    auto& views = projector_.views_;
    for (size_t layer = 0; layer < views.size(); ++layer)
      views[layer] = source.layer_view(static_cast<int32_t>(layer));
    auto& positions = projector_.target_positions_;
    positions.resize(entries.size());
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(begin));
    const bool generated = begin >= read_tokens_ || part_at(answers_, begin, read_tokens_).answered;
    // A sequence's own rows lie at the positions of their entries, and all in one epoch.
    SUTURE_RETURN_IF_ERROR(projector_.projection_->read(
        {.source = views,
         .source_entries = entries,
         .source_positions = entries,
         .source_epoch = rope_epoch(projector_.source_.ropes, end),
         .target_positions = positions,
         .target_tokens = run_of(token_ids),
         .target_epoch = epoch,
         .path = generated ? MatmulPath::kDecode : MatmulPath::kPrefill}));
  }
  for (int32_t layer = 0; layer < target.shape().n_layers; ++layer) {
    if (has_rows)
      SUTURE_RETURN_IF_ERROR(projector_.projection_->write(layer, target.layer_view(layer), begin));
    target.commit(layer, end);
  }
  return {};
}

}  // namespace suture
