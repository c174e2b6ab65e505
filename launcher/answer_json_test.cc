#include "launcher/answer_json.h"

#include <gtest/gtest.h>

#include "launcher/command.h"

namespace suture {
namespace {

Answer sample() {
  Answer answer;
  answer.text = "1911, 苏州";
  answer.token_ids = {1, 2, 3};
  answer.reason = FinishReason::kLength;
  answer.prompt_tokens = 40;
  answer.waited_seconds = 0.25;
  answer.first_token_seconds = 0.5;
  answer.seconds = 1.5;
  answer.figures = {{.name = "master",
                     .role = "master",
                     .prompt_tokens = 40,
                     .projection_seconds = 0.125,
                     .decoded_tokens = 3}};
  answer.degraded = {{"doc", 2, "process exited"}};
  answer.replayed = {{3, "process exited"}};
  answer.forced = {"projector of 's': no evidence"};
  answer.spans = {{"master", "decode", 10, 20}};
  answer.drafts = {{"doc", {8, 9}, "in 苏州", 0.75}, {"aide", {7}, "27", 0.5, true}};
  return answer;
}

TEST(AnswerJsonTest, AnswersComeBackAsTheyWere) {
  const auto json = nlohmann::json::parse(to_json(sample()).dump());
  const auto back = answer_from_json(json);
  ASSERT_TRUE(back.has_value()) << back.error().message();
  EXPECT_EQ(to_json(*back), to_json(sample()));
  EXPECT_EQ(back->text, "1911, 苏州");
  EXPECT_EQ(back->reason, FinishReason::kLength);
  EXPECT_EQ(back->degraded[0].token, 2);
  EXPECT_EQ(back->waited_seconds, 0.25);
  EXPECT_EQ(back->figures.at(0).projection_seconds, 0.125);
  EXPECT_EQ(back->forced, sample().forced);
  EXPECT_EQ(back->replayed.at(0).token, 3);
  ASSERT_EQ(back->drafts.size(), 2u);
  EXPECT_FALSE(back->drafts[0].handed_over);
  EXPECT_TRUE(back->drafts[1].handed_over);
  EXPECT_EQ(back->drafts[0].token_ids, (std::vector<int32_t>{8, 9}));
  EXPECT_EQ(json.at("drafts").at(0).at("text"), "in 苏州");
  EXPECT_EQ(json.at("drafts").at(0).at("seconds"), 0.75);
}

TEST(AnswerJsonTest, EveryMissingFieldIsNamed) {
  const nlohmann::json whole = to_json(AskOptions{.text = "x", .max_tokens = 4, .sampling = {}});
  ASSERT_TRUE(ask_options_from_json(whole).has_value());
  for (const auto& [key, value] : whole.items()) {
    nlohmann::json part = whole;
    part.erase(key);
    const auto options = ask_options_from_json(part);
    ASSERT_FALSE(options.has_value()) << key;
    EXPECT_NE(options.error().what.find(key), std::string::npos) << options.error().what;
    part[key] = nullptr;
    EXPECT_FALSE(ask_options_from_json(part).has_value()) << key;
  }
  EXPECT_FALSE(answer_from_json(nlohmann::json::array()).has_value());
}

TEST(AnswerJsonTest, DocumentsComeWithTheQuestion) {
  AskOptions options{.text = "x", .max_tokens = 4, .sampling = {}};
  options.slave_texts.documents = {{"reader", {"one", "苏州"}}, {"other", {"two"}}};
  nlohmann::json json = to_json(options);
  const auto back = ask_options_from_json(nlohmann::json::parse(json.dump()));
  ASSERT_TRUE(back.has_value()) << back.error().message();
  EXPECT_EQ(back->slave_texts.documents, options.slave_texts.documents);
  json["documents"][0]["texts"] = "one";
  EXPECT_FALSE(ask_options_from_json(json).has_value());
}

TEST(AnswerJsonTest, WhereTheMasterLookedIsAskedForAndToldApart) {
  EXPECT_FALSE(to_json(AskOptions{.text = "x"}).contains("attention"));
  AskOptions options{.text = "x"};
  options.attention = {.wanted = true, .keywords = {"苏州"}, .must_occur = false};
  nlohmann::json json = to_json(options);
  const AskOptions back = ask_options_from_json(nlohmann::json::parse(json.dump())).value();
  EXPECT_TRUE(back.attention.wanted);
  EXPECT_EQ(back.attention.keywords, options.attention.keywords);
  EXPECT_FALSE(back.attention.must_occur);
  json["attention"] = true;
  EXPECT_FALSE(ask_options_from_json(json).has_value());

  EXPECT_FALSE(to_json(sample()).contains("attention"));
  Answer answer = sample();
  answer.attention = {3, {"m", "s"}, {}, 1, {std::bit_cast<uint32_t>(0.25f), 0x3f400000u}};
  json = to_json(answer);
  EXPECT_EQ(answer_from_json(nlohmann::json::parse(json.dump())).value().attention,
            answer.attention);
  json["attention"]["layers"][0].erase(0);
  EXPECT_FALSE(answer_from_json(json).has_value());
}

TEST(AnswerJsonTest, ErrorsKeepTheirCode) {
  const Error error{ErrorCode::kLost, "gone", "slave", "start it"};
  const auto back = error_from_json(error_json(error));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->code, ErrorCode::kLost);
  EXPECT_EQ(back->message(), error.message());
  EXPECT_EQ(back->retry_after_seconds, 0);
  EXPECT_FALSE(error_json(error).contains("retry_after_s"));
}

TEST(AnswerJsonTest, RetryHintAndDeadlineComeAlongWhereThereIsOne) {
  const Error busy{ErrorCode::kBusy, "full", "launch", "retry", 2.5};
  EXPECT_EQ(error_from_json(error_json(busy)).value().retry_after_seconds, 2.5);
  const AskOptions asked{.text = "x", .deadline_seconds = 1.5};
  EXPECT_EQ(ask_options_from_json(to_json(asked)).value().deadline_seconds, 1.5);
  EXPECT_FALSE(to_json(AskOptions{}).contains("deadline_s"));
  for (const nlohmann::json& wrong : {nlohmann::json("soon"), nlohmann::json(nullptr)}) {
    nlohmann::json json = to_json(asked);
    json["deadline_s"] = wrong;
    EXPECT_FALSE(ask_options_from_json(json).has_value()) << wrong;
  }
}

TEST(AnswerJsonTest, EndTokensAreIgnoredOnlyWhereAsked) {
  for (const bool ignore : {false, true}) {
    const nlohmann::json json = to_json(AskOptions{.text = "x", .ignore_eos = ignore});
    EXPECT_EQ(json.contains("ignore_eos"), ignore);
    EXPECT_EQ(ask_options_from_json(json).value().ignore_eos, ignore);
  }
  nlohmann::json wrong = to_json(AskOptions{.text = "x"});
  wrong["ignore_eos"] = "yes";
  EXPECT_FALSE(ask_options_from_json(wrong).has_value());
}

TEST(AnswerJsonTest, EveryFinishReasonKeepsItsName) {
  for (const FinishReason reason :
       {FinishReason::kStop, FinishReason::kLength, FinishReason::kCancelled, FinishReason::kError,
        FinishReason::kDeadline}) {
    Answer answer = sample();
    answer.reason = reason;
    EXPECT_EQ(answer_from_json(to_json(answer)).value().reason, reason);
  }
}

}  // namespace
}  // namespace suture
