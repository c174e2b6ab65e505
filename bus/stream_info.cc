#include "bus/stream_info.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <fmt/format.h>
#include <kj/exception.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "bus/layout.h"
#include "schemas/stream.capnp.h"

namespace suture {
namespace {

// Far above the longest context: 16 M tokens with their text offsets.
constexpr size_t kMaxMessageBytes = size_t{256} << 20;
constexpr size_t kMaxFingerprintBytes = 4096;
constexpr int64_t kMaxTokens = int64_t{kMaxBlocksPerStream} * kKvBlockTokens;

tl::unexpected<Error> invalid(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "stream info");
}

Status validate_shape(const KvShape& shape) {
  const auto in_range = [](int32_t value, uint32_t highest) {
    return value >= 1 && static_cast<uint32_t>(value) <= highest;
  };
  if (!in_range(shape.n_layers, kMaxLayers) || !in_range(shape.n_kv_heads, kMaxKvHeads) ||
      !in_range(shape.head_dim, kMaxHeadDim))
    return invalid(fmt::format("shape of {} layers, {} kv heads, head dim {}", shape.n_layers,
                               shape.n_kv_heads, shape.head_dim));
  if (shape.dtype != DType::kF32 && shape.dtype != DType::kF16 && shape.dtype != DType::kBf16)
    return invalid(fmt::format("K/V of type {}", static_cast<int>(shape.dtype)));
  return {};
}

Status validate_rope(const StreamInfo& info) {
  if (info.ropes.size() > kMaxLayers)
    return invalid(fmt::format("{} rules of rotation", info.ropes.size()));
  for (const RopeSchedule& rope : info.ropes)
    if (auto sound = validate(rope, info.shape.head_dim); !sound)
      return invalid(sound.error().what);
  if (!info.layer_ropes.empty() && std::ssize(info.layer_ropes) != info.shape.n_layers)
    return invalid(fmt::format("rules of rotation for {} of {} layers", info.layer_ropes.size(),
                               info.shape.n_layers));
  const auto unknown = [&](int32_t rope) { return rope < 0 || rope >= std::ssize(info.ropes); };
  if (std::ranges::any_of(info.layer_ropes, unknown))
    return invalid(
        fmt::format("a layer without one of the {} rules of rotation", info.ropes.size()));
  return {};
}

void write_schedule(schema::RopeSchedule::Builder message, const RopeSchedule& rope) {
  message.setScaling(static_cast<uint8_t>(rope.scaling));
  message.setTheta(rope.theta);
  message.setFactor(rope.factor);
  message.setOriginalPositions(static_cast<uint64_t>(rope.original_positions));
  message.setAttentionFactor(rope.attention_factor);
  message.setBetaFast(rope.beta_fast);
  message.setBetaSlow(rope.beta_slow);
  message.setLowFreqFactor(rope.low_freq_factor);
  message.setHighFreqFactor(rope.high_freq_factor);
  message.setShortFactors(kj::arrayPtr(rope.short_factors.data(), rope.short_factors.size()));
  message.setLongFactors(kj::arrayPtr(rope.long_factors.data(), rope.long_factors.size()));
  message.setFixedLength(static_cast<uint64_t>(rope.fixed_length));
}

void write_rope(schema::StreamInfo::Builder message, const StreamInfo& info) {
  message.setRopePairing(info.rope_pairing == RopePairing::kHalves
                             ? schema::RopePairing::HALVES
                             : schema::RopePairing::NEIGHBOURS);
  auto ropes = message.initRopes(static_cast<unsigned>(info.ropes.size()));
  for (unsigned i = 0; i < ropes.size(); ++i) write_schedule(ropes[i], info.ropes[i]);
  message.setLayerRopes(kj::arrayPtr(info.layer_ropes.data(), info.layer_ropes.size()));
}

Result<int64_t> to_signed(uint64_t value, const char* name) {
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return fail(ErrorCode::kCorrupt, fmt::format("{} = {}", name, value), "stream info");
  return static_cast<int64_t>(value);
}

// Cap'n Proto's iterators are not those of the standard library.
template <typename T, typename List>
std::vector<T> to_vector(List list) {
  std::vector<T> values;
  values.reserve(list.size());
  for (const T value : list) values.push_back(value);
  return values;
}

Result<KvShape> read_shape(schema::KvShape::Reader message) {
  constexpr uint32_t kHighest = std::numeric_limits<int32_t>::max();
  if (message.getNLayers() > kHighest || message.getNKvHeads() > kHighest ||
      message.getHeadDim() > kHighest)
    return fail(ErrorCode::kCorrupt, "shape beyond 31 bits", "stream info");
  KvShape shape;
  shape.n_layers = static_cast<int32_t>(message.getNLayers());
  shape.n_kv_heads = static_cast<int32_t>(message.getNKvHeads());
  shape.head_dim = static_cast<int32_t>(message.getHeadDim());
  shape.dtype = static_cast<DType>(message.getDtype());
  return shape;
}

Result<RopeSchedule> read_schedule(schema::RopeSchedule::Reader message) {
  RopeSchedule rope;
  rope.scaling = static_cast<RopeScaling>(message.getScaling());  // checked by validate()
  rope.theta = message.getTheta();
  rope.factor = message.getFactor();
  SUTURE_ASSIGN_OR_RETURN(rope.original_positions,
                          to_signed(message.getOriginalPositions(), "original positions"));
  rope.attention_factor = message.getAttentionFactor();
  rope.beta_fast = message.getBetaFast();
  rope.beta_slow = message.getBetaSlow();
  rope.low_freq_factor = message.getLowFreqFactor();
  rope.high_freq_factor = message.getHighFreqFactor();
  rope.short_factors = to_vector<float>(message.getShortFactors());
  rope.long_factors = to_vector<float>(message.getLongFactors());
  SUTURE_ASSIGN_OR_RETURN(rope.fixed_length, to_signed(message.getFixedLength(), "fixed length"));
  return rope;
}

Status read_rope(schema::StreamInfo::Reader message, StreamInfo& info) {
  switch (message.getRopePairing()) {
    case schema::RopePairing::HALVES: info.rope_pairing = RopePairing::kHalves; break;
    case schema::RopePairing::NEIGHBOURS: info.rope_pairing = RopePairing::kNeighbours; break;
    default: return fail(ErrorCode::kCorrupt, "unknown RoPE pairing", "stream info");
  }
  for (auto part : message.getRopes()) {
    SUTURE_ASSIGN_OR_RETURN(RopeSchedule rope, read_schedule(part));
    info.ropes.push_back(std::move(rope));
  }
  info.layer_ropes = to_vector<int32_t>(message.getLayerRopes());
  return {};
}

Status read_visibility(schema::StreamInfo::Reader message, VisibilityRule& visibility) {
  switch (message.getPositionRule()) {
    case schema::PositionRule::PREFIX: visibility.rule = PositionRule::kPrefix; break;
    case schema::PositionRule::ALIGNED: visibility.rule = PositionRule::kAligned; break;
    default: return fail(ErrorCode::kCorrupt, "unknown position rule", "stream info");
  }
  SUTURE_ASSIGN_OR_RETURN(visibility.lag, to_signed(message.getLag(), "lag"));
  return {};
}

// May throw kj::Exception.
Result<StreamInfo> read_message(schema::StreamInfo::Reader message) {
  StreamInfo info;
  const auto fingerprint = message.getModelFingerprint();
  info.model_fingerprint.assign(fingerprint.begin(), fingerprint.size());
  SUTURE_ASSIGN_OR_RETURN(info.shape, read_shape(message.getShape()));
  SUTURE_RETURN_IF_ERROR(read_rope(message, info));
  info.token_ids = to_vector<int32_t>(message.getTokenIds());
  info.text_offsets = to_vector<uint64_t>(message.getTextOffsets());
  SUTURE_RETURN_IF_ERROR(read_visibility(message, info.visibility));
  return info;
}

}  // namespace

Status validate(const StreamInfo& info) {
  if (info.model_fingerprint.size() > kMaxFingerprintBytes)
    return invalid(fmt::format("fingerprint of {} bytes", info.model_fingerprint.size()));
  SUTURE_RETURN_IF_ERROR(validate_shape(info.shape));
  SUTURE_RETURN_IF_ERROR(validate_rope(info));
  if (info.token_ids.size() > static_cast<size_t>(kMaxTokens))
    return invalid(fmt::format("{} tokens", info.token_ids.size()));
  if (std::ranges::any_of(info.token_ids, [](int32_t id) { return id < 0; }))
    return invalid("a negative token id");
  if (!info.text_offsets.empty() && info.text_offsets.size() != info.token_ids.size())
    return invalid(fmt::format("{} text offsets for {} tokens", info.text_offsets.size(),
                               info.token_ids.size()));
  if (!std::ranges::is_sorted(info.text_offsets)) return invalid("text offsets that go back");
  if (info.visibility.lag < 0) return invalid(fmt::format("lag = {}", info.visibility.lag));
  return {};
}

std::vector<std::byte> encode_stream_info(const StreamInfo& info) {
  capnp::MallocMessageBuilder builder;
  auto message = builder.initRoot<schema::StreamInfo>();
  message.setModelFingerprint(
      kj::StringPtr(info.model_fingerprint.c_str(), info.model_fingerprint.size()));
  auto shape = message.initShape();
  shape.setNLayers(static_cast<uint32_t>(info.shape.n_layers));
  shape.setNKvHeads(static_cast<uint32_t>(info.shape.n_kv_heads));
  shape.setHeadDim(static_cast<uint32_t>(info.shape.head_dim));
  shape.setDtype(static_cast<uint8_t>(info.shape.dtype));
  write_rope(message, info);
  message.setTokenIds(kj::arrayPtr(info.token_ids.data(), info.token_ids.size()));
  message.setTextOffsets(kj::arrayPtr(info.text_offsets.data(), info.text_offsets.size()));
  message.setPositionRule(info.visibility.rule == PositionRule::kPrefix
                              ? schema::PositionRule::PREFIX
                              : schema::PositionRule::ALIGNED);
  message.setLag(static_cast<uint64_t>(info.visibility.lag));
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(builder);
  const auto bytes = words.asBytes();
  std::vector<std::byte> out(bytes.size());
  std::memcpy(out.data(), bytes.begin(), bytes.size());
  return out;
}

Result<StreamInfo> decode_stream_info(std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0 || bytes.size() > kMaxMessageBytes)
    return fail(ErrorCode::kCorrupt, fmt::format("a message of {} bytes", bytes.size()),
                "stream info");
  // A copy: the bytes need not be aligned to words.
  kj::Array<capnp::word> words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
  std::memcpy(words.begin(), bytes.data(), bytes.size());
  // Every part is read once, so a sound message stays below this; one whose pointers overlap, to
  // make much out of little, does not.
  capnp::ReaderOptions options;
  options.traversalLimitInWords = words.size() + 64;
  options.nestingLimit = 8;
  try {
    capnp::FlatArrayMessageReader reader(words, options);
    auto info = read_message(reader.getRoot<schema::StreamInfo>());
    if (!info) return info;
    if (auto status = validate(*info); !status)
      return fail(ErrorCode::kCorrupt, status.error().what, "stream info");
    return info;
  } catch (const kj::Exception& exception) {
    return fail(ErrorCode::kCorrupt, exception.getDescription().cStr(), "stream info");
  }
}

}  // namespace suture
