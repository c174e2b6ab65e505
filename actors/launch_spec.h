// What a launch is made of: the topology file after validation, as plain data.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fusion/layer_map.h"
#include "fusion/merge_plan.h"
#include "models/chat_format.h"
#include "models/load_options.h"
#include "models/sampler.h"

namespace suture {

enum class Role : uint8_t { kMaster, kSlave };
enum class FusionMode : uint8_t {
  kConcat,    // the slave's rows as they are, beside the master's own
  kProject,   // the same with rows mapped by a projector
  kTransfer,  // the slave's rows, mapped or as they are, in place of the master's own
  kText,      // no rows: the slave answers by itself, and the master reads its answer
  kAuto,      // kConcat, kProject or kText, by what fits; before a launch has been prepared
};
// Who maps a slave's rows by a projector: the slave's process, or the master's.
enum class ProjectorUse : uint8_t { kWriter, kReader };
// Whose norm weights a slave runs with.
enum class NormSource : uint8_t { kOwn, kMaster };
enum class OnFailure : uint8_t { kDegrade, kFail };
enum class Placement : uint8_t { kProcesses, kInProcess };

struct FusionSpec {
  FusionMode mode = FusionMode::kConcat;
  SlavePosition position = SlavePosition::kAligned;
  double gain = 0;                 // log-gain added to the slave's scores; -inf switches it off
  std::vector<double> layer_gain;  // [n_layers] per-layer log-gain instead of `gain`, or empty
  int64_t lag = 1;                 // aligned only
  LayerMapSpec layer_map;
  NormSource norm = NormSource::kOwn;
  std::filesystem::path projector;  // file; empty = none
  bool force = false;               // use it though it was fitted for other weights or not measured
  ProjectorUse apply = ProjectorUse::kWriter;
  int64_t sink = 4;     // kTransfer: first tokens that the master reads itself
  int64_t reread = 32;  // kTransfer: last tokens that it reads itself, >= 1
  int64_t draft = 0;    // most tokens that the slave goes on by itself; 0 = none

  static constexpr int64_t kHandOffTokens = 256;  // `draft` of kText, where nothing is said

  // Whether the slave's rows are mapped to the master's kind before the master attends to them.
  bool projects() const {
    return mode != FusionMode::kConcat && mode != FusionMode::kText && !projector.empty();
  }
  // The same, by the process that is named.
  bool projects_in(ProjectorUse process) const { return projects() && apply == process; }

  // No layer listens to the slave.
  bool is_silent() const {
    const auto off = [](double log_gain) { return std::isinf(log_gain); };  // +inf is refused
    return layer_gain.empty() ? off(gain) : std::ranges::all_of(layer_gain, off);
  }
};

struct ModelSpec {
  std::string name;  // unique in the launch
  Role role = Role::kMaster;
  std::string path_text;       // as the file says it: manifest name or path
  std::filesystem::path path;  // where the model lies; filled when models are resolved
  std::string device = "cpu";
  int threads = 1;
  std::optional<std::string> system;             // system prompt; nothing = the format's default
  std::vector<std::filesystem::path> documents;  // files this model reads, in this order
  bool documents_per_request = false;     // a prefix slave that may read nothing before a request
  std::string chat_format;                // a known name; empty = recognised from the model
  std::optional<ChatFormat> chat_pieces;  // the format itself, instead of a name
  std::optional<RopeScalingOverride> rope_scaling;   // in place of the file's
  int64_t rope_length = 0;                           // positions; 0 = the rope follows the text
  RopeCrossing rope_crossing = RopeCrossing::kKeep;  // the master's
  FusionSpec fusion;                                 // slaves only
  OnFailure on_failure = OnFailure::kDegrade;

  bool is_slave() const { return role == Role::kSlave; }
  bool is_slave_at(SlavePosition position) const {
    return is_slave() && fusion.position == position;
  }
  bool transfers() const { return is_slave() && fusion.mode == FusionMode::kTransfer; }
  bool hands_over() const { return is_slave() && fusion.mode == FusionMode::kText; }
  bool projects() const { return is_slave() && fusion.projects(); }
  bool projects_in(ProjectorUse process) const { return is_slave() && fusion.projects_in(process); }
  bool drafts() const { return is_slave() && fusion.draft > 0 && !fusion.is_silent(); }
  bool answers_in_words() const { return hands_over() && drafts(); }
  // Whatever its own vocabulary is.
  bool reads_masters_tokens() const {
    return !hands_over() && (is_slave_at(SlavePosition::kAligned) || projects());
  }
};

struct LaunchSpec {
  std::filesystem::path topology_path;
  std::vector<ModelSpec> models;  // exactly one master; file order
  Placement placement = Placement::kProcesses;
  int64_t max_seq_len = 8192;
  int32_t max_sequences = 4;
  int32_t max_queue = 16;  // requests beyond max_sequences that may wait
  SamplingOptions sampling;
  // Own tokens and segments together, beyond which a master goes on without its slaves.
  std::optional<int64_t> stitch_until;  // as the file says it
  int64_t max_tokens = 256;             // longest answer
  std::vector<std::string> stop;        // strings that end an answer
  int restarts = 5;  // starts of a process after crashes in a row, before it is given up
  // A process that shows no sign of life for so long is ended.
  std::chrono::milliseconds hung_after{30'000};
  bool warm_up = true;  // make at start what the first request would have to make

  static constexpr int64_t kDefaultStitchUntil = 24576;
  int64_t stitch_limit() const { return stitch_until.value_or(kDefaultStitchUntil); }
  size_t master_index() const {
    for (size_t i = 0; i < models.size(); ++i)
      if (models[i].role == Role::kMaster) return i;
    return 0;
  }
  const ModelSpec& master() const { return models[master_index()]; }
  // The longest sequence of this model: what it drafts comes beside a request's own tokens.
  int64_t longest_sequence(const ModelSpec& model) const {
    return max_seq_len + (model.is_slave() ? model.fusion.draft : 0);
  }
};

}  // namespace suture
