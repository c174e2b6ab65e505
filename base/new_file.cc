#include "base/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace suture {

Result<NewFile> NewFile::create(std::filesystem::path path) {
  NewFile file(std::move(path));
  if (!file.fd_.valid()) return file.failed("cannot create");
  return file;
}

NewFile::NewFile(std::filesystem::path path)
    : path_(std::move(path)),
      unfinished_(fmt::format("{}.unfinished-{}", path_.string(), ::getpid())),
      fd_(::open(unfinished_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                 0666)) {}

NewFile::~NewFile() {
  if (fd_.valid()) ::unlink(unfinished_.c_str());
}

Status NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("cannot write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status NewFile::finish() {
  if (::fsync(fd_.get()) != 0) return failed("cannot write");
  if (::rename(unfinished_.c_str(), path_.c_str()) != 0) return failed("cannot replace");
  fd_.reset();
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  const UniqueFd parent(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.valid()) ::fsync(parent.get());  // not every file system can
  return {};
}

tl::unexpected<Error> NewFile::failed(std::string_view what) const {
  return fail_errno(what, errno, path_.string());
}

}  // namespace suture
