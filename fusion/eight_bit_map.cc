#include "fusion/eight_bit_map.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "kernels/packed_weights.h"
#include "kernels/quantise.h"

namespace suture {
namespace {

// Calls for each row of W [out][in] in float32.
void for_each_row(const LinearMap& map, const std::function<void(int64_t, std::span<float>)>& use) {
  std::vector<float> row(static_cast<size_t>(map.in()));
  for (int64_t o = 0; o < map.out(); ++o) {
    const uint16_t* weights = map.weights.data() + o * map.in();
    const Status widened =
        dequantise(map.dtype, reinterpret_cast<const std::byte*>(weights), map.in(), row.data());
    SUTURE_CHECK(widened.has_value(), "{}", widened.error().message());
    use(o, row);
  }
}

// Sums of the squares of each column.
std::vector<double> column_squares(const LinearMap& map) {
  std::vector<double> squares(static_cast<size_t>(map.in()));
  for_each_row(map, [&squares](int64_t /*o*/, std::span<const float> row) {
    for (size_t i = 0; i < row.size(); ++i)
      squares[i] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  });
  return squares;
}

// r, and 1 for a map of zeros.
double size_of(const LinearMap& map, std::span<const double> column_squares) {
  double sum = 0;
  for (const double squares : column_squares) sum += squares;
  return sum > 0 ? std::sqrt(sum / static_cast<double>(map.in() * map.out())) : 1;
}

}  // namespace

bool fits_eight_bits(const LinearMap& map) {
  return map.in() % dtype_info(DType::kQ8_0).block_elements == 0;
}

uint64_t eight_bit_bytes(const LinearMap& map) {
  if (!fits_eight_bits(map)) return 0;
  return static_cast<uint64_t>(packed_bytes(DType::kQ8_0, map.out(), map.in()).value_or(0));
}

std::vector<float> column_scales(std::span<const LinearMap* const> maps) {
  std::vector<double> sums(static_cast<size_t>(maps.front()->in()));
  for (const LinearMap* map : maps) {
    const std::vector<double> squares = column_squares(*map);
    const double size = size_of(*map, squares);
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] += squares[i] / (size * size * static_cast<double>(map->out() * std::ssize(maps)));
  }
  std::vector<float> scales(sums.size());
  std::ranges::transform(sums, scales.begin(),
                         [](double sum) { return static_cast<float>(std::sqrt(sum)); });
  return scales;
}

Result<EightBitMap> eight_bit_map(Device& device, const LinearMap& map,
                                  std::span<const float> scales) {
  constexpr DType kType = DType::kQ8_0;
  EightBitMap made;
  SUTURE_ASSIGN_OR_RETURN(const int64_t tile_bytes, packed_tile_bytes(kType, map.in()));
  SUTURE_ASSIGN_OR_RETURN(made.tiles, device.allocate(static_cast<size_t>(eight_bit_bytes(map))));
  made.weights = {kType, made.tiles->data(), map.out(), map.in(), WeightLayout::kTiles};
  const double size = size_of(map, column_squares(map));
  // A column without weights has no scale, and adds nothing.
  std::vector<float> inverses(scales.size());
  std::ranges::transform(scales, inverses.begin(), [size](float scale) {
    return scale > 0 ? static_cast<float>(1 / (size * static_cast<double>(scale))) : 0.0F;
  });
  const int64_t row_bytes = dtype_bytes(kType, map.in()).value();
  std::vector<std::byte> rows(static_cast<size_t>(kPackedRows * row_bytes));
  Status packed;
  for_each_row(map, [&](int64_t o, std::span<float> row) {
    for (size_t i = 0; i < row.size(); ++i) row[i] *= inverses[i];
    const int64_t in_tile = o % kPackedRows;
    quantise_q8_0(row.data(), map.in(), rows.data() + in_tile * row_bytes);
    if ((in_tile + 1 == kPackedRows || o + 1 == map.out()) && packed)
      packed = pack_tiles({kType, rows.data(), in_tile + 1, map.in()}, 0, 1,
                          made.tiles->data() + o / kPackedRows * tile_bytes);
  });
  SUTURE_RETURN_IF_ERROR(packed);
  made.gamma.resize(map.gamma.size());
  std::ranges::transform(map.gamma, made.gamma.begin(), [size](float gamma) {
    return static_cast<float>(static_cast<double>(gamma) * size);
  });
  return made;
}

}  // namespace suture
