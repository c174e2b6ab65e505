// A file that is being downloaded. It gets its final name only when it is whole and verified.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "base/sha256.h"
#include "base/unique_fd.h"

namespace suture {

class PartialFile {
 public:
  // Opens or creates `target`.partial, which will become `target` with `expected_bytes` bytes.
  // What an interrupted download left there is kept.
  static Result<PartialFile> open(const std::filesystem::path& target, uint64_t expected_bytes);

  uint64_t size() const { return size_; }

  // Keeps the first `bytes` bytes (at most size()) and hashes them; append() goes on from there.
  Status restart_at(uint64_t bytes);
  // kCorrupt if the file would become longer than expected. restart_at() must have been called.
  Status append(std::span<const std::byte> bytes);
  // Checks size and hash, flushes to disk and renames. kCorrupt on a wrong hash.
  Status finish(const std::string& sha256);
  Status remove();

 private:
  PartialFile() = default;

  std::filesystem::path target_;
  std::filesystem::path path_;
  UniqueFd fd_;
  uint64_t expected_bytes_ = 0;
  uint64_t size_ = 0;
  std::unique_ptr<Sha256> hash_;  // of the first size_ bytes
};

// SHA-256 of a whole file.
Result<std::string> file_sha256(const std::filesystem::path& path);

}  // namespace suture
