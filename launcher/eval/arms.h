// The arms of an evaluation: what is compared with what. Each is a launch that follows from the
// given topology, and a rule for what its processes read of an item.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/launch_spec.h"
#include "base/error.h"
#include "launcher/eval/eval_set.h"

namespace suture {

enum class ArmKind : uint8_t {
  kMasterAlone,  // the master, which reads what it reads in the topology
  kReadsAll,     // the master, which reads what the slaves read as well
  kSlaveAlone,   // a slave in the master's place, which reads everything
  kHandOff,      // the master, told what each slave answers to the question
  kStitched,     // the topology
  kShuffled,     // the topology, whose slaves read another item
};

struct Arm {
  ArmKind kind = ArmKind::kMasterAlone;
  std::optional<double> gain = {};  // of all slaves; nothing = the topology's
  size_t slave = 0;                 // kSlaveAlone: index in the topology

  bool operator==(const Arm&) const = default;
};

// "alone", "read-all", "slave", "hand-off", "stitched", "shuffled".
std::string_view arm_kind_name(ArmKind kind);
// kInvalidArgument lists the names; "all" stands for all.
Result<std::vector<ArmKind>> parse_arms(const std::vector<std::string>& names);
// "stitched, gain -2".
std::string arm_name(const Arm& arm, const LaunchSpec& topology);

// Those of the kinds that the topology has, for each gain; none twice.
std::vector<Arm> arms_of(const LaunchSpec& topology, const std::vector<ArmKind>& kinds,
                         const std::vector<double>& gains);

// Whether the topology has slaves that read other text than the master.
bool has_prefix_slaves(const LaunchSpec& topology);
// The models of a launch that is one model of the topology by itself.
LaunchSpec alone_spec(const LaunchSpec& topology, size_t model);
// The launch of an arm. The documents of its prefix slaves come with each item.
LaunchSpec arm_spec(const LaunchSpec& topology, const Arm& arm);
// By themselves they give the same answers.
bool answer_alike(const ModelSpec& a, const ModelSpec& b);
// One slave of those that answer alike: whoever answers for them in a hand-off.
std::vector<size_t> distinct_slaves(const LaunchSpec& topology);

}  // namespace suture
