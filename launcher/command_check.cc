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
    SUTURE_RETURN_IF_ERROR(require_compatible(slave.rows, spec.master().name, slave.name));
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

void print_report(const CheckReport& report) {
  for (const SlaveReport& slave : report.launch.slaves) {
    fmt::print("slave '{}'\n  {:<16} {:<30} {:<30} {}\n", slave.name, "condition", "master",
               "slave", "verdict");
    for (const CompatibilityRow& row : slave.rows) {
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

json json_report(const CheckReport& report) {
  json slaves = json::array();
  for (const SlaveReport& slave : report.launch.slaves) {
    json rows = json::array();
    for (const CompatibilityRow& row : slave.rows)
      rows.push_back({{"condition", row.condition},
                      {"master", row.master_value},
                      {"slave", row.slave_value},
                      {"verdict", verdict_name(row.verdict)},
                      {"remedy", row.remedy}});
    slaves.push_back({{"name", slave.name}, {"rows", std::move(rows)}});
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
