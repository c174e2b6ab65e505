#include "base/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/unique_fd.h"

namespace suture {

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<Mapping> Mapping::shared(int fd, size_t size, Access access) {
  if (size == 0) return Mapping();
  const int protection = access == Access::kReadOnly ? PROT_READ : PROT_READ | PROT_WRITE;
  void* address = ::mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return fail_errno("cannot map shared memory", errno);
  return Mapping(static_cast<std::byte*>(address), size);
}

Result<Mapping> Mapping::file(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return fail_errno("cannot open file", errno, path.string());
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return fail_errno("cannot read size", errno, path.string());
  if (!S_ISREG(info.st_mode))
    return fail(ErrorCode::kInvalidArgument, "not a regular file", path.string());
  auto mapping = shared(fd.get(), static_cast<size_t>(info.st_size), Access::kReadOnly);
  if (!mapping) mapping.error().where = path.string();
  return mapping;
}

uint64_t total_bytes(std::span<const Mapping> mappings) {
  uint64_t bytes = 0;
  for (const Mapping& mapping : mappings) bytes += mapping.size();
  return bytes;
}

void page_in(std::span<const std::byte> mapped) {
  if (mapped.empty()) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(mapped.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(mapped.data() + mapped.size());
  if (::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ) == 0) return;
  for (size_t at = 0; at < mapped.size(); at += page)  // a kernel before 5.14
    static_cast<void>(*static_cast<const volatile std::byte*>(mapped.data() + at));
}

}  // namespace suture
