// Expected failures are values: what went wrong, where, and what the user can do about it.
// Broken invariants are not errors; they abort (base/check.h).
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace suture {

enum class ErrorCode {
  kInvalidArgument,  // a value given by the caller or a file is outside its contract
  kNotFound,         // no such file, model, stream, peer
  kUnsupported,      // well-formed, but this build does not know it
  kCorrupt,          // a file or message contradicts itself
  kIncompatible,     // two models, layouts or versions that do not fit together
  kOutOfMemory,      // no block, slot or memory left
  kTimeout,          // the bound for this wait passed
  kClosed,           // the stream or connection was closed by its owner
  kLost,             // the owner of the stream died
  kStaleGeneration,  // the stream slot now holds another sequence
  kPermission,       // refused: wrong user, secret or seal
  kIo,               // the operating system said no; `what` holds its message
  kCancelled,        // the caller asked for it
  kBusy,             // taken by another, try again
};

// Name of a code as it appears in JSON output, for example "stale_generation".
std::string_view error_code_name(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string what;                // one sentence without a full stop, with the values involved
  std::string where;               // file, field, line or component; may be empty
  std::string remedy;              // what to do about it; may be empty
  double retry_after_seconds = 0;  // when the same may succeed; 0 = not known

  // "where: what\n  remedy: ..." as printed to a terminal.
  std::string message() const;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

// return fail(ErrorCode::kCorrupt, "tensor count 9 exceeds the file", path);
inline tl::unexpected<Error> fail(ErrorCode code, std::string what, std::string where = {},
                                  std::string remedy = {}) {
  return tl::unexpected<Error>(
      Error{code, std::move(what), std::move(where), std::move(remedy), 0});
}

// Error of a failed system call: `what` followed by strerror(error_number).
tl::unexpected<Error> fail_errno(std::string_view what, int error_number, std::string where = {},
                                 std::string remedy = {});

}  // namespace suture

// Returns the error of `expression` (a Status or Result) from the enclosing function.
#define SUTURE_RETURN_IF_ERROR(expression)                                      \
  do {                                                                          \
    if (auto suture_status = (expression); !suture_status.has_value())          \
      return tl::unexpected<::suture::Error>(std::move(suture_status).error()); \
  } while (false)

#define SUTURE_CONCAT_INNER(a, b) a##b
#define SUTURE_CONCAT(a, b) SUTURE_CONCAT_INNER(a, b)
#define SUTURE_ASSIGN_OR_RETURN_INNER(result, declaration, expression)                        \
  auto result = (expression);                                                                 \
  if (!result.has_value()) return tl::unexpected<::suture::Error>(std::move(result).error()); \
  declaration = std::move(result).value()

// SUTURE_ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
#define SUTURE_ASSIGN_OR_RETURN(declaration, expression) \
  SUTURE_ASSIGN_OR_RETURN_INNER(SUTURE_CONCAT(suture_result_, __LINE__), declaration, expression)
