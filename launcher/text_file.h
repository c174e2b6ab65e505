// Text that users hand in: bounded in size and valid UTF-8.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace suture {

// The whole file; "-" is standard input. kNotFound, kIo, or kInvalidArgument if it is longer.
Result<std::string> read_file(const std::filesystem::path& path, size_t longest);

// The same, kInvalidArgument at the first byte that is not UTF-8.
Result<std::string> read_text_file(const std::filesystem::path& path, size_t longest);

struct TextLine {
  std::string text;
  int number = 0;     // from 1
  std::string where;  // "file:number"
};

// The same, without the lines that are blank.
Result<std::vector<TextLine>> read_text_lines(const std::filesystem::path& path, size_t longest);

// kInvalidArgument naming the offset of the first byte that is not UTF-8.
Status check_utf8(std::string_view text, const std::string& where);

}  // namespace suture
