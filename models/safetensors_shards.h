// The tensors of a checkpoint folder: model.safetensors, or the shards that
// model.safetensors.index.json lists.
#pragma once

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/mapping.h"
#include "models/tensor_info.h"

namespace suture {

struct SafetensorsShards {
  std::vector<std::filesystem::path> paths;
  std::vector<Mapping> mappings;  // of the paths, in their order
  std::vector<TensorInfo> tensors;
};

// kNotFound if there is neither file, or a shard is missing. kCorrupt, naming tensor and shard, if
// index and shards do not agree, or a shard would lie outside the folder.
Result<SafetensorsShards> open_safetensors_shards(const std::filesystem::path& folder);

}  // namespace suture
