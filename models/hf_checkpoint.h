// A model in a folder as the model hub lays it out: config.json and model.safetensors.
#pragma once

#include <filesystem>
#include <memory>

#include "base/error.h"
#include "models/checkpoint.h"

namespace suture {

Result<std::unique_ptr<Checkpoint>> open_hf_folder(const std::filesystem::path& path);

}  // namespace suture
