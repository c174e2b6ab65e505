#include "base/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/unique_fd.h"

namespace suture {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr int kMadviseCollapse = 25;  // MADV_COLLAPSE, since Linux 6.1; not in glibc 2.36

uintptr_t round_up(uintptr_t value, uintptr_t step) { return (value + step - 1) / step * step; }

size_t page_size() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

// The pages on which these bytes lie.
std::span<const std::byte> whole_pages(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  const size_t before = reinterpret_cast<uintptr_t>(bytes.data()) % page_size();
  return {bytes.data() - before, round_up(before + bytes.size(), page_size())};
}

void* address(std::span<const std::byte> bytes) { return const_cast<std::byte*>(bytes.data()); }

// Huge pages can only back what starts where one can start.
void* map_aligned(size_t size, int protection, int flags, int fd) {
  if (size < kHugePage) return ::mmap(nullptr, size, protection, flags, fd, 0);
  const size_t reserved = size + kHugePage;
  void* space = ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (space == MAP_FAILED) return MAP_FAILED;
  const auto begin = reinterpret_cast<uintptr_t>(space);
  const uintptr_t start = round_up(begin, kHugePage);
  void* mapped = ::mmap(reinterpret_cast<void*>(start), size, protection, flags | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) {
    const int error_number = errno;
    ::munmap(space, reserved);
    errno = error_number;
    return MAP_FAILED;
  }
  const uintptr_t end = round_up(start + size, page_size());
  if (start > begin) ::munmap(space, start - begin);
  if (end < begin + reserved) ::munmap(reinterpret_cast<void*>(end), begin + reserved - end);
  return mapped;
}

}  // namespace

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
  void* mapped = map_aligned(size, protection, MAP_SHARED, fd);
  if (mapped == MAP_FAILED) return fail_errno("cannot map shared memory", errno);
  return Mapping(static_cast<std::byte*>(mapped), size);
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

Result<Mapping> Mapping::anonymous(size_t size) {
  if (size == 0) return Mapping();
  void* mapped = map_aligned(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (mapped == MAP_FAILED) return fail_errno("cannot map memory", errno);
  ::madvise(mapped, size, MADV_HUGEPAGE);
  return Mapping(static_cast<std::byte*>(mapped), size);
}

uint64_t total_bytes(std::span<const Mapping> mappings) {
  uint64_t bytes = 0;
  for (const Mapping& mapping : mappings) bytes += mapping.size();
  return bytes;
}

void page_in(std::span<const std::byte> mapped) {
  if (mapped.empty()) return;
  const std::span<const std::byte> pages = whole_pages(mapped);
  if (::madvise(address(pages), pages.size(), MADV_POPULATE_READ) == 0) return;
  for (size_t at = 0; at < mapped.size(); at += page_size())  // a kernel before 5.14
    static_cast<void>(*static_cast<const volatile std::byte*>(mapped.data() + at));
}

void page_out(std::span<const std::byte> mapped) {
  const std::span<const std::byte> pages = whole_pages(mapped);
  if (!pages.empty()) ::madvise(address(pages), pages.size(), MADV_DONTNEED);
}

void read_ahead(std::span<const std::byte> mapped) {
  const std::span<const std::byte> pages = whole_pages(mapped);
  if (!pages.empty()) ::madvise(address(pages), pages.size(), MADV_WILLNEED);
}

void back_with_huge_pages(std::span<std::byte> mapped) {
  ::madvise(mapped.data(), mapped.size(), MADV_HUGEPAGE);
  const size_t whole = mapped.size() / kHugePage * kHugePage;
  // Where the system gives shared memory no huge pages by itself, it still makes one of a stretch
  // of small ones, if at least one of these is there. Entered by a call that can fail, not by a
  // write that could be a SIGBUS.
  for (size_t at = 0; at < whole; at += kHugePage)
    if (::madvise(mapped.data() + at, 1, MADV_POPULATE_WRITE) != 0) return;
  if (whole > 0) ::madvise(mapped.data(), whole, kMadviseCollapse);
}

}  // namespace suture
