#include "launcher/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace suture {
namespace {

// Hashes the first `bytes` bytes of a file.
Status hash_prefix(int fd, uint64_t bytes, Sha256& hash, const std::string& where) {
  std::vector<std::byte> buffer(1 << 20);
  for (uint64_t offset = 0; offset < bytes;) {
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(buffer.size(), bytes - offset));
    const ssize_t got = ::pread(fd, buffer.data(), wanted, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("cannot read", errno, where);
    if (got == 0) return fail(ErrorCode::kIo, "the file became shorter while it was read", where);
    hash.update(std::span(buffer).first(static_cast<size_t>(got)));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

Result<uint64_t> size_of(int fd, const std::string& where) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail_errno("cannot read the size", errno, where);
  return static_cast<uint64_t>(status.st_size);
}

// A rename is durable only once its folder is.
Status flush_folder(const std::filesystem::path& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0)
    return fail_errno("cannot flush the folder", errno, folder.string());
  return {};
}

}  // namespace

Result<PartialFile> PartialFile::open(const std::filesystem::path& target,
                                      uint64_t expected_bytes) {
  PartialFile file;
  file.target_ = target;
  file.path_ = target.string() + ".partial";
  file.expected_bytes_ = expected_bytes;
  file.fd_.reset(::open(file.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.fd_.valid()) return fail_errno("cannot create", errno, file.path_.string());
  SUTURE_ASSIGN_OR_RETURN(file.size_, size_of(file.fd_.get(), file.path_.string()));
  if (file.size_ > expected_bytes) SUTURE_RETURN_IF_ERROR(file.restart_at(0));
  return file;
}

Status PartialFile::restart_at(uint64_t bytes) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0)
    return fail_errno("cannot truncate", errno, path_.string());
  size_ = bytes;
  hash_ = std::make_unique<Sha256>();
  return hash_prefix(fd_.get(), bytes, *hash_, path_.string());
}

Status PartialFile::append(std::span<const std::byte> bytes) {
  if (bytes.size() > expected_bytes_ - size_)
    return fail(ErrorCode::kCorrupt,
                fmt::format("more than the {} bytes the manifest tells", expected_bytes_),
                path_.string());
  hash_->update(bytes);
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno("cannot write", errno, path_.string());
    size_ += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status PartialFile::finish(const std::string& sha256) {
  if (size_ != expected_bytes_)
    return fail(ErrorCode::kIo, fmt::format("ended after {} of {} bytes", size_, expected_bytes_),
                path_.string());
  const std::string actual = hash_->finish();
  hash_.reset();
  if (actual != sha256)
    return fail(ErrorCode::kCorrupt, fmt::format("sha256 is {}, expected {}", actual, sha256),
                path_.string());
  if (::fsync(fd_.get()) != 0) return fail_errno("cannot flush", errno, path_.string());
  if (::rename(path_.c_str(), target_.c_str()) != 0)
    return fail_errno("cannot rename", errno, path_.string());
  return flush_folder(target_.parent_path());
}

Status PartialFile::remove() {
  if (::unlink(path_.c_str()) != 0) return fail_errno("cannot remove", errno, path_.string());
  return {};
}

Result<std::string> file_sha256(const std::filesystem::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno("cannot open", errno, path.string());
  SUTURE_ASSIGN_OR_RETURN(const uint64_t bytes, size_of(fd.get(), path.string()));
  Sha256 hash;
  SUTURE_RETURN_IF_ERROR(hash_prefix(fd.get(), bytes, hash, path.string()));
  return hash.finish();
}

}  // namespace suture
