#include "actors/projected_source.h"

#include <algorithm>
#include <utility>

#include "actors/trace_log.h"

namespace suture {

Result<std::unique_ptr<ProjectedSource>> ProjectedSource::create(RowProjector& projector,
                                                                 Device& device,
                                                                 const StreamInfo& stream,
                                                                 const GivenText& text,
                                                                 int64_t capacity) {
  StreamInfo rows = stream;
  rows.token_ids.clear();
  if (rows != projector.source())
    return fail(ErrorCode::kIncompatible, "the stream is not of the model that the projector maps",
                "slave's stream", "the file of a model has changed: start the topology again");
  SUTURE_ASSIGN_OR_RETURN(auto cache,
                          make_heap_kv_cache(device, projector.target().shape, capacity));
  return std::unique_ptr<ProjectedSource>(new ProjectedSource(projector, text, std::move(cache)));
}

ProjectedSource::ProjectedSource(RowProjector& projector, const GivenText& text,
                                 std::unique_ptr<KvCache> cache)
    : projector_(projector),
      cache_(std::move(cache)),
      rows_(projector, std::ssize(text.token_ids), text.answers),
      token_ids_(text.token_ids) {
  token_ids_.reserve(static_cast<size_t>(cache_->capacity()));
}

int64_t ProjectedSource::entries_needed(const TokenAlignment* alignment, int64_t end) {
  if (alignment == nullptr || end == 0) return end;
  return alignment->matches()[static_cast<size_t>(end) - 1].slave_entry + 1;
}

bool ProjectedSource::can_extend(const StreamReader& slave, const TokenAlignment* alignment,
                                 int64_t end) const {
  const int64_t next = cache_->size();
  return next < std::min(end, cache_->capacity()) &&
         slave.has(slave.n_layers() - 1, entries_needed(alignment, next + 1)).value_or(false);
}

Status ProjectedSource::extend(const StreamReader& slave, const TokenAlignment* alignment,
                               int64_t end, int64_t most) {
  if (!can_extend(slave, alignment, end)) return {};
  const int64_t start_ns = monotonic_ns();
  const Status mapped =
      rows_.extend(rows_of(slave), slave.committed(slave.n_layers() - 1), {token_ids_, alignment},
                   std::min(end, cache_->size() + most), *cache_);
  seconds_ += seconds_since(start_ns);
  return mapped;
}

}  // namespace suture
