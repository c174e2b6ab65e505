// The immutable part of a stream: what a reader must know before it uses the K/V. Sent once, when
// the stream is opened, as a Cap'n Proto message (schemas/stream.capnp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "bus/ids.h"
#include "kernels/kv_layout.h"
#include "kernels/rope.h"
#include "kernels/rope_schedule.h"

namespace suture {

enum class PositionRule : uint8_t {
  kPrefix,   // other text, placed before the reader's own: always visible
  kAligned,  // the same text: entry of position j is visible to a query at p iff j <= p - lag
};

struct VisibilityRule {
  PositionRule rule = PositionRule::kPrefix;
  int64_t lag = 1;  // tokens; used by kAligned

  bool operator==(const VisibilityRule&) const = default;
};

struct StreamInfo {
  std::string model_fingerprint;  // same string: same weights, tokenizer and RoPE
  KvShape shape;
  RopePairing rope_pairing = RopePairing::kHalves;
  // How rows are rotated, by the epoch that the control memory holds for each token. Several where
  // layers differ, and then layer_ropes says which is whose.
  std::vector<RopeSchedule> ropes;
  std::vector<int32_t> layer_ropes;    // [n_layers] index into ropes; or empty: the first for all
  std::vector<int32_t> token_ids;      // known when the stream opens
  std::vector<uint64_t> text_offsets;  // [token_ids] end of each token in the text, bytes; or empty
  VisibilityRule visibility;

  bool operator==(const StreamInfo&) const = default;
};

// kInvalidArgument if the parts contradict each other (lengths, order, signs).
Status validate(const StreamInfo& info);

std::vector<std::byte> encode_stream_info(const StreamInfo& info);
// `bytes` come from another process: kCorrupt for anything that is not a sound StreamInfo.
Result<StreamInfo> decode_stream_info(std::span<const std::byte> bytes);

}  // namespace suture
