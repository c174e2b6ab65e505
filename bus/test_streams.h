// Small slabs and checkable K/V contents for the tests of streams.
#pragma once

#include <cstdint>
#include <string>

#include "bus/stream_info.h"
#include "kernels/kv_layout.h"

namespace suture {

// 3 layers, 2 kv heads, head dim 8, float32: 4096 bytes a block.
KvShape small_shape();
StreamInfo small_info();

// The value of every element of the row of `token` in `layer`: different for different rows, heads
// and streams (`salt`).
float row_value(uint32_t salt, int32_t layer, int64_t token, int32_t head, bool is_v);

// Writes all of one token's K and V rows of a layer.
void write_row(const KvShape& shape, const KvLayerView& view, uint32_t salt, int32_t layer,
               int64_t token);
// How many elements of rows [first, end) of a layer are not what write_row wrote.
int64_t wrong_elements(const KvShape& shape, const KvLayerView& view, uint32_t salt, int32_t layer,
                       int64_t first, int64_t end);

}  // namespace suture
