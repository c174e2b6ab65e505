// The part of the stitching that begins with a slave: its stream attached, checked, and made to say
// how its rows become the master's.
#include <fmt/format.h>

#include <span>
#include <utility>

#include "actors/stitching.h"
#include "fusion/layer_map.h"
#include "fusion/rope_map.h"

namespace suture {

Status Stitching::check_source(const SourceLink& link, const StreamInfo& info) const {
  const auto n_layers = static_cast<size_t>(config_.n_layers);
  if (link.layer_gain_bits.size() != n_layers || link.layer_map.size() != n_layers)
    return fail(ErrorCode::kIncompatible,
                fmt::format("{} gains and a layer map of {} for {} layers",
                            link.layer_gain_bits.size(), link.layer_map.size(), n_layers),
                link.name);
  for (const int32_t layer : link.layer_map)
    if (layer < kNoPartner || layer >= info.shape.n_layers)
      return fail(ErrorCode::kIncompatible,
                  fmt::format("layer {} of a slave that has {} layers", layer, info.shape.n_layers),
                  link.name);
  KvShape expected = config_.kv_shape();
  expected.n_layers = info.shape.n_layers;
  expected.dtype = info.shape.dtype;  // converted where it differs
  if (info.shape != expected)
    return fail(ErrorCode::kIncompatible, "the stream's K/V shape is not the master's", link.name,
                "run 'suture check' on the topology");
  return {};
}

Status Stitching::attach_source(size_t index) {
  const SourceLink& link = *sources_[index].link;
  const auto bytes = std::as_bytes(std::span(link.stream.info));
  SUTURE_ASSIGN_OR_RETURN(const StreamInfo info, decode_stream_info(bytes));
  Source& source = sources_[index];
  RowProjector* projector = nullptr;
  if (link.project_here) {
    SUTURE_ASSIGN_OR_RETURN(projector, projector_of(link));
  }
  const StreamInfo& rows = projector != nullptr ? projector->target() : info;
  SUTURE_RETURN_IF_ERROR(check_source(link, rows));
  SUTURE_ASSIGN_OR_RETURN(StreamReader reader, attach_stream(link, info));
  SUTURE_RETURN_IF_ERROR(align_text(source));
  const int64_t room = link.project_here ? std::ssize(link.given.token_ids) : reader.capacity();
  for (const PlannedSegment& segment : link.segments)
    if (source.entries() == nullptr && segment.end != PlannedSegment::kOpenEnd &&
        segment.end > room)
      return fail(
          ErrorCode::kIncompatible,
          fmt::format("the plan needs {} entries, the stream has room for {}", segment.end, room),
          link.name);
  if (projector != nullptr) SUTURE_RETURN_IF_ERROR(project_rows(source, *projector, info));
  SUTURE_RETURN_IF_ERROR(map_rows(source, rows));
  source.reader = std::make_unique<StreamReader>(std::move(reader));
  return {};
}

Result<StreamReader> Stitching::attach_stream(const SourceLink& link,
                                              const StreamInfo& info) const {
  SUTURE_ASSIGN_OR_RETURN(const std::shared_ptr<SlabView> slab, broker_.slab(link.stream.owner));
  SUTURE_ASSIGN_OR_RETURN(StreamReader reader,
                          slab->attach({link.stream.slot, link.stream.generation}));
  if (reader.shape() != info.shape)
    return fail(ErrorCode::kCorrupt, "the stream is announced with another shape", link.name);
  return reader;
}

// Both processes push the same tokens through the same vocabularies and agree without a word.
Status Stitching::align_text(Source& source) const {
  const SourceLink& link = *source.link;
  if (link.other_vocabulary) {
    SUTURE_ASSIGN_OR_RETURN(source.alignment, align(link.name, request_.token_ids));
    extend_visibility(source);
  } else if (link.project_here && link.given.as_text) {
    SUTURE_ASSIGN_OR_RETURN(source.given, align(link.name, link.given.token_ids));
    source.given->finish();
  }
  return {};
}

Result<std::unique_ptr<TokenAlignment>> Stitching::align(const std::string& slave,
                                                         std::span<const int32_t> token_ids) const {
  SUTURE_ASSIGN_OR_RETURN(const Tokenizer* own, vocabularies_.own());
  SUTURE_ASSIGN_OR_RETURN(const Tokenizer* other, vocabularies_.of(slave));
  auto alignment = std::make_unique<TokenAlignment>(*own, *other);
  for (const int32_t token : token_ids) alignment->push(token);
  return alignment;
}

Result<RowProjector*> Stitching::projector_of(const SourceLink& link) const {
  const auto found = projectors_.find(link.name);
  if (found == projectors_.end())
    return fail(ErrorCode::kNotFound, "the master has loaded no projector for this slave",
                link.name);
  return found->second.get();
}

Status Stitching::project_rows(Source& source, RowProjector& projector,
                               const StreamInfo& info) const {
  const SourceLink& link = *source.link;
  if (link.segments.empty() || !link.sees_any()) return {};
  SUTURE_ASSIGN_OR_RETURN(
      source.projected,
      ProjectedSource::create(projector, model_.device(), info, link.given, capacity_of(link)));
  return {};
}

// Of the master's tokens.
int64_t Stitching::capacity_of(const SourceLink& link) const {
  const int64_t end = link.segments.back().end;
  if (end != PlannedSegment::kOpenEnd) return end;
  return std::ssize(request_.token_ids) + request_.max_tokens;
}

Status Stitching::map_rows(Source& source, const StreamInfo& info) const {
  const SourceLink& link = *source.link;
  if (link.segments.empty() || !link.sees_any()) return {};
  const bool as_it_lies =
      info.shape.dtype == config_.kv_dtype &&
      same_rotation(config_, info, link.layer_map, link.segments.front().position);
  if (as_it_lies && source.entries() == nullptr) return {};
  MappedSourceSetup setup{.slave = info,
                          .master = config_,
                          .layer_map = link.layer_map,
                          .segments = link.segments,
                          .capacity = capacity_of(link),
                          .prompt_length = request_.first_new_position};
  SUTURE_ASSIGN_OR_RETURN(source.mapped,
                          MappedSource::create(model_.device(), model_.stream(), std::move(setup)));
  return {};
}

}  // namespace suture
