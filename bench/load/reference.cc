#include "bench/load/reference.h"

#include <fmt/format.h>

#include <algorithm>

namespace suture {
namespace {

std::string fault_of_error(const LoadOutcome& outcome) {
  const Error& error = *outcome.error;
  if (error.code == ErrorCode::kBusy && error.retry_after_seconds > 0) return {};
  const bool late = error.code == ErrorCode::kTimeout && error.where == "launch";
  if (late && outcome.interference.whim == Whim::kDeadline) return {};
  return fmt::format("an error that nobody asked for: {}", error.message());
}

int64_t reused_by_master(const Answer& answer) {
  for (const ProcessFigures& process : answer.figures)
    if (process.role == "master") return process.reused_tokens;
  return 0;
}

bool is_beginning(const std::vector<int32_t>& part, const std::vector<int32_t>& whole) {
  return part.size() <= whole.size() &&
         std::ranges::equal(part, std::span(whole).first(part.size()));
}

std::string fault_of_ending(FinishReason reason, Whim whim, FinishReason alone) {
  if (reason == alone) return {};
  if (reason == FinishReason::kCancelled && whim == Whim::kCancel) return {};
  if (reason == FinishReason::kDeadline && whim == Whim::kDeadline) return {};
  return fmt::format("ended as '{}', alone as '{}'", finish_reason_name(reason),
                     finish_reason_name(alone));
}

std::string fault_of_reading(const Answer& answer, const Answer& alone) {
  if (answer.prompt_tokens == alone.prompt_tokens) return {};
  return fmt::format("{} tokens were read, alone {}", answer.prompt_tokens, alone.prompt_tokens);
}

}  // namespace

Result<std::vector<Reference>> take_references(const std::string& launch,
                                               const std::vector<LoadScript>& scripts) {
  std::vector<Reference> references;
  for (const LoadScript& script : scripts) {
    SUTURE_ASSIGN_OR_RETURN(LoadConnection connection, LoadConnection::open(launch));
    if (script.conversation) SUTURE_RETURN_IF_ERROR(connection.begin_conversation());
    Reference& reference = references.emplace_back();
    for (const AskOptions& turn : script.turns) {
      LoadOutcome outcome = connection.ask(turn, {});
      if (!outcome.answer) return tl::unexpected<Error>(std::move(*outcome.error));
      reference.push_back(std::move(*outcome.answer));
    }
  }
  return references;
}

bool read_again(const LoadOutcome& outcome, const Answer& alone) {
  return outcome.answer && !outcome.answer->figures.empty() &&
         reused_by_master(*outcome.answer) < reused_by_master(alone);
}

std::string fault_of(const LoadOutcome& outcome, const Answer& alone) {
  if (outcome.error) return fault_of_error(outcome);
  if (!alone.text.starts_with(outcome.text))
    return fmt::format("'{}' was shown, alone '{}'", outcome.text, alone.text);
  if (!outcome.answer) return {};
  const Answer& answer = *outcome.answer;
  if (std::string fault = fault_of_ending(answer.reason, outcome.interference.whim, alone.reason);
      !fault.empty())
    return fault;
  if (answer.text != outcome.text)
    return fmt::format("the answer is '{}', shown was '{}'", answer.text, outcome.text);
  if (!answer.degraded.empty())
    return fmt::format("went on without '{}': {}", answer.degraded.front().slave,
                       answer.degraded.front().why);
  const bool whole = !ended_early(answer.reason);
  const bool same =
      whole ? answer.token_ids == alone.token_ids : is_beginning(answer.token_ids, alone.token_ids);
  if (!same)
    return fmt::format("tokens [{}], alone [{}]", fmt::join(answer.token_ids, " "),
                       fmt::join(alone.token_ids, " "));
  return whole ? fault_of_reading(answer, alone) : std::string();
}

bool refused(const LoadOutcome& outcome) {
  return outcome.error && outcome.error->code == ErrorCode::kBusy &&
         outcome.error->retry_after_seconds > 0;
}

}  // namespace suture
