#include "launcher/run_session.h"

#include <gtest/gtest.h>

#include "launcher/answer_json.h"

namespace suture {
namespace {

Asker echo(int* asked) {
  return [asked](const AskOptions& options, const auto& on_text,
                 const std::atomic<bool>& cancelled) -> Result<Answer> {
    ++*asked;
    Answer answer;
    answer.text = "About " + options.text;
    answer.reason = cancelled ? FinishReason::kCancelled : FinishReason::kStop;
    answer.seconds = 2;
    answer.figures = {{.name = "m", .role = "master", .prompt_tokens = 10, .resident_bytes = 5}};
    on_text(answer.text);
    return answer;
  };
}

SessionOptions two_questions() {
  SessionOptions options;
  options.print = false;
  options.items = {{"Lagos", {ExpectedFact{{"lagos"}}, ExpectedFact{{"Accra"}}}}, {"Rome", {}}};
  return options;
}

TEST(RunSessionTest, AddsUpFactsAndFigures) {
  int asked = 0;
  const auto result = run_session(echo(&asked), two_questions(), false);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(result->facts_held, 1);
  EXPECT_EQ(result->facts_expected, 2);
  EXPECT_DOUBLE_EQ(result->seconds, 4);
  ASSERT_EQ(result->processes.size(), 1u);
  EXPECT_EQ(result->processes[0].prompt_tokens, 20);
  EXPECT_EQ(result->processes[0].resident_bytes, 5);
  const auto json = to_json(*result);
  EXPECT_EQ(json["answers"][0]["facts"][1]["held"], false);
  EXPECT_EQ(json["answers"][1]["question"], "Rome");
}

TEST(RunSessionTest, StopsWhenInterrupted) {
  int asked = 0;
  const auto result = run_session(echo(&asked), two_questions(), true);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(asked, 1);
}

TEST(RunSessionTest, OneProcessReadsWhatAllRead) {
  LaunchSpec spec;
  spec.models.resize(3);
  spec.models[0] = {.name = "m", .role = Role::kMaster, .documents = {"a"}};
  spec.models[1] = {.name = "x", .role = Role::kSlave, .documents = {"b", "c"}};
  spec.models[1].fusion.position = SlavePosition::kPrefix;
  spec.models[2] = {.name = "y", .role = Role::kSlave};
  const auto alone = one_process_spec(spec);
  ASSERT_TRUE(alone.has_value());
  ASSERT_EQ(alone->models.size(), 1u);
  EXPECT_EQ(alone->models[0].documents.size(), 3u);
  EXPECT_EQ(alone->models[0].role, Role::kMaster);

  spec.models[1].system = "You are a poet.";
  EXPECT_FALSE(one_process_spec(spec).has_value());
}

}  // namespace
}  // namespace suture
