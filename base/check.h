// Broken invariants stop the process at once, with the values printed.
#pragma once

#include <fmt/format.h>

#include <string>

namespace suture {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& values);

}  // namespace suture

// SUTURE_CHECK(row < rows, "row={} rows={}", row, rows);
#define SUTURE_CHECK(condition, ...)                                                      \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::suture::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
