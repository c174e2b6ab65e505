#include "launcher/command_doctor.h"

#include <fmt/format.h>

#include "launcher/doctor.h"
#include "launcher/manifest.h"

namespace suture {
namespace {

CommandResult run_doctor(bool as_json) {
  nlohmann::json checks = nlohmann::json::array();
  ExitCode code = kExitOk;
  for (const DoctorLine& line : examine_computer(model_cache_folder())) {
    if (line.state == DoctorLine::State::kFail) code = kExitFailed;
    checks.push_back({{"subject", line.subject},
                      {"state", state_name(line.state)},
                      {"found", line.found},
                      {"remedy", line.remedy}});
    if (as_json) continue;
    fmt::print("{:<4}  {:<14} {}\n", state_name(line.state), line.subject, line.found);
    if (!line.remedy.empty()) fmt::print("      {:<14} remedy: {}\n", "", line.remedy);
  }
  if (as_json) print_json({{"ok", code == kExitOk}, {"checks", checks}});
  return code;
}

}  // namespace

void add_doctor_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("doctor", "Whether this computer has what Suture needs");
  context.set_action(command, [&context] { return run_doctor(context.json); });
}

}  // namespace suture
