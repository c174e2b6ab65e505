#include "bus/memfd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

#include "base/available_memory.h"
#include "base/mapping.h"

namespace suture {
namespace {

constexpr const char* kRemedy = "lower max_seq_len or max_sequences, or free memory";

// Only as far as the system likes: the rest is left to be allocated.
Status back_with_huge_pages(int fd, const std::string& name, uint64_t bytes) {
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return fail_errno("cannot size shared memory", errno, name);
  SUTURE_ASSIGN_OR_RETURN(const Mapping mapping,
                          Mapping::shared(fd, bytes, Mapping::Access::kReadWrite));
  suture::back_with_huge_pages({mapping.data(), mapping.size()});
  return {};
}

}  // namespace

Result<UniqueFd> create_memfd(const std::string& name, uint64_t bytes) {
  if (bytes == 0 || bytes > static_cast<uint64_t>(std::numeric_limits<off_t>::max()))
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} of {} bytes", name, bytes), "bus");
  SUTURE_RETURN_IF_ERROR(check_available_memory(name, bytes, "bus", kRemedy));
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fail_errno("cannot create shared memory", errno, name);
  SUTURE_RETURN_IF_ERROR(back_with_huge_pages(fd.get(), name, bytes));
  const int error_number = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  if (error_number == ENOSPC || error_number == ENOMEM)
    return no_memory(name, bytes, "bus", kRemedy);
  if (error_number != 0) return fail_errno("cannot allocate shared memory", error_number, name);
  return fd;
}

Status seal_memfd(int fd, int seals) {
  if (::fcntl(fd, F_ADD_SEALS, seals | F_SEAL_SEAL) != 0)
    return fail_errno("cannot seal shared memory", errno, "bus");
  return {};
}

Status verify_memfd(int fd, int seals, uint64_t bytes) {
  const int present = ::fcntl(fd, F_GET_SEALS);
  if (present < 0)
    return fail(ErrorCode::kPermission, "the descriptor is not sealable memory", "bus");
  if ((present & seals) != seals)
    return fail(ErrorCode::kPermission,
                fmt::format("shared memory has seals {:#x}, needs {:#x}", present, seals), "bus");
  auto size = memfd_size(fd);
  if (!size) return tl::unexpected<Error>(size.error());
  if (*size != bytes)
    return fail(ErrorCode::kCorrupt,
                fmt::format("shared memory has {} bytes, expected {}", *size, bytes), "bus");
  return {};
}

Result<uint64_t> memfd_size(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return fail_errno("cannot read size of shared memory", errno, "bus");
  if (!S_ISREG(info.st_mode) || info.st_size < 0)
    return fail(ErrorCode::kCorrupt, "the descriptor is not a memory file", "bus");
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace suture
