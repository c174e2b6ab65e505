// What the processes of an arm read of an item.
#pragma once

#include <string>
#include <vector>

#include "actors/launch.h"
#include "launcher/eval/arms.h"
#include "launcher/eval/eval_set.h"

namespace suture {

struct ArmInput {
  // What the master reads itself, before the question of `task`; may be empty.
  std::string context;
  EvalTask task;  // without passage and documents
  SlaveTexts slave_texts;
};

// Documents of the item for each prefix slave of the topology, dealt out one after another; the
// question where the item has none. Slaves that get nothing are left out.
std::vector<SlaveDocuments> deal_documents(const LaunchSpec& topology, const EvalTask& task);

// `other` is the item whose message the slaves bring in kShuffled; `answers` are what the slaves
// said, for kHandOff.
ArmInput arm_input(const LaunchSpec& topology, const Arm& arm, const EvalTask& task,
                   const EvalTask& other, const std::vector<std::string>& answers);

}  // namespace suture
