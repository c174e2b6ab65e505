#include "launcher/eval/judge.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "actors/hand_off.h"
#include "base/check.h"
#include "launcher/eval/answer_reading.h"
#include "launcher/eval/eval_prompt.h"

namespace suture {
namespace {

// What is scored begins a turn of its own, where no blank comes first.
std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string() : std::string(text.substr(begin));
}

// Texts of several tokens are compared per token: a long option is not worse for being long.
double likelihood(const ScoredContinuation& option, Metric metric) {
  if (metric == Metric::kOptionLetter || option.tokens.empty()) return option.logprob();
  return option.logprob() / static_cast<double>(option.tokens.size());
}

Result<Judgement> judge_choice(const Subject& subject, Metric metric, const ArmInput& input,
                               const AttentionQuery& attention) {
  const auto& item = std::get<ChoiceItem>(input.task);
  const ChoicePrompt prompt =
      metric == Metric::kOptionLetter ? choice_by_letter(item) : choice_by_text(item);
  ScoreOptions options{.text = with_context(input.context, prompt.text),
                       .continuations = {},
                       .slave_texts = input.slave_texts,
                       .attention = attention};
  for (const std::string& text : prompt.continuations)
    options.continuations.push_back(trimmed(text));
  SUTURE_ASSIGN_OR_RETURN(Scoring scoring, subject.score(options));
  size_t best = 0;
  for (size_t i = 1; i < scoring.continuations.size(); ++i)
    if (likelihood(scoring.continuations[i], metric) >
        likelihood(scoring.continuations[best], metric))
      best = i;
  return Judgement{.score = best == item.answer ? 1.0 : 0.0,
                   .answer = std::string(1, option_letter(best)),
                   .degraded = !scoring.degraded.empty(),
                   .seconds = scoring.seconds,
                   .attention = std::move(scoring.attention)};
}

Result<Judgement> judge_text(const Subject& subject, const ArmInput& input,
                             const AttentionQuery& attention) {
  const auto& item = std::get<TextItem>(input.task);
  SUTURE_ASSIGN_OR_RETURN(
      Scoring scoring,
      subject.score({.text = with_context(input.context, question_text(input.task)),
                     .continuations = {trimmed(item.rest)},
                     .slave_texts = input.slave_texts,
                     .attention = attention}));
  return Judgement{.score = likelihood(scoring.continuations.front(), Metric::kLikelihood),
                   .answer = {},
                   .degraded = !scoring.degraded.empty(),
                   .seconds = scoring.seconds,
                   .attention = std::move(scoring.attention)};
}

double share_of_facts(const MultidocItem& item, std::string_view answer) {
  const auto held = std::ranges::count_if(
      item.expect, [&](const ExpectedFact& fact) { return holds_fact(answer, fact); });
  return static_cast<double>(held) / static_cast<double>(item.expect.size());
}

Result<double> score_of(const EvalTask& task, std::string_view answer,
                        const PythonSandbox* sandbox) {
  if (const auto* item = std::get_if<NumberItem>(&task))
    return last_number(answer) == item->number ? 1.0 : 0.0;
  if (const auto* item = std::get_if<MultidocItem>(&task)) return share_of_facts(*item, answer);
  SUTURE_CHECK(sandbox != nullptr, "programs are judged in a sandbox");
  SUTURE_ASSIGN_OR_RETURN(const SandboxResult result,
                          sandbox->run(code_program(std::get<CodeItem>(task), answer)));
  return result.verdict == SandboxVerdict::kPassed ? 1.0 : 0.0;
}

}  // namespace

std::string_view metric_name(Metric metric) {
  switch (metric) {
    case Metric::kOptionText: return "option text";
    case Metric::kOptionLetter: return "option letter";
    case Metric::kNumber: return "last number";
    case Metric::kProgram: return "pass@1";
    case Metric::kFacts: return "facts";
    case Metric::kLikelihood: return "ln p a token";
  }
  return "unknown";
}

int64_t default_answer_tokens(Metric metric) {
  constexpr int64_t kLong = 512;  // a problem worked out step by step, a program
  constexpr int64_t kBrief = 96;
  return metric == Metric::kNumber || metric == Metric::kProgram ? kLong : kBrief;
}

Result<Judgement> judge(const Subject& subject, Metric metric, const ArmInput& input,
                        const JudgeOptions& options) {
  if (metric == Metric::kOptionText || metric == Metric::kOptionLetter)
    return judge_choice(subject, metric, input, options.ask.attention);
  if (metric == Metric::kLikelihood) return judge_text(subject, input, options.ask.attention);
  AskOptions ask = options.ask;
  ask.text = with_context(input.context, question_text(input.task));
  ask.slave_texts = input.slave_texts;
  SUTURE_ASSIGN_OR_RETURN(Answer answer, subject.ask(ask));
  if (ended_early(answer.reason))
    return fail(ErrorCode::kCancelled, "the answer was interrupted", "eval");
  SUTURE_ASSIGN_OR_RETURN(const double score, score_of(input.task, answer.text, options.sandbox));
  return Judgement{.score = score,
                   .answer = std::move(answer.text),
                   .degraded = !answer.degraded.empty(),
                   .cut_short = answer.reason == FinishReason::kLength,
                   .seconds = answer.seconds - answer.waited_seconds,
                   .attention = std::move(answer.attention)};
}

}  // namespace suture
