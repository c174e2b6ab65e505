#include "launcher/transfer/transfer_models.h"

#include <limits>
#include <utility>

#include "launcher/download.h"
#include "models/chat_format.h"
#include "models/checkpoint.h"

namespace suture {
namespace {

ModelSpec plain_model(const TransferModel& model, const std::string& name, Role role,
                      const TransferLaunchOptions& options) {
  ModelSpec spec;
  spec.name = name;
  spec.role = role;
  spec.path_text = model.text;
  spec.path = model.path;
  spec.threads = options.threads;
  spec.chat_pieces = ChatFormat();
  return spec;
}

LaunchSpec plain_launch(const std::string& name, std::vector<ModelSpec> models,
                        const TransferLaunchOptions& options) {
  LaunchSpec spec;
  spec.topology_path = name;
  spec.models = std::move(models);
  spec.max_seq_len = options.max_seq_len;
  spec.max_sequences = 1;
  return spec;
}

}  // namespace

int64_t TransferModel::head() const {
  const Vocabulary& vocabulary = tokenizer->vocabulary();
  return vocabulary.add_bos && vocabulary.bos_id ? 1 : 0;
}

std::optional<int32_t> TransferModel::beginning() const {
  if (head() > 0) return std::nullopt;
  const Vocabulary& vocabulary = tokenizer->vocabulary();
  return vocabulary.bos_id ? vocabulary.bos_id : vocabulary.eos_id.value_or(0);
}

ProjectorSide TransferModel::side() const {
  return projector_side(text, fingerprint, tokenizer->vocabulary_hash(), config);
}

Result<TransferModel> open_transfer_model(const std::string& text) {
  TransferModel model;
  model.text = text;
  SUTURE_ASSIGN_OR_RETURN(model.path, resolve_model(text));
  SUTURE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(model.path));
  model.config = checkpoint->config();
  SUTURE_RETURN_IF_ERROR(check_runnable(model.config, model.path.string()));
  model.fingerprint = checkpoint->fingerprint();
  SUTURE_ASSIGN_OR_RETURN(Vocabulary vocabulary, checkpoint->vocabulary());
  SUTURE_ASSIGN_OR_RETURN(model.tokenizer, Tokenizer::create(std::move(vocabulary)));
  return model;
}

LaunchSpec alone_launch(const TransferModel& model, const std::string& name,
                        const TransferLaunchOptions& options) {
  return plain_launch(name + " alone", {plain_model(model, name, Role::kMaster, options)}, options);
}

LaunchSpec transferring_launch(const TransferModel& source, const TransferModel& target,
                               const TransferLaunchOptions& options) {
  ModelSpec slave = plain_model(source, kTransferSource, Role::kSlave, options);
  slave.fusion.mode = FusionMode::kTransfer;
  slave.fusion.projector = options.projector;
  // It has been looked at before; its evidence is what is measured here.
  slave.fusion.force = !options.projector.empty();
  slave.fusion.sink = options.sink;
  slave.fusion.reread = options.reread;
  slave.on_failure = OnFailure::kFail;
  return plain_launch("transferred",
                      {plain_model(target, kTransferTarget, Role::kMaster, options), slave},
                      options);
}

LaunchSpec text_only_launch(const TransferModel& source, const TransferModel& target,
                            const TransferLaunchOptions& options) {
  LaunchSpec spec = transferring_launch(source, target, options);
  spec.topology_path = "text only";
  spec.models[1].fusion.gain = -std::numeric_limits<double>::infinity();
  return spec;
}

}  // namespace suture
