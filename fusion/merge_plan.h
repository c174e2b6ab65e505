// Where every sequence lies in the master's frame of positions (design §4), as plain numbers:
// computed by the coordinator before any stream exists, turned into segments by the master.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/forward.h"

namespace suture {

enum class SlavePosition : uint8_t {
  kPrefix,   // the slave read other text, placed before the master's last run
  kAligned,  // the slave reads the master's own text
};

// One slave as the plan sees it.
struct MergeSource {
  std::string name;
  SlavePosition position = SlavePosition::kAligned;
  std::vector<int32_t> token_ids = {};  // what it reads; kPrefix only
  int64_t shared_tokens = 0;            // of token_ids, that stand at the head's beginning too
  std::vector<float> layer_gain;  // [n_layers] log-gain; -inf: this layer does not see the slave
  int64_t lag = 1;                // kAligned only, >= 0
  // Mode "transfer": the slave has read the master's text, of which the master's head is the
  // beginning and its tail what follows this token; the slave's entries stand for those in between.
  // 0 = any other mode.
  int64_t transfer_end = 0;
  // Entries [draft_begin, draft_end) of its stream are a draft: what a slave said by itself after
  // it had read the prompt. Such a source has nothing else. 0 = it is none.
  int64_t draft_begin = 0;
  int64_t draft_end = 0;

  bool is_draft() const { return draft_end > 0; }
};

struct MergeInput {
  // The master's tokens before and after the place where prefixes are laid.
  std::vector<int32_t> head_ids;
  std::vector<int32_t> tail_ids;
  // Before the last so many of tail_ids drafts are laid; those tokens open the answer.
  int64_t opening_tokens = 1;
  int64_t max_new_tokens = 0;
  int64_t max_positions = 0;         // of the master
  int32_t n_layers = 0;              // of the master
  int64_t stitch_until = INT64_MAX;  // most tokens that a row may see, its own and its slaves'
  std::vector<MergeSource> sources;  // prefixes are laid in this order
};

// Entries [begin, end) of one source's stream; of an aligned source the end grows with the text.
struct PlannedSegment {
  int32_t source = 0;                               // index into MergeInput::sources
  SlavePosition position = SlavePosition::kPrefix;  // merged before the last own run, or after it
  int64_t begin = 0;
  int64_t end = 0;              // kOpenEnd: as far as the stream has grown
  int64_t position_offset = 0;  // entry i sits at position i + position_offset
  int64_t rotation_shift = 0;   // see ForeignSegment
  int64_t lag = 0;              // entry at position j is visible from position j + lag on

  static constexpr int64_t kOpenEnd = INT64_MAX;
};

struct MergePlan {
  std::vector<OwnRun> own;
  std::vector<PlannedSegment> segments;
  int64_t first_new_position = 0;  // position of the first generated token
  // Rows from this position on do without slaves: with them they would see too many tokens.
  int64_t stitch_end = INT64_MAX;
};

// Prefixes follow the head one after another; each drops the leading tokens that it shares with
// the head (the master keeps its own copy as the attention sink) and always its first token, since
// a second sink in the middle of a sequence breaks attention. The tail follows the last prefix.
// A transferred text fills the place between head and tail, at the positions that it has itself.
// Drafts lie one after another between the text that was read and the opening of the answer.
// kInvalidArgument when the positions do not fit the master, with the numbers.
Result<MergePlan> plan_merge(const MergeInput& input);

// Number of entries of `segment` that rows up to position `last_position` may see.
int64_t visible_end(const PlannedSegment& segment, int64_t last_position);

// Length of the common beginning of two token sequences.
int64_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b);

}  // namespace suture
