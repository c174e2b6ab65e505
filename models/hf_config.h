// The configuration of a model, and the names of its tensors, as the model hub's folders have them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "models/model_config.h"

namespace suture {

// `object` is config.json; what it leaves out has the default of the hub's library. kv_dtype is not
// in it. kCorrupt for values of the wrong type.
Result<ModelConfig> read_hf_config(const nlohmann::json& object, const std::string& where);

// "model.layers.3.mlp.up_proj.weight" is "blk.3.ffn_up.weight"; unknown names stay as they are.
// With norms after the blocks (`post_norms`) the one named after the attention is not the MLP's.
std::string canonical_tensor_name(std::string_view name, bool post_norms);

}  // namespace suture
