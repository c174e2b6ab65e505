#include "actors/fusion_choice.h"

#include <fmt/format.h>

#include <utility>

#include "fusion/projector_file.h"

namespace suture {
namespace {

CompatibilitySide side(const PairSide& model) {
  return {model.config, model.tokenizer, model.norms};
}

ProjectorSide projector_side_of(const PairSide& model) {
  return projector_side(model.name, model.fingerprint, model.tokenizer.vocabulary_hash(),
                        model.config);
}

void choose_concat(const FusionSpec& spec, const PairSide& master, const PairSide& slave,
                   FusionChoice& choice) {
  const CompatibilityRules rules{.position = spec.position,
                                 .layer_map = spec.layer_map,
                                 .master_norms = spec.norm == NormSource::kMaster};
  choice.mode = FusionMode::kConcat;
  choice.rows = check_compatibility(side(master), side(slave), rules);
  choice.verdict = require_compatible(choice.rows, master.name, slave.name);
}

// The slave's rows as they are, in place of the master's.
void choose_identity(const PairSide& master, const PairSide& slave, FusionChoice& choice) {
  choice.mode = FusionMode::kTransfer;
  choice.rows = check_identity(master.fingerprint, slave.fingerprint);
  choice.verdict = require_compatible(choice.rows, master.name, slave.name);
}

Status try_projector(const FusionSpec& spec, const PairSide& master, const PairSide& slave,
                     int64_t max_seq_len, FusionChoice& choice) {
  SUTURE_ASSIGN_OR_RETURN(const Projector projector, read_projector(spec.projector));
  choice.evidence = projector.evidence;
  const ProjectorSide source = projector_side_of(slave);
  const ProjectorSide target = projector_side_of(master);
  SUTURE_ASSIGN_OR_RETURN(choice.overridden,
                          check_projector(projector, source, target, spec.force));
  SUTURE_RETURN_IF_ERROR(check_one_rope_epoch(source, max_seq_len));
  return check_one_rope_epoch(target, max_seq_len);
}

void choose_projector(const FusionSpec& spec, FusionMode mode, const PairSide& master,
                      const PairSide& slave, int64_t max_seq_len, FusionChoice& choice) {
  choice.mode = mode;
  choice.rows = list_projected(side(master), side(slave));
  choice.verdict = try_projector(spec, master, slave, max_seq_len, choice);
  if (choice.verdict) return;
  std::string& where = choice.verdict.error().where;
  where = fmt::format("slave \"{}\", {}: {}", slave.name, spec.projector.string(), where);
}

void choose_by_what_fits(const FusionSpec& spec, const PairSide& master, const PairSide& slave,
                         int64_t max_seq_len, FusionChoice& choice) {
  choose_concat(spec, master, slave, choice);
  if (choice.verdict) {
    choice.reason = master.fingerprint == slave.fingerprint
                        ? "one and the same model"
                        : "the models are compatible: K/V are used as they are, or converted";
    return;
  }
  const std::string differences = choice.verdict.error().what;
  if (spec.projector.empty()) {
    choice = {.mode = FusionMode::kText,
              .reason = differences + "; and there is no projector (suture fit makes one)"};
    return;
  }
  choice.reason = differences;
  choose_projector(spec, FusionMode::kProject, master, slave, max_seq_len, choice);
  if (choice.verdict) return;
  choice.verdict.error().what += "; without it " + differences;
}

}  // namespace

std::string_view fusion_mode_name(FusionMode mode) {
  switch (mode) {
    case FusionMode::kConcat: return "concat";
    case FusionMode::kProject: return "project";
    case FusionMode::kTransfer: return "transfer";
    case FusionMode::kText: return "text";
    case FusionMode::kAuto: return "auto";
  }
  return "unknown";
}

FusionChoice choose_fusion(const FusionSpec& spec, const PairSide& master, const PairSide& slave,
                           int64_t max_seq_len) {
  FusionChoice choice;
  if (spec.mode == FusionMode::kAuto)
    choose_by_what_fits(spec, master, slave, max_seq_len, choice);
  else if (spec.projects())
    choose_projector(spec, spec.mode, master, slave, max_seq_len, choice);
  else if (spec.mode == FusionMode::kText)
    choice.mode = FusionMode::kText;
  else if (spec.mode == FusionMode::kTransfer)
    choose_identity(master, slave, choice);
  else
    choose_concat(spec, master, slave, choice);
  return choice;
}

}  // namespace suture
