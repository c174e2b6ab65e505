#include "fusion/projector_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "base/mapping.h"
#include "base/new_file.h"
#include "base/sha256.h"
#include "fusion/projector_header.h"

namespace suture {

static_assert(std::endian::native == std::endian::little, "projectors are used in place");

namespace {

constexpr std::string_view kMagic = "SUTUREPJ";
// Maps of the source's layers alone; since 2 they may take the target's first layer too.
constexpr uint32_t kPlainVersion = 1;
constexpr uint32_t kVersion = 2;
constexpr uint64_t kAlignment = 64;                       // of the numbers, bytes
constexpr uint64_t kMaxHeaderBytes = uint64_t{16} << 20;  // far above that of the largest models

// How a file begins. The header follows, then zeros up to the next multiple of kAlignment, then the
// numbers up to the end of the file.
struct Prelude {
  char magic[8];
  uint32_t version;
  uint32_t reserved;  // 0
  uint64_t header_bytes;
  char header_sha256[64];
};
static_assert(sizeof(Prelude) == 88);

uint64_t aligned(uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

using Bytes = std::span<const std::byte>;

std::string sha256_of(Bytes bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

// ---- Writing ----

using Sink = std::function<Status(Bytes)>;

// All numbers of the file in their order, with the zeros between them.
Status for_all_numbers(const Projector& projector, const Sink& sink) {
  static constexpr std::byte kZeros[kAlignment] = {};
  const auto put = [&sink](Bytes bytes) -> Status {
    SUTURE_RETURN_IF_ERROR(sink(bytes));
    return sink(Bytes(kZeros).first(aligned(bytes.size()) - bytes.size()));
  };
  const auto put_map = [&put](const LinearMap& map) -> Status {
    SUTURE_RETURN_IF_ERROR(put(std::as_bytes(map.weights)));
    SUTURE_RETURN_IF_ERROR(put(std::as_bytes(std::span(map.mean))));
    SUTURE_RETURN_IF_ERROR(put(std::as_bytes(std::span(map.gamma))));
    return put(std::as_bytes(std::span(map.beta)));
  };
  for (const LayerProjection& layer : projector.layers) {
    SUTURE_RETURN_IF_ERROR(put_map(layer.key));
    SUTURE_RETURN_IF_ERROR(put_map(layer.value));
  }
  return {};
}

Status write_front(NewFile& file, uint32_t version, Bytes header) {
  Prelude prelude = {};
  std::ranges::copy(kMagic, prelude.magic);
  prelude.version = version;
  prelude.header_bytes = header.size();
  std::ranges::copy(sha256_of(header), prelude.header_sha256);
  SUTURE_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(&prelude, 1))));
  SUTURE_RETURN_IF_ERROR(file.write(header));
  const uint64_t end = sizeof(prelude) + header.size();
  const std::vector<std::byte> zeros(aligned(end) - end);
  return file.write(zeros);
}

// ---- Reading ----

// Whether all are finite: no exponent is all ones.
bool all_finite(DType dtype, std::span<const uint16_t> weights) {
  const uint16_t exponent = dtype == DType::kF16 ? 0x7c00 : 0x7f80;
  return std::ranges::none_of(weights,
                              [exponent](uint16_t bits) { return (bits & exponent) == exponent; });
}

Status check_weights(const Projector& projector) {
  for (size_t l = 0; l < projector.layers.size(); ++l) {
    const LayerProjection& layer = projector.layers[l];
    if (!all_finite(layer.key.dtype, layer.key.weights) ||
        !all_finite(layer.value.dtype, layer.value.weights))
      return fail(ErrorCode::kInvalidArgument, "a weight that is not finite",
                  fmt::format("projector: layer {}", l));
  }
  return {};
}

Status check_sound(const Projector& projector) {
  SUTURE_RETURN_IF_ERROR(validate(projector));
  return check_weights(projector);
}

class ProjectorReader {
 public:
  ProjectorReader(Bytes file, std::string where) : file_(file), where_(std::move(where)) {}

  Result<Projector> read() {
    SUTURE_ASSIGN_OR_RETURN(const Bytes header_bytes, find_header());
    auto header = decode_projector_header(header_bytes);
    if (!header) return corrupt(header.error().what);
    if (header->projector.own_first_layer && version_ == kPlainVersion)
      return corrupt("maps that its version of the format does not have");
    if (sha256_of(file_.subspan(at_)) != header->data_sha256)
      return corrupt("the numbers are not those that the file was written with");
    for (LayerProjection& layer : header->projector.layers) {
      SUTURE_RETURN_IF_ERROR(take_map(header->projector, layer.key));
      SUTURE_RETURN_IF_ERROR(take_map(header->projector, layer.value));
    }
    if (at_ != file_.size())
      return corrupt(fmt::format("{} bytes behind the last number", file_.size() - at_));
    if (const Status sound = check_sound(header->projector); !sound)
      return corrupt(sound.error().where + ": " + sound.error().what);
    return std::move(header->projector);
  }

 private:
  tl::unexpected<Error> corrupt(std::string what) const {
    return fail(ErrorCode::kCorrupt, std::move(what), where_,
                "the file is damaged or incomplete: fit the projector again");
  }

  // Leaves at_ at the first number.
  Result<Bytes> find_header() {
    Prelude prelude;
    if (file_.size() < sizeof(prelude)) return corrupt("too short for a projector");
    std::memcpy(&prelude, file_.data(), sizeof(prelude));
    if (std::string_view(prelude.magic, sizeof(prelude.magic)) != kMagic)
      return fail(ErrorCode::kInvalidArgument, "not a projector", where_,
                  "projectors are made by `suture fit`");
    if (prelude.version < kPlainVersion || prelude.version > kVersion)
      return fail(ErrorCode::kUnsupported,
                  fmt::format("format version {}, this build knows {} to {}", prelude.version,
                              kPlainVersion, kVersion),
                  where_, "fit the projector again, or use the release that wrote it");
    const uint64_t rest = file_.size() - sizeof(prelude);
    version_ = prelude.version;
    if (prelude.reserved != 0 || prelude.header_bytes > std::min(rest, kMaxHeaderBytes))
      return corrupt(fmt::format("a header of {} bytes", prelude.header_bytes));
    const Bytes header = file_.subspan(sizeof(prelude), prelude.header_bytes);
    if (sha256_of(header) != std::string_view(prelude.header_sha256, sizeof(prelude.header_sha256)))
      return corrupt("the header is not the one that the file was written with");
    const uint64_t end = sizeof(prelude) + prelude.header_bytes;
    at_ = aligned(end);
    if (at_ > file_.size()) return corrupt("the file ends behind its header");
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    if (!std::ranges::all_of(file_.subspan(end, at_ - end), is_zero))
      return corrupt("something lies between header and numbers");
    return header;
  }

  // The next `n` values of type T.
  template <typename T>
  Result<std::span<const T>> take(int64_t n) {
    const uint64_t left = file_.size() - at_;
    if (static_cast<uint64_t>(n) > left / sizeof(T) ||
        aligned(static_cast<uint64_t>(n) * sizeof(T)) > left)
      return corrupt("the file ends before its last number");
    const auto* first = reinterpret_cast<const T*>(file_.data() + at_);
    at_ += aligned(static_cast<uint64_t>(n) * sizeof(T));
    return std::span(first, static_cast<size_t>(n));
  }

  Status take_floats(int64_t n, std::vector<float>& values) {
    SUTURE_ASSIGN_OR_RETURN(const std::span<const float> floats, take<float>(n));
    values.assign(floats.begin(), floats.end());
    return {};
  }

  Status take_map(const Projector& projector, LinearMap& map) {
    const int64_t in = projector.inputs(map.window);
    const int64_t out = projector.target.width();
    SUTURE_ASSIGN_OR_RETURN(map.weights, take<uint16_t>(in * out));
    SUTURE_RETURN_IF_ERROR(take_floats(in, map.mean));
    SUTURE_RETURN_IF_ERROR(take_floats(out, map.gamma));
    return take_floats(out, map.beta);
  }

  Bytes file_;
  std::string where_;
  uint32_t version_ = 0;
  uint64_t at_ = 0;  // the next number, bytes
};

}  // namespace

Status write_projector(const std::filesystem::path& path, const Projector& projector) {
  SUTURE_RETURN_IF_ERROR(check_sound(projector));
  Sha256 hash;
  SUTURE_RETURN_IF_ERROR(for_all_numbers(projector, [&hash](Bytes bytes) -> Status {
    hash.update(bytes);
    return {};
  }));
  const std::vector<std::byte> header = encode_projector_header(projector, hash.finish());
  if (header.size() > kMaxHeaderBytes)
    return fail(ErrorCode::kInvalidArgument, fmt::format("a header of {} bytes", header.size()),
                path.string(), "fit it to fewer files");
  SUTURE_ASSIGN_OR_RETURN(NewFile file, NewFile::create(path));
  // What older releases can read, they do read.
  const uint32_t version = projector.own_first_layer ? kVersion : kPlainVersion;
  SUTURE_RETURN_IF_ERROR(write_front(file, version, header));
  SUTURE_RETURN_IF_ERROR(
      for_all_numbers(projector, [&file](Bytes bytes) { return file.write(bytes); }));
  return file.finish();
}

Result<Projector> read_projector(const std::filesystem::path& path) {
  SUTURE_ASSIGN_OR_RETURN(Mapping mapping, Mapping::file(path));
  auto memory = std::make_shared<const Mapping>(std::move(mapping));
  SUTURE_ASSIGN_OR_RETURN(Projector projector,
                          ProjectorReader(memory->bytes(), path.string()).read());
  projector.memory = std::move(memory);
  return projector;
}

}  // namespace suture
