// The topology file (docs/topology.md): TOML in, a validated LaunchSpec out.
#pragma once

#include <filesystem>
#include <string_view>

#include "actors/launch_spec.h"
#include "base/error.h"

namespace suture {

// Every document may be this long; a model's context is the tighter bound for most.
inline constexpr size_t kMaxDocumentBytes = 4 << 20;

// Errors name file, line and key: kInvalidArgument, kNotFound (a document), or kUnsupported for
// what the format knows but this version cannot do yet.
Result<LaunchSpec> load_topology(const std::filesystem::path& path);

// The same for text that is already in memory; `path` is used for messages and for documents,
// whose relative paths start at its folder.
Result<LaunchSpec> parse_topology(std::string_view text, const std::filesystem::path& path);

// Fills ModelSpec::path of every model, pulling models of the manifest that are not there.
Status resolve_models(LaunchSpec& spec);

}  // namespace suture
