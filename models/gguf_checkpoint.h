// A model in a .gguf file.
#pragma once

#include <filesystem>
#include <memory>

#include "base/error.h"
#include "models/checkpoint.h"

namespace suture {

Result<std::unique_ptr<Checkpoint>> open_gguf(const std::filesystem::path& path);

}  // namespace suture
