#include "launcher/eval/arm_input.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "actors/hand_off.h"
#include "launcher/eval/eval_prompt.h"

namespace suture {
namespace {

EvalTask without_context(EvalTask task) {
  if (auto* choice = std::get_if<ChoiceItem>(&task)) choice->passage.clear();
  if (auto* multidoc = std::get_if<MultidocItem>(&task)) multidoc->documents.clear();
  return task;
}

std::vector<std::string> documents_of(const EvalTask& task) {
  if (const auto* multidoc = std::get_if<MultidocItem>(&task)) return multidoc->documents;
  const std::string context = context_text(task);
  return {context.empty() ? question_text(task) : context};
}

bool has_aligned_slaves(const LaunchSpec& topology) {
  return std::ranges::any_of(topology.models, [](const ModelSpec& model) {
    return model.is_slave_at(SlavePosition::kAligned);
  });
}

// What a master reads itself: all of it where no slave reads it in its place.
std::string own_context(const LaunchSpec& topology, const EvalTask& task) {
  return has_prefix_slaves(topology) ? std::string() : context_text(task);
}

}  // namespace

std::vector<SlaveDocuments> deal_documents(const LaunchSpec& topology, const EvalTask& task) {
  std::vector<SlaveDocuments> dealt;
  for (const ModelSpec& model : topology.models)
    if (model.is_slave_at(SlavePosition::kPrefix)) dealt.push_back({model.name, {}});
  if (dealt.empty()) return dealt;
  std::vector<std::string> documents = documents_of(task);
  for (size_t i = 0; i < documents.size(); ++i)
    dealt[i % dealt.size()].texts.push_back(std::move(documents[i]));
  std::erase_if(dealt, [](const SlaveDocuments& slave) { return slave.texts.empty(); });
  return dealt;
}

ArmInput arm_input(const LaunchSpec& topology, const Arm& arm, const EvalTask& task,
                   const EvalTask& other, const std::vector<std::string>& answers) {
  ArmInput input{own_context(topology, task), without_context(task), {}};
  switch (arm.kind) {
    case ArmKind::kMasterAlone: break;
    case ArmKind::kReadsAll:
    case ArmKind::kSlaveAlone: input.context = context_text(task); break;
    case ArmKind::kHandOff:
      input.context = with_context(input.context, handed_over(answers));
      break;
    case ArmKind::kStitched: input.slave_texts.documents = deal_documents(topology, task); break;
    case ArmKind::kShuffled:
      input.slave_texts.documents = deal_documents(topology, other);
      if (has_aligned_slaves(topology))
        input.slave_texts.aligned_text =
            with_context(own_context(topology, other), question_text(other));
      break;
  }
  return input;
}

}  // namespace suture
