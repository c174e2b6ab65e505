#include "fusion/layer_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace suture {
namespace {

using Kind = LayerMapSpec::Kind;

constexpr std::string_view kStridePrefix = "stride:";
constexpr int64_t kMaxStride = 1024;

tl::unexpected<Error> misfit(const LayerMapSpec& spec, std::string why) {
  return fail(
      ErrorCode::kInvalidArgument, fmt::format("layer_map \"{}\": {}", layer_map_name(spec), why),
      {}, "choose \"nearest\", \"last-to-last\", \"stride:N\" or a table that fits both depths");
}

// The slave's layer for layer `l` of the master, maybe outside the slave's layers.
int64_t partner(const LayerMapSpec& spec, int64_t l, int64_t master_layers, int64_t slave_layers) {
  switch (spec.kind) {
    case Kind::kIdentity: return l;
    case Kind::kStride: return l % spec.stride == 0 ? l / spec.stride : kNoPartner;
    case Kind::kNearest: {
      if (master_layers == 1) return slave_layers - 1;
      const int64_t steps = master_layers - 1;
      return (2 * l * (slave_layers - 1) + steps) / (2 * steps);  // rounded
    }
    case Kind::kLastToLast: return std::max<int64_t>(l - master_layers + slave_layers, kNoPartner);
    case Kind::kTable: return spec.table[static_cast<size_t>(l)];
  }
  return kNoPartner;
}

Status check_depths(const LayerMapSpec& spec, int32_t master_layers, int32_t slave_layers) {
  if (master_layers < 1 || slave_layers < 1)
    return misfit(spec, fmt::format("{} and {} layers", master_layers, slave_layers));
  if (spec.kind == Kind::kIdentity && master_layers != slave_layers)
    return misfit(spec, fmt::format("needs models of the same depth, the master has {} layers, "
                                    "the slave {}",
                                    master_layers, slave_layers));
  if (spec.kind == Kind::kStride && spec.stride < 1)
    return misfit(spec, fmt::format("stride {}", spec.stride));
  if (spec.kind == Kind::kTable && std::ssize(spec.table) != master_layers)
    return misfit(spec, fmt::format("{} entries, the master has {} layers", spec.table.size(),
                                    master_layers));
  return {};
}

}  // namespace

Result<LayerMapSpec> parse_layer_map(std::string_view text) {
  if (text == "identity") return LayerMapSpec{};
  if (text == "nearest") return LayerMapSpec{.kind = Kind::kNearest, .stride = 1, .table = {}};
  if (text == "last-to-last")
    return LayerMapSpec{.kind = Kind::kLastToLast, .stride = 1, .table = {}};
  if (text.starts_with(kStridePrefix)) {
    const std::string_view digits = text.substr(kStridePrefix.size());
    int64_t stride = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), stride);
    const bool whole = code == std::errc() && end == digits.data() + digits.size();
    if (whole && 1 <= stride && stride <= kMaxStride)
      return LayerMapSpec{.kind = Kind::kStride, .stride = stride, .table = {}};
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("\"{}\": expected a stride from 1 to {}", text, kMaxStride));
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("\"{}\" is no layer map; known: \"identity\", \"stride:N\", \"nearest\", "
                          "\"last-to-last\", or a list of layers",
                          text));
}

std::string layer_map_name(const LayerMapSpec& spec) {
  switch (spec.kind) {
    case Kind::kIdentity: return "identity";
    case Kind::kStride: return fmt::format("{}{}", kStridePrefix, spec.stride);
    case Kind::kNearest: return "nearest";
    case Kind::kLastToLast: return "last-to-last";
    case Kind::kTable: return "table";
  }
  return "unknown";
}

Result<std::vector<int32_t>> make_layer_map(const LayerMapSpec& spec, int32_t master_layers,
                                            int32_t slave_layers) {
  SUTURE_RETURN_IF_ERROR(check_depths(spec, master_layers, slave_layers));
  std::vector<int32_t> map;
  for (int64_t l = 0; l < master_layers; ++l) {
    const int64_t layer = partner(spec, l, master_layers, slave_layers);
    if (layer != kNoPartner && (layer < 0 || layer >= slave_layers))
      return misfit(spec, fmt::format("the master's layer {} takes layer {} of the slave, which "
                                      "has {}",
                                      l, layer, slave_layers));
    map.push_back(static_cast<int32_t>(layer));
  }
  if (std::ranges::all_of(map, [](int32_t layer) { return layer == kNoPartner; }))
    return misfit(spec, "no layer of the master has a partner");
  return map;
}

}  // namespace suture
