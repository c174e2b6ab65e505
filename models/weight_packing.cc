#include "models/weight_packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "base/available_memory.h"
#include "base/parallel.h"
#include "kernels/packed_weights.h"

namespace suture {
namespace {

constexpr int64_t kJobBytes = 1 << 20;  // of rows that one thread packs before it takes the next

// A matrix in rows and where its tiles go.
struct Packed {
  WeightView rows;
  int64_t tile_bytes = 0;
  uint64_t offset = 0;   // of its tiles, in bytes
  bool in_file = false;  // its rows lie in the checkpoint's mapping
};

template <typename AnyWeights>  // Weights or const Weights
auto packable_matrices(AnyWeights& weights) {
  std::vector<decltype(&weights.output)> all;
  for (auto& layer : weights.layers)
    for (auto* matrix :
         {&layer.q, &layer.k, &layer.v, &layer.attention_out, &layer.gate, &layer.up, &layer.down})
      all.push_back(matrix);
  all.push_back(&weights.output);
  std::erase_if(all, [](const WeightView* matrix) { return !is_packable(matrix->dtype); });
  return all;
}

std::string key_of(const std::string& fingerprint) {
  constexpr size_t kDigits = 40;  // 160 bits
  return fmt::format("weights-{}-{}", kPackedVersion, fingerprint.substr(0, kDigits));
}

Result<Mapping> own_memory(uint64_t bytes, const FillMemory& fill, const std::string& where) {
  SUTURE_RETURN_IF_ERROR(check_available_memory("the weights", bytes, where));
  SUTURE_ASSIGN_OR_RETURN(Mapping memory, Mapping::anonymous(bytes));
  SUTURE_RETURN_IF_ERROR(fill({memory.data(), memory.size()}));
  return memory;
}

// Threads take one piece after another of the file, so that it is read in order.
class Packer {
 public:
  Packer(std::span<const Packed> matrices, std::span<std::byte> out) : out_(out) {
    for (const Packed& matrix : matrices) {
      const int64_t tiles = (matrix.rows.rows + kPackedRows - 1) / kPackedRows;
      const int64_t step = std::max<int64_t>(kJobBytes / matrix.tile_bytes, 1);
      for (int64_t tile = 0; tile < tiles; tile += step)
        jobs_.push_back({&matrix, tile, std::min(tile + step, tiles)});
    }
    std::ranges::sort(jobs_, {}, [](const Job& job) { return source_of(job).data(); });
  }

  Status run(int threads) {
    for_each_in_parallel(std::ssize(jobs_), threads, [this](int64_t index) {
      if (const Status done = pack(jobs_[static_cast<size_t>(index)]); !done) {
        const std::lock_guard lock(mutex_);
        status_ = done;
      }
    });
    return std::move(status_);
  }

 private:
  struct Job {
    const Packed* matrix;
    int64_t begin;  // tiles
    int64_t end;
  };

  static std::span<const std::byte> source_of(const Job& job) {
    const WeightView& rows = job.matrix->rows;
    const auto row_bytes = *dtype_bytes(rows.dtype, rows.cols);
    const int64_t first = job.begin * kPackedRows;
    const int64_t end = std::min(job.end * kPackedRows, rows.rows);
    return {rows.data + first * row_bytes, static_cast<size_t>((end - first) * row_bytes)};
  }

  Status pack(const Job& job) {
    const Packed& matrix = *job.matrix;
    if (matrix.in_file) page_in(source_of(job));
    const uint64_t offset = matrix.offset + static_cast<uint64_t>(job.begin * matrix.tile_bytes);
    SUTURE_RETURN_IF_ERROR(
        pack_tiles(matrix.rows, job.begin, job.end, out_.subspan(offset).data()));
    if (matrix.in_file) page_out(source_of(job));
    return {};
  }

  std::span<std::byte> out_;
  std::vector<Job> jobs_;
  std::mutex mutex_;
  Status status_;  // guarded by mutex_ while threads run
};

bool lies_in_file(const WeightView& matrix, const Checkpoint& checkpoint) {
  return std::ranges::any_of(checkpoint.tensors(), [&](const TensorInfo* tensor) {
    return tensor->data.data() <= matrix.data &&
           matrix.data < tensor->data.data() + tensor->data.size();
  });
}

}  // namespace

Result<uint64_t> packed_weight_bytes(const Weights& weights) {
  uint64_t bytes = 0;
  for (const WeightView* matrix : packable_matrices(weights)) {
    SUTURE_ASSIGN_OR_RETURN(const int64_t packed,
                            packed_bytes(matrix->dtype, matrix->rows, matrix->cols));
    bytes += static_cast<uint64_t>(packed);
  }
  return bytes;
}

Status pack_weights(const Checkpoint& checkpoint, const std::string& fingerprint, int threads,
                    const PackedMemory& memory, Weights& weights) {
  const std::vector<WeightView*> matrices = packable_matrices(weights);
  if (matrices.empty()) return {};
  std::vector<Packed> packed;
  uint64_t bytes = 0;
  for (const WeightView* matrix : matrices) {
    SUTURE_ASSIGN_OR_RETURN(const int64_t tile, packed_tile_bytes(matrix->dtype, matrix->cols));
    SUTURE_ASSIGN_OR_RETURN(const int64_t size,
                            packed_bytes(matrix->dtype, matrix->rows, matrix->cols));
    packed.push_back({*matrix, tile, bytes, lies_in_file(*matrix, checkpoint)});
    bytes += static_cast<uint64_t>(size);
  }
  const auto fill = [&](std::span<std::byte> out) { return Packer(packed, out).run(threads); };
  auto tiles = memory ? memory(key_of(fingerprint), bytes, fill)
                      : own_memory(bytes, fill, checkpoint.path().string());
  SUTURE_ASSIGN_OR_RETURN(weights.packed, std::move(tiles));
  for (size_t i = 0; i < matrices.size(); ++i) {
    matrices[i]->data = weights.packed.data() + packed[i].offset;
    matrices[i]->layout = WeightLayout::kTiles;
  }
  // Whoever did not pack has looked at them as well: the fingerprint reads both ends of each.
  for (const TensorInfo* tensor : checkpoint.tensors())
    if (is_packable(tensor->dtype)) page_out(tensor->data);
  return {};
}

bool is_used_in_place(const TensorInfo& tensor, const Weights& weights) {
  const bool only_looked_up =
      tensor.data.data() == weights.embedding.data && weights.output.data != weights.embedding.data;
  return tensor.shape.size() > 1 && !is_packable(tensor.dtype) && !only_looked_up;
}

}  // namespace suture
