#include "kernels/cpu/prefill.h"

#include <xmmintrin.h>

#include <algorithm>

#include "kernels/cpu/cpu_matmul.h"
#include "kernels/cpu/prefill_kernels.h"

namespace suture {
namespace {

constexpr int64_t kDepth = kPrefillDepth;
// Output features unpacked together: each row of x is fetched once for all of them.
constexpr int64_t kBlockRows = 128;
constexpr int64_t kMaxTileRows = 16;
constexpr int64_t kMaxPanelRows = 32;

const PrefillKernels& prefill_kernels(Isa isa) {
  switch (isa) {
    case Isa::kScalar: break;
    case Isa::kAvx2: return kPrefillAvx2;
    case Isa::kAvx512:
    case Isa::kAvx512Vnni:
    case Isa::kAvx512Bf16:
    case Isa::kAmx: return kPrefillAvx512;
  }
  return kPrefillScalar;
}

// What one worker needs, each part aligned to a cache line.
struct PrefillMemory {
  float unpacked[4][kDepth];                                         // rows of w on their way
  float packed[kBlockRows / kMaxPanelRows][kDepth * kMaxPanelRows];  // [panel][k][panel row]
  float x[kMaxTileRows][kTileStride];
  float edge_base[kMaxTileRows][kMaxPanelRows];  // a tile where w has fewer rows than a panel
  float edge_out[kMaxTileRows][kMaxPanelRows];
};
static_assert(sizeof(PrefillMemory) % AlignedMemory::kAlignment == 0);

// Four rows of `depth` values become columns of a panel.
void transpose_rows(const float (*rows)[kDepth], int64_t depth, int64_t panel_rows, float* column) {
  int64_t k = 0;
  for (; k + 4 <= depth; k += 4) {
    __m128 a = _mm_loadu_ps(rows[0] + k), b = _mm_loadu_ps(rows[1] + k);
    __m128 c = _mm_loadu_ps(rows[2] + k), d = _mm_loadu_ps(rows[3] + k);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(column + k * panel_rows, a);
    _mm_storeu_ps(column + (k + 1) * panel_rows, b);
    _mm_storeu_ps(column + (k + 2) * panel_rows, c);
    _mm_storeu_ps(column + (k + 3) * panel_rows, d);
  }
  for (; k < depth; ++k) {
    for (int64_t i = 0; i < 4; ++i) column[k * panel_rows + i] = rows[i][k];
  }
}

class Prefill {
 public:
  Prefill(Isa isa, const MatmulArgs& args)
      : kernels_(prefill_kernels(isa)),
        args_(args),
        dequantise_(matmul_kernels(isa).dequantise[static_cast<size_t>(args.w.dtype)]),
        row_bytes_(dtype_bytes(args.w.dtype, args.w.cols).value()) {}

  // Output features [begin, end); begin is a multiple of the panel.
  void run(int64_t begin, int64_t end, PrefillMemory& memory) const {
    for (int64_t first = begin; first < end; first += kBlockRows) {
      const int64_t last = std::min(first + kBlockRows, end);
      for (int64_t k = 0; k < args_.w.cols; k += kDepth) run_block(first, last, k, memory);
    }
  }

 private:
  void run_block(int64_t first, int64_t last, int64_t k, PrefillMemory& memory) const {
    const int64_t depth = std::min(kDepth, args_.w.cols - k);
    for (int64_t m = first; m < last; m += kernels_.panel_rows) {
      pack(m, last, k, depth, memory, panel(memory, m - first));
    }
    for (int64_t r = 0; r < args_.n_rows; r += kernels_.tile_rows) {
      const int64_t n = std::min(kernels_.tile_rows, args_.n_rows - r);
      for (int64_t i = 0; i < n; ++i) {
        std::copy_n(args_.x + (r + i) * args_.w.cols + k, depth, memory.x[i]);
      }
      for (int64_t m = first; m < last; m += kernels_.panel_rows) {
        multiply(r, n, m, last, k, depth, panel(memory, m - first), memory);
      }
    }
  }

  float* panel(PrefillMemory& memory, int64_t offset) const {
    return memory.packed[0] + offset * kDepth;
  }

  // Rows m .. m + panel_rows of w, columns k .. k + depth, as float32 [depth][panel_rows]; rows
  // from `last` on are whatever was there and their products are thrown away.
  void pack(int64_t m, int64_t last, int64_t k, int64_t depth, PrefillMemory& memory,
            float* packed) const {
    const std::byte* w = args_.w.data + dtype_bytes(args_.w.dtype, k).value();
    for (int64_t i = 0; i < kernels_.panel_rows && m + i < last; i += 4) {
      for (int64_t j = 0; j < 4; ++j) {
        const int64_t row = std::min(m + i + j, last - 1);
        dequantise_(w + row * row_bytes_, depth, memory.unpacked[j]);
      }
      transpose_rows(memory.unpacked, depth, kernels_.panel_rows, packed + i);
    }
  }

  void multiply(int64_t r, int64_t n, int64_t m, int64_t last, int64_t k, int64_t depth,
                const float* packed, PrefillMemory& memory) const {
    const int64_t width = std::min(kernels_.panel_rows, last - m);
    const int64_t stride = args_.w.rows;
    float* out = args_.out + r * stride + m;
    PrefillTile tile = {.x = memory.x[0],
                        .n_rows = n,
                        .packed = packed,
                        .depth = depth,
                        .base = out,
                        .base_stride = stride,
                        .out = out,
                        .out_stride = stride};
    if (k == 0) {  // the first sums are added to the bias, later ones to what is there
      tile.base = args_.bias != nullptr ? args_.bias + m : kZeros;
      tile.base_stride = 0;
    }
    if (width == kernels_.panel_rows) {
      kernels_.multiply(tile);
    } else {
      multiply_edge(tile, width, memory);
    }
  }

  // A tile narrower than the panel computes beside the output and copies what exists.
  void multiply_edge(PrefillTile tile, int64_t width, PrefillMemory& memory) const {
    float* const out = tile.out;
    const int64_t stride = tile.out_stride;
    for (int64_t r = 0; r < tile.n_rows; ++r) {
      std::copy_n(tile.base + r * tile.base_stride, width, memory.edge_base[r]);
    }
    tile.base = memory.edge_base[0];
    tile.out = memory.edge_out[0];
    tile.base_stride = tile.out_stride = kMaxPanelRows;
    kernels_.multiply(tile);
    for (int64_t r = 0; r < tile.n_rows; ++r) {
      std::copy_n(memory.edge_out[r], width, out + r * stride);
    }
  }

  static constexpr float kZeros[kMaxPanelRows] = {};

  const PrefillKernels& kernels_;
  const MatmulArgs& args_;
  void (*dequantise_)(const std::byte* source, int64_t elements, float* target);
  int64_t row_bytes_;
};

}  // namespace

Status prefill_cpu(CpuStream& stream, const MatmulArgs& args) {
  const PrefillKernels& kernels = prefill_kernels(stream.isa());
  SUTURE_CHECK(kernels.panel_rows <= kMaxPanelRows && kernels.tile_rows <= kMaxTileRows,
               "panel {} tile {}", kernels.panel_rows, kernels.tile_rows);
  const size_t workers = static_cast<size_t>(stream.pool().size());
  SUTURE_ASSIGN_OR_RETURN(std::byte * scratch, stream.scratch(workers * sizeof(PrefillMemory)));
  auto* memory = reinterpret_cast<PrefillMemory*>(scratch);
  const Prefill product(stream.isa(), args);
  stream.pool().parallel_for(
      args.w.rows, kernels.panel_rows,
      [&](int64_t begin, int64_t end, int worker) { product.run(begin, end, memory[worker]); });
  return {};
}

}  // namespace suture
