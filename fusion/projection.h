// A projector applied: rows of the source, wherever they lie, become rows of the target at the
// target's positions. What a row becomes depends on that row alone, not on how many come with it
// or on how many threads there are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/error.h"
#include "bus/stream_info.h"
#include "fusion/projector.h"
#include "kernels/device.h"
#include "kernels/kv_layout.h"
#include "kernels/matmul.h"

namespace suture {

// K before it is rotated and V [n_rows][target width], float32 in device memory, of the target's
// first layer for tokens [n_rows] (models/first_layer.h).
using FirstLayerRows = std::function<Status(std::span<const int32_t> token_ids, MatmulPath path,
                                            float* key, float* value)>;

struct ProjectionSetup {
  std::shared_ptr<const Projector> projector;  // sound (validate())
  // How rows of either model are stored and rotated now; shapes as the projector's, K/V types free.
  StreamInfo source;
  StreamInfo target;
  int64_t max_rows = 0;                  // that come together
  FirstLayerRows first_layer = nullptr;  // of the target, where the projector's maps take it
};

// Rows of one RoPE epoch (kernels/rope_schedule.h) on either side.
struct ProjectionRows {
  std::span<const KvLayerView> source;        // [source layers], unused if in no window
  std::span<const int32_t> source_entries;    // [n_rows], each of them written
  std::span<const int32_t> source_positions;  // [n_rows] at which they were rotated
  int64_t source_epoch = 0;
  std::span<const int32_t> target_positions;  // [n_rows]
  std::span<const int32_t> target_tokens;     // [n_rows], where maps take the target's first layer
  int64_t target_epoch = 0;
  MatmulPath path = MatmulPath::kPrefill;  // by what the rows are: a prompt's, or generated
};

// Used by one thread at a time. Nothing is allocated after create(), as long as epochs recur.
class Projection {
 public:
  static Result<std::unique_ptr<Projection>> create(Device& device, Stream& stream,
                                                    ProjectionSetup setup);
  ~Projection();

  // Bytes that create() allocates on a CPU: for the maps in 8 bits, and for rows.
  static uint64_t map_bytes(const Projector& projector);
  static uint64_t scratch_bytes(const Projector& projector, int64_t max_rows);

  // Takes the rows out of the source's memory, which may change afterwards.
  Status read(const ProjectionRows& rows);
  // Writes what was read last as entries first_entry .. first_entry + n_rows of a target layer.
  // The caller commits them. Layers may come in any order.
  Status write(int32_t layer, const KvLayerView& target, int64_t first_entry);

 private:
  struct State;
  explicit Projection(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace suture
