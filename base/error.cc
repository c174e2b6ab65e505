#include "base/error.h"

#include <fmt/format.h>

#include <system_error>

namespace suture {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kIncompatible: return "incompatible";
    case ErrorCode::kOutOfMemory: return "out_of_memory";
    case ErrorCode::kTimeout: return "timeout";
    case ErrorCode::kClosed: return "closed";
    case ErrorCode::kLost: return "lost";
    case ErrorCode::kStaleGeneration: return "stale_generation";
    case ErrorCode::kPermission: return "permission";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kBusy: return "busy";
  }
  return "unknown";
}

std::string Error::message() const {
  std::string text = where.empty() ? what : fmt::format("{}: {}", where, what);
  if (!remedy.empty()) text += fmt::format("\n  remedy: {}", remedy);
  return text;
}

tl::unexpected<Error> fail_errno(std::string_view what, int error_number, std::string where,
                                 std::string remedy) {
  return fail(ErrorCode::kIo,
              fmt::format("{}: {}", what, std::generic_category().message(error_number)),
              std::move(where), std::move(remedy));
}

}  // namespace suture
