#include "launcher/command_worker.h"

#include <memory>

#include "actors/worker.h"

namespace suture {

void add_worker_command(CLI::App& app, CommandContext& context) {
  auto ticket = std::make_shared<int>(-1);
  CLI::App* worker = app.add_subcommand("worker", "One model process of a launch");
  worker->group("");
  worker->add_option("--ticket", *ticket, "Inherited descriptor of the launcher's ticket")
      ->required();
  context.set_action(worker, [ticket]() -> CommandResult {
    SUTURE_RETURN_IF_ERROR(run_worker(*ticket));
    return kExitOk;
  });
}

}  // namespace suture
