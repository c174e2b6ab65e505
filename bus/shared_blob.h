// Read-only memory that several processes have in common: written once, by the first that needs it,
// then sealed, so that nobody can change it or take pages away (F_SEAL_WRITE | SHRINK | GROW |
// SEAL).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/error.h"
#include "base/mapping.h"
#include "base/unique_fd.h"

namespace suture {

// Writes all bytes of a new blob, which are zero.
using BlobFill = std::function<Status(std::span<std::byte>)>;

// Allocates, has `fill` write, seals. kOutOfMemory with sizes, or the error of `fill`.
Result<UniqueFd> make_shared_blob(uint64_t bytes, const BlobFill& fill);

// Of a descriptor received from another process: kPermission if a seal is missing, kCorrupt if the
// size is not exactly `bytes` or if not all of them are allocated.
Status check_shared_blob(int fd, uint64_t bytes);

// Checked, and mapped to be read. `fd` stays the caller's; the memory lives as long as anybody's
// mapping or descriptor.
Result<Mapping> map_shared_blob(int fd, uint64_t bytes);

}  // namespace suture
