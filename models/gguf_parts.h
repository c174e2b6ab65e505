// The files of one GGUF model: a single one, or all parts of a split one
// ("name-00001-of-00003.gguf", numbered from 1; every part is a GGUF file of its own).
#pragma once

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/mapping.h"
#include "models/gguf.h"

namespace suture {

struct GgufParts {
  std::vector<std::filesystem::path> paths;
  std::vector<Mapping> mappings;  // of the paths, in their order
  GgufFile file;                  // metadata of the first part, tensors of all
};

// `path` names any part. kNotFound if a part is missing; kCorrupt, naming the part, if the parts do
// not say that they belong together, or hold another number of tensors than they claim.
Result<GgufParts> open_gguf_parts(const std::filesystem::path& path);

}  // namespace suture
