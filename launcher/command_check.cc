#include "launcher/command_check.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "actors/launch_preparation.h"
#include "launcher/launch_memory.h"
#include "launcher/system_info.h"
#include "launcher/topology.h"

namespace suture {
namespace {

using nlohmann::json;

struct CheckReport {
  LaunchReport launch;
  LaunchMemory memory;
  Status verdict;  // the first reason to refuse
};

Status judge(const LaunchSpec& spec, const CheckReport& report) {
  for (const SlaveReport& slave : report.launch.slaves)
    SUTURE_RETURN_IF_ERROR(slave.fusion.verdict);
  SUTURE_RETURN_IF_ERROR(prepare_launch(spec));
  return check_memory(report.memory, spec);
}

Result<CheckReport> make_report(const std::string& topology) {
  SUTURE_ASSIGN_OR_RETURN(LaunchSpec spec, load_topology(topology));
  SUTURE_RETURN_IF_ERROR(resolve_models(spec));
  CheckReport report;
  SUTURE_ASSIGN_OR_RETURN(report.memory, launch_memory(spec, available_memory_bytes()));
  SUTURE_ASSIGN_OR_RETURN(report.launch, examine_launch(spec));
  report.verdict = judge(spec, report);
  return report;
}

// What was measured with the projector, a line for each length of context.
void print_evidence(const ProjectorEvidence& evidence) {
  for (const EvidenceContext& context : evidence.contexts)
    fmt::print(
        "  {:<16} {} tokens, {} texts: {:.0f} % of the context's worth kept ({:.0f} % of what {} "
        "re-read tokens do not give)\n",
        "evidence", context.tokens, context.n, 100 * context.retention(),
        100 * context.net_retention(), evidence.sink + evidence.reread);
}

void print_mode(const FusionChoice& fusion) {
  fmt::print("  {:<16} {}{}\n", "mode", fusion_mode_name(fusion.mode),
             fusion.reason.empty() ? "" : fmt::format(" (auto: {})", fusion.reason));
  if (fusion.evidence) print_evidence(*fusion.evidence);
  for (const std::string& what : fusion.overridden)
    fmt::print("  {:<16} used all the same: {}\n", "force", what);
}

void print_report(const CheckReport& report) {
  for (const SlaveReport& slave : report.launch.slaves) {
    fmt::print("slave '{}'\n", slave.name);
    print_mode(slave.fusion);
    if (slave.fusion.rows.empty()) continue;  // nothing has to fit
    fmt::print("  {:<16} {:<30} {:<30} {}\n", "condition", "master", "slave", "verdict");
    for (const CompatibilityRow& row : slave.fusion.rows) {
      fmt::print("  {:<16} {:<30} {:<30} {}\n", row.condition, row.master_value, row.slave_value,
                 verdict_name(row.verdict));
      if (row.remedy.empty()) continue;
      const bool refused = row.verdict == CompatibilityRow::Verdict::kRefused;
      fmt::print("  {:<16} {}: {}\n", "", refused ? "remedy" : "how", row.remedy);
    }
  }
  fmt::print("{}", memory_table(report.memory));
  for (const std::string& warning : report.launch.warnings) fmt::print("warning: {}\n", warning);
  if (report.verdict) fmt::print("verdict: ok\n");
}

json json_mode(const SlaveReport& slave) {
  json value = {{"name", slave.name},
                {"mode", fusion_mode_name(slave.fusion.mode)},
                {"reason", slave.fusion.reason},
                {"forced", slave.fusion.overridden}};
  if (!slave.fusion.evidence) return value;
  value["evidence"] = json::array();
  for (const EvidenceContext& context : slave.fusion.evidence->contexts)
    value["evidence"].push_back({{"tokens", context.tokens},
                                 {"n", context.n},
                                 {"retention", context.retention()},
                                 {"net_retention", context.net_retention()}});
  return value;
}

json json_report(const CheckReport& report) {
  json slaves = json::array();
  for (const SlaveReport& slave : report.launch.slaves) {
    json rows = json::array();
    for (const CompatibilityRow& row : slave.fusion.rows)
      rows.push_back({{"condition", row.condition},
                      {"master", row.master_value},
                      {"slave", row.slave_value},
                      {"verdict", verdict_name(row.verdict)},
                      {"remedy", row.remedy}});
    slaves.push_back(json_mode(slave));
    slaves.back()["rows"] = std::move(rows);
  }
  json value = {{"ok", report.verdict.has_value()},
                {"slaves", std::move(slaves)},
                {"warnings", report.launch.warnings},
                {"memory", to_json(report.memory)}};
  if (!report.verdict) value["error"] = error_json(report.verdict.error());
  return value;
}

CommandResult run_check(const std::string& topology, bool as_json) {
  const auto report = make_report(topology);
  if (!report) return refuse(report.error());
  if (as_json)
    print_json(json_report(*report));
  else
    print_report(*report);
  if (report->verdict) return kExitOk;
  print_failure(report->verdict.error(), /*json=*/false);
  return kExitRefused;
}

}  // namespace

void add_check_command(CLI::App& app, CommandContext& context) {
  auto topology = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "check", "Whether the models of a topology fit together and into memory; loads no weights");
  command->add_option("topology", *topology, "Topology file (docs/topology.md)")->required();
  context.set_action(command, [=, &context] { return run_check(*topology, context.json); });
}

}  // namespace suture
