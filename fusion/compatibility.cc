#include "fusion/compatibility.h"

#include <fmt/format.h>

#include <algorithm>

namespace suture {
namespace {

using Verdict = CompatibilityRow::Verdict;

template <typename T>
CompatibilityRow must_equal(std::string condition, const T& master, const T& slave,
                            std::string remedy) {
  const bool equal = master == slave;
  return {std::move(condition), fmt::format("{}", master), fmt::format("{}", slave),
          equal ? Verdict::kOk : Verdict::kRefused, equal ? std::string() : std::move(remedy)};
}

std::string_view pairing_name(RopePairing pairing) {
  return pairing == RopePairing::kHalves ? "halves" : "neighbours";
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

std::vector<CompatibilityRow> check_compatibility(const ModelConfig& master,
                                                  const std::string& master_vocabulary_hash,
                                                  const ModelConfig& slave,
                                                  const std::string& slave_vocabulary_hash) {
  const std::string same_base = "use the same model, or fine-tunes of one base model";
  const std::string same_format = "use files of both models that were converted the same way";
  return {
      must_equal("vocabulary", master_vocabulary_hash, slave_vocabulary_hash,
                 "use models whose tokenizers have the same pieces and special tokens"),
      must_equal("layers", master.n_layers, slave.n_layers,
                 "layer_map \"identity\" needs models of the same depth: " + same_base),
      must_equal("kv heads", master.n_kv_heads, slave.n_kv_heads, same_base),
      must_equal("head dimension", master.head_dim, slave.head_dim, same_base),
      must_equal("rope theta", master.ropes.at(0).theta, slave.ropes.at(0).theta, same_base),
      must_equal("rope pairing", pairing_name(master.rope_pairing),
                 pairing_name(slave.rope_pairing), same_format),
      must_equal("kv type", dtype_name(master.kv_dtype), dtype_name(slave.kv_dtype),
                 "use two float32 checkpoints, or none"),
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
