// fusion = { ... } of a slave in a topology file.
#pragma once

#include <filesystem>

#include "actors/launch_spec.h"
#include "base/error.h"
#include "launcher/toml_reader.h"

namespace suture {

// Errors as those of load_topology(); a projector's path starts at `folder`.
Status read_fusion(const TomlReader& reader, const std::filesystem::path& folder,
                   FusionSpec& fusion);

}  // namespace suture
