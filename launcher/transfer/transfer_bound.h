// What arithmetic allows: how much less there is to compute if a context is transferred than if it
// is read again, on a machine that does all of it at one speed.
#pragma once

#include <cstdint>

#include "fusion/projector.h"
#include "models/model_config.h"

namespace suture {

// Floating-point operations, two for a product and its sum, of reading `n_tokens` tokens behind
// `history` others, with the logits of one row.
double reading_flop(const ModelConfig& config, int64_t n_tokens, int64_t history = 0);

// Of mapping so many rows, in all layers, and of what of the target's first layer maps may take.
double projection_flop(const Projector& projector, const ModelConfig& target, int64_t n_tokens);

struct TransferWork {
  double normal = 0;     // the target reads the context
  double source = 0;     // the source reads it
  double projected = 0;  // its rows are mapped
  double reread = 0;     // the target reads the first and last tokens

  double bound_with_source() const { return normal / (source + projected + reread); }
  double bound_without_source() const { return normal / (projected + reread); }
};

struct TransferShape {
  int64_t tokens = 0;  // of the context
  int64_t sink = 0;
  int64_t reread = 0;
};

// No projector: the rows are taken as they are.
TransferWork transfer_work(const ModelConfig& source, const ModelConfig& target,
                           const Projector* projector, const TransferShape& shape);

}  // namespace suture
