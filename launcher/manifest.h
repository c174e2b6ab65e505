// The models that Suture knows by name, and where each can be had.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace suture {

// A piece of a model's file inside a Python package; the pieces in order are the file.
struct PackagePart {
  std::string package;
  std::string version;
  std::string member;  // path inside the package's wheel
  uint64_t bytes = 0;  // size of the member
};

struct ModelEntry {
  std::string name;
  std::string hub_repository;
  std::string hub_file;
  std::vector<PackagePart> parts;
  std::string sha256;  // of the whole file, hexadecimal
  uint64_t bytes = 0;
  std::string licence;

  std::string hub_url() const;
};

// In the order in which `models list` shows them.
std::span<const ModelEntry> manifest();

// nullptr if no model has this name.
const ModelEntry* find_model(std::string_view name);

// kNotFound with the nearest name and all known ones.
tl::unexpected<Error> unknown_model(std::string_view name);

// $SUTURE_MODELS, else $XDG_CACHE_HOME/suture/models, else ~/.cache/suture/models.
std::filesystem::path model_cache_folder();

// Where a pulled model lies in a cache folder.
std::filesystem::path cached_model_path(const ModelEntry& entry,
                                        const std::filesystem::path& folder);

}  // namespace suture
