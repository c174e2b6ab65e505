#include "models/model_memory.h"

#include "kernels/counting_device.h"
#include "models/forward.h"
#include "models/weight_packing.h"
#include "models/weights.h"

namespace suture {

Result<ModelMemory> model_memory(const Checkpoint& checkpoint) {
  ModelMemory memory;
  memory.logits_bytes = Forward::logits_bytes(checkpoint.config());
  CountingDevice device;
  SUTURE_ASSIGN_OR_RETURN(const auto stream, device.make_stream());
  SUTURE_ASSIGN_OR_RETURN(const Weights weights, load_weights(checkpoint, device));
  memory.converted_bytes = device.allocated_bytes();
  SUTURE_ASSIGN_OR_RETURN(memory.packed_bytes, packed_weight_bytes(weights));
  memory.mapped_bytes = checkpoint.file_bytes();
  for (const TensorInfo* tensor : checkpoint.tensors())
    if (!is_used_in_place(*tensor, weights)) memory.mapped_bytes -= tensor->data.size();
  SUTURE_RETURN_IF_ERROR(Forward::create(checkpoint.config(), weights, device, *stream));
  memory.activation_bytes = device.allocated_bytes() - memory.converted_bytes - memory.logits_bytes;
  return memory;
}

}  // namespace suture
