#include "fusion/plain_rows.h"

#include <algorithm>

#include "fusion/rope_map.h"
#include "kernels/kv_plain.h"

namespace suture {

Status read_plain_rows(Stream& stream, const StreamInfo& info, const StreamReader& reader,
                       std::span<const int32_t> entries, PlainRows& rows) {
  rows.n_rows = std::ssize(entries);
  if (entries.empty()) return {};
  const int64_t epoch = reader.rope_epoch(entries.front());
  const auto elsewhere = [&](int32_t entry) { return reader.rope_epoch(entry) != epoch; };
  if (std::ranges::any_of(entries, elsewhere))
    return fail(ErrorCode::kIncompatible,
                "the model's rotation changes within a text, and a projector maps rows of one",
                "fit", "give shorter texts with --tokens-per-text");
  Rotations rotations(info);
  std::vector<KvPlainLayer> layers;
  for (int32_t layer = 0; layer < info.shape.n_layers; ++layer) {
    const Rotation rotation = rotations.at(layer, epoch);
    layers.push_back({reader.layer_view(layer), rotation.frequencies, rotation.attention_factor});
  }
  const size_t elements = entries.size() * layers.size() *
                          static_cast<size_t>(info.shape.n_kv_heads * info.shape.head_dim);
  rows.key.resize(elements);
  rows.value.resize(elements);
  KvPlainArgs args;
  args.shape = info.shape;
  args.layers = layers;
  args.pairing = info.rope_pairing;
  args.entries = entries.data();
  args.positions = entries.data();
  args.n_rows = rows.n_rows;
  args.key = rows.key.data();
  args.value = rows.value.data();
  SUTURE_RETURN_IF_ERROR(kv_plain(stream, args));
  return stream.synchronize();
}

}  // namespace suture
