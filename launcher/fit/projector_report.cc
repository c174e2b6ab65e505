#include "launcher/fit/projector_report.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace suture {
namespace {

using Json = nlohmann::json;

std::string side_text(const ProjectorSide& side) {
  return fmt::format("{} ({} layers of {} K/V heads of {})", side.model, side.n_layers(),
                     side.kv.shape.n_kv_heads, side.kv.shape.head_dim);
}

Json side_json(const ProjectorSide& side) {
  return {{"model", side.model},
          {"fingerprint", side.kv.model_fingerprint},
          {"vocabulary_hash", side.vocabulary_hash},
          {"layers", side.n_layers()},
          {"kv_heads", side.kv.shape.n_kv_heads},
          {"head_dim", side.kv.shape.head_dim}};
}

// "0-23", or "2,3,5".
std::string window_text(const std::vector<int32_t>& window) {
  const int32_t first = window.front();
  const int32_t last = window.back();
  if (last - first + 1 == static_cast<int32_t>(window.size()))
    return first == last ? fmt::to_string(first) : fmt::format("{}-{}", first, last);
  std::string text;
  for (const int32_t layer : window) text += fmt::format("{}{}", text.empty() ? "" : ",", layer);
  return text;
}

Json map_json(const LinearMap& map) {
  return {{"window", map.window}, {"ridge", map.ridge}, {"r2", map.r2}, {"mse", map.mse}};
}

std::string layer_table(const Projector& projector) {
  std::string text =
      fmt::format("  {:>5}  {:>8} {:>8} {:>7} {:>10}  {:>8} {:>8} {:>7} {:>10}\n", "layer",
                  "K window", "ridge", "R2", "MSE", "V window", "ridge", "R2", "MSE");
  for (size_t layer = 0; layer < projector.layers.size(); ++layer) {
    const LinearMap& key = projector.layers[layer].key;
    const LinearMap& value = projector.layers[layer].value;
    text += fmt::format(
        "  {:>5}  {:>8} {:>8.0e} {:>7.4f} {:>10.4g}  {:>8} {:>8.0e} {:>7.4f} "
        "{:>10.4g}\n",
        layer, window_text(key.window), key.ridge, key.r2, key.mse, window_text(value.window),
        value.ridge, value.r2, value.mse);
  }
  return text;
}

std::string kind_table(const std::vector<HeldOutKind>& kinds) {
  std::string text =
      fmt::format("  {:<20} {:>6} {:>8} {:>7} {:>10} {:>7} {:>10}\n", "held-out texts", "texts",
                  "tokens", "K R2", "K MSE", "V R2", "V MSE");
  for (const HeldOutKind& kind : kinds)
    text += fmt::format("  {:<20} {:>6} {:>8} {:>7.4f} {:>10.4g} {:>7.4f} {:>10.4g}\n", kind.kind,
                        kind.texts, kind.tokens, kind.key_r2, kind.key_mse, kind.value_r2,
                        kind.value_mse);
  return text;
}

std::string evidence_text(const std::optional<ProjectorEvidence>& evidence) {
  if (!evidence || evidence->contexts.empty())
    return "evidence   none: `suture transfer` measures what the projector carries\n";
  std::string text = fmt::format("evidence   own first {}, last {} tokens; mean of the next {}\n",
                                 evidence->sink, evidence->reread, evidence->continued);
  text += fmt::format("  {:>6} {:>4} {:>7} {:>11} {:>10} {:>9} {:>7} {:>9} {:>5}\n", "tokens", "n",
                      "self", "transferred", "other text", "text only", "none", "retention", "net");
  for (const EvidenceContext& context : evidence->contexts)
    text += fmt::format(
        "  {:>6} {:>4} {:>7.3f} {:>11.3f} {:>10.3f} {:>9.3f} {:>7.3f} {:>7.0f} % {:>3.0f} %\n",
        context.tokens, context.n, context.nll.self, context.nll.transferred,
        context.nll.other_text, context.nll.text_only, context.nll.none, 100 * context.retention(),
        100 * context.net_retention());
  return text;
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json evidence_json(const ProjectorEvidence& evidence) {
  Json contexts = Json::array();
  for (const EvidenceContext& context : evidence.contexts)
    contexts.push_back({{"tokens", context.tokens},
                        {"n", context.n},
                        {"nll",
                         {{"self", context.nll.self},
                          {"transferred", context.nll.transferred},
                          {"other_text", context.nll.other_text},
                          {"text_only", context.nll.text_only},
                          {"none", context.nll.none}}},
                        {"retention", number_or_null(context.retention())},
                        {"net_retention", number_or_null(context.net_retention())},
                        {"consistency", context.consistency}});
  return {{"sink", evidence.sink},
          {"reread", evidence.reread},
          {"continued", evidence.continued},
          {"contexts", std::move(contexts)}};
}

Json fit_json(const FitParameters& fit) {
  Json files = Json::array();
  for (const FitFile& file : fit.files)
    files.push_back({{"name", file.name}, {"sha256", file.sha256}});
  Json kinds = Json::array();
  for (const HeldOutKind& kind : fit.held_out_kinds)
    kinds.push_back({{"kind", kind.kind},
                     {"texts", kind.texts},
                     {"tokens", kind.tokens},
                     {"key", {{"r2", kind.key_r2}, {"mse", kind.key_mse}}},
                     {"value", {{"r2", kind.value_r2}, {"mse", kind.value_mse}}}});
  return {{"texts", fit.texts},        {"held_out_texts", fit.held_out_texts},
          {"tokens", fit.tokens},      {"skipped_tokens", fit.skipped_tokens},
          {"files", std::move(files)}, {"held_out", std::move(kinds)}};
}

}  // namespace

std::string projector_report(const Projector& projector) {
  std::string text = fmt::format("source     {}\ntarget     {}\n", side_text(projector.source),
                                 side_text(projector.target));
  const FitParameters& fit = projector.fit;
  text += fmt::format(
      "fitted to  {} texts ({} pairs of tokens, the first {} of each text left out), {} held out\n",
      fit.texts, fit.tokens, fit.skipped_tokens, fit.held_out_texts);
  for (const FitFile& file : fit.files)
    text += fmt::format("  {}  sha256 {}\n", file.name, file.sha256);
  text +=
      fmt::format("weights    {:.1f} MB, {}\n", static_cast<double>(projector.weight_bytes()) / 1e6,
                  projector.own_first_layer ? "also of the target's own first layer"
                                            : "of the source's layers alone");
  return text + layer_table(projector) + kind_table(fit.held_out_kinds) +
         evidence_text(projector.evidence);
}

Json projector_json(const Projector& projector) {
  Json layers = Json::array();
  for (const LayerProjection& layer : projector.layers)
    layers.push_back({{"key", map_json(layer.key)}, {"value", map_json(layer.value)}});
  return {{"source", side_json(projector.source)},
          {"target", side_json(projector.target)},
          {"fit", fit_json(projector.fit)},
          {"weight_bytes", projector.weight_bytes()},
          {"own_first_layer", projector.own_first_layer},
          {"layers", std::move(layers)},
          {"evidence", projector.evidence ? evidence_json(*projector.evidence) : Json()}};
}

}  // namespace suture
