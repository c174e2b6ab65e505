#include "launcher/eval/run_eval.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "actors/hand_off.h"
#include "actors/trace_log.h"
#include "launcher/eval/arm_input.h"
#include "launcher/eval/eval_prompt.h"
#include "models/sampler.h"

namespace suture {
namespace {

std::vector<Metric> metrics_of(const EvalSet& set, const EvalOptions& options) {
  const EvalTask& task = set.items.front().task;
  if (std::holds_alternative<ChoiceItem>(task)) return options.choice;
  if (std::holds_alternative<NumberItem>(task)) return {Metric::kNumber};
  if (std::holds_alternative<CodeItem>(task)) return {Metric::kProgram};
  if (std::holds_alternative<TextItem>(task)) return {Metric::kLikelihood};
  return {Metric::kFacts};
}

// Something that one launch does for all items of all sets.
struct Step {
  std::string name;
  std::optional<size_t> arm;       // index in EvalOptions::arms
  std::optional<size_t> answerer;  // or the slave that answers for a hand-off
};

struct Stage {
  LaunchSpec spec;
  std::vector<Step> steps;
};

bool is_stitched(const Arm& arm) {
  return arm.kind == ArmKind::kStitched || arm.kind == ArmKind::kShuffled;
}

// The steps of a launch come together, and what everything else is compared with comes first.
class Plan {
 public:
  Plan(const LaunchSpec& topology, const EvalOptions& options)
      : topology_(topology), options_(options) {
    add({ArmKind::kMasterAlone, ArmKind::kReadsAll});
    add({ArmKind::kStitched, ArmKind::kShuffled});
    const bool hand_off = std::ranges::any_of(
        options.arms, [](const Arm& arm) { return arm.kind == ArmKind::kHandOff; });
    for (const size_t slave : distinct_slaves(topology)) {
      add({ArmKind::kSlaveAlone}, slave);
      if (hand_off)
        stage_for(alone_spec(topology, slave), fmt::format("slave {}", slave))
            .steps.push_back({"answers of " + topology.models[slave].name, {}, slave});
    }
    add({ArmKind::kHandOff});
  }

  const std::vector<Stage>& stages() const { return stages_; }

 private:
  void add(const std::vector<ArmKind>& kinds, std::optional<size_t> slave = std::nullopt) {
    for (size_t i = 0; i < options_.arms.size(); ++i) {
      const Arm& arm = options_.arms[i];
      if (std::ranges::find(kinds, arm.kind) == kinds.end()) continue;
      if (slave && arm.slave != *slave) continue;
      std::string key(arm.kind == ArmKind::kHandOff ? "hand-off" : "alone");
      if (slave) key = fmt::format("slave {}", *slave);
      if (is_stitched(arm)) key = fmt::format("gain {}", arm.gain ? fmt::to_string(*arm.gain) : "");
      stage_for(arm_spec(topology_, arm), key).steps.push_back({arm_name(arm, topology_), i, {}});
    }
  }

  Stage& stage_for(const LaunchSpec& spec, const std::string& key) {
    const auto known = std::ranges::find(keys_, key);
    if (known != keys_.end()) return stages_[static_cast<size_t>(known - keys_.begin())];
    keys_.push_back(key);
    return stages_.emplace_back(Stage{spec, {}});
  }

  const LaunchSpec& topology_;
  const EvalOptions& options_;
  std::vector<std::string> keys_;
  std::vector<Stage> stages_;
};

class EvalRun {
 public:
  EvalRun(const LaunchSpec& topology, const std::vector<EvalSet>& sets, const EvalOptions& options,
          const EvalSurroundings& surroundings, const std::atomic<bool>& cancelled)
      : topology_(topology),
        sets_(sets),
        options_(options),
        surroundings_(surroundings),
        cancelled_(cancelled) {}

  EvalResult run();

 private:
  struct Task {
    size_t set = 0;
    size_t result = 0;  // index in EvalResult::tasks
  };

  void lay_out();
  int64_t count_steps(const Plan& plan) const;
  Status run_stage(const Stage& stage);
  Status run_arm(const Subject& subject, const Step& step, size_t task);
  Status run_answers(const Subject& subject, const Step& step, size_t set);
  // Does `work` for so many items, several at a time, until one fails.
  Status for_each(const std::string& name, size_t count, const std::function<Status(size_t)>& work);
  Result<Judgement> judge_item(const Subject& subject, const Arm& arm, size_t task, size_t index);
  Result<std::string> answer_of(const Subject& subject, size_t slave, size_t set, size_t index);
  std::vector<std::string> handed_answers(size_t set, size_t index) const;
  int64_t answer_tokens(Metric metric) const {
    return options_.max_tokens > 0 ? options_.max_tokens : default_answer_tokens(metric);
  }
  const EvalTask& item(size_t set, size_t index) const {
    return sets_[set].items[samples_[set].items[index]].task;
  }
  const EvalTask& other_item(size_t set, size_t index) const {
    return sets_[set].items[samples_[set].others[index]].task;
  }

  const LaunchSpec& topology_;
  const std::vector<EvalSet>& sets_;
  const EvalOptions& options_;
  const EvalSurroundings& surroundings_;
  const std::atomic<bool>& cancelled_;

  std::vector<Sample> samples_;  // [sets]
  std::vector<size_t> set_of_;   // [tasks] index in sets_
  // [sets][items] what each slave said, by its index in the topology.
  std::vector<std::vector<std::map<size_t, std::string>>> answers_;
  std::mutex mutex_;  // guards what follows while items run side by side
  EvalResult result_;
  int64_t done_ = 0;
  int64_t total_ = 0;
};

void EvalRun::lay_out() {
  for (size_t s = 0; s < sets_.size(); ++s) {
    const EvalSet& set = sets_[s];
    samples_.push_back(draw_sample(set.items.size(), options_.limit, options_.seed));
    answers_.emplace_back(samples_[s].items.size());
    for (const Metric metric : metrics_of(set, options_)) {
      TaskResult& task = result_.tasks.emplace_back(TaskResult{set.name, metric, {}, {}});
      for (const size_t index : samples_[s].items) task.ids.push_back(set.items[index].id);
      for (const Arm& arm : options_.arms)
        task.arms.push_back({.arm = arm,
                             .judged = std::vector<std::optional<Judgement>>(task.ids.size()),
                             .why_refused = {}});
      set_of_.push_back(s);
    }
  }
}

int64_t EvalRun::count_steps(const Plan& plan) const {
  int64_t steps = 0;
  for (const Stage& stage : plan.stages())
    for (const Step& step : stage.steps) {
      if (step.arm)
        for (const TaskResult& task : result_.tasks) steps += std::ssize(task.ids);
      else
        for (const Sample& sample : samples_) steps += std::ssize(sample.items);
    }
  return steps;
}

EvalResult EvalRun::run() {
  const int64_t begun_ns = monotonic_ns();
  lay_out();
  const Plan plan(topology_, options_);
  total_ = count_steps(plan);
  for (const Stage& stage : plan.stages())
    if (const Status status = run_stage(stage); !status) {
      result_.ended_by = status.error();
      break;
    }
  result_.seconds = seconds_since(begun_ns);
  return std::move(result_);
}

Status EvalRun::run_stage(const Stage& stage) {
  if (cancelled_.load()) return fail(ErrorCode::kCancelled, "interrupted", "eval");
  SUTURE_ASSIGN_OR_RETURN(const StartedSubject started, surroundings_.start(stage.spec));
  for (const Step& step : stage.steps) {
    if (step.arm)
      for (size_t task = 0; task < set_of_.size(); ++task)
        SUTURE_RETURN_IF_ERROR(run_arm(started.subject, step, task));
    else
      for (size_t set = 0; set < sets_.size(); ++set)
        SUTURE_RETURN_IF_ERROR(run_answers(started.subject, step, set));
  }
  return {};
}

Status EvalRun::run_arm(const Subject& subject, const Step& step, size_t task) {
  ArmResult& arm = result_.tasks[task].arms[*step.arm];
  return for_each(step.name, arm.judged.size(), [&](size_t index) -> Status {
    auto judged = judge_item(subject, arm.arm, task, index);
    const std::lock_guard lock(mutex_);
    if (judged) {
      arm.judged[index] = std::move(*judged);
      return {};
    }
    if (judged.error().code != ErrorCode::kInvalidArgument) return tl::unexpected(judged.error());
    if (arm.refused++ == 0) arm.why_refused = judged.error().message();
    return {};
  });
}

Status EvalRun::run_answers(const Subject& subject, const Step& step, size_t set) {
  return for_each(step.name, samples_[set].items.size(), [&](size_t index) -> Status {
    for (size_t slave = 0; slave < topology_.models.size(); ++slave) {
      const ModelSpec& model = topology_.models[slave];
      if (!model.is_slave() || !answer_alike(model, topology_.models[*step.answerer])) continue;
      auto answer = answer_of(subject, slave, set, index);
      if (!answer && answer.error().code != ErrorCode::kInvalidArgument)
        return tl::unexpected(answer.error());
      const std::lock_guard lock(mutex_);
      if (answer) answers_[set][index][slave] = std::move(*answer);
    }
    return {};
  });
}

Status EvalRun::for_each(const std::string& name, size_t count,
                         const std::function<Status(size_t)>& work) {
  std::atomic<size_t> next = 0;
  Status failed;
  const auto take = [&] {
    for (size_t index = next++; index < count && !cancelled_.load(); index = next++) {
      const Status status = work(index);
      const std::lock_guard lock(mutex_);
      if (!status) {
        if (failed) failed = status;
        next = count;
        return;
      }
      surroundings_.on_progress(name, ++done_, total_);
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int64_t i = 1; i < options_.side_by_side; ++i) workers.emplace_back(take);
    take();
  }
  if (failed && cancelled_.load()) return fail(ErrorCode::kCancelled, "interrupted", "eval");
  return failed;
}

Result<Judgement> EvalRun::judge_item(const Subject& subject, const Arm& arm, size_t task,
                                      size_t index) {
  const size_t set = set_of_[task];
  const Metric metric = result_.tasks[task].metric;
  JudgeOptions options{.ask = {}, .sandbox = surroundings_.sandbox};
  options.ask.max_tokens = answer_tokens(metric);
  options.ask.attention = options_.attention;
  const ArmInput input = arm_input(topology_, arm, item(set, index), other_item(set, index),
                                   handed_answers(set, index));
  return judge(subject, metric, input, options);
}

// What the slave says to the question when it has read its part, or all there is.
Result<std::string> EvalRun::answer_of(const Subject& subject, size_t slave, size_t set,
                                       size_t index) {
  const EvalTask& task = item(set, index);
  std::string context = context_text(task);
  for (const SlaveDocuments& dealt : deal_documents(topology_, task))
    if (dealt.slave == topology_.models[slave].name && !context.empty())
      context = fmt::format("{}", fmt::join(dealt.texts, "\n\n"));
  AskOptions ask;
  ask.text = with_context(context, question_text(task));
  ask.max_tokens = answer_tokens(metrics_of(sets_[set], options_).front());
  SUTURE_ASSIGN_OR_RETURN(Answer answer, subject.ask(ask));
  if (ended_early(answer.reason))
    return fail(ErrorCode::kCancelled, "the answer was interrupted", "eval");
  return std::move(answer.text);
}

std::vector<std::string> EvalRun::handed_answers(size_t set, size_t index) const {
  std::vector<std::string> texts;
  for (const auto& [slave, text] : answers_[set][index]) texts.push_back(text);
  return texts;
}

}  // namespace

// The same for every arm: each item is compared with itself.
Sample draw_sample(size_t size, int64_t limit, uint64_t seed) {
  std::vector<size_t> order(size);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = size; i > 1; --i)
    std::swap(order[i - 1],
              order[static_cast<size_t>(counter_uniform(seed, i) * static_cast<double>(i))]);
  const size_t taken = limit > 0 ? std::min(size, static_cast<size_t>(limit)) : size;
  std::vector<std::pair<size_t, size_t>> drawn;
  for (size_t i = 0; i < taken; ++i) drawn.emplace_back(order[i], order[(i + 1) % size]);
  std::ranges::sort(drawn);
  Sample sample;
  for (const auto& [item, other] : drawn) {
    sample.items.push_back(item);
    sample.others.push_back(other);
  }
  return sample;
}

EvalResult run_eval(const LaunchSpec& topology, const std::vector<EvalSet>& sets,
                    const EvalOptions& options, const EvalSurroundings& surroundings,
                    const std::atomic<bool>& cancelled) {
  return EvalRun(topology, sets, options, surroundings, cancelled).run();
}

}  // namespace suture
