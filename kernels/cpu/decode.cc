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

// What the parts of one product need in the stream's scratch.
struct Scratch {
  const QuantisedRow* x = nullptr;  // [n_rows], if any part is quantised
  std::byte* tiles = nullptr;       // [workers][tile_bytes], if any is quantised and not packed
  int64_t tile_bytes = 0;
};

int64_t bytes_of_quantised(int64_t cols) {
  return cols + 4 * (cols / kQuantGroup) * static_cast<int64_t>(sizeof(float));
}

QuantisedRow quantised_at(std::byte* memory, int64_t cols) {
  const int64_t groups = cols / kQuantGroup;
  auto* scale = reinterpret_cast<float*>(memory + cols);
  return {.q = reinterpret_cast<int8_t*>(memory),
          .scale = scale,
          .sum = scale + groups,
          .total = reinterpret_cast<int32_t*>(scale + 2 * groups)};
}

Result<Scratch> prepare(CpuStream& stream, const MatmulKernels& kernels,
                        const MatmulGroupArgs& args) {
  Scratch scratch;
  const int64_t cols = args.parts[0].w.cols;
  bool quantised = false;
  for (const MatmulPart& part : args.parts) {
    if (!is_quantised(part.w.dtype)) continue;
    quantised = true;
    if (part.w.layout == WeightLayout::kTiles) continue;
    SUTURE_ASSIGN_OR_RETURN(const int64_t bytes, packed_tile_bytes(part.w.dtype, cols));
    scratch.tile_bytes = std::max(scratch.tile_bytes, bytes);
  }
  if (!quantised) return scratch;
  const int64_t tiles = stream.pool().size() * scratch.tile_bytes;
  const int64_t list = args.n_rows * static_cast<int64_t>(sizeof(QuantisedRow));
  const int64_t row = bytes_of_quantised(cols);
  SUTURE_ASSIGN_OR_RETURN(std::byte * memory,
                          stream.scratch(static_cast<size_t>(tiles + list + args.n_rows * row)));
  scratch.tiles = memory;
  auto* x = reinterpret_cast<QuantisedRow*>(memory + tiles);
  for (int64_t r = 0; r < args.n_rows; ++r) {
    x[r] = quantised_at(memory + tiles + list + r * row, cols);
    kernels.quantise(args.x + r * cols, cols, x[r]);
  }
  scratch.x = x;
  return scratch;
}

void decode_plain(const MatmulKernels& kernels, const MatmulGroupArgs& args, const MatmulPart& part,
                  int64_t begin, int64_t end) {
  const PlainJob job = {.w = part.w.data,
                        .row_bytes = dtype_bytes(part.w.dtype, part.w.cols).value(),
                        .cols = part.w.cols,
                        .bias = part.bias,
                        .x = args.x,
                        .n_rows = args.n_rows,
                        .out = part.out,
                        .out_stride = part.w.rows};
  kernels.decode_plain[static_cast<size_t>(part.w.dtype)](job, begin * kRun,
                                                          std::min(end * kRun, part.w.rows));
}

// One tile with all rows of x.
void decode_tile(const MatmulKernels& kernels, const MatmulGroupArgs& args, const MatmulPart& part,
                 const QuantisedRow* x, const std::byte* data, int64_t tile) {
  const int64_t rows = part.w.rows;
  const int64_t first = tile * kPackedRows;
  const int64_t width = std::min(kPackedRows, rows - first);
  alignas(64) float sums[kMaxTileX][kPackedRows];
  for (int64_t r = 0; r < args.n_rows; r += kMaxTileX) {
    const int64_t n = std::min<int64_t>(kMaxTileX, args.n_rows - r);
    kernels.decode_tile[static_cast<size_t>(part.w.dtype)](data, x + r, static_cast<int>(n),
                                                           part.w.cols, sums);
    for (int64_t i = 0; i < n; ++i) {
      float* out = part.out + (r + i) * rows + first;
      for (int64_t m = 0; m < width; ++m) {
        out[m] = part.bias != nullptr ? sums[i][m] + part.bias[first + m] : sums[i][m];
      }
    }
  }
}

// Weights that are not packed are so tile by tile, in `memory`.
void decode_tiles(const MatmulKernels& kernels, const MatmulGroupArgs& args, const MatmulPart& part,
                  const QuantisedRow* x, int64_t begin, int64_t end, std::byte* memory) {
  const int64_t tile_bytes = packed_tile_bytes(part.w.dtype, part.w.cols).value();
  const int64_t row_bytes = dtype_bytes(part.w.dtype, part.w.cols).value();
  for (int64_t tile = begin; tile < end; ++tile) {
    const std::byte* data = part.w.data + tile * tile_bytes;
    if (part.w.layout == WeightLayout::kRows) {
      const int64_t row = tile * kPackedRows;
      kernels.pack[static_cast<size_t>(part.w.dtype)](part.w.data + row * row_bytes, row_bytes,
                                                      std::min(kPackedRows, part.w.rows - row),
                                                      part.w.cols, memory);
      data = memory;
    }
    decode_tile(kernels, args, part, x, data, tile);
  }
}

// Runs [begin, end) of all parts one after another.
void decode_runs(const MatmulKernels& kernels, const MatmulGroupArgs& args, const Scratch& scratch,
                 int64_t begin, int64_t end, int worker) {
  for (const MatmulPart& part : args.parts) {
    const int64_t runs = runs_of(part.w);
    const int64_t last = std::min(end, runs);
    if (begin < last && is_quantised(part.w.dtype)) {
      decode_tiles(kernels, args, part, scratch.x, begin, last,
                   scratch.tiles + worker * scratch.tile_bytes);
    } else if (begin < last) {
      decode_plain(kernels, args, part, begin, last);
    }
    begin = std::max<int64_t>(begin - runs, 0);
    end -= runs;
    if (end <= 0) return;
  }
}

}  // namespace

Status decode_cpu(CpuStream& stream, const MatmulGroupArgs& args) {
  const MatmulKernels& kernels = matmul_kernels(stream.isa());
  SUTURE_ASSIGN_OR_RETURN(const Scratch scratch, prepare(stream, kernels, args));
  int64_t runs = 0;
  for (const MatmulPart& part : args.parts) runs += runs_of(part.w);
  stream.pool().parallel_for(runs, [&](int64_t begin, int64_t end, int worker) {
    decode_runs(kernels, args, scratch, begin, end, worker);
  });
  return {};
}

}  // namespace suture
