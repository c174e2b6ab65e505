// The configuration of a model out of GGUF metadata.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "models/gguf.h"
#include "models/model_config.h"
#include "models/tensor_info.h"

namespace suture {

// `file` holds the metadata; `tensors` are those of all parts of the model, by which some features
// are told. A missing or ill-typed number is 0 and refused by name where it is needed.
Result<ModelConfig> read_gguf_config(const GgufFile& file, std::span<const TensorInfo> tensors,
                                     const std::string& where);

// Tensors that belong to the configuration and have no place among the weights.
bool is_config_tensor(std::string_view name);

}  // namespace suture
