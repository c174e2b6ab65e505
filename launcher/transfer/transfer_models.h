// The two models of a transfer benchmark, and the launches of its arms.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/launch_spec.h"
#include "base/error.h"
#include "fusion/projector.h"
#include "models/model_config.h"
#include "models/tokenizer.h"

namespace suture {

struct TransferModel {
  std::string text;  // as the user named it
  std::filesystem::path path;
  std::string fingerprint;
  ModelConfig config;
  std::shared_ptr<const Tokenizer> tokenizer;

  // Tokens that a launch puts before every text.
  int64_t head() const;
  ProjectorSide side() const;
  // What begins a text of this vocabulary, where a launch puts nothing before it.
  std::optional<int32_t> beginning() const;
};

// Pulls a model of the manifest that is not there.
Result<TransferModel> open_transfer_model(const std::string& text);

struct TransferLaunchOptions {
  std::filesystem::path projector;  // empty: rows as they are
  int64_t sink = 4;
  int64_t reread = 32;
  int threads = 1;
  int64_t max_seq_len = 8192;
};

// Names of the processes.
inline constexpr const char* kTransferSource = "source";
inline constexpr const char* kTransferTarget = "target";

// One model by itself, which reads texts as they are, without the turns of a chat.
LaunchSpec alone_launch(const TransferModel& model, const std::string& name,
                        const TransferLaunchOptions& options);
// The source reads, the target goes on.
LaunchSpec transferring_launch(const TransferModel& source, const TransferModel& target,
                               const TransferLaunchOptions& options);
// The same, with nothing transferred.
LaunchSpec text_only_launch(const TransferModel& source, const TransferModel& target,
                            const TransferLaunchOptions& options);

}  // namespace suture
