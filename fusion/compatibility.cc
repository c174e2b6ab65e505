#include "fusion/compatibility.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "fusion/norm_override.h"

namespace suture {
namespace {

using Verdict = CompatibilityRow::Verdict;

constexpr size_t kShownDifferences = 3;
constexpr const char* kSameBase = "use the same model, or fine-tunes of one base model";

// A row that is `otherwise` where the values differ.
CompatibilityRow compare(std::string condition, std::string master, std::string slave,
                         Verdict otherwise, std::string remedy) {
  const bool equal = master == slave;
  return {std::move(condition), std::move(master), std::move(slave),
          equal ? Verdict::kOk : otherwise, equal ? std::string() : std::move(remedy)};
}

CompatibilityRow must_equal(std::string condition, int64_t master, int64_t slave) {
  return compare(std::move(condition), fmt::to_string(master), fmt::to_string(slave),
                 Verdict::kRefused, kSameBase);
}

std::string quoted_piece(const Vocabulary& vocabulary, size_t id) {
  if (id >= vocabulary.pieces.size()) return "none";
  return fmt::format("{:?}", vocabulary.pieces[id]);
}

// "token 3 "a" and "b", token 7 ...": the first tokens that differ.
std::string first_differences(const Vocabulary& master, const Vocabulary& slave) {
  std::vector<std::string> found;
  const size_t n = std::max(master.pieces.size(), slave.pieces.size());
  for (size_t id = 0; id < n && found.size() < kShownDifferences; ++id) {
    const bool same = id < master.pieces.size() && id < slave.pieces.size() &&
                      master.pieces[id] == slave.pieces[id] && master.kinds[id] == slave.kinds[id];
    if (!same)
      found.push_back(fmt::format("token {} is {} and {}", id, quoted_piece(master, id),
                                  quoted_piece(slave, id)));
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

CompatibilityRow vocabulary_row(const CompatibilitySide& master, const CompatibilitySide& slave,
                                SlavePosition position) {
  const auto text = [](const Tokenizer& tokenizer) {
    return fmt::format("{} ({} tokens)", tokenizer.vocabulary_hash().substr(0, 12),
                       tokenizer.vocab_size());
  };
  CompatibilityRow row =
      compare("vocabulary", text(master.tokenizer), text(slave.tokenizer), Verdict::kConverted, {});
  if (row.verdict == Verdict::kOk) return row;
  row.remedy = fmt::format(
      "{}; {}",
      position == SlavePosition::kPrefix
          ? "the slave reads its documents in tokens of its own"
          : "the text is aligned by bytes: each of the master's tokens takes the slave's token "
            "that ends with it or last before",
      first_differences(master.tokenizer.vocabulary(), slave.tokenizer.vocabulary()));
  return row;
}

CompatibilityRow layers_row(const ModelConfig& master, const ModelConfig& slave,
                            const LayerMapSpec& spec) {
  CompatibilityRow row{
      "layers", fmt::to_string(master.n_layers), fmt::to_string(slave.n_layers), Verdict::kOk, {}};
  const auto map = make_layer_map(spec, master.n_layers, slave.n_layers);
  if (!map) {
    row.verdict = Verdict::kRefused;
    row.remedy = fmt::format("{}; {}", map.error().what, map.error().remedy);
  } else if (spec.kind != LayerMapSpec::Kind::kIdentity) {
    row.verdict = Verdict::kConverted;
    row.remedy = fmt::format(
        "layer_map \"{}\": {} of the master's {} layers have a partner", layer_map_name(spec),
        map->size() - static_cast<size_t>(std::ranges::count(*map, kNoPartner)), map->size());
  }
  return row;
}

std::string_view pairing_name(RopePairing pairing) {
  return pairing == RopePairing::kHalves ? "halves" : "neighbours";
}

std::string theta_text(const RopeSchedule& rope) { return fmt::to_string(rope.theta); }

std::string scaling_text(const RopeSchedule& rope) {
  if (rope.scaling == RopeScaling::kNone) return "none";
  std::string text = fmt::format("{}, factor {}", rope_scaling_name(rope.scaling), rope.factor);
  if (rope.fixed_length > 0) text += fmt::format(", length {}", rope.fixed_length);
  return text;
}

// Models of which some layers see a window have a schedule for these and one for the others.
std::string each_rope(const ModelConfig& config, std::string (*text)(const RopeSchedule&)) {
  std::vector<std::string> texts;
  for (const RopeSchedule& rope : config.ropes) texts.push_back(text(rope));
  return fmt::format("{}", fmt::join(texts, " / "));
}

// "none", or how many layers see how far.
std::string windows_text(const ModelConfig& config) {
  std::map<int64_t, int> layers;  // by window
  for (const LayerRule& rule : config.layer_rules)
    if (rule.window > 0) ++layers[rule.window];
  std::vector<std::string> texts;
  for (const auto& [window, count] : layers)
    texts.push_back(fmt::format("{} in {} layers", window, count));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

// A slave of a depth or width of its own is compared where its layers lie in the master's depth.
CompatibilityRow norms_row(const CompatibilitySide& master, const CompatibilitySide& slave,
                           bool master_norms) {
  const auto shape = [](const ModelConfig& config) {
    return fmt::format("{} layers of {}", config.n_layers, config.hidden_size);
  };
  CompatibilityRow row{"norms", shape(master.config), shape(slave.config), Verdict::kOk, {}};
  const bool same_width = master.config.hidden_size == slave.config.hidden_size;
  if (master_norms) {
    row.verdict = same_width ? Verdict::kConverted : Verdict::kRefused;
    row.remedy = same_width ? "the slave runs with the master's norm weights, interpolated where "
                              "the depths differ"
                            : "norm = \"master\" needs the same hidden size";
  }
  if (!same_width || master.norms == nullptr || slave.norms == nullptr) return row;
  const NormWeights at_slave = interpolate_norms(*master.norms, slave.config.n_layers);
  const NormDifference difference = compare_norms(at_slave, master_norms ? at_slave : *slave.norms);
  row.slave_value += fmt::format(", differ by {:.3g}", difference.largest);
  if (!difference.where.empty()) row.slave_value += fmt::format(" ({})", difference.where);
  return row;
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk: return "ok";
    case Verdict::kConverted: return "converted";
    case Verdict::kRefused: return "refused";
  }
  return "unknown";
}

std::vector<CompatibilityRow> check_compatibility(const CompatibilitySide& master,
                                                  const CompatibilitySide& slave,
                                                  const CompatibilityRules& rules) {
  const ModelConfig& m = master.config;
  const ModelConfig& s = slave.config;
  const std::string rotated = "the slave's keys are rotated anew";
  return {
      vocabulary_row(master, slave, rules.position),
      layers_row(m, s, rules.layer_map),
      must_equal("kv heads", m.n_kv_heads, s.n_kv_heads),
      must_equal("head dimension", m.head_dim, s.head_dim),
      compare("rope theta", each_rope(m, theta_text), each_rope(s, theta_text), Verdict::kConverted,
              rotated),
      compare("rope scaling", each_rope(m, scaling_text), each_rope(s, scaling_text),
              Verdict::kConverted, rotated),
      compare("rope pairing", std::string(pairing_name(m.rope_pairing)),
              std::string(pairing_name(s.rope_pairing)), Verdict::kConverted,
              "the slave's keys are put in the master's order"),
      compare("max positions", fmt::to_string(m.max_positions), fmt::to_string(s.max_positions),
              Verdict::kOk, {}),
      compare("window", windows_text(m), windows_text(s), Verdict::kOk, {}),
      compare("kv type", std::string(dtype_name(m.kv_dtype)), std::string(dtype_name(s.kv_dtype)),
              Verdict::kConverted, "the slave's K/V are rounded once to the master's type"),
      norms_row(master, slave, rules.master_norms),
  };
}

std::vector<CompatibilityRow> check_identity(const std::string& master_fingerprint,
                                             const std::string& slave_fingerprint) {
  constexpr size_t kShownDigits = 12;
  CompatibilityRow row{"model",
                       master_fingerprint.substr(0, kShownDigits),
                       slave_fingerprint.substr(0, kShownDigits),
                       Verdict::kOk,
                       {}};
  if (master_fingerprint != slave_fingerprint) {
    row.verdict = Verdict::kRefused;
    row.remedy = "use the same model, or a projector for this pair (suture fit)";
  }
  return {std::move(row)};
}

std::vector<CompatibilityRow> list_projected(const CompatibilitySide& master,
                                             const CompatibilitySide& slave) {
  const ModelConfig& m = master.config;
  const ModelConfig& s = slave.config;
  const std::string mapped = "mapped by the projector";
  return {
      // Also of documents: there is a row for each of the master's tokens.
      vocabulary_row(master, slave, SlavePosition::kAligned),
      compare("layers", fmt::to_string(m.n_layers), fmt::to_string(s.n_layers), Verdict::kConverted,
              mapped),
      compare("kv heads", fmt::to_string(m.n_kv_heads), fmt::to_string(s.n_kv_heads),
              Verdict::kConverted, mapped),
      compare("head dimension", fmt::to_string(m.head_dim), fmt::to_string(s.head_dim),
              Verdict::kConverted, mapped),
      compare("rope theta", each_rope(m, theta_text), each_rope(s, theta_text), Verdict::kConverted,
              mapped),
      compare("kv type", std::string(dtype_name(m.kv_dtype)), std::string(dtype_name(s.kv_dtype)),
              Verdict::kConverted, mapped),
  };
}

Status require_compatible(std::span<const CompatibilityRow> rows, std::string_view master_name,
                          std::string_view slave_name) {
  std::string differences;
  std::vector<std::string_view> remedies;
  for (const CompatibilityRow& row : rows) {
    if (row.verdict != Verdict::kRefused) continue;
    differences += fmt::format("{}{} {} and {}", differences.empty() ? "" : "; ", row.condition,
                               row.master_value, row.slave_value);
    if (std::find(remedies.begin(), remedies.end(), row.remedy) == remedies.end()) {
      remedies.push_back(row.remedy);
    }
  }
  if (differences.empty()) return {};
  return fail(ErrorCode::kIncompatible,
              fmt::format("the models differ (master and slave): {}", differences),
              fmt::format("master \"{}\", slave \"{}\"", master_name, slave_name),
              fmt::format("{}", fmt::join(remedies, "; ")));
}

}  // namespace suture
