// Splits the products of generated tokens over the workers of the stream; the inner loops are in
// *_inl.h.
//
// Output features are split, never the sum over k: which worker computes an element, and what else
// it computes, cannot change the element's bits.
#include "kernels/cpu/decode.h"

#include <algorithm>

#include "kernels/cpu/cpu_matmul.h"
#include "kernels/packed_weights.h"

namespace suture {
namespace {

// Output features are shared out in runs of this many, whatever the layout: one tile.
constexpr int64_t kRun = kPackedRows;

int64_t runs_of(const WeightView& w) { return (w.rows + kRun - 1) / kRun; }

// All rows of x in 8 bits, in the stream's scratch.
class QuantisedRows {
 public:
  static Result<QuantisedRows> make(CpuStream& stream, const MatmulKernels& kernels,
                                    const MatmulGroupArgs& args) {
    const int64_t cols = args.parts[0].w.cols;
    const int64_t padded = (cols + kQuantChunk - 1) / kQuantChunk * kQuantChunk;
    const int64_t groups = padded / kQuantGroup;
    const int64_t row_bytes = padded + 6 * groups * static_cast<int64_t>(sizeof(float));
    const int64_t list_bytes = args.n_rows * static_cast<int64_t>(sizeof(QuantisedRow));
    SUTURE_ASSIGN_OR_RETURN(
        std::byte * memory,
        stream.scratch(static_cast<size_t>(args.n_rows * row_bytes + list_bytes)));
    auto* rows = reinterpret_cast<QuantisedRow*>(memory + args.n_rows * row_bytes);
    for (int64_t r = 0; r < args.n_rows; ++r, memory += row_bytes) {
      auto* scale = reinterpret_cast<float*>(memory + padded);
      rows[r] = {.q = reinterpret_cast<int8_t*>(memory),
                 .scale = scale,
                 .sum = scale + groups,
                 .sum16 = scale + 2 * groups,
                 .total = reinterpret_cast<int32_t*>(scale + 4 * groups)};
      kernels.quantise(args.x + r * cols, cols, rows[r]);
    }
    return QuantisedRows(rows);
  }
  QuantisedRows() = default;

  const QuantisedRow* data() const { return rows_; }

 private:
  explicit QuantisedRows(const QuantisedRow* rows) : rows_(rows) {}
  const QuantisedRow* rows_ = nullptr;  // [n_rows]
};

void decode_rows(const MatmulKernels& kernels, const MatmulGroupArgs& args, const MatmulPart& part,
                 const QuantisedRow* x, int64_t begin, int64_t end) {
  const DecodeJob job = {.w = part.w.data,
                         .row_bytes = dtype_bytes(part.w.dtype, part.w.cols).value(),
                         .cols = part.w.cols,
                         .bias = part.bias,
                         .x = args.x,
                         .qx = x,
                         .n_rows = args.n_rows,
                         .out = part.out,
                         .out_stride = part.w.rows};
  kernels.decode[static_cast<size_t>(part.w.dtype)](job, begin * kRun,
                                                    std::min(end * kRun, part.w.rows));
}

void decode_tiles(const MatmulKernels& kernels, const MatmulGroupArgs& args, const MatmulPart& part,
                  const QuantisedRow* x, int64_t begin, int64_t end) {
  const int64_t rows = part.w.rows;
  const int64_t tile_bytes = packed_tile_bytes(part.w.dtype, part.w.cols).value();
  const auto decode_tile = kernels.decode_tile[static_cast<size_t>(part.w.dtype)];
  alignas(64) float sums[kMaxTileX][kPackedRows];
  for (int64_t tile = begin; tile < end; ++tile) {
    const int64_t first = tile * kPackedRows;
    const int64_t width = std::min(kPackedRows, rows - first);
    for (int64_t r = 0; r < args.n_rows; r += kMaxTileX) {
      const int64_t n = std::min<int64_t>(kMaxTileX, args.n_rows - r);
      decode_tile(part.w.data + tile * tile_bytes, x + r, static_cast<int>(n), part.w.cols, sums);
      for (int64_t i = 0; i < n; ++i) {
        float* out = part.out + (r + i) * rows + first;
        for (int64_t m = 0; m < width; ++m) {
          out[m] = part.bias != nullptr ? sums[i][m] + part.bias[first + m] : sums[i][m];
        }
      }
    }
  }
}

// Runs [begin, end) of all parts one after another.
void decode_runs(const MatmulKernels& kernels, const MatmulGroupArgs& args, const QuantisedRow* x,
                 int64_t begin, int64_t end) {
  for (const MatmulPart& part : args.parts) {
    const int64_t runs = runs_of(part.w);
    const int64_t last = std::min(end, runs);
    if (begin < last) {
      const auto decode = part.w.layout == WeightLayout::kTiles ? decode_tiles : decode_rows;
      decode(kernels, args, part, x, begin, last);
    }
    begin = std::max<int64_t>(begin - runs, 0);
    end -= runs;
    if (end <= 0) return;
  }
}

}  // namespace

Status decode_cpu(CpuStream& stream, const MatmulGroupArgs& args) {
  const MatmulKernels& kernels = matmul_kernels(stream.isa());
  QuantisedRows x;
  const auto quantised = [](const MatmulPart& part) { return is_quantised(part.w.dtype); };
  if (std::ranges::any_of(args.parts, quantised)) {
    SUTURE_ASSIGN_OR_RETURN(x, QuantisedRows::make(stream, kernels, args));
  }
  int64_t runs = 0;
  for (const MatmulPart& part : args.parts) runs += runs_of(part.w);
  stream.pool().parallel_for(runs, [&](int64_t begin, int64_t end, int) {
    decode_runs(kernels, args, x.data(), begin, end);
  });
  return {};
}

}  // namespace suture
