#include "launcher/command_config.h"

#include <fmt/format.h>

#include "launcher/topology_schema.h"

namespace suture {

void add_config_command(CLI::App& app, CommandContext& context) {
  CLI::App* command =
      app.add_subcommand("config", "The keys of a topology file; with --json as a JSON Schema");
  context.set_action(command, [&context]() -> CommandResult {
    if (context.json)
      print_json(topology_schema_json());
    else
      fmt::print("{}", topology_schema_text());
    return kExitOk;
  });
}

}  // namespace suture
