// K and V of a model's first layer. They depend on nothing but the token, so that another model's
// process can have them without running the model: maps to its rows take them as input
// (fusion/projector.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/matmul.h"
#include "models/checkpoint.h"
#include "models/model_config.h"

namespace suture {

// Used by one thread at a time. Nothing is allocated after create().
class FirstLayer {
 public:
  // Takes the weights from the model's own file, so that every process comes to the same bits,
  // however it has packed those that it runs. All of these must outlive the object.
  static Result<std::unique_ptr<FirstLayer>> create(const Checkpoint& checkpoint, Device& device,
                                                    Stream& stream, int64_t max_rows);
  ~FirstLayer();

  // Bytes that create() allocates for rows on a CPU.
  static uint64_t scratch_bytes(const ModelConfig& config, int64_t max_rows);

  // Rows [n_rows][n_kv_heads * head_dim], float32 in device memory: K before it is rotated, and V.
  // kInvalidArgument for more than max_rows, or tokens that the model does not have.
  Status rows(std::span<const int32_t> token_ids, MatmulPath path, float* key, float* value);

 private:
  struct State;
  explicit FirstLayer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace suture
