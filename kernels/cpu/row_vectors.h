// Vectors with a lane for each of kRowLanes output rows; the target's .cc defines that constant
// before it includes this file.
#pragma once

#include "kernels/cpu/vectors_inl.h"

namespace suture {
namespace {

using RowFloats = float __attribute__((vector_size(4 * kRowLanes)));
using RowInts = int32_t __attribute__((vector_size(4 * kRowLanes)));
using RowWords = uint16_t __attribute__((vector_size(4 * kRowLanes)));
using RowBytes = uint8_t __attribute__((vector_size(4 * kRowLanes)));  // [rows][4 columns]

}  // namespace
}  // namespace suture
