#include "models/norm_weights.h"

#include <fmt/format.h>

#include <span>

#include "base/sha256.h"

#include "kernels/matmul.h"

namespace suture {
namespace {

Result<std::vector<float>> read_vector(const Checkpoint& checkpoint, const std::string& name) {
  const ModelConfig& config = checkpoint.config();
  const TensorInfo* tensor = checkpoint.find(name);
  const std::string where = checkpoint.path().string();
  if (tensor == nullptr)
    return fail(ErrorCode::kCorrupt, fmt::format("tensor '{}' is missing", name), where);
  if (tensor->shape != std::vector<int64_t>{config.hidden_size})
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor '{}' is {}, expected [{}]", name, shape_text(tensor->shape),
                            config.hidden_size),
                where);
  const bool is_float =
      tensor->dtype == DType::kF32 || tensor->dtype == DType::kF16 || tensor->dtype == DType::kBf16;
  if (!tensor->unsupported_type.empty() || !is_float)
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor '{}' is a {} vector, expected f32, f16 or bf16", name,
                            tensor->type_name()),
                where);
  std::vector<float> values(static_cast<size_t>(config.hidden_size));
  SUTURE_RETURN_IF_ERROR(
      dequantise(tensor->dtype, tensor->data.data(), config.hidden_size, values.data()));
  for (float& value : values) value += config.norm_offset;
  return values;
}

}  // namespace

Result<NormWeights> read_norm_weights(const Checkpoint& checkpoint) {
  NormWeights norms;
  for (int32_t i = 0; i < checkpoint.config().n_layers; ++i) {
    NormWeights::Layer layer;
    SUTURE_ASSIGN_OR_RETURN(layer.attention,
                            read_vector(checkpoint, fmt::format("blk.{}.attn_norm.weight", i)));
    SUTURE_ASSIGN_OR_RETURN(layer.ffn,
                            read_vector(checkpoint, fmt::format("blk.{}.ffn_norm.weight", i)));
    norms.layers.push_back(std::move(layer));
  }
  SUTURE_ASSIGN_OR_RETURN(norms.output, read_vector(checkpoint, "output_norm.weight"));
  return norms;
}

std::string digest(const NormWeights& norms) {
  Sha256 hash;
  const auto add = [&](const std::vector<float>& values) {
    hash.update(std::as_bytes(std::span(values)));
  };
  for (const NormWeights::Layer& layer : norms.layers) {
    add(layer.attention);
    add(layer.ffn);
  }
  add(norms.output);
  return hash.finish();
}

}  // namespace suture
