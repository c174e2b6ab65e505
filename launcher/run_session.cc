#include "launcher/run_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "launcher/answer_json.h"
#include "launcher/answer_table.h"
#include "launcher/attention_table.h"
#include "launcher/system_info.h"

namespace suture {
namespace {

void print_after(const AnsweredQuestion& done) {
  fmt::print("\n");
  for (const std::string& note : answer_notes(done.answer)) fmt::print("  [{}]\n", note);
  if (!done.item.expect.empty()) {
    std::string facts;
    for (const ExpectedFact& fact : done.item.expect)
      facts += fmt::format("{}{} {}", facts.empty() ? "" : ", ", fact.spellings.front(),
                           holds_fact(done.answer.text, fact) ? "found" : "MISSING");
    fmt::print("  [expected facts: {}]\n", facts);
  }
  if (!done.answer.attention.empty()) fmt::print("\n{}", attention_table(done.answer.attention));
  std::fflush(stdout);
}

Result<AnsweredQuestion> ask_one(const Asker& asker, const SessionOptions& options,
                                 const QuestionItem& item, const std::atomic<bool>& cancelled) {
  const auto on_text = [&](std::string_view text) {
    if (!options.print) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  AskOptions ask = options.ask;
  ask.text = item.question;
  SUTURE_ASSIGN_OR_RETURN(Answer answer, asker(ask, on_text, cancelled));
  AnsweredQuestion done{item, std::move(answer), 0};
  done.facts_held = std::ranges::count_if(
      item.expect, [&](const ExpectedFact& fact) { return holds_fact(done.answer.text, fact); });
  return done;
}

}  // namespace

Result<SessionResult> run_session(const Asker& asker, const SessionOptions& options,
                                  const std::atomic<bool>& cancelled) {
  SessionResult result;
  const bool many = options.items.size() > 1;
  for (size_t i = 0; i < options.items.size(); ++i) {
    const QuestionItem& item = options.items[i];
    if (options.print && many)
      fmt::print("\n{}/{} {}\n", i + 1, options.items.size(), item.question);
    std::fflush(stdout);
    SUTURE_ASSIGN_OR_RETURN(AnsweredQuestion done, ask_one(asker, options, item, cancelled));
    if (options.print) print_after(done);
    add_figures(done.answer.figures, result.processes);
    result.seconds += done.answer.seconds;
    result.facts_held += done.facts_held;
    result.facts_expected += std::ssize(item.expect);
    const bool interrupted = done.answer.reason == FinishReason::kCancelled;
    result.questions.push_back(std::move(done));
    if (interrupted) return fail(ErrorCode::kCancelled, "interrupted", "run");
  }
  return result;
}

nlohmann::json to_json(const SessionResult& result) {
  nlohmann::json json = {{"answers", nlohmann::json::array()},
                         {"processes", nlohmann::json::array()},
                         {"seconds", result.seconds},
                         {"facts_held", result.facts_held},
                         {"facts_expected", result.facts_expected}};
  for (const AnsweredQuestion& done : result.questions) {
    nlohmann::json answer = to_json(done.answer);
    answer["question"] = done.item.question;
    answer["facts"] = nlohmann::json::array();
    for (const ExpectedFact& fact : done.item.expect)
      answer["facts"].push_back(
          {{"fact", fact.spellings.front()}, {"held", holds_fact(done.answer.text, fact)}});
    json["answers"].push_back(std::move(answer));
  }
  for (const ProcessFigures& figures : result.processes)
    json["processes"].push_back(to_json(figures));
  return json;
}

Result<LaunchSpec> one_process_spec(const LaunchSpec& spec) {
  LaunchSpec alone = spec;
  ModelSpec master = spec.master();
  int threads = 0;
  for (const ModelSpec& model : spec.models) {
    threads += model.threads;
    if (model.role == Role::kMaster) continue;
    if (model.system)
      return fail(ErrorCode::kInvalidArgument,
                  "the slave has a system prompt of its own, which one process cannot read as well",
                  model.name, "leave out --compare");
    if (model.fusion.position == SlavePosition::kPrefix)
      master.documents.insert(master.documents.end(), model.documents.begin(),
                              model.documents.end());
  }
  master.name = "one";
  master.threads = std::clamp(threads, 1, allowed_cores());
  alone.models = {std::move(master)};
  return alone;
}

}  // namespace suture
