#include "fusion/projector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "kernels/cpu/kv_element.h"
#include "models/unicode.h"

namespace suture {
namespace {

constexpr size_t kMaxNameBytes = 4096;
constexpr size_t kSha256Digits = 64;

tl::unexpected<Error> invalid(std::string what, const std::string& where) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "projector: " + where);
}

double share(double whole, double missing) {
  return whole == 0 ? std::numeric_limits<double>::quiet_NaN() : (whole - missing) / whole;
}

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

bool all_finite(std::initializer_list<double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

// Names are printed to terminals.
Status check_name(std::string_view name, const std::string& where) {
  if (name.empty() || name.size() > kMaxNameBytes)
    return invalid(fmt::format("a name of {} bytes", name.size()), where);
  if (printable(name, kMaxNameBytes) != name)
    return invalid(fmt::format("'{}' has characters that cannot be printed", printable(name)),
                   where);
  return {};
}

Status check_side(const ProjectorSide& side, const std::string& where) {
  SUTURE_RETURN_IF_ERROR(check_name(side.model, where + " model"));
  SUTURE_RETURN_IF_ERROR(check_name(side.vocabulary_hash, where + " vocabulary"));
  SUTURE_RETURN_IF_ERROR(check_name(side.kv.model_fingerprint, where + " fingerprint"));
  if (auto sound = validate(side.kv); !sound) return invalid(sound.error().what, where);
  if (!side.kv.token_ids.empty()) return invalid("tokens of a sequence", where);
  if (side.kv.ropes.empty()) return invalid("no rule of rotation", where);
  if (side.kv.shape.head_dim % 2 != 0)
    return invalid(fmt::format("an odd head dimension, {}", side.kv.shape.head_dim), where);
  return {};
}

Status check_window(const LinearMap& map, const ProjectorSide& source, const std::string& where) {
  if (map.window.empty()) return invalid("a window of no source layer", where);
  int32_t before = -1;
  for (const int32_t layer : map.window) {
    if (layer <= before || layer >= source.n_layers())
      return invalid(fmt::format("source layer {} after {} in a window over {} layers", layer,
                                 before, source.n_layers()),
                     where);
    before = layer;
  }
  return {};
}

Status check_map(const LinearMap& map, const Projector& projector, const std::string& where) {
  SUTURE_RETURN_IF_ERROR(check_window(map, projector.source, where));
  const int64_t in = projector.inputs(map.window);
  const int64_t out = projector.target.width();
  if (map.dtype != DType::kF16 && map.dtype != DType::kBf16)
    return invalid(fmt::format("weights of type {}", static_cast<int>(map.dtype)), where);
  if (std::ssize(map.weights) != in * out)
    return invalid(fmt::format("{} weights, expected {} x {}", map.weights.size(), out, in), where);
  if (std::ssize(map.mean) != in || std::ssize(map.gamma) != out || std::ssize(map.beta) != out)
    return invalid(fmt::format("{} means, {} gammas, {} betas, expected {}, {}, {}",
                               map.mean.size(), map.gamma.size(), map.beta.size(), in, out, out),
                   where);
  if (!all_finite(map.mean) || !all_finite(map.gamma) || !all_finite(map.beta))
    return invalid("mean, gamma or beta is not finite", where);
  if (!all_finite({map.ridge, map.r2, map.mse}))
    return invalid("ridge, R2 or MSE is not finite", where);
  return {};
}

Status check_fit(const FitParameters& fit) {
  const std::string where = "fit parameters";
  if (fit.texts < 0 || fit.held_out_texts < 0 || fit.tokens < 0 || fit.skipped_tokens < 0)
    return invalid("a count below 0", where);
  for (const FitFile& file : fit.files) {
    SUTURE_RETURN_IF_ERROR(check_name(file.name, where));
    const bool is_digest = file.sha256.size() == kSha256Digits &&
                           file.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!is_digest) return invalid("a digest that is none, of " + file.name, where);
  }
  for (const HeldOutKind& kind : fit.held_out_kinds) {
    SUTURE_RETURN_IF_ERROR(check_name(kind.kind, where));
    if (kind.texts < 0 || kind.tokens < 0) return invalid("a count below 0", where);
    if (!all_finite({kind.key_r2, kind.key_mse, kind.value_r2, kind.value_mse}))
      return invalid("R2 or MSE of a kind is not finite", where);
  }
  return {};
}

Status check_evidence(const ProjectorEvidence& evidence) {
  const std::string where = "evidence";
  if (evidence.sink < 0 || evidence.reread < 0 || evidence.continued < 0)
    return invalid("a count below 0", where);
  for (const EvidenceContext& context : evidence.contexts) {
    const EvidenceNll& nll = context.nll;
    if (context.tokens < 1 || context.n < 1)
      return invalid(fmt::format("{} texts of {} tokens", context.n, context.tokens), where);
    if (!all_finite({nll.self, nll.transferred, nll.other_text, nll.text_only, nll.none,
                     context.consistency}))
      return invalid(fmt::format("a number at {} tokens is not finite", context.tokens), where);
  }
  return {};
}

std::string shape_text(const ProjectorSide& side) {
  return fmt::format("{} layers of {} K/V heads of {}", side.n_layers(), side.kv.shape.n_kv_heads,
                     side.kv.shape.head_dim);
}

Status check_same_shape(const ProjectorSide& fitted, const ProjectorSide& model, const char* role) {
  KvShape shape = model.kv.shape;
  shape.dtype = fitted.kv.shape.dtype;
  if (shape == fitted.kv.shape) return {};
  return fail(ErrorCode::kIncompatible,
              fmt::format("the {} {} has {}, the projector was fitted for {} with {}", role,
                          model.model, shape_text(model), fitted.model, shape_text(fitted)),
              "projector", "fit a projector for this pair: suture fit");
}

// Why a side is not the one that was fitted.
void compare_side(const ProjectorSide& fitted, const ProjectorSide& model, const char* role,
                  std::vector<std::string>& objections) {
  if (fitted.kv.model_fingerprint != model.kv.model_fingerprint)
    objections.push_back(fmt::format("fitted for other weights or another rotation of the {} ({})",
                                     role, fitted.model));
  if (fitted.vocabulary_hash != model.vocabulary_hash)
    objections.push_back(fmt::format("fitted for another vocabulary of the {}", role));
}

// Why its own evidence does not speak for it.
void judge_evidence(const std::optional<ProjectorEvidence>& evidence,
                    std::vector<std::string>& objections) {
  if (!evidence || evidence->contexts.empty()) {
    objections.push_back("no evidence that it carries a text's content");
    return;
  }
  const bool is_content = std::ranges::any_of(evidence->contexts, [](const auto& context) {
    return context.nll.transferred < context.nll.other_text;
  });
  if (!is_content) objections.push_back("by its own evidence another text's rows serve as well");
}

Result<std::vector<std::string>> side_objections(const Projector& projector,
                                                 const ProjectorSide& source,
                                                 const ProjectorSide& target) {
  SUTURE_RETURN_IF_ERROR(check_same_shape(projector.source, source, "source"));
  SUTURE_RETURN_IF_ERROR(check_same_shape(projector.target, target, "target"));
  std::vector<std::string> objections;
  compare_side(projector.source, source, "source", objections);
  compare_side(projector.target, target, "target", objections);
  return objections;
}

// The objections, if they are overridden.
Result<std::vector<std::string>> judge(std::vector<std::string> objections, bool force) {
  if (force || objections.empty()) return objections;
  std::string what = "the projector is refused: " + objections.front();
  for (size_t i = 1; i < objections.size(); ++i) what += "; " + objections[i];
  return fail(ErrorCode::kIncompatible, std::move(what), "projector",
              "fit one for these models (suture fit) and measure it (suture transfer), or force it "
              "(force = true, --force)");
}

}  // namespace

ProjectorSide projector_side(std::string model, std::string fingerprint,
                             std::string vocabulary_hash, const ModelConfig& config) {
  ProjectorSide side;
  side.model = std::move(model);
  side.vocabulary_hash = std::move(vocabulary_hash);
  side.kv.model_fingerprint = std::move(fingerprint);
  side.kv.shape = config.kv_shape();
  side.kv.rope_pairing = config.rope_pairing;
  side.kv.ropes = config.ropes;
  for (const LayerRule& rule : config.layer_rules) side.kv.layer_ropes.push_back(rule.rope);
  return side;
}

double EvidenceContext::retention() const {
  return share(nll.none - nll.self, nll.transferred - nll.self);
}

double EvidenceContext::net_retention() const {
  return share(nll.text_only - nll.self, nll.transferred - nll.self);
}

int64_t Projector::weight_bytes() const {
  int64_t bytes = 0;
  for (const LayerProjection& layer : layers)
    bytes +=
        static_cast<int64_t>(layer.key.weights.size_bytes() + layer.value.weights.size_bytes());
  return bytes;
}

Status validate(const Projector& projector) {
  SUTURE_RETURN_IF_ERROR(check_side(projector.source, "source"));
  SUTURE_RETURN_IF_ERROR(check_side(projector.target, "target"));
  if (std::ssize(projector.layers) != projector.target.n_layers())
    return invalid(fmt::format("maps for {} of {} layers", projector.layers.size(),
                               projector.target.n_layers()),
                   "layers");
  for (size_t l = 0; l < projector.layers.size(); ++l) {
    const LayerProjection& layer = projector.layers[l];
    SUTURE_RETURN_IF_ERROR(check_map(layer.key, projector, fmt::format("layer {}, key", l)));
    SUTURE_RETURN_IF_ERROR(check_map(layer.value, projector, fmt::format("layer {}, value", l)));
  }
  SUTURE_RETURN_IF_ERROR(check_fit(projector.fit));
  return projector.evidence ? check_evidence(*projector.evidence) : Status();
}

Result<std::vector<std::string>> check_projector(const Projector& projector,
                                                 const ProjectorSide& source,
                                                 const ProjectorSide& target, bool force) {
  SUTURE_ASSIGN_OR_RETURN(auto objections, side_objections(projector, source, target));
  judge_evidence(projector.evidence, objections);
  return judge(std::move(objections), force);
}

Result<std::vector<std::string>> check_projector_sides(const Projector& projector,
                                                       const ProjectorSide& source,
                                                       const ProjectorSide& target, bool force) {
  SUTURE_ASSIGN_OR_RETURN(auto objections, side_objections(projector, source, target));
  return judge(std::move(objections), force);
}

Status check_one_rope_epoch(const ProjectorSide& side, int64_t longest) {
  if (rope_epoch(side.kv.ropes, 1) == rope_epoch(side.kv.ropes, longest)) return {};
  return fail(ErrorCode::kIncompatible,
              fmt::format("the rotation of {} changes within {} tokens, and a projector maps rows "
                          "of one rotation",
                          side.model, longest),
              "projector", fmt::format("set rope_length = {} for this model", longest));
}

Result<std::vector<uint16_t>> round_weights(DType dtype, std::span<const float> values) {
  if (dtype != DType::kF16 && dtype != DType::kBf16)
    return invalid(fmt::format("weights of type {}", dtype_name(dtype)), "weights");
  std::vector<uint16_t> rounded(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    Half half{};
    Bf16 bf16{};
    float back = 0;
    if (dtype == DType::kF16) {
      store(values[i], half);
      back = to_f32(half);
    } else {
      store(values[i], bf16);
      back = to_f32(bf16);
    }
    if (!std::isfinite(back))
      return invalid(fmt::format("{} as {}", values[i], dtype_name(dtype)), "weights");
    rounded[i] = dtype == DType::kF16 ? half.bits : bf16.bits;
  }
  return rounded;
}

}  // namespace suture
