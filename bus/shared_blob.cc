#include "bus/shared_blob.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>

#include "bus/memfd.h"

namespace suture {
namespace {

constexpr int kBlobSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

}  // namespace

Result<UniqueFd> make_shared_blob(uint64_t bytes, const BlobFill& fill) {
  SUTURE_ASSIGN_OR_RETURN(UniqueFd fd, create_memfd("suture-blob", bytes));
  {
    SUTURE_ASSIGN_OR_RETURN(const Mapping mapping,
                            Mapping::shared(fd.get(), bytes, Mapping::Access::kReadWrite));
    SUTURE_RETURN_IF_ERROR(fill({mapping.data(), mapping.size()}));
  }  // the seal WRITE is refused as long as anybody could write
  SUTURE_RETURN_IF_ERROR(seal_memfd(fd.get(), kBlobSeals));
  return fd;
}

Status check_shared_blob(int fd, uint64_t bytes) {
  SUTURE_RETURN_IF_ERROR(verify_memfd(fd, kBlobSeals | F_SEAL_SEAL, bytes));
  struct stat info {};
  if (::fstat(fd, &info) != 0) return fail_errno("cannot read size of shared memory", errno, "bus");
  const auto allocated = static_cast<uint64_t>(info.st_blocks) * 512;
  // Reading a hole would need memory that may not be there.
  if (allocated >= bytes) return {};
  return fail(ErrorCode::kCorrupt,
              fmt::format("shared memory has {} of {} bytes allocated", allocated, bytes), "bus");
}

Result<Mapping> map_shared_blob(int fd, uint64_t bytes) {
  SUTURE_RETURN_IF_ERROR(check_shared_blob(fd, bytes));
  return Mapping::shared(fd, bytes, Mapping::Access::kReadOnly);
}

}  // namespace suture
