// Everything a launch checks and computes before it starts a process: models that fit together,
// documents, tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/coordinator.h"
#include "actors/fusion_choice.h"
#include "actors/launch_spec.h"
#include "actors/prompt_builder.h"
#include "actors/slave_prompts.h"
#include "base/error.h"

namespace suture {

// How one slave fits its master.
struct SlaveReport {
  std::string name;
  FusionChoice fusion;
};

struct LaunchReport {
  std::vector<SlaveReport> slaves;
  std::vector<std::string> warnings;  // what does not keep a launch from running
};

// Opens the models' metadata (not their weights) and compares every slave with the master. Models
// at the same path are opened once.
Result<LaunchReport> examine_launch(const LaunchSpec& spec);

// The topology with the modes that it leaves open chosen, also where the choice is impossible.
Result<LaunchSpec> settle_modes(const LaunchSpec& spec);

// What a launch knows of a slave that answers in words.
struct HandOff {
  SlavePrompts prompts;           // in its own tokens and chat format
  std::vector<std::string> stop;  // ends of an answer that are text in this format
};

struct PreparedLaunch {
  CoordinatorSetup setup;                    // whose topology leaves no mode open
  std::vector<std::string> forced;           // what was overridden by `force`, for every reply
  std::vector<std::string> chosen;           // modes that the topology left open, and why
  std::unique_ptr<EncodingCache> encodings;  // the master's vocabulary
  std::unique_ptr<PromptBuilder> prompts;    // the master's
  std::vector<int32_t> master_head;          // what the master reads before any question
  // Of prefix slaves, by name, but for those that hand over words.
  std::map<std::string, SlavePrompts> slave_prompts;
  std::map<std::string, HandOff> hand_offs;  // by name
  // Of slaves that draft or hand over, by name.
  std::map<std::string, std::shared_ptr<const Tokenizer>> draft_tokenizers;
  // [models] the other vocabularies that each process needs, see ModelLoad.
  std::vector<std::map<std::string, std::filesystem::path>> vocabularies;
  std::vector<std::string> stop;  // the chat format's ends of an answer that are text
};

// Refuses what cannot run with both values and the reason; reads the documents.
Result<PreparedLaunch> prepare_launch(const LaunchSpec& spec);

}  // namespace suture
