// Rows of K and V into and out of a sequence's blocks.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/kv_layout.h"

namespace suture {

// Writes rows of K and V ([n_rows][n_kv_heads][head_dim] float32 each), converted to shape.dtype
// (round to nearest even), as entries first_entry .. first_entry + n_rows of the sequence.
struct KvAppendArgs {
  const float* key = nullptr;
  const float* value = nullptr;
  int64_t n_rows = 0;
  int64_t first_entry = 0;
  KvShape shape;
  KvLayerView kv;
};

Status kv_append(Stream& stream, const KvAppendArgs& args);

// Reads one layer's entries [begin, end) back as float32: key and value are
// [n_kv_heads][end - begin][head_dim] each, in device memory.
struct KvGatherArgs {
  float* key = nullptr;
  float* value = nullptr;
  int64_t begin = 0;
  int64_t end = 0;
  KvShape shape;
  KvLayerView kv;
};

Status kv_gather(Stream& stream, const KvGatherArgs& args);

// Refuses a shape without heads or dimensions, or of a type that K/V cannot have; `op` asked.
Status check_kv_shape(const KvShape& shape, const char* op);

}  // namespace suture
