// Rows of a published stream as they were before K was rotated, for fitting.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "bus/stream_info.h"
#include "bus/stream_reader.h"
#include "kernels/device.h"

namespace suture {

struct PlainRows {
  std::vector<float> key;    // [n_rows][layers][n_kv_heads][head_dim]
  std::vector<float> value;  // the same
  int64_t n_rows = 0;
};

// The rows at these entries, which must be committed in all layers; entry i sits at position i.
// `stream` is the CPU's. kIncompatible if they lie in several RoPE epochs.
Status read_plain_rows(Stream& stream, const StreamInfo& info, const StreamReader& reader,
                       std::span<const int32_t> entries, PlainRows& rows);

}  // namespace suture
