// A projector's maps in 8 bits, for the integer kernels of the CPU: they are several times faster
// than those of 16 bits, also for one row, for which half as many bytes are read.
//
//   W (x - mean) = r (W / (r s)) (s (x - mean))
//
// Both factors are rounded in blocks of 32 columns (Q8_0 for W, the kernels' own 8 bits for x), in
// which the largest number sets the step for all. So columns are scaled first: s of a column is the
// root mean square of W in it, and r that of the whole W, which a row's gamma takes over. Then W
// has columns alike, and x is rounded in steps that matter to the result alike, however much larger
// some columns of K are than others. Measured in docs/fusion.md.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "fusion/projector.h"
#include "kernels/device.h"
#include "kernels/matmul.h"

namespace suture {

struct EightBitMap {
  std::unique_ptr<Buffer> tiles;  // W / (r s), kernels/packed_weights.h
  WeightView weights;             // of these
  std::vector<float> gamma;       // [out], times r
};

// Whether its columns are whole blocks.
bool fits_eight_bits(const LinearMap& map);

// s [in] for maps that meet the same x: the root mean square over all of them, of W / r.
std::vector<float> column_scales(std::span<const LinearMap* const> maps);

// Of a map that fits. `device` is a CPU.
Result<EightBitMap> eight_bit_map(Device& device, const LinearMap& map,
                                  std::span<const float> scales);

// Bytes of the tiles; 0 if it does not fit.
uint64_t eight_bit_bytes(const LinearMap& map);

}  // namespace suture
