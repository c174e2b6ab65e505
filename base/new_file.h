// A file that takes the place of another one once it is whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"

namespace suture {

// Whoever reads `path` meanwhile finds what was there before, also after a crash. What is not
// finished is removed.
class NewFile {
 public:
  static Result<NewFile> create(std::filesystem::path path);
  NewFile(NewFile&&) noexcept = default;
  NewFile& operator=(NewFile&&) = delete;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  Status write(std::span<const std::byte> bytes);
  // On the disk before it has its name.
  Status finish();

 private:
  explicit NewFile(std::filesystem::path path);
  tl::unexpected<Error> failed(std::string_view what) const;

  std::filesystem::path path_;
  std::string unfinished_;
  UniqueFd fd_;
};

}  // namespace suture
