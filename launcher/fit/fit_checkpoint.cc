#include "launcher/fit/fit_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>

#include "base/mapping.h"
#include "base/new_file.h"
#include "base/sha256.h"

namespace suture {

static_assert(std::endian::native == std::endian::little, "checkpoints are copied as they lie");

namespace {

constexpr std::string_view kMagic = "SUTUREFC";
constexpr uint64_t kVersion = 1;
constexpr size_t kDigest = 64;  // hexadecimal digits of SHA-256

// How the file begins. The row counts of the moments of K and of V follow, then their sums, then
// the digest of all that.
struct Front {
  char magic[8];
  uint64_t version;
  char binding[kDigest];
  int64_t texts;
  GatheringTimes times;
};
static_assert(sizeof(Front) == 128 && std::is_trivially_copyable_v<Front>);

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

uint64_t moment_bytes(FitMoments& moments) {
  uint64_t bytes = moments.row_counts().size() * sizeof(int64_t);
  for (const auto part : moments.storage()) bytes += part.size_bytes();
  return bytes;
}

tl::unexpected<Error> corrupt(std::string what, const std::filesystem::path& path) {
  return fail(ErrorCode::kCorrupt, std::move(what), path.string(),
              "the checkpoint is damaged: remove it, and fit without --resume");
}

// Reads from a file's bytes, of which there are enough.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  void take(std::span<T> to) {
    std::ranges::copy(rest_.first(to.size_bytes()), std::as_writable_bytes(to).begin());
    rest_ = rest_.subspan(to.size_bytes());
  }

 private:
  std::span<const std::byte> rest_;
};

void take_moments(Cursor& cursor, FitMoments& moments, std::vector<int64_t>& counts) {
  counts = moments.row_counts();
  cursor.take(std::span(counts));
  for (const auto part : moments.storage()) cursor.take(part);
}

Status check_moments(FitMoments& moments, const std::vector<int64_t>& counts,
                     const std::filesystem::path& path) {
  for (const int64_t count : counts)
    if (count < 0 || count > (int64_t{1} << 40))
      return corrupt(fmt::format("moments of {} rows", count), path);
  for (const auto part : moments.storage())
    if (!std::ranges::all_of(part, [](double value) { return std::isfinite(value); }))
      return corrupt("a sum that is not finite", path);
  moments.set_row_counts(counts);
  return {};
}

Status check_times(const GatheringTimes& times, const std::filesystem::path& path) {
  const bool sound = std::isfinite(times.wall_seconds) && std::isfinite(times.gather_cpu_seconds) &&
                     std::isfinite(times.models_cpu_seconds) && times.source_tokens >= 0 &&
                     times.target_tokens >= 0;
  return sound ? Status() : corrupt("figures that are none", path);
}

}  // namespace

std::string fit_binding(const ProjectorSide& source, const ProjectorSide& target,
                        const FitShape& shape, const std::vector<FitReading>& readings) {
  Sha256 hash;
  const auto add_ids = [&hash](const std::vector<int32_t>& ids) {
    hash.update(bytes_of(ids.size()));
    hash.update(std::as_bytes(std::span(ids)));
  };
  for (const ProjectorSide* side : {&source, &target}) {
    hash.update(side->kv.model_fingerprint + "\n" + side->vocabulary_hash + "\n");
    hash.update(encode_stream_info(side->kv));
  }
  hash.update(bytes_of(shape));
  for (const FitReading& reading : readings) {
    add_ids(reading.source_ids);
    add_ids(reading.target_ids);
    hash.update(bytes_of(reading.held_out_kind.value_or(-1)));
  }
  return hash.finish();
}

Status write_checkpoint(const std::filesystem::path& path, const std::string& binding,
                        Gathered& gathered) {
  SUTURE_ASSIGN_OR_RETURN(NewFile file, NewFile::create(path));
  Sha256 hash;
  const auto put = [&](std::span<const std::byte> bytes) -> Status {
    hash.update(bytes);
    return file.write(bytes);
  };
  Front front = {};
  std::ranges::copy(kMagic, front.magic);
  front.version = kVersion;
  std::ranges::copy(binding, front.binding);
  front.texts = gathered.texts;
  front.times = gathered.times;
  SUTURE_RETURN_IF_ERROR(put(bytes_of(front)));
  for (FitMoments* moments : {&gathered.key, &gathered.value}) {
    const std::vector<int64_t> counts = moments->row_counts();
    SUTURE_RETURN_IF_ERROR(put(std::as_bytes(std::span(counts))));
    for (const auto part : moments->storage()) SUTURE_RETURN_IF_ERROR(put(std::as_bytes(part)));
  }
  const std::string digest = hash.finish();
  SUTURE_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(digest))));
  return file.finish();
}

Status read_checkpoint(const std::filesystem::path& path, const std::string& binding,
                       int64_t n_readings, Gathered& gathered) {
  if (!std::filesystem::exists(path))
    return fail(ErrorCode::kNotFound, "there is no checkpoint", path.string());
  SUTURE_ASSIGN_OR_RETURN(const Mapping file, Mapping::file(path));
  const std::span<const std::byte> all = file.bytes();
  Front front;
  if (all.size() < sizeof(front)) return corrupt("too short for a checkpoint", path);
  std::memcpy(&front, all.data(), sizeof(front));
  if (std::string_view(front.magic, sizeof(front.magic)) != kMagic || front.version != kVersion)
    return fail(ErrorCode::kInvalidArgument, "is no checkpoint of this release", path.string(),
                "remove it, or give --out another name");
  if (std::string_view(front.binding, kDigest) != binding)
    return fail(ErrorCode::kIncompatible, "belongs to other models, texts or options",
                path.string(), "give the same ones, or fit without --resume");
  const uint64_t sums = moment_bytes(gathered.key) + moment_bytes(gathered.value);
  if (all.size() != sizeof(front) + sums + kDigest)
    return corrupt(fmt::format("{} bytes, expected {}", all.size(), sizeof(front) + sums + kDigest),
                   path);
  Sha256 hash;
  hash.update(all.first(all.size() - kDigest));
  const auto digest = all.last(kDigest);
  if (hash.finish() != std::string_view(reinterpret_cast<const char*>(digest.data()), kDigest))
    return corrupt("its content is not what was written", path);
  if (front.texts < 0 || front.texts > n_readings)
    return corrupt(fmt::format("{} of {} texts", front.texts, n_readings), path);
  SUTURE_RETURN_IF_ERROR(check_times(front.times, path));
  Cursor cursor(all.subspan(sizeof(front)));
  for (FitMoments* moments : {&gathered.key, &gathered.value}) {
    std::vector<int64_t> counts;
    take_moments(cursor, *moments, counts);
    SUTURE_RETURN_IF_ERROR(check_moments(*moments, counts, path));
  }
  gathered.texts = front.texts;
  gathered.times = front.times;
  return {};
}

}  // namespace suture
