// What broker and peers say to each other: one request, one reply, plain data of fixed size. A
// change here is a new kBrokerVersion; magic and version stay where they are in every version.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace suture {

inline constexpr uint32_t kBrokerMagic = 0x6b72'6273;  // "sbrk", little-endian
inline constexpr uint32_t kBrokerVersion = 2;

struct BrokerVersionData {
  uint32_t magic = kBrokerMagic;
  uint32_t version = kBrokerVersion;
};

// kCorrupt unless `message` starts as one of ours, kIncompatible for one of another version.
Status check_broker_version(std::span<const std::byte> message);

// Text of at most N - 1 bytes, padded with zeros.
template <size_t N>
struct WireText {
  std::array<char, N> bytes = {};

  // False if it does not fit or holds a zero byte.
  bool assign(std::string_view text) {
    bytes = {};
    if (text.size() >= N || text.find('\0') != std::string_view::npos) return false;
    text.copy(bytes.data(), text.size());
    return true;
  }
  // Nothing if the end is missing.
  std::optional<std::string_view> view() const {
    const std::string_view all(bytes.data(), N);
    const size_t end = all.find('\0');
    if (end == std::string_view::npos) return std::nullopt;
    return all.substr(0, end);
  }
};

enum class BrokerRequest : uint32_t {
  kHello = 1,         // name, secret -> peer
  kPublishSlab = 2,   // descriptors: payload, control
  kFindSlab = 3,      // name of the owner, known -> peer; descriptors unless peer == known
  kPublishRing = 4,   // name; descriptor
  kFindRing = 5,      // name -> descriptor
  kWithdrawRing = 6,  // name
  kFindBlob = 7,      // name, blob_bytes -> blob; a descriptor unless it is kBuild
  kPublishBlob = 8,   // name, blob_bytes; descriptor
  kLeaveBlob = 9,     // name, blob_bytes
};

// What the asker of a shared blob is to do.
enum class BlobState : uint32_t {
  kNone = 0,   // the reply is about something else
  kBuild = 1,  // build it, then publish or leave it
  kWait = 2,   // the descriptor hangs up when there is news: then ask again
  kReady = 3,  // the descriptor is the blob
};

struct BrokerRequestData {
  BrokerVersionData version;
  uint32_t kind = 0;  // BrokerRequest
  uint32_t reserved = 0;
  uint64_t serial = 0;  // returned with the reply
  uint64_t known = 0;   // the incarnation that the asker has imported already, or 0
  uint64_t blob_bytes = 0;
  WireText<64> name;
  WireText<129> secret;
  std::array<char, 7> padding = {};
};
static_assert(std::is_trivially_copyable_v<BrokerRequestData>);
static_assert(std::is_standard_layout_v<BrokerRequestData>);
static_assert(offsetof(BrokerRequestData, version) == 0);
static_assert(sizeof(BrokerRequestData) == 240);

struct BrokerReplyData {
  BrokerVersionData version;
  uint32_t failed = 0;  // 1: `error` and `what` say why
  uint32_t error = 0;   // ErrorCode
  uint64_t serial = 0;
  uint64_t peer = 0;
  uint32_t blob = 0;  // BlobState
  uint32_t reserved = 0;
  WireText<256> what;
};
static_assert(std::is_trivially_copyable_v<BrokerReplyData>);
static_assert(std::is_standard_layout_v<BrokerReplyData>);
static_assert(sizeof(BrokerReplyData) == 296);

}  // namespace suture
