#include "models/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "models/gguf_config.h"

namespace suture {
namespace {

// Takes tensors out of a checkpoint one by one, checked, and puts them where the device reads
// them: in the file's mapping if it can, else in memory of its own.
class WeightLoader {
 public:
  WeightLoader(const Checkpoint& checkpoint, Device& device, const NormWeights* norms)
      : checkpoint_(checkpoint),
        device_(device),
        norms_(norms),
        where_(checkpoint.path().string()) {}

  Result<Weights> run() {
    const ModelConfig& config = checkpoint_.config();
    SUTURE_RETURN_IF_ERROR(check_runnable(config, where_));
    SUTURE_RETURN_IF_ERROR(check_norms());
    SUTURE_ASSIGN_OR_RETURN(stream_, device_.make_stream());
    const int64_t hidden = config.hidden_size;
    SUTURE_ASSIGN_OR_RETURN(weights_.embedding,
                            matrix("token_embd.weight", config.vocab_size, hidden));
    for (int32_t layer = 0; layer < config.n_layers; ++layer) {
      SUTURE_ASSIGN_OR_RETURN(LayerWeights loaded, load_layer(layer));
      weights_.layers.push_back(loaded);
    }
    SUTURE_ASSIGN_OR_RETURN(weights_.output_norm, norm("output_norm.weight", hidden));
    if (norms_ != nullptr) SUTURE_RETURN_IF_ERROR(put(norms_->output, weights_.output_norm));
    weights_.output = weights_.embedding;
    if (!config.tied_embeddings) {
      SUTURE_ASSIGN_OR_RETURN(weights_.output, matrix("output.weight", config.vocab_size, hidden));
    }
    SUTURE_RETURN_IF_ERROR(refuse_unused());
    return std::move(weights_);
  }

  Result<Weights> run_first_layer() {
    const ModelConfig& config = checkpoint_.config();
    SUTURE_RETURN_IF_ERROR(check_runnable(config, where_));
    SUTURE_ASSIGN_OR_RETURN(stream_, device_.make_stream());
    SUTURE_ASSIGN_OR_RETURN(weights_.embedding,
                            matrix("token_embd.weight", config.vocab_size, config.hidden_size));
    LayerWeights& layer = weights_.layers.emplace_back();
    SUTURE_RETURN_IF_ERROR(load_norms("blk.0.", layer));
    SUTURE_RETURN_IF_ERROR(load_attention("blk.0.", layer));
    return std::move(weights_);
  }

 private:
  Status check_norms() const {
    if (norms_ == nullptr) return {};
    const ModelConfig& config = checkpoint_.config();
    const auto fits = [&](const std::vector<float>& values) {
      return std::ssize(values) == config.hidden_size;
    };
    const bool layers_fit = std::ranges::all_of(norms_->layers, [&](const auto& layer) {
      return fits(layer.attention) && fits(layer.ffn);
    });
    if (std::ssize(norms_->layers) == config.n_layers && layers_fit && fits(norms_->output))
      return {};
    return fail(ErrorCode::kInvalidArgument, "norm weights of another shape than the model's",
                where_);
  }

  // Puts weights in the place of the checkpoint's own.
  Status put(const std::vector<float>& values, const float*& place) {
    SUTURE_ASSIGN_OR_RETURN(const std::byte* data, copy(std::as_bytes(std::span(values))));
    place = reinterpret_cast<const float*>(data);
    return {};
  }

  Result<LayerWeights> load_layer(int32_t index) {
    const std::string prefix = fmt::format("blk.{}.", index);
    LayerWeights layer;
    SUTURE_RETURN_IF_ERROR(load_norms(prefix, layer));
    if (norms_ != nullptr) {
      const NormWeights::Layer& norms = norms_->layers[static_cast<size_t>(index)];
      SUTURE_RETURN_IF_ERROR(put(norms.attention, layer.attention_norm));
      SUTURE_RETURN_IF_ERROR(put(norms.ffn, layer.ffn_norm));
    }
    SUTURE_RETURN_IF_ERROR(load_attention(prefix, layer));
    SUTURE_RETURN_IF_ERROR(load_mlp(prefix, layer));
    return layer;
  }

  Status load_norms(const std::string& prefix, LayerWeights& layer) {
    const ModelConfig& config = checkpoint_.config();
    const int64_t hidden = config.hidden_size;
    SUTURE_ASSIGN_OR_RETURN(layer.attention_norm, norm(prefix + "attn_norm.weight", hidden));
    SUTURE_ASSIGN_OR_RETURN(layer.ffn_norm, norm(prefix + "ffn_norm.weight", hidden));
    if (config.qk_norm) {
      SUTURE_ASSIGN_OR_RETURN(layer.q_norm, norm(prefix + "attn_q_norm.weight", config.head_dim));
      SUTURE_ASSIGN_OR_RETURN(layer.k_norm, norm(prefix + "attn_k_norm.weight", config.head_dim));
    }
    if (config.post_norms) {
      SUTURE_ASSIGN_OR_RETURN(layer.post_attention_norm,
                              norm(prefix + "post_attention_norm.weight", hidden));
      SUTURE_ASSIGN_OR_RETURN(layer.post_ffn_norm, norm(prefix + "post_ffw_norm.weight", hidden));
    }
    return {};
  }

  Status load_attention(const std::string& prefix, LayerWeights& layer) {
    const ModelConfig& config = checkpoint_.config();
    const int64_t hidden = config.hidden_size;
    const int64_t q_size = int64_t{config.n_heads} * config.head_dim;
    const int64_t kv_size = int64_t{config.n_kv_heads} * config.head_dim;
    if (config.fused_qkv) {
      SUTURE_ASSIGN_OR_RETURN(const WeightView qkv,
                              matrix(prefix + "attn_qkv.weight", q_size + 2 * kv_size, hidden));
      layer.q = rows_of(qkv, 0, q_size);
      layer.k = rows_of(qkv, q_size, kv_size);
      layer.v = rows_of(qkv, q_size + kv_size, kv_size);
    } else {
      SUTURE_ASSIGN_OR_RETURN(layer.q, matrix(prefix + "attn_q.weight", q_size, hidden));
      SUTURE_ASSIGN_OR_RETURN(layer.k, matrix(prefix + "attn_k.weight", kv_size, hidden));
      SUTURE_ASSIGN_OR_RETURN(layer.v, matrix(prefix + "attn_v.weight", kv_size, hidden));
    }
    if (config.qkv_bias) {
      SUTURE_ASSIGN_OR_RETURN(layer.q_bias, vector(prefix + "attn_q.bias", q_size));
      SUTURE_ASSIGN_OR_RETURN(layer.k_bias, vector(prefix + "attn_k.bias", kv_size));
      SUTURE_ASSIGN_OR_RETURN(layer.v_bias, vector(prefix + "attn_v.bias", kv_size));
    }
    SUTURE_ASSIGN_OR_RETURN(layer.attention_out,
                            matrix(prefix + "attn_output.weight", hidden, q_size));
    return {};
  }

  Status load_mlp(const std::string& prefix, LayerWeights& layer) {
    const int64_t hidden = checkpoint_.config().hidden_size;
    const int64_t ffn = checkpoint_.config().ffn_size;
    if (checkpoint_.config().fused_gate_up) {
      SUTURE_ASSIGN_OR_RETURN(const WeightView both,
                              matrix(prefix + "ffn_up.weight", 2 * ffn, hidden));
      layer.gate = rows_of(both, 0, ffn);
      layer.up = rows_of(both, ffn, ffn);
    } else {
      SUTURE_ASSIGN_OR_RETURN(layer.gate, matrix(prefix + "ffn_gate.weight", ffn, hidden));
      SUTURE_ASSIGN_OR_RETURN(layer.up, matrix(prefix + "ffn_up.weight", ffn, hidden));
    }
    SUTURE_ASSIGN_OR_RETURN(layer.down, matrix(prefix + "ffn_down.weight", hidden, ffn));
    return {};
  }

  // Rows [first, first + rows) of a matrix.
  static WeightView rows_of(const WeightView& matrix, int64_t first, int64_t rows) {
    const auto row_bytes = static_cast<int64_t>(*dtype_bytes(matrix.dtype, matrix.cols));
    return {matrix.dtype, matrix.data + first * row_bytes, rows, matrix.cols};
  }

  Result<const TensorInfo*> take(const std::string& name, const std::vector<int64_t>& shape) {
    const TensorInfo* tensor = checkpoint_.find(name);
    if (tensor == nullptr)
      return fail(ErrorCode::kCorrupt, fmt::format("tensor '{}' is missing", name), where_);
    if (tensor->shape != shape)
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor '{}' is {}, expected {} from the configuration", name,
                              shape_text(tensor->shape), shape_text(shape)),
                  where_);
    if (!tensor->unsupported_type.empty() || !is_weight(tensor->dtype))
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor '{}' has type {}, which is not supported; known: {}", name,
                              tensor->type_name(), known_weight_types()),
                  where_, "choose a file quantised to one of the known types");
    used_.insert(tensor);
    return tensor;
  }

  Result<WeightView> matrix(const std::string& name, int64_t rows, int64_t cols) {
    SUTURE_ASSIGN_OR_RETURN(const TensorInfo* tensor, take(name, {rows, cols}));
    if (cols % dtype_info(tensor->dtype).block_elements != 0)
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor '{}': rows of {} are not whole blocks of {}", name, cols,
                              tensor->type_name()),
                  where_);
    SUTURE_ASSIGN_OR_RETURN(const std::byte* data, place(tensor->data));
    return WeightView{tensor->dtype, data, rows, cols};
  }

  // Norms and biases are small and used as float32, whatever their stored type. Copied, as each of
  // them in a file would keep up to 2 MB of its neighbours in this process's memory: Linux enters
  // whole large pages from 6.18 on.
  Result<const float*> vector(const std::string& name, int64_t width, float offset = 0) {
    SUTURE_ASSIGN_OR_RETURN(const TensorInfo* tensor, take(name, {width}));
    if (is_quantised(tensor->dtype))
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor '{}' is a {} vector, expected f32, f16 or bf16", name,
                              tensor->type_name()),
                  where_);
    std::vector<float> values(static_cast<size_t>(width));
    SUTURE_RETURN_IF_ERROR(dequantise(tensor->dtype, tensor->data.data(), width, values.data()));
    for (float& value : values) value += offset;
    SUTURE_ASSIGN_OR_RETURN(const std::byte* data, copy(std::as_bytes(std::span(values))));
    return reinterpret_cast<const float*>(data);
  }

  Result<const float*> norm(const std::string& name, int64_t width) {
    return vector(name, width, checkpoint_.config().norm_offset);
  }

  // Safetensors promise no alignment; kernels want that of a float.
  Result<const std::byte*> place(std::span<const std::byte> host) {
    const std::byte* in_place = device_.device_address(host);
    const bool aligned = reinterpret_cast<uintptr_t>(in_place) % alignof(float) == 0;
    if (in_place != nullptr && aligned) return in_place;
    return copy(host);
  }

  Result<const std::byte*> copy(std::span<const std::byte> host) {
    SUTURE_ASSIGN_OR_RETURN(auto buffer, device_.allocate(host.size()));
    SUTURE_RETURN_IF_ERROR(stream_->copy_to_device(buffer->data(), host));
    SUTURE_RETURN_IF_ERROR(stream_->synchronize());
    weights_.owned.push_back(std::move(buffer));
    return weights_.owned.back()->data();
  }

  // A tensor that nobody asked for means that the model differs from what the forward pass does,
  // and its answers would be wrong without a word.
  Status refuse_unused() const {
    for (const TensorInfo* tensor : checkpoint_.tensors()) {
      if (!used_.contains(tensor) && !is_config_tensor(tensor->name))
        return fail(ErrorCode::kUnsupported,
                    fmt::format("tensor '{}' {} has no place in architecture '{}'", tensor->name,
                                shape_text(tensor->shape), checkpoint_.config().architecture),
                    where_);
    }
    return {};
  }

  const Checkpoint& checkpoint_;
  Device& device_;
  const NormWeights* norms_;  // may be nullptr
  std::string where_;
  std::unique_ptr<Stream> stream_;
  std::set<const TensorInfo*> used_;
  Weights weights_;
};

}  // namespace

Result<Weights> load_weights(const Checkpoint& checkpoint, Device& device,
                             const NormWeights* norms) {
  return WeightLoader(checkpoint, device, norms).run();
}

Result<Weights> load_first_layer(const Checkpoint& checkpoint, Device& device) {
  return WeightLoader(checkpoint, device, nullptr).run_first_layer();
}

}  // namespace suture
