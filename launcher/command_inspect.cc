#include "launcher/command_inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusion/projector_file.h"
#include "launcher/download.h"
#include "launcher/fit/projector_report.h"
#include "launcher/token_input.h"
#include "models/checkpoint.h"

namespace suture {
namespace {

using nlohmann::json;

struct TypeTotals {
  int64_t tensors = 0;
  int64_t elements = 0;
  uint64_t bytes = 0;
};

int64_t elements_of(const TensorInfo& tensor) {
  int64_t elements = 1;
  for (int64_t dimension : tensor.shape) elements *= dimension;
  return elements;
}

std::map<std::string, TypeTotals> totals_by_type(const Checkpoint& checkpoint) {
  std::map<std::string, TypeTotals> totals;
  for (const TensorInfo* tensor : checkpoint.tensors()) {
    TypeTotals& total = totals[tensor->type_name()];
    total.tensors += 1;
    total.elements += elements_of(*tensor);
    total.bytes += tensor->data.size();
  }
  return totals;
}

// The number that the float's shortest decimal form names: 1e-05, not 9.999999747378752e-06.
double shortest_double(float value) { return std::strtod(fmt::to_string(value).c_str(), nullptr); }

// "yarn, theta 1000000, factor 4 beyond 32768": one rule of rotation.
std::string rope_text(const RopeSchedule& rope) {
  std::string text = fmt::format("theta {}", rope.theta);
  if (rope.scaling == RopeScaling::kNone) return text;
  text = fmt::format("{}, {}", rope_scaling_name(rope.scaling), text);
  if (!rope.long_factors.empty())
    text += fmt::format(", factors {} to {}", *std::ranges::min_element(rope.long_factors),
                        *std::ranges::max_element(rope.long_factors));
  else
    text += fmt::format(", factor {}", rope.factor);
  if (rope.scaling == RopeScaling::kLinear || rope.original_positions == 0) return text;
  return text + fmt::format(", limit {}", rope.original_positions);
}

// "512 in 15 of 18 layers", or "none".
std::string window_text(const ModelConfig& config) {
  std::string text;
  std::map<int64_t, int> layers_of;  // by window
  for (const LayerRule& rule : config.layer_rules) layers_of[rule.window] += 1;
  for (const auto& [window, layers] : layers_of) {
    if (window == 0) continue;
    text += fmt::format("{}{} in {} of {} layers", text.empty() ? "" : ", ", window, layers,
                        config.layer_rules.size());
  }
  return text.empty() ? "none" : text;
}

std::vector<std::string> rope_texts(const ModelConfig& config) {
  std::vector<std::string> texts;
  for (const RopeSchedule& rope : config.ropes) texts.push_back(rope_text(rope));
  return texts;
}

// Name and value of everything in the configuration, in reading order.
std::vector<std::pair<std::string, json>> config_rows(const ModelConfig& config) {
  return {{"architecture", config.architecture},
          {"family", std::string(family_name(config.family))},
          {"layers", config.n_layers},
          {"heads", config.n_heads},
          {"kv_heads", config.n_kv_heads},
          {"head_dim", config.head_dim},
          {"hidden_size", config.hidden_size},
          {"ffn_size", config.ffn_size},
          {"vocab_size", config.vocab_size},
          {"max_positions", config.max_positions},
          {"norm_eps", shortest_double(config.norm_eps)},
          {"norm_offset", shortest_double(config.norm_offset)},
          {"embedding_scale", shortest_double(config.embedding_scale)},
          {"attention_scale", shortest_double(config.attention_scale)},
          {"score_cap", shortest_double(config.score_cap)},
          {"logit_cap", shortest_double(config.logit_cap)},
          {"activation", std::string(activation_name(config.activation))},
          {"rope_theta", shortest_double(config.ropes.empty() ? 0 : config.ropes[0].theta)},
          {"rope", fmt::format("{}", fmt::join(rope_texts(config), "; windows: "))},
          {"rope_pairing", config.rope_pairing == RopePairing::kHalves ? "halves" : "neighbours"},
          {"window", window_text(config)},
          {"qkv_bias", config.qkv_bias},
          {"qk_norm", config.qk_norm},
          {"post_norms", config.post_norms},
          {"fused_qkv", config.fused_qkv},
          {"fused_gate_up", config.fused_gate_up},
          {"tied_embeddings", config.tied_embeddings},
          {"kv_dtype", std::string(dtype_name(config.kv_dtype))}};
}

// Why running the model is refused, or nothing.
std::string refusal(const Checkpoint& checkpoint) {
  const Status status = check_runnable(checkpoint.config(), checkpoint.path().string());
  return status ? "" : status.error().what;
}

void print_report(const Checkpoint& checkpoint, bool all_tensors) {
  const size_t n_files = checkpoint.files().size();
  fmt::print("file         {} ({} bytes{})\n", checkpoint.path().string(), checkpoint.file_bytes(),
             n_files > 1 ? fmt::format(" in {} files", n_files) : "");
  fmt::print("fingerprint  {}\n", checkpoint.fingerprint());
  const std::string reason = refusal(checkpoint);
  fmt::print("runs here    {}\n", reason.empty() ? "yes" : "no: " + reason);
  fmt::print("\nConfiguration\n");
  for (const auto& [name, value] : config_rows(checkpoint.config()))
    fmt::print("  {:<16} {}\n", name, value.is_string() ? value.get<std::string>() : value.dump());
  fmt::print("\nMetadata\n");
  for (const auto& [key, value] : checkpoint.metadata())
    fmt::print("  {:<40} {}\n", printable_piece(key), printable_piece(value));
  fmt::print("\nTensors\n  {:<8} {:>8} {:>14} {:>14}\n", "type", "tensors", "elements", "bytes");
  for (const auto& [type, total] : totals_by_type(checkpoint))
    fmt::print("  {:<8} {:>8} {:>14} {:>14}\n", type, total.tensors, total.elements, total.bytes);
  if (!all_tensors) return;
  fmt::print("\n");
  for (const TensorInfo* tensor : checkpoint.tensors())
    fmt::print("  {:<28} {:<6} {}\n", printable_piece(tensor->name), tensor->type_name(),
               shape_text(tensor->shape));
}

std::vector<std::string> file_names(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const auto& path : checkpoint.files()) names.push_back(path.string());
  return names;
}

json json_report(const Checkpoint& checkpoint, bool all_tensors) {
  const std::string reason = refusal(checkpoint);
  json report = {{"path", checkpoint.path().string()},
                 {"bytes", checkpoint.file_bytes()},
                 {"files", file_names(checkpoint)},
                 {"fingerprint", checkpoint.fingerprint()},
                 {"runnable", reason.empty()},
                 {"refusal", reason.empty() ? json() : json(reason)},
                 {"config", json::object()},
                 {"metadata", json::object()},
                 {"types", json::object()}};
  for (const auto& [name, value] : config_rows(checkpoint.config())) report["config"][name] = value;
  for (const auto& [key, value] : checkpoint.metadata())
    report["metadata"][printable_piece(key)] = printable_piece(value);
  for (const auto& [type, total] : totals_by_type(checkpoint))
    report["types"][type] = {
        {"tensors", total.tensors}, {"elements", total.elements}, {"bytes", total.bytes}};
  if (!all_tensors) return report;
  for (const TensorInfo* tensor : checkpoint.tensors())
    report["tensors"].push_back({{"name", printable_piece(tensor->name)},
                                 {"type", tensor->type_name()},
                                 {"shape", tensor->shape}});
  return report;
}

CommandResult inspect_projector(const std::filesystem::path& path, bool as_json) {
  SUTURE_ASSIGN_OR_RETURN(const Projector projector, read_projector(path));
  if (as_json)
    print_json(projector_json(projector));
  else
    fmt::print("{}", projector_report(projector));
  return kExitOk;
}

CommandResult run_inspect(const std::string& model, bool all_tensors, bool as_json) {
  if (std::filesystem::path(model).extension() == ".suture")
    return inspect_projector(model, as_json);
  SUTURE_ASSIGN_OR_RETURN(const auto path, resolve_model(model));
  SUTURE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(path));
  if (as_json)
    print_json(json_report(*checkpoint, all_tensors));
  else
    print_report(*checkpoint, all_tensors);
  return kExitOk;
}

}  // namespace

void add_inspect_command(CLI::App& app, CommandContext& context) {
  auto model = std::make_shared<std::string>();
  auto all_tensors = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "inspect", "Configuration, metadata and tensors of a model file; what a projector is worth");
  command
      ->add_option("model", *model,
                   "Name from `suture models list`, .gguf file, checkpoint folder, or .suture file")
      ->required();
  command->add_flag("--tensors", *all_tensors, "List every tensor");
  context.set_action(command,
                     [=, &context] { return run_inspect(*model, *all_tensors, context.json); });
}

}  // namespace suture
