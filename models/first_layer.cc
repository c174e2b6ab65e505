#include "models/first_layer.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "kernels/embedding.h"
#include "kernels/rms_norm.h"
#include "models/device_array.h"
#include "models/weights.h"

namespace suture {

struct FirstLayer::State {
  Stream& stream;
  const Checkpoint& checkpoint;
  Weights weights;
  int64_t max_rows = 0;
  DeviceArray<int32_t> ids;   // [max_rows]
  DeviceArray<float> hidden;  // [max_rows][hidden] embeddings, then normed

  Status check(std::span<const int32_t> token_ids) const {
    const auto refuse = [this](std::string what) {
      return fail(ErrorCode::kInvalidArgument, std::move(what), checkpoint.path().string());
    };
    if (std::ssize(token_ids) > max_rows)
      return refuse(fmt::format("{} rows, at most {}", token_ids.size(), max_rows));
    for (const int32_t id : token_ids)
      if (id < 0 || id >= weights.embedding.rows)
        return refuse(fmt::format("token {} of {}", id, weights.embedding.rows));
    return {};
  }
};

FirstLayer::FirstLayer(std::unique_ptr<State> state) : state_(std::move(state)) {}
FirstLayer::~FirstLayer() = default;

Result<std::unique_ptr<FirstLayer>> FirstLayer::create(const Checkpoint& checkpoint, Device& device,
                                                       Stream& stream, int64_t max_rows) {
  SUTURE_ASSIGN_OR_RETURN(Weights weights, load_first_layer(checkpoint, device));
  std::unique_ptr<State> state(new State{stream, checkpoint, std::move(weights), max_rows, {}, {}});
  SUTURE_ASSIGN_OR_RETURN(state->ids, DeviceArray<int32_t>::create(device, max_rows));
  SUTURE_ASSIGN_OR_RETURN(state->hidden, DeviceArray<float>::create(
                                             device, max_rows * checkpoint.config().hidden_size));
  return std::unique_ptr<FirstLayer>(new FirstLayer(std::move(state)));
}

uint64_t FirstLayer::scratch_bytes(const ModelConfig& config, int64_t max_rows) {
  const auto width = static_cast<uint64_t>(config.hidden_size);
  return static_cast<uint64_t>(max_rows) * (width * sizeof(float) + sizeof(int32_t));
}

// The steps of Forward up to the rotation of K.
Status FirstLayer::rows(std::span<const int32_t> token_ids, MatmulPath path, float* key,
                        float* value) {
  State& s = *state_;
  SUTURE_RETURN_IF_ERROR(s.check(token_ids));
  const ModelConfig& config = s.checkpoint.config();
  const LayerWeights& w = s.weights.layers[0];
  const int64_t n_rows = std::ssize(token_ids);
  float* hidden = s.hidden.data();
  SUTURE_RETURN_IF_ERROR(s.stream.copy_to_device(reinterpret_cast<std::byte*>(s.ids.data()),
                                                 std::as_bytes(token_ids)));
  SUTURE_RETURN_IF_ERROR(embedding(s.stream, s.weights.embedding, s.ids.data(), n_rows,
                                   config.embedding_scale, hidden));
  SUTURE_RETURN_IF_ERROR(rms_norm(s.stream, hidden, w.attention_norm, n_rows, config.hidden_size,
                                  config.norm_eps, hidden));
  const std::array parts = {MatmulPart{w.k, w.k_bias, key}, MatmulPart{w.v, w.v_bias, value}};
  SUTURE_RETURN_IF_ERROR(matmul(
      s.stream, MatmulGroupArgs{.x = hidden, .parts = parts, .n_rows = n_rows, .path = path}));
  if (!config.qk_norm) return {};
  return rms_norm(s.stream, key, w.k_norm, n_rows * config.n_kv_heads, config.head_dim,
                  config.norm_eps, key);
}

}  // namespace suture
