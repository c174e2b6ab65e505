#include "actors/model_streams.h"

#include <cstddef>
#include <utility>

namespace suture {

StreamRef announce(const OpenStream& stream, const std::string& owner) {
  const ProjectedStream* projected = stream.projected.get();
  const StreamWriter& writer = projected ? projected->writer() : stream.cache->writer();
  const std::vector<std::byte> info = encode_stream_info(writer.info());
  const auto* bytes = reinterpret_cast<const char*>(info.data());
  return {owner, writer.id().slot, writer.id().generation,
          std::vector<char>(bytes, bytes + info.size()), projected ? projected->first_entry() : 0};
}

StreamInfo ModelStreams::info_of(std::vector<int32_t> token_ids) const {
  StreamInfo info;
  info.model_fingerprint = fingerprint_;
  info.shape = config_.kv_shape();
  info.rope_pairing = config_.rope_pairing;
  info.ropes = config_.ropes;
  for (const LayerRule& rule : config_.layer_rules) info.layer_ropes.push_back(rule.rope);
  info.token_ids = std::move(token_ids);
  return info;
}

Result<std::unique_ptr<BusKvCache>> ModelStreams::open(uint64_t head_key, int64_t head_entries,
                                                       const std::vector<int32_t>& token_ids,
                                                       int64_t capacity, uint64_t request) {
  const std::shared_ptr<OpenStream> head = find(head_key);
  const StreamInfo info = info_of(token_ids);
  SUTURE_ASSIGN_OR_RETURN(
      auto writer, head&& head_entries > 0
                       ? slab_->fork_stream(head->cache->writer(), head_entries, info, capacity)
                       : slab_->open_stream(info, capacity));
  writer->set_request(request);
  return std::make_unique<BusKvCache>(std::move(writer));
}

std::shared_ptr<OpenStream> ModelStreams::find(uint64_t key) const {
  const auto found = streams_.find(key);
  return found == streams_.end() ? nullptr : found->second;
}

bool ModelStreams::is_readable(uint64_t key, int64_t entries) const {
  const auto found = streams_.find(key);
  if (found == streams_.end()) return true;
  return !found->second->being_read || found->second->cache->size() >= entries;
}

// Where a fork of exact size is to be had; whole blocks are shared, not copied.
void ModelStreams::keep(uint64_t key, std::shared_ptr<OpenStream> stream) {
  const int64_t entries = stream->cache->size();
  auto exact =
      slab_->fork_stream(stream->cache->writer(), entries, info_of(stream->token_ids), entries);
  if (exact) stream->cache = std::make_unique<BusKvCache>(std::move(*exact));
  if (stream->projected) stream->projected->trim();
  stream->request.key = key;
  stream->alignment.reset();
  streams_[key] = std::move(stream);
}

void ModelStreams::drop(uint64_t key) {
  const auto found = streams_.find(key);
  if (found == streams_.end()) return;
  found->second->dropped = true;
  streams_.erase(found);
}

}  // namespace suture
