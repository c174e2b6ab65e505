// A projector maps rows of one model's K/V (the source's) to rows of another model's (the
// target's), token by token (design §4). For target layer l, with a window of source layers m_1 ..
// m_w:
//
//   x = [k0 of m_1 | ... | k0 of m_w | o]   k0: a source row of K before it is rotated, all heads
//   k0 of l = gamma * (W (x - mean)) + beta
//
// and the same for V, which is not rotated, with maps of its own. o is k0 (or V) of the target's
// own first layer, which depends on nothing but the token (models/first_layer.h): it tells a map
// which word it is of, as the target spells it. Maps may do without it. The file is
// fusion/projector_file.h, its use on rows fusion/projection.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "bus/stream_info.h"
#include "kernels/dtype.h"
#include "models/model_config.h"

namespace suture {

// One of the two models, as it was when the projector was fitted.
struct ProjectorSide {
  std::string model;            // a name for people
  std::string vocabulary_hash;  // Tokenizer::vocabulary_hash()
  // LanguageModel::fingerprint(), shape and rotation as a stream of the model states them. Of no
  // sequence: no tokens.
  StreamInfo kv;

  int32_t n_layers() const { return kv.shape.n_layers; }
  // Elements of one token's K (or V) in one layer.
  int64_t width() const { return int64_t{kv.shape.n_kv_heads} * kv.shape.head_dim; }

  bool operator==(const ProjectorSide&) const = default;
};

ProjectorSide projector_side(std::string model, std::string fingerprint,
                             std::string vocabulary_hash, const ModelConfig& config);

// in = Projector::inputs(), out = target width.
struct LinearMap {
  std::vector<int32_t> window;        // source layers, rising: x begins with their rows, in order
  DType dtype = DType::kBf16;         // of weights: kF16 or kBf16
  std::span<const uint16_t> weights;  // [out][in]
  // Taken off in float32 before the product: rows have large constant parts (biases of K), of which
  // 16 bits would keep little else.
  std::vector<float> mean;   // [in]
  std::vector<float> gamma;  // [out]
  std::vector<float> beta;   // [out]
  double ridge = 0;          // fusion/ridge.h
  double r2 = 0;             // on the held-out texts: share of the variance that is explained
  double mse = 0;            // on the held-out texts: mean squared error of an element

  int64_t in() const { return std::ssize(mean); }
  int64_t out() const { return std::ssize(beta); }
};

struct LayerProjection {
  LinearMap key;
  LinearMap value;
};

struct FitFile {
  std::string name;
  std::string sha256;  // of its bytes, hexadecimal

  bool operator==(const FitFile&) const = default;
};

// How well the maps do on the held-out texts of one kind.
struct HeldOutKind {
  std::string kind;    // "code, python"
  int64_t texts = 0;   // pieces of at most the fit's tokens each
  int64_t tokens = 0;  // pairs of rows
  // Means over the target's layers: share of the variance of that kind's rows that is explained,
  // and squared error of an element.
  double key_r2 = 0;
  double key_mse = 0;
  double value_r2 = 0;
  double value_mse = 0;

  bool operator==(const HeldOutKind&) const = default;
};

struct FitParameters {
  int64_t texts = 0;
  int64_t held_out_texts = 0;
  int64_t tokens = 0;          // pairs of rows that the maps were fitted to
  int64_t skipped_tokens = 0;  // the first ones of each text, which took no part
  uint64_t seed = 0;
  std::vector<FitFile> files;
  std::vector<HeldOutKind> held_out_kinds;

  bool operator==(const FitParameters&) const = default;
};

// Mean negative log-likelihood of the tokens that follow a context, in nats per token, if the
// target has of the context ...
struct EvidenceNll {
  double self = 0;         // its own reading of it
  double transferred = 0;  // the source's rows, mapped
  double other_text = 0;   // the same from another text
  double text_only = 0;    // the first and last tokens, which it reads itself in each arm
  double none = 0;         // nothing

  bool operator==(const EvidenceNll&) const = default;
};

// What was measured on contexts of one length, of texts that took no part in fitting.
struct EvidenceContext {
  int64_t tokens = 0;  // length of the context
  int64_t n = 0;       // texts
  EvidenceNll nll;
  // Cross-entropy of the target with mapped rows against the most likely token of the target that
  // read the text itself, in nats per token.
  double consistency = 0;

  // Which part of the context's worth is kept: (none - transferred) / (none - self). NaN where the
  // context is worth nothing.
  double retention() const;
  // The same of what the re-read tokens do not give by themselves, in place of none.
  double net_retention() const;

  bool operator==(const EvidenceContext&) const = default;
};

struct ProjectorEvidence {
  int64_t sink = 0;       // first tokens that the target read itself
  int64_t reread = 0;     // last tokens that it read itself
  int64_t continued = 0;  // tokens after the context that nll is the mean of
  std::vector<EvidenceContext> contexts;

  bool operator==(const ProjectorEvidence&) const = default;
};

struct Projector {
  ProjectorSide source;
  ProjectorSide target;
  bool own_first_layer = false;         // maps take the target's first layer too
  std::vector<LayerProjection> layers;  // [target.n_layers()]
  FitParameters fit;
  std::optional<ProjectorEvidence> evidence;
  std::shared_ptr<const void> memory;  // keeps what the weights point at

  // Columns of a map with such a window.
  int64_t inputs(const std::vector<int32_t>& window) const {
    return std::ssize(window) * source.width() + (own_first_layer ? target.width() : 0);
  }
  // Bytes that one pass over all matrices reads.
  int64_t weight_bytes() const;
};

// kInvalidArgument, naming layer and field, if a part contradicts another or a number is no number.
// Weights are not looked at one by one.
Status validate(const Projector& projector);

// Whether the projector may be used between two models. Shapes that do not fit are kIncompatible,
// whatever is forced. So is a projector that was fitted for other weights, or whose file has no
// evidence, or evidence against it - unless `force`: then the answer is what was overridden, for
// the metadata of every reply. The K/V type of the models is free.
Result<std::vector<std::string>> check_projector(const Projector& projector,
                                                 const ProjectorSide& source,
                                                 const ProjectorSide& target, bool force);

// The same without its evidence: for whoever measures that.
Result<std::vector<std::string>> check_projector_sides(const Projector& projector,
                                                       const ProjectorSide& source,
                                                       const ProjectorSide& target, bool force);

// kIncompatible, with the remedy, if texts of up to `longest` tokens have rows of several RoPE
// epochs in the model: a projector maps rows of one.
Status check_one_rope_epoch(const ProjectorSide& side, int64_t longest);

// `values` as the 16-bit type `dtype`, rounded to nearest even. kInvalidArgument if a value has no
// finite counterpart.
Result<std::vector<uint16_t>> round_weights(DType dtype, std::span<const float> values);

}  // namespace suture
