// Anonymous shared memory: no name in the file system, so a killed system leaves none behind.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace suture {

// A memfd of `bytes` zero bytes, all allocated now. kOutOfMemory, with needed and available sizes,
// if the machine or its control group does not have them: a shortage is an error here, not a
// SIGBUS at first use.
Result<UniqueFd> create_memfd(const std::string& name, uint64_t bytes);

// Adds seals (F_SEAL_*), then forbids any further change of seals.
Status seal_memfd(int fd, int seals);

// kPermission unless `fd` is a memfd that carries all of `seals`; kCorrupt unless its size is
// exactly `bytes`.
Status verify_memfd(int fd, int seals, uint64_t bytes);

// Size of a descriptor received from another process.
Result<uint64_t> memfd_size(int fd);

}  // namespace suture
