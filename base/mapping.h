// Owner of one memory mapping; unmaps it on destruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/error.h"

namespace suture {

class Mapping {
 public:
  enum class Access { kReadOnly, kReadWrite };

  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  // Maps `size` bytes of `fd`, shared. kIo if the system refuses (a sealed memfd refuses
  // kReadWrite).
  static Result<Mapping> shared(int fd, size_t size, Access access);
  // Maps a whole file read-only. An empty file gives an empty mapping.
  static Result<Mapping> file(const std::filesystem::path& path);
  // `size` zero bytes of this process's own, in huge pages where the system has them.
  static Result<Mapping> anonymous(size_t size);

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  Mapping(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Bytes of all of them.
uint64_t total_bytes(std::span<const Mapping> mappings);

// Has the system read the pages of a mapping now and enter them for this process, so that no later
// access waits for either. Only costs time where the system cannot.
void page_in(std::span<const std::byte> mapped);

// Takes the pages of a file's mapping away from this process; what is touched again is entered
// again. Not for memory that is not a file's: its content would be lost.
void page_out(std::span<const std::byte> mapped);

// Has the system read the pages of a file's mapping, without entering them for this process.
void read_ahead(std::span<const std::byte> mapped);

// Has the system back shared memory that nobody has written yet with huge pages, as far as it has
// them: streaming through small ones is a quarter slower. What it backs is allocated now.
void back_with_huge_pages(std::span<std::byte> mapped);

}  // namespace suture
