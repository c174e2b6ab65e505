#include "launcher/topology_fusion.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "actors/fusion_choice.h"

namespace suture {
namespace {

constexpr size_t kMaxLayers = 1024;
constexpr size_t kMaxPathBytes = 4096;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMaxGain = 100;  // exp(100) drowns everything else already

constexpr int64_t kMaxDraft = 4096;  // tokens

constexpr std::array<std::string_view, 12> kFusionKeys = {
    "mode", "position", "layer_map", "norm",  "gain",  "lag",
    "sink", "reread",   "projector", "force", "apply", "draft"};

// A number, or one number a layer; -inf switches the slave off.
Status read_gain(const TomlReader& reader, FusionSpec& fusion) {
  const toml::node* node = reader.find("gain");
  const toml::array* array = node == nullptr ? nullptr : node->as_array();
  if (array == nullptr) {
    SUTURE_ASSIGN_OR_RETURN(fusion.gain, reader.number("gain", fusion.gain, -kInfinity, kMaxGain));
    return {};
  }
  if (array->empty() || array->size() > kMaxLayers)
    return reader.refuse("gain", fmt::format("expected 1 to {} numbers, one for each layer, got {}",
                                             kMaxLayers, array->size()));
  for (const toml::node& item : *array) {
    const auto value = item.is_number() ? item.value<double>() : std::nullopt;
    if (!value || !(*value <= kMaxGain))
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("expected numbers from -inf to {}", kMaxGain),
                  reader.where_of(item, "gain"));
    fusion.layer_gain.push_back(*value);
  }
  return {};
}

// A word, or the slave's layer for each layer of the master, -1 where there is none.
Status read_layer_map(const TomlReader& reader, FusionSpec& fusion) {
  const toml::node* node = reader.find("layer_map");
  const toml::array* array = node == nullptr ? nullptr : node->as_array();
  if (array == nullptr) {
    SUTURE_ASSIGN_OR_RETURN(const std::string text, reader.text("layer_map", "identity", 64));
    auto spec = parse_layer_map(text);
    if (!spec) return reader.refuse("layer_map", spec.error().what, spec.error().remedy);
    fusion.layer_map = std::move(*spec);
    return {};
  }
  if (array->empty() || array->size() > kMaxLayers)
    return reader.refuse("layer_map",
                         fmt::format("expected 1 to {} layers, one for each layer of the master, "
                                     "got {}",
                                     kMaxLayers, array->size()));
  fusion.layer_map.kind = LayerMapSpec::Kind::kTable;
  for (const toml::node& item : *array) {
    const auto layer = item.is_integer() ? item.value<int64_t>() : std::nullopt;
    if (!layer || *layer < kNoPartner || *layer >= static_cast<int64_t>(kMaxLayers))
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("expected layers from 0 to {}, or -1 for none", kMaxLayers - 1),
                  reader.where_of(item, "layer_map"));
    fusion.layer_map.table.push_back(*layer);
  }
  return {};
}

// Says no to a key that means nothing in this mode.
Status refuse_keys(const TomlReader& reader, FusionMode mode,
                   std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys)
    if (reader.has(key))
      return reader.refuse(
          key, fmt::format("'{}' says nothing in mode \"{}\"", key, fusion_mode_name(mode)),
          "remove the key, or choose another mode; docs/topology.md says which has which");
  return {};
}

Status check_keys_of_mode(const TomlReader& reader, const FusionSpec& fusion) {
  switch (fusion.mode) {
    case FusionMode::kConcat:
      return refuse_keys(reader, fusion.mode, {"projector", "force", "apply", "sink", "reread"});
    case FusionMode::kProject:
      if (!reader.has("projector"))
        return reader.refuse("projector", "mode \"project\" needs a projector",
                             "projector = \"FILE\"; suture fit makes one");
      return refuse_keys(reader, fusion.mode, {"layer_map", "norm", "sink", "reread"});
    case FusionMode::kTransfer:
      if (fusion.position == SlavePosition::kPrefix)
        return reader.refuse("position",
                             "a slave that transfers the master's text reads that, no other",
                             "documents that the master need not read are the master's own: "
                             "documents = [...] there");
      return refuse_keys(reader, fusion.mode, {"layer_map", "norm", "lag"});
    case FusionMode::kText:
      return refuse_keys(
          reader, fusion.mode,
          {"layer_map", "norm", "gain", "lag", "projector", "force", "apply", "sink", "reread"});
    case FusionMode::kAuto: return refuse_keys(reader, fusion.mode, {"sink", "reread"});
  }
  return {};
}

Status read_projector(const TomlReader& reader, const std::filesystem::path& folder,
                      FusionSpec& fusion) {
  SUTURE_ASSIGN_OR_RETURN(const std::string name, reader.text("projector", {}, kMaxPathBytes));
  SUTURE_ASSIGN_OR_RETURN(fusion.force, reader.flag("force", fusion.force));
  SUTURE_ASSIGN_OR_RETURN(
      fusion.apply, reader.choice<ProjectorUse>(
                        "apply", fusion.apply,
                        {{"writer", ProjectorUse::kWriter}, {"reader", ProjectorUse::kReader}}));
  if (fusion.draft > 0 && fusion.apply == ProjectorUse::kReader)
    return reader.refuse("draft",
                         "a draft is mapped by the slave's process, and apply = \"reader\" leaves "
                         "mapping to the master's",
                         "remove apply, or draft");
  if (!reader.has("projector")) {
    for (const std::string_view key : {"force", "apply"})
      if (reader.has(key))
        return reader.refuse(key, fmt::format("'{}' speaks of a projector, and there is none", key),
                             "remove the key, or give a projector");
    return {};
  }
  fusion.projector = folder / name;
  std::error_code error;
  if (!std::filesystem::is_regular_file(fusion.projector, error))
    return fail(ErrorCode::kNotFound,
                fmt::format("{}: there is no such file", fusion.projector.string()),
                reader.where("projector"),
                "paths are relative to the topology file; suture fit makes a projector");
  return {};
}

}  // namespace

Status read_fusion(const TomlReader& reader, const std::filesystem::path& folder,
                   FusionSpec& fusion) {
  SUTURE_RETURN_IF_ERROR(reader.check_keys(kFusionKeys, {}));
  SUTURE_ASSIGN_OR_RETURN(fusion.mode,
                          reader.choice<FusionMode>("mode", fusion.mode,
                                                    {{"concat", FusionMode::kConcat},
                                                     {"project", FusionMode::kProject},
                                                     {"transfer", FusionMode::kTransfer},
                                                     {"text", FusionMode::kText},
                                                     {"auto", FusionMode::kAuto}}));
  SUTURE_ASSIGN_OR_RETURN(fusion.position,
                          reader.choice<SlavePosition>("position", fusion.position,
                                                       {{"aligned", SlavePosition::kAligned},
                                                        {"prefix", SlavePosition::kPrefix}}));
  SUTURE_RETURN_IF_ERROR(read_layer_map(reader, fusion));
  SUTURE_ASSIGN_OR_RETURN(
      fusion.norm,
      reader.choice<NormSource>("norm", fusion.norm,
                                {{"own", NormSource::kOwn}, {"master", NormSource::kMaster}}));
  SUTURE_RETURN_IF_ERROR(read_gain(reader, fusion));
  if (reader.has("lag") && fusion.position == SlavePosition::kPrefix)
    return reader.refuse("lag", "lag says nothing about a prefix, which is always visible",
                         "remove lag, or use position = \"aligned\"");
  SUTURE_ASSIGN_OR_RETURN(fusion.lag, reader.integer("lag", fusion.lag, 0, 1 << 20));
  SUTURE_ASSIGN_OR_RETURN(fusion.sink, reader.integer("sink", fusion.sink, 0, 1 << 20));
  // At least one: its row gives the first token.
  SUTURE_ASSIGN_OR_RETURN(fusion.reread, reader.integer("reread", fusion.reread, 1, 1 << 20));
  const bool words = fusion.mode == FusionMode::kText;  // of which there is at least one
  SUTURE_ASSIGN_OR_RETURN(fusion.draft,
                          reader.integer("draft", words ? FusionSpec::kHandOffTokens : fusion.draft,
                                         words ? 1 : 0, kMaxDraft));
  SUTURE_RETURN_IF_ERROR(check_keys_of_mode(reader, fusion));
  return read_projector(reader, folder, fusion);
}

}  // namespace suture
