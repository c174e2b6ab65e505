#include "bus/payload.h"

#include <fcntl.h>

#include "bus/memfd.h"

namespace suture {
namespace {

// FUTURE_WRITE spares the owner's mapping, which exists already, and forbids any other writable
// mapping, write() and mprotect() in every process. SHRINK spares readers a SIGBUS.
constexpr int kPayloadSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

}  // namespace

Result<Payload> Payload::create(uint64_t bytes) {
  SUTURE_ASSIGN_OR_RETURN(UniqueFd fd, create_memfd("suture-payload", bytes));
  SUTURE_ASSIGN_OR_RETURN(Mapping mapping,
                          Mapping::shared(fd.get(), bytes, Mapping::Access::kReadWrite));
  SUTURE_RETURN_IF_ERROR(seal_memfd(fd.get(), kPayloadSeals));
  return Payload(std::move(fd), std::move(mapping));
}

Result<Mapping> Payload::open_read_only(int fd, uint64_t bytes) {
  SUTURE_RETURN_IF_ERROR(verify_memfd(fd, kPayloadSeals | F_SEAL_SEAL, bytes));
  return Mapping::shared(fd, bytes, Mapping::Access::kReadOnly);
}

}  // namespace suture
