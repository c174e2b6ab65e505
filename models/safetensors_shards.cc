#include "models/safetensors_shards.h"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "models/json_text.h"
#include "models/safetensors.h"
#include "models/unicode.h"

namespace suture {
namespace {

using nlohmann::json;

constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr uint64_t kMaxIndexBytes = 64 << 20;
constexpr const char* kRemedy = "download the folder again, with all of its files";

bool file_exists(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// A plain name, so that no file outside the folder is opened.
bool is_shard_name(std::string_view name) {
  return is_plain_name(name) && name.find_first_of("/\\") == std::string_view::npos &&
         !name.starts_with('.') && name.ends_with(".safetensors");
}

using WeightMap = std::map<std::string, std::string>;  // tensor to shard

Result<WeightMap> read_index(const std::filesystem::path& path) {
  SUTURE_ASSIGN_OR_RETURN(const json index, read_json_object(path, kMaxIndexBytes));
  const auto refuse = [&](std::string what) {
    return fail(ErrorCode::kCorrupt, std::move(what), path.string(), kRemedy);
  };
  const auto found = index.find("weight_map");
  if (found == index.end() || !found->is_object() || found->empty())
    return refuse(fmt::format("'weight_map' is {}, expected an object of tensors and their files",
                              found == index.end() ? "missing" : json_text(*found)));
  WeightMap map;
  for (const auto& [tensor, shard] : found->items()) {
    if (!shard.is_string() || !is_shard_name(shard.get_ref<const std::string&>()))
      return refuse(fmt::format(
          "'weight_map' gives {} for tensor '{}', expected the name of a .safetensors file in this "
          "folder",
          json_text(shard), printable(tensor)));
    map.emplace(tensor, shard.get<std::string>());
  }
  return map;
}

Status add_shard(const std::filesystem::path& path, SafetensorsShards& shards) {
  SUTURE_ASSIGN_OR_RETURN(Mapping mapping, Mapping::file(path));
  SUTURE_ASSIGN_OR_RETURN(SafetensorsFile file,
                          SafetensorsFile::parse(mapping.bytes(), path.string()));
  shards.paths.push_back(path);
  shards.mappings.push_back(std::move(mapping));
  shards.tensors.insert(shards.tensors.end(), file.tensors().begin(), file.tensors().end());
  return {};
}

// Every tensor of the shard must be where the index has it; which, over all shards, also means that
// none is there twice. Takes those found out of `map`.
Status check_shard(std::span<const TensorInfo> tensors, const std::filesystem::path& path,
                   WeightMap& map) {
  for (const TensorInfo& tensor : tensors) {
    const auto found = map.find(tensor.name);
    if (found == map.end() || found->second != path.filename())
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor '{}' is in this file, but {} does not have it here",
                              tensor.name, kIndexName),
                  path.string(), kRemedy);
    map.erase(found);
  }
  return {};
}

Result<SafetensorsShards> open_listed(const std::filesystem::path& folder) {
  SUTURE_ASSIGN_OR_RETURN(WeightMap map, read_index(folder / kIndexName));
  std::map<std::string, std::string> a_tensor_of;  // shard to one of its tensors
  for (const auto& [tensor, shard] : map) a_tensor_of.emplace(shard, tensor);
  SafetensorsShards shards;
  for (const auto& [shard, tensor] : a_tensor_of) {
    const auto path = folder / shard;
    if (!file_exists(path))
      return fail(ErrorCode::kNotFound,
                  fmt::format("this file is missing; {} has tensor '{}' in it", kIndexName,
                              printable(tensor)),
                  path.string(), kRemedy);
    const size_t before = shards.tensors.size();
    SUTURE_RETURN_IF_ERROR(add_shard(path, shards));
    SUTURE_RETURN_IF_ERROR(check_shard(std::span(shards.tensors).subspan(before), path, map));
  }
  if (!map.empty())
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor '{}' is not in this file, though {} has it here",
                            printable(map.begin()->first), kIndexName),
                (folder / map.begin()->second).string(), kRemedy);
  return shards;
}

}  // namespace

Result<SafetensorsShards> open_safetensors_shards(const std::filesystem::path& folder) {
  if (file_exists(folder / kSingleName)) {
    SafetensorsShards single;
    SUTURE_RETURN_IF_ERROR(add_shard(folder / kSingleName, single));
    return single;
  }
  if (file_exists(folder / kIndexName)) return open_listed(folder);
  return fail(ErrorCode::kNotFound,
              fmt::format("the folder has no {} and no {}", kSingleName, kIndexName),
              folder.string(), "a checkpoint folder holds config.json and one of these");
}

}  // namespace suture
