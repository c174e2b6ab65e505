#include "fusion/projection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "fusion/eight_bit_map.h"
#include "fusion/rope_map.h"
#include "kernels/affine.h"
#include "kernels/kv_plain.h"
#include "kernels/kv_rows.h"
#include "kernels/rope.h"
#include "models/device_array.h"

namespace suture {
namespace {

tl::unexpected<Error> refuse(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "projection");
}

// Source layers of any window, rising.
std::vector<int32_t> layers_in_use(const Projector& projector) {
  std::vector<int32_t> layers;
  for (const LayerProjection& layer : projector.layers) {
    layers.insert(layers.end(), layer.key.window.begin(), layer.key.window.end());
    layers.insert(layers.end(), layer.value.window.begin(), layer.value.window.end());
  }
  std::ranges::sort(layers);
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

int64_t widest_input(const Projector& projector) {
  int64_t widest = 0;
  for (const LayerProjection& layer : projector.layers)
    widest = std::max({widest, layer.key.in(), layer.value.in()});
  return widest;
}

bool same_input(const LinearMap& a, const LinearMap& b) {
  return a.window == b.window && a.mean == b.mean;
}

Status check_stream(const StreamInfo& stream, const ProjectorSide& side, const char* role) {
  SUTURE_RETURN_IF_ERROR(validate(stream));
  KvShape shape = stream.shape;
  shape.dtype = side.kv.shape.dtype;
  if (shape != side.kv.shape || stream.ropes.empty())
    return fail(ErrorCode::kIncompatible,
                fmt::format("the {}'s rows are not of the shape that the projector maps", role),
                "projection");
  return {};
}

// Memory that a device reads: the host's own where it can, else a copy.
class DeviceWeights {
 public:
  DeviceWeights(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  template <typename T>
  Result<const T*> place(std::span<const T> host) {
    const auto bytes = std::as_bytes(host);
    if (const std::byte* there = device_.device_address(bytes); there != nullptr)
      return reinterpret_cast<const T*>(there);
    SUTURE_ASSIGN_OR_RETURN(auto buffer, device_.allocate(bytes.size()));
    SUTURE_RETURN_IF_ERROR(stream_.copy_to_device(buffer->data(), bytes));
    buffers_.push_back(std::move(buffer));
    return buffers_.back()->template as<const T>();
  }

 private:
  Device& device_;
  Stream& stream_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

// What several maps meet, and multiply with where they are in 8 bits.
struct MapInput {
  std::vector<const LinearMap*> maps;  // that have it
  std::vector<float> scales;           // [in] of these; empty = they are in 16 bits
  const float* mean = nullptr;         // [in], where the device reads it
  const float* scale = nullptr;        // [in]; nullptr = 1
};

// One map with its numbers where the device reads them.
struct PlacedMap {
  EightBitMap eight_bits;  // if its input has scales
  WeightView weights;
  const float* gamma = nullptr;  // [out]
  const float* beta = nullptr;   // [out]
  std::vector<int32_t> groups;   // of the plain rows, whose groups are the layers in use
  size_t input = 0;              // in PlacedMaps::inputs
};

// The maps of all target layers for K, or those for V.
struct PlacedMaps {
  std::vector<MapInput> inputs;
  std::vector<PlacedMap> layers;  // [target layers]
  DeviceArray<float> plain;       // [max_rows][layers in use][source width]
  DeviceArray<float> own;         // [max_rows][target width] of the target's first layer, if taken
  DeviceArray<float> x;           // [max_rows][widest input], less its mean, scaled
  DeviceArray<float> y;           // [kMaxMatmulParts][max_rows][target width]
  static constexpr size_t kNone = SIZE_MAX;
  size_t in_x = kNone;  // the input that x holds of the rows read last
  // The layers that y holds of these rows.
  size_t first_in_y = 0;
  size_t n_in_y = 0;

  bool in_y(size_t layer) const { return layer - first_in_y < n_in_y; }
  void forget() {
    in_x = kNone;
    n_in_y = 0;
  }
};

}  // namespace

struct Projection::State {
  State(Device& device, Stream& work, ProjectionSetup wanted)
      : stream(work),
        setup(std::move(wanted)),
        weights(device, work),
        source_rotations(setup.source),
        target_rotations(setup.target),
        used(layers_in_use(*setup.projector)),
        plain_layers(used.size()) {}

  const Projector& projector() const { return *setup.projector; }

  Status allocate(Device& device) {
    const int64_t rows = setup.max_rows;
    const int64_t plain = std::ssize(used) * projector().source.width();
    for (PlacedMaps* maps : {&keys, &values}) {
      SUTURE_ASSIGN_OR_RETURN(maps->plain, DeviceArray<float>::create(device, rows * plain));
      if (projector().own_first_layer) {
        SUTURE_ASSIGN_OR_RETURN(
            maps->own, DeviceArray<float>::create(device, rows * projector().target.width()));
      }
      SUTURE_ASSIGN_OR_RETURN(maps->x,
                              DeviceArray<float>::create(device, rows * widest_input(projector())));
      SUTURE_ASSIGN_OR_RETURN(
          maps->y, DeviceArray<float>::create(
                       device, int64_t{kMaxMatmulParts} * rows * projector().target.width()));
    }
    for (DeviceArray<int32_t>* list : {&entries, &source_positions, &target_positions}) {
      SUTURE_ASSIGN_OR_RETURN(*list, DeviceArray<int32_t>::create(device, rows));
    }
    return {};
  }

  Status place_all(Device& device) {
    for (PlacedMaps* maps : {&keys, &values}) {
      const auto map_of = [&](const LayerProjection& layer) -> const LinearMap& {
        return maps == &keys ? layer.key : layer.value;
      };
      for (const LayerProjection& layer : projector().layers) add_input(map_of(layer), *maps);
      for (MapInput& input : maps->inputs) SUTURE_RETURN_IF_ERROR(place_input(device, input));
      for (size_t i = 0; i < projector().layers.size(); ++i)
        SUTURE_RETURN_IF_ERROR(
            place(device, map_of(projector().layers[i]), *maps, maps->layers[i]));
    }
    return stream.synchronize();
  }

  static void add_input(const LinearMap& map, PlacedMaps& maps) {
    const auto known = std::ranges::find_if(
        maps.inputs, [&map](const MapInput& other) { return same_input(map, *other.maps[0]); });
    maps.layers.emplace_back().input = static_cast<size_t>(known - maps.inputs.begin());
    (known == maps.inputs.end() ? maps.inputs.emplace_back() : *known).maps.push_back(&map);
  }

  Status place_input(Device& device, MapInput& input) {
    const LinearMap& first = *input.maps[0];
    SUTURE_ASSIGN_OR_RETURN(input.mean, weights.place(std::span(first.mean)));
    if (device.kind() != DeviceKind::kCpu || !fits_eight_bits(first)) return {};
    input.scales = column_scales(input.maps);
    SUTURE_ASSIGN_OR_RETURN(input.scale, weights.place(std::span(std::as_const(input.scales))));
    return {};
  }

  Status place(Device& device, const LinearMap& map, PlacedMaps& maps, PlacedMap& placed) {
    const MapInput& input = maps.inputs[placed.input];
    if (input.scales.empty()) {
      SUTURE_ASSIGN_OR_RETURN(const uint16_t* data, weights.place(map.weights));
      placed.weights = {map.dtype, reinterpret_cast<const std::byte*>(data), map.out(), map.in()};
      SUTURE_ASSIGN_OR_RETURN(placed.gamma, weights.place(std::span(map.gamma)));
    } else {
      SUTURE_ASSIGN_OR_RETURN(placed.eight_bits, eight_bit_map(device, map, input.scales));
      placed.weights = placed.eight_bits.weights;
      SUTURE_ASSIGN_OR_RETURN(placed.gamma,
                              weights.place(std::span(std::as_const(placed.eight_bits.gamma))));
    }
    SUTURE_ASSIGN_OR_RETURN(placed.beta, weights.place(std::span(map.beta)));
    for (const int32_t layer : map.window)
      placed.groups.push_back(
          static_cast<int32_t>(std::ranges::lower_bound(used, layer) - used.begin()));
    return {};
  }

  Status centre(PlacedMaps& maps, const PlacedMap& map) {
    if (maps.in_x == map.input) return {};
    maps.in_x = map.input;
    const MapInput& input = maps.inputs[map.input];
    CentreGroupsArgs args{.x = maps.plain.data(),
                          .n_rows = n_rows,
                          .n_groups = std::ssize(used),
                          .width = projector().source.width(),
                          .groups = map.groups,
                          .mean = input.mean,
                          .scale = input.scale,
                          .out = maps.x.data(),
                          .out_stride = input.maps[0]->in()};
    SUTURE_RETURN_IF_ERROR(centre_groups(stream, args));
    if (!projector().own_first_layer) return {};
    // Behind the window's columns those of the target's own first layer.
    static constexpr int32_t kOnly[] = {0};
    const int64_t behind = std::ssize(map.groups) * args.width;
    args.x = maps.own.data();
    args.n_groups = 1;
    args.width = projector().target.width();
    args.groups = kOnly;
    args.mean += behind;
    if (args.scale != nullptr) args.scale += behind;
    args.out += behind;
    return centre_groups(stream, args);
  }

  // Mapped rows of a target layer in y: [n_rows][target width].
  float* mapped(PlacedMaps& maps, size_t layer) const {
    return maps.y.data() +
           static_cast<int64_t>(layer - maps.first_in_y) * n_rows * projector().target.width();
  }

  // Makes `layer` one of those in y, and the next ones of the same input with it: what a product
  // does to x is then done once for all.
  Status map_rows(PlacedMaps& maps, size_t layer) {
    if (maps.in_y(layer)) return {};
    SUTURE_RETURN_IF_ERROR(centre(maps, maps.layers[layer]));
    maps.first_in_y = layer;
    std::array<MatmulPart, kMaxMatmulParts> parts;
    size_t n = 0;
    for (; n < parts.size() && layer + n < maps.layers.size(); ++n) {
      const PlacedMap& map = maps.layers[layer + n];
      if (map.input != maps.in_x) break;
      parts[n] = {.w = map.weights, .out = mapped(maps, layer + n)};
    }
    SUTURE_RETURN_IF_ERROR(matmul(stream, MatmulGroupArgs{.x = maps.x.data(),
                                                          .parts = std::span(parts).first(n),
                                                          .n_rows = n_rows,
                                                          .path = path}));
    maps.n_in_y = n;
    for (size_t i = layer; i < layer + n; ++i) {
      SUTURE_RETURN_IF_ERROR(scale_shift(stream, {.x = mapped(maps, i),
                                                  .scale = maps.layers[i].gamma,
                                                  .shift = maps.layers[i].beta,
                                                  .n_rows = n_rows,
                                                  .width = projector().target.width()}));
      if (&maps == &keys) SUTURE_RETURN_IF_ERROR(rotate_keys(i));
    }
    return {};
  }

  Status rotate_keys(size_t layer) {
    const Rotation rotation = target_rotations.at(static_cast<int32_t>(layer), target_epoch);
    RopeArgs args;
    args.x = args.out = mapped(keys, layer);
    args.positions = target_positions.data();
    args.frequencies = rotation.frequencies;
    args.attention_factor = rotation.attention_factor;
    args.pairing = setup.target.rope_pairing;
    args.n_rows = n_rows;
    args.n_heads = setup.target.shape.n_kv_heads;
    args.head_dim = setup.target.shape.head_dim;
    return rope(stream, args);
  }

  Stream& stream;
  const ProjectionSetup setup;
  DeviceWeights weights;
  Rotations source_rotations;
  Rotations target_rotations;
  const std::vector<int32_t> used;         // source layers, rising
  std::vector<KvPlainLayer> plain_layers;  // [used]
  PlacedMaps keys;
  PlacedMaps values;
  DeviceArray<int32_t> entries;           // [max_rows]
  DeviceArray<int32_t> source_positions;  // [max_rows]
  DeviceArray<int32_t> target_positions;  // [max_rows]
  // Of the rows read last.
  int64_t n_rows = 0;
  int64_t target_epoch = 0;
  MatmulPath path = MatmulPath::kPrefill;
};

Projection::Projection(std::unique_ptr<State> state) : state_(std::move(state)) {}
Projection::~Projection() = default;

Result<std::unique_ptr<Projection>> Projection::create(Device& device, Stream& stream,
                                                       ProjectionSetup setup) {
  SUTURE_RETURN_IF_ERROR(check_stream(setup.source, setup.projector->source, "source"));
  SUTURE_RETURN_IF_ERROR(check_stream(setup.target, setup.projector->target, "target"));
  if (setup.max_rows < 1) return refuse(fmt::format("max_rows = {}", setup.max_rows));
  if (setup.projector->own_first_layer && !setup.first_layer)
    return refuse("the maps take the target's first layer, and nothing computes it");
  auto state = std::make_unique<State>(device, stream, std::move(setup));
  SUTURE_RETURN_IF_ERROR(state->allocate(device));
  SUTURE_RETURN_IF_ERROR(state->place_all(device));
  return std::unique_ptr<Projection>(new Projection(std::move(state)));
}

uint64_t Projection::map_bytes(const Projector& projector) {
  uint64_t bytes = 0;
  for (const LayerProjection& layer : projector.layers)
    bytes += eight_bit_bytes(layer.key) + eight_bit_bytes(layer.value);
  return bytes;
}

uint64_t Projection::scratch_bytes(const Projector& projector, int64_t max_rows) {
  const int64_t floats =
      std::ssize(layers_in_use(projector)) * projector.source.width() + widest_input(projector) +
      (int64_t{kMaxMatmulParts} + (projector.own_first_layer ? 1 : 0)) * projector.target.width();
  constexpr int64_t kIntegers = 3;  // an entry and two positions
  return static_cast<uint64_t>(max_rows) * (2 * static_cast<uint64_t>(floats) + kIntegers) *
         sizeof(float);
}

Status Projection::read(const ProjectionRows& rows) {
  State& s = *state_;
  const auto n_rows = std::ssize(rows.source_entries);
  if (n_rows > s.setup.max_rows || std::ssize(rows.source_positions) != n_rows ||
      std::ssize(rows.target_positions) != n_rows)
    return refuse(fmt::format("{} entries, {} and {} positions, at most {} rows", n_rows,
                              rows.source_positions.size(), rows.target_positions.size(),
                              s.setup.max_rows));
  if (std::ssize(rows.source) != s.setup.source.shape.n_layers)
    return refuse(fmt::format("{} source layers", rows.source.size()));
  if (std::ranges::any_of(rows.source_entries, [](int32_t entry) { return entry < 0; }))
    return refuse("a row without an entry");
  const bool takes_tokens = s.projector().own_first_layer;
  if (takes_tokens && std::ssize(rows.target_tokens) != n_rows)
    return refuse(fmt::format("{} tokens for {} rows", rows.target_tokens.size(), n_rows));
  const auto stage = [&s](std::span<const int32_t> host, DeviceArray<int32_t>& device) {
    return s.stream.copy_to_device(reinterpret_cast<std::byte*>(device.data()),
                                   std::as_bytes(host));
  };
  SUTURE_RETURN_IF_ERROR(stage(rows.source_entries, s.entries));
  SUTURE_RETURN_IF_ERROR(stage(rows.source_positions, s.source_positions));
  SUTURE_RETURN_IF_ERROR(stage(rows.target_positions, s.target_positions));
  for (size_t i = 0; i < s.used.size(); ++i) {
    const Rotation rotation = s.source_rotations.at(s.used[i], rows.source_epoch);
    s.plain_layers[i] = {rows.source[static_cast<size_t>(s.used[i])], rotation.frequencies,
                         rotation.attention_factor};
  }
  s.n_rows = n_rows;
  s.target_epoch = rows.target_epoch;
  s.path = rows.path;
  s.keys.forget();
  s.values.forget();
  KvPlainArgs args;
  args.shape = s.setup.source.shape;
  args.layers = s.plain_layers;
  args.pairing = s.setup.source.rope_pairing;
  args.entries = s.entries.data();
  args.positions = s.source_positions.data();
  args.n_rows = n_rows;
  args.key = s.keys.plain.data();
  args.value = s.values.plain.data();
  SUTURE_RETURN_IF_ERROR(kv_plain(s.stream, args));
  if (takes_tokens)
    SUTURE_RETURN_IF_ERROR(
        s.setup.first_layer(rows.target_tokens, rows.path, s.keys.own.data(), s.values.own.data()));
  return s.stream.synchronize();
}

Status Projection::write(int32_t layer, const KvLayerView& target, int64_t first_entry) {
  State& s = *state_;
  if (layer < 0 || layer >= s.setup.target.shape.n_layers)
    return refuse(fmt::format("target layer {}", layer));
  const auto at = static_cast<size_t>(layer);
  SUTURE_RETURN_IF_ERROR(s.map_rows(s.keys, at));
  SUTURE_RETURN_IF_ERROR(s.map_rows(s.values, at));
  KvAppendArgs args;
  args.key = s.mapped(s.keys, at);
  args.value = s.mapped(s.values, at);
  args.n_rows = s.n_rows;
  args.first_entry = first_entry;
  args.shape = s.setup.target.shape;
  args.kv = target;
  return kv_append(s.stream, args);
}

}  // namespace suture
