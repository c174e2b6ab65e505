#include "actors/projected_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace suture {

std::string projected_owner(std::string_view slave, std::string_view master) {
  return fmt::format("{}>{}", slave, master);
}

Result<std::unique_ptr<ProjectedStreams>> ProjectedStreams::create(
    std::unique_ptr<RowProjector> projector, const ProjectedSlab& slab,
    std::unique_ptr<BrokerClient> broker) {
  std::unique_ptr<ProjectedStreams> streams(new ProjectedStreams());
  streams->owner_ = slab.owner;
  SUTURE_ASSIGN_OR_RETURN(streams->slab_, Slab::create({.shape = projector->target().shape,
                                                        .max_seq_len = slab.max_seq_len,
                                                        .max_sequences = slab.max_sequences,
                                                        .owner = broker->self()}));
  SUTURE_RETURN_IF_ERROR(
      broker->publish_slab(streams->slab_->payload_fd(), streams->slab_->control_fd()));
  streams->broker_ = std::move(broker);
  streams->projector_ = std::move(projector);
  return streams;
}

Result<std::unique_ptr<ProjectedStream>> ProjectedStreams::open(const ProjectedText& text,
                                                                const ProjectedStream* head,
                                                                int64_t head_entries,
                                                                int64_t source_entries) {
  std::vector<int32_t> known;
  known.reserve(static_cast<size_t>(text.capacity));
  if (head != nullptr) {
    append_source_entries(text.alignment, source_entries, known);
    known.resize(std::min(
        {known.size(), static_cast<size_t>(head_entries), static_cast<size_t>(head->size())}));
    const auto shared = std::ranges::mismatch(known, head->rows_.source_entries());
    known.erase(shared.in1, known.end());
  }
  StreamInfo info = projector_->target();
  info.token_ids.assign(text.token_ids.begin(), text.token_ids.end());
  SUTURE_ASSIGN_OR_RETURN(
      auto writer,
      known.empty() ? slab_->open_stream(info, text.capacity)
                    : slab_->fork_stream(head->writer(), std::ssize(known), info, text.capacity));
  writer->set_request(text.request);
  return std::unique_ptr<ProjectedStream>(new ProjectedStream(
      *this, text, std::make_unique<BusKvCache>(std::move(writer)), std::move(known)));
}

Result<std::unique_ptr<ProjectedStream>> ProjectedStreams::map_generated(
    BusKvCache& source, std::vector<int32_t> source_entries, std::span<const int32_t> token_ids,
    uint64_t request) {
  const int64_t rows = std::ssize(source_entries);
  SUTURE_ASSIGN_OR_RETURN(auto writer, slab_->open_stream(projector_->target(), rows));
  writer->set_request(request);
  std::unique_ptr<ProjectedStream> stream(
      new ProjectedStream(*this, ProjectedText{}, std::make_unique<BusKvCache>(std::move(writer)),
                          std::move(source_entries)));
  SUTURE_RETURN_IF_ERROR(stream->rows_.extend(rows_of(source), /*source_entries=*/0, {token_ids},
                                              rows, *stream->cache_));
  return stream;
}

ProjectedStream::ProjectedStream(ProjectedStreams& streams, const ProjectedText& text,
                                 std::unique_ptr<BusKvCache> cache, std::vector<int32_t> known)
    : streams_(streams),
      cache_(std::move(cache)),
      rows_(*streams.projector_, std::ssize(text.token_ids), text.answers, std::move(known)),
      first_entry_(text.alignment == nullptr ? 0 : text.alignment->first_matched()) {}

Status ProjectedStream::extend(BusKvCache& source, const MasterText& text) {
  return rows_.extend(rows_of(source), source.size(), text, cache_->capacity(), *cache_);
}

void ProjectedStream::trim() {
  auto exact = streams_.slab_->fork_stream(writer(), size(), streams_.projector_->target(), size());
  if (!exact) return;
  cache_ = std::make_unique<BusKvCache>(std::move(*exact));
  rows_.forget_beyond(size());
}

}  // namespace suture
