// What the validating dispatchers share.
#pragma once

#include <fmt/format.h>

#include <string>

#include "base/error.h"

namespace suture {

// The answer of an op that has no implementation for the stream's device.
inline tl::unexpected<Error> no_such_backend(std::string op) {
  return fail(ErrorCode::kUnsupported, "this build has no implementation for the stream's device",
              std::move(op), "use the device \"cpu\"");
}

}  // namespace suture

// Returns kInvalidArgument from a dispatcher; `op` names the op:
//   SUTURE_REQUIRE(n_rows >= 0, "rope", "n_rows={}", n_rows);
#define SUTURE_REQUIRE(condition, op, ...)                                            \
  do {                                                                                \
    if (!(condition)) [[unlikely]]                                                    \
      return ::suture::fail(::suture::ErrorCode::kInvalidArgument,                    \
                            "not " #condition ": " + ::fmt::format(__VA_ARGS__), op); \
  } while (false)
