#include "bus/memfd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>

#include "base/mapping.h"

namespace suture {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

uint64_t available_on_machine() {
  std::ifstream file("/proc/meminfo");
  for (std::string name, unit; file >> name;) {
    uint64_t kib = 0;
    if (!(file >> kib)) break;
    if (name == "MemAvailable:") return kib * 1024;
    std::getline(file, unit);
  }
  return kUnknown;
}

// The limit as a whole, not what is left of it: usage counts page cache that the kernel would drop.
uint64_t control_group_limit() {
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    uint64_t bytes = 0;
    if (std::ifstream(path) >> bytes) return bytes;
  }
  return kUnknown;
}

tl::unexpected<Error> no_memory(const std::string& name, uint64_t needed, uint64_t available) {
  return fail(ErrorCode::kOutOfMemory,
              fmt::format("{} needs {:.1f} MiB of memory, {:.1f} MiB are available", name,
                          static_cast<double>(needed) / (1 << 20),
                          static_cast<double>(available) / (1 << 20)),
              "bus", "lower max_seq_len or max_sequences, or free memory");
}

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
  // Asked first: for memory that is not there, fallocate may call the out-of-memory killer instead
  // of failing.
  const uint64_t available = std::min(available_on_machine(), control_group_limit());
  if (bytes > available) return no_memory(name, bytes, available);

  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fail_errno("cannot create shared memory", errno, name);
  SUTURE_RETURN_IF_ERROR(back_with_huge_pages(fd.get(), name, bytes));
  const int error_number = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  if (error_number == ENOSPC || error_number == ENOMEM) return no_memory(name, bytes, available);
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
