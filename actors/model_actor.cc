#include "actors/model_actor.h"

#include <caf/all.hpp>
#include <utility>

#include "actors/coordinator_actor.h"
#include "actors/engine_thread.h"
#include "actors/messages.h"

namespace suture {
namespace {

struct ModelActorState {
  static inline const char* name = "model";
  std::shared_ptr<ModelService> service;
  std::unique_ptr<EngineThread> engine;

  ~ModelActorState() {
    if (service) service->stop();  // so that the engine thread's last job ends soon
  }
};

using ModelActor = caf::stateful_actor<ModelActorState>;

caf::behavior model_actor(ModelActor* self, std::shared_ptr<ModelService> service,
                          const caf::actor& launcher) {
  self->state.service = std::move(service);
  self->state.engine = std::make_unique<EngineThread>(*self->state.service);
  self->monitor(launcher);
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  const auto asker = [self] { return caf::actor_cast<caf::actor>(self->current_sender()); };
  const auto post = [self](auto job) { self->state.engine->post(std::move(job)); };
  const auto model = self->state.service;
  // On the engine thread, as all work: scratch of the kernels belongs to the thread.
  post([model, launcher, joined = caf::actor_cast<caf::actor>(self)] {
    const auto seconds = model->warm_up();
    const Outcome outcome = seconds ? Outcome() : Outcome::of(tl::unexpected(seconds.error()));
    tell_joined(
        launcher,
        {model->name(), outcome, model->load_seconds(), seconds.value_or(0), model->incarnation()},
        joined);
  });
  return {
      [=](ReadRequest& request) {
        model->expect(request.key);
        post([model, to = asker(), request = std::move(request)] {
          const auto tell_done = [&name = model->name(), to](ReadDone done) {
            caf::anon_send(to, name, std::move(done));
          };
          if (request.draft.tokens > 0) return model->draft(request, tell_done);
          const ReadOpened opened = model->open(request);
          caf::anon_send(to, model->name(), opened);
          if (opened.outcome.failed) return;
          model->read(request.key, tell_done);
        });
      },
      [=](GenerateRequest& request) {
        model->expect(request.request);
        post([model, to = asker(), request = std::move(request)] {
          model->generate(request, [&name = model->name(), to](GenerateDone done) {
            caf::anon_send(to, name, std::move(done));
          });
        });
      },
      [=](ImportSlabs& import) {
        post([model, owners = std::move(import.owners)] { model->import_slabs(owners); });
      },
      [=](const DropStream& drop) { post([model, key = drop.key] { model->drop(key); }); },
      [=](const CancelRequest& cancel) { model->cancel(cancel.request); },
  };
}

}  // namespace

caf::actor spawn_model_actor(caf::actor_system& system, std::shared_ptr<ModelService> service,
                             const caf::actor& launcher) {
  return system.spawn(model_actor, std::move(service), launcher);
}

}  // namespace suture
