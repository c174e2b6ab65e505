// Projectors as files: magic, version and a digest of the header, the header
// (fusion/projector_header.h), then all numbers, which are used where they lie.
#pragma once

#include <filesystem>

#include "base/error.h"
#include "fusion/projector.h"

namespace suture {

// Whoever reads `path` meanwhile finds the file that was there before, or the whole new one, also
// after a crash. kInvalidArgument if the projector is not sound, kIo with the file untouched.
Status write_projector(const std::filesystem::path& path, const Projector& projector);

// The weights stay in the file's mapping. kCorrupt if anything contradicts itself or a digest,
// kUnsupported for a later version of the format.
Result<Projector> read_projector(const std::filesystem::path& path);

}  // namespace suture
