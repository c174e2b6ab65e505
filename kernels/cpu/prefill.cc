#include "kernels/cpu/prefill.h"

#include <xmmintrin.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cpu/cpu_matmul.h"
#include "kernels/packed_weights.h"

namespace suture {

const PrefillKernels& prefill_kernels(Isa isa, DType weights) {
  const bool rounds = weights != DType::kF32;
  switch (isa) {
    case Isa::kScalar: return kPrefillScalar;
    case Isa::kAvx2: return kPrefillAvx2;
    case Isa::kAvx512: return kPrefillAvx512;
    case Isa::kAvx512Vnni: return is_quantised(weights) ? kPrefillAvx512Vnni : kPrefillAvx512;
    case Isa::kAvx512Bf16:
      return is_quantised(weights) ? kPrefillAvx512Vnni
             : rounds              ? kPrefillAvx512Bf16
                                   : kPrefillAvx512;
    case Isa::kAmx: return rounds ? kPrefillAmx : kPrefillAvx512;
  }
  return kPrefillScalar;
}

namespace {

// Panels unpacked together: their sums stay in the second-level cache until they are whole, while
// x comes by from the third.
constexpr int64_t kBlockPanels = 8;
constexpr int64_t kBlockRows = kBlockPanels * kPanelRows;
constexpr int64_t kMaxRows = 528;  // rows that meet one unpacking: a prompt's chunk and some more
constexpr int64_t kGrain = 2;      // panels: what word kernels multiply together
static_assert(kPanelRows == kPackedRows);

int64_t whole(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

int64_t panels_of(const WeightView& w) { return (w.rows + kPanelRows - 1) / kPanelRows; }

// ---- Rows of x ----

struct PackedRow {
  int64_t row;  // of x
  bool rest;    // what the part before it left out
};

// Rows of x that are packed and multiplied together, from `next` on.
class RowPlan {
 public:
  RowPlan(ThreadPool& pool, const PrefillKernels& kernels, const MatmulGroupArgs& args,
          int64_t& next) {
    const int64_t cols = args.parts[0].w.cols, first = next;
    std::array<bool, kMaxRows> split = {};
    if (kernels.needs_rest != nullptr) {
      const int64_t n = std::min(kMaxRows, args.n_rows - first);
      pool.parallel_for(n, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          split[static_cast<size_t>(i)] = kernels.needs_rest(args.x + (first + i) * cols, cols);
        }
      });
    }
    for (; next < args.n_rows && size_ < kMaxRows; ++next) {
      const bool pair = split[static_cast<size_t>(next - first)];
      if (pair && size_ + 2 > kMaxRows) return;
      rows_[static_cast<size_t>(size_++)] = {next, false};
      if (pair) rows_[static_cast<size_t>(size_++)] = {next, true};
    }
  }

  int64_t size() const { return size_; }
  const PackedRow& operator[](int64_t i) const { return rows_[static_cast<size_t>(i)]; }
  bool is_split(int64_t i) const { return i + 1 < size_ && (*this)[i + 1].rest; }

 private:
  std::array<PackedRow, kMaxRows> rows_;
  int64_t size_ = 0;
};

// ---- Memory ----

// What one worker needs, each part aligned to a cache line.
struct WorkerMemory {
  std::byte* panels;  // [kBlockPanels] of the kernels' size
  float* sums;        // [kMaxRows][kBlockRows]
  float* values;      // [stretch][kPanelRows]: a panel in float32
  float* rows;        // [kPanelRows][stretch]: plain weights on their way there
  std::byte* tiles;   // [kBlockPanels] tiles, where quantised weights lie in rows
};

// All rows of x as packed: [stretch][tile].
struct PackedX {
  PackedX(const PrefillKernels& kernels, int64_t x_cols, int64_t n_rows)
      : cols(x_cols),
        padded_cols(whole(x_cols, kColumnUnit)),
        n_tiles((n_rows + kernels.tile_rows - 1) / kernels.tile_rows),
        stretches((padded_cols + kernels.stretch - 1) / kernels.stretch),
        stretch_bytes(n_tiles * kernels.x_tile_bytes) {}

  int64_t bytes() const { return stretches * stretch_bytes; }

  int64_t cols, padded_cols, n_tiles, stretches, stretch_bytes;
};

class WorkerSizes {
 public:
  WorkerSizes(const PrefillKernels& kernels, const WeightView& w)
      : panels_(kBlockPanels * kernels.panel_bytes),
        values_(kernels.stretch * kPanelRows * static_cast<int64_t>(sizeof(float))) {
    if (is_quantised(w.dtype) && w.layout == WeightLayout::kRows) {
      tiles_ = kBlockPanels * packed_tile_bytes(w.dtype, w.cols).value();
    }
  }

  int64_t total() const { return panels_ + kSums + 2 * values_ + tiles_; }

  WorkerMemory split(std::byte* memory) const {
    const auto take = [&memory](int64_t bytes) { return std::exchange(memory, memory + bytes); };
    WorkerMemory parts = {};
    parts.panels = take(panels_);
    parts.sums = reinterpret_cast<float*>(take(kSums));
    parts.values = reinterpret_cast<float*>(take(values_));
    parts.rows = reinterpret_cast<float*>(take(values_));
    parts.tiles = take(tiles_);
    return parts;
  }

 private:
  static constexpr int64_t kSums = kMaxRows * kBlockRows * int64_t{sizeof(float)};
  int64_t panels_, values_, tiles_ = 0;  // bytes
};

// ---- The product ----

// Four rows of `n` values become columns of [n][kPanelRows].
void transpose_rows(const float* rows, int64_t row_stride, int64_t n, float* column) {
  for (int64_t k = 0; k < n; k += 4) {
    const float* at = rows + k;
    __m128 a = _mm_loadu_ps(at), b = _mm_loadu_ps(at + row_stride);
    __m128 c = _mm_loadu_ps(at + 2 * row_stride), d = _mm_loadu_ps(at + 3 * row_stride);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(column + k * kPanelRows, a);
    _mm_storeu_ps(column + (k + 1) * kPanelRows, b);
    _mm_storeu_ps(column + (k + 2) * kPanelRows, c);
    _mm_storeu_ps(column + (k + 3) * kPanelRows, d);
  }
}

class Product {
 public:
  Product(const PrefillKernels& kernels, const MatmulKernels& formats, const PackedX& shape,
          const RowPlan& plan, const std::byte* x, const MatmulPart& part)
      : kernels_(kernels),
        formats_(formats),
        shape_(shape),
        plan_(plan),
        x_(x),
        part_(part),
        sizes_(kernels, part.w) {
    if (!is_quantised(part.w.dtype)) return;
    tile_bytes_ = packed_tile_bytes(part.w.dtype, part.w.cols).value();
    packs_ = part.w.layout == WeightLayout::kRows;
  }

  // Panels [begin, end).
  void run(int64_t begin, int64_t end, std::byte* worker_memory) const {
    const WorkerMemory memory = sizes_.split(worker_memory);
    for (int64_t first = begin; first < end; first += kBlockPanels) {
      run_block(first, std::min(kBlockPanels, end - first), memory);
    }
  }

 private:
  void run_block(int64_t first, int64_t n_panels, const WorkerMemory& memory) const {
    std::fill_n(memory.sums, whole(plan_.size(), kernels_.tile_rows) * kBlockRows, 0.0f);
    if (packs_) pack(first, n_panels, memory.tiles);
    for (int64_t stretch = 0; stretch < shape_.stretches; ++stretch) {
      const int64_t k = stretch * kernels_.stretch;
      const int64_t columns = std::min(kernels_.stretch, shape_.padded_cols - k);
      for (int64_t i = 0; i < n_panels; ++i) {
        make_panel(first + i, i, k, columns, memory, memory.panels + i * kernels_.panel_bytes);
      }
      kernels_.multiply[dtype()]({.x = x_ + stretch * shape_.stretch_bytes,
                                  .n_rows = plan_.size(),
                                  .panels = memory.panels,
                                  .n_panels = n_panels,
                                  .columns = columns,
                                  .sums = memory.sums,
                                  .sums_stride = kBlockRows});
    }
    write(first * kPanelRows, std::min(n_panels * kPanelRows, part_.w.rows - first * kPanelRows),
          memory.sums);
  }

  size_t dtype() const { return static_cast<size_t>(part_.w.dtype); }

  void pack(int64_t first, int64_t n_panels, std::byte* tiles) const {
    const int64_t row_bytes = dtype_bytes(part_.w.dtype, part_.w.cols).value();
    for (int64_t i = 0; i < n_panels; ++i) {
      const int64_t row = (first + i) * kPanelRows;
      formats_.pack[dtype()](part_.w.data + row * row_bytes, row_bytes,
                             std::min(kPanelRows, part_.w.rows - row), part_.w.cols,
                             tiles + i * tile_bytes_);
    }
  }

  // Columns [k, k + columns) of a panel, the i-th of its block.
  void make_panel(int64_t panel, int64_t i, int64_t k, int64_t columns, const WorkerMemory& memory,
                  std::byte* target) const {
    float* values =
        kernels_.pack_panel != nullptr ? memory.values : reinterpret_cast<float*>(target);
    if (tile_bytes_ != 0) {
      const std::byte* tile =
          packs_ ? memory.tiles + i * tile_bytes_ : part_.w.data + panel * tile_bytes_;
      const int64_t unit = k / kColumnUnit, n = columns / kColumnUnit;
      if (kernels_.unpack_tile[dtype()] != nullptr) {
        return kernels_.unpack_tile[dtype()](tile, part_.w.cols, unit, n, target);
      }
      formats_.unpack_tile[dtype()](tile, part_.w.cols, unit, n, values);
    } else {
      const PlainFeatures rows = plain_features(panel * kPanelRows, k, columns);
      if (kernels_.pack_rows[dtype()] != nullptr) return kernels_.pack_rows[dtype()](rows, target);
      gather(rows, memory.rows, values);
    }
    if (kernels_.pack_panel != nullptr) kernels_.pack_panel(values, columns, target);
  }

  PlainFeatures plain_features(int64_t first, int64_t k, int64_t columns) const {
    const WeightView& w = part_.w;
    const int64_t row_bytes = dtype_bytes(w.dtype, w.cols).value();
    return {w.data + first * row_bytes + dtype_bytes(w.dtype, k).value(), row_bytes,
            std::min(kPanelRows, w.rows - first), std::min(columns, w.cols - k), columns};
  }

  void gather(const PlainFeatures& plain, float* rows, float* values) const {
    for (int64_t i = 0; i < kPanelRows; ++i) {
      float* row = rows + i * plain.columns;
      const int64_t there = i < plain.n_features ? plain.n_columns : 0;
      if (there > 0) formats_.dequantise[dtype()](plain.first + i * plain.row_bytes, there, row);
      std::fill(row + there, row + plain.columns, 0.0f);
    }
    for (int64_t i = 0; i < kPanelRows; i += 4) {
      transpose_rows(rows + i * plain.columns, plain.columns, plain.columns, values + i);
    }
  }

  // `width` output features from `first` on.
  void write(int64_t first, int64_t width, const float* sums) const {
    for (int64_t i = 0; i < plan_.size(); ++i) {
      if (plan_[i].rest) continue;
      const float* sum = sums + i * kBlockRows;
      const float* rest = plan_.is_split(i) ? sum + kBlockRows : kZeros;
      const float* bias = part_.bias != nullptr ? part_.bias + first : kZeros;
      float* out = part_.out + plan_[i].row * part_.w.rows + first;
      for (int64_t m = 0; m < width; ++m) out[m] = sum[m] + rest[m] + bias[m];
    }
  }

  static constexpr float kZeros[kBlockRows] = {};

  const PrefillKernels& kernels_;
  const MatmulKernels& formats_;
  const PackedX& shape_;
  const RowPlan& plan_;
  const std::byte* x_;
  const MatmulPart& part_;
  WorkerSizes sizes_;
  int64_t tile_bytes_ = 0;  // of a packed tile, where the weights are quantised
  bool packs_ = false;      // packs tiles itself
};

void pack_rows(CpuStream& stream, const PrefillKernels& kernels, const PackedX& shape,
               const RowPlan& plan, const float* x, std::byte* packed) {
  stream.pool().parallel_for(shape.n_tiles, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin * kernels.tile_rows; i < end * kernels.tile_rows; ++i) {
      const PackedRowSlot slot = {packed + i / kernels.tile_rows * kernels.x_tile_bytes,
                                  i % kernels.tile_rows, shape.stretch_bytes};
      if (i < plan.size()) {
        kernels.pack_row(x + plan[i].row * shape.cols, shape.cols, plan[i].rest, slot);
      } else {
        kernels.pack_row(nullptr, shape.cols, false, slot);
      }
    }
  });
}

}  // namespace

Status prefill_with(CpuStream& stream, const PrefillKernels& kernels, const MatmulGroupArgs& args) {
  const int64_t cols = args.parts[0].w.cols;
  for (int64_t next = 0; next < args.n_rows;) {
    const RowPlan plan(stream.pool(), kernels, args, next);
    const PackedX shape(kernels, cols, plan.size());
    // Room for any number of rows, so that one short prompt makes all that long ones need.
    const int64_t x_bytes = PackedX(kernels, cols, kMaxRows).bytes();
    int64_t worker_bytes = 0;
    for (const MatmulPart& part : args.parts) {
      worker_bytes = std::max(worker_bytes, WorkerSizes(kernels, part.w).total());
    }
    SUTURE_ASSIGN_OR_RETURN(
        std::byte * memory,
        stream.scratch(static_cast<size_t>(x_bytes + stream.pool().size() * worker_bytes)));
    pack_rows(stream, kernels, shape, plan, args.x, memory);
    for (const MatmulPart& part : args.parts) {
      const Product product(kernels, matmul_kernels(stream.isa()), shape, plan, memory, part);
      stream.pool().parallel_for(
          panels_of(part.w), kGrain, [&](int64_t begin, int64_t end, int worker) {
            product.run(begin, end, memory + x_bytes + worker * worker_bytes);
          });
    }
  }
  return {};
}

Status prefill_cpu(CpuStream& stream, const MatmulGroupArgs& args) {
  const auto kernels_of = [&stream](const MatmulPart& part) {
    return &prefill_kernels(stream.isa(), part.w.dtype);
  };
  for (auto parts = args.parts; !parts.empty();) {
    const PrefillKernels* kernels = kernels_of(parts[0]);
    size_t n = 1;
    while (n < parts.size() && kernels_of(parts[n]) == kernels) ++n;
    MatmulGroupArgs some = args;
    some.parts = parts.first(n);
    SUTURE_RETURN_IF_ERROR(prefill_with(stream, *kernels, some));
    parts = parts.subspan(n);
  }
  return {};
}

}  // namespace suture
