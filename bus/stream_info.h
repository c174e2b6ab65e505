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

namespace suture {

// The rotation of rows from `first_token` on, up to the next epoch.
struct RopeEpoch {
  int64_t first_token = 0;
  std::vector<float> frequencies;  // [head_dim / 2] radians per position
  float attention_factor = 1;      // multiplies cos and sin

  bool operator==(const RopeEpoch&) const = default;
};

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
  std::vector<RopeEpoch> rope_epochs;  // by first_token; the first starts at 0
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
