#include "actors/mapped_source.h"

#include <algorithm>
#include <utility>

#include "kernels/kv_map.h"

namespace suture {

Result<std::unique_ptr<MappedSource>> MappedSource::create(Device& device, Stream& stream,
                                                           MappedSourceSetup setup) {
  if (setup.slave.ropes.empty())
    return fail(ErrorCode::kCorrupt, "the stream does not say how its rows are rotated",
                "slave's stream");
  SUTURE_ASSIGN_OR_RETURN(auto cache,
                          make_heap_kv_cache(device, setup.master.kv_shape(), setup.capacity));
  return std::unique_ptr<MappedSource>(
      new MappedSource(stream, std::move(setup), std::move(cache)));
}

MappedSource::MappedSource(Stream& stream, MappedSourceSetup setup, std::unique_ptr<KvCache> cache)
    : stream_(stream),
      setup_(std::move(setup)),
      slave_rotations_(setup_.slave),
      master_rotations_(setup_.master),
      cache_(std::move(cache)),
      mapped_(static_cast<size_t>(setup_.master.n_layers), setup_.segments.front().begin) {}

int64_t MappedSource::position_of(int64_t entry) const {
  int64_t offset = 0;
  for (const PlannedSegment& segment : setup_.segments)
    if (segment.begin <= entry) offset = segment.position_offset;
  return entry + offset;
}

Status MappedSource::map(const RowSource& source, const TokenAlignment* alignment, int32_t layer,
                         int64_t end) {
  const int32_t slave_layer = setup_.layer_map[static_cast<size_t>(layer)];
  int64_t& done = mapped_[static_cast<size_t>(layer)];
  Run run;
  for (; done < end; ++done) {
    const int64_t slave_entry =
        alignment == nullptr ? done : alignment->matches()[static_cast<size_t>(done)].slave_entry;
    if (slave_entry < 0) continue;
    const int64_t length = std::max(setup_.prompt_length, position_of(done) + 1);
    const Rotation slave = slave_rotations_.at(slave_layer, source.rope_epoch(slave_entry));
    const Rotation master = master_rotations_.at(layer, rope_epoch(setup_.master.ropes, length));
    if (run.slave_entries.empty() || run.slave != slave || run.master != master) {
      SUTURE_RETURN_IF_ERROR(write(source, layer, run));
      run = {done, slave, master, {}, {}};
    }
    run.slave_entries.push_back(static_cast<int32_t>(slave_entry));
    run.positions.push_back(static_cast<int32_t>(position_of(done)));
  }
  return write(source, layer, run);
}

Status MappedSource::write(const RowSource& source, int32_t layer, const Run& run) {
  if (run.slave_entries.empty()) return {};
  const int32_t slave_layer = setup_.layer_map[static_cast<size_t>(layer)];
  KvMapArgs args;
  args.from_shape = source.shape;
  args.from = source.layer_view(slave_layer);
  args.from_entries = run.slave_entries.data();
  // A slave reads its own sequence from position 0 on.
  args.from_rotation = {run.slave.frequencies, run.slave.attention_factor,
                        setup_.slave.rope_pairing, run.slave_entries.data()};
  args.to_shape = setup_.master.kv_shape();
  args.to = cache_->layer_view(layer);
  args.first_entry = run.first_entry;
  args.to_rotation = {run.master.frequencies, run.master.attention_factor,
                      setup_.master.rope_pairing, run.positions.data()};
  args.n_rows = std::ssize(run.slave_entries);
  return kv_map(stream_, args);
}

}  // namespace suture
