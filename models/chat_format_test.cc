#include "models/chat_format.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace suture {
namespace {

Result<ChatFormat> detect(std::string source) {
  Vocabulary vocabulary;
  vocabulary.chat_template = std::move(source);
  return ChatFormat::detect(vocabulary);
}

// SmolLM2's template, as its file has it.
constexpr const char* kSmolTemplate =
    R"({% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %})"
    R"({{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by )"
    R"(Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + )"
    R"(message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %})"
    R"({{ '<|im_start|>assistant\n' }}{% endif %})";

// The start of Qwen2.5's template; the first two system turns take their text from elsewhere.
constexpr const char* kQwenTemplate = R"({%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n' }}
    {%- endif %}
{%- endif %})";

TEST(ChatFormatTest, SmolTemplateIsChatmlWithItsOwnSystemPrompt) {
  const auto format = detect(kSmolTemplate);
  ASSERT_TRUE(format) << format.error().message();
  EXPECT_EQ(format->name, "chatml");
  EXPECT_EQ(format->system_open, "<|im_start|>system\n");
  EXPECT_EQ(format->user_close, "<|im_end|>\n");
  EXPECT_EQ(format->assistant_open, "<|im_start|>assistant\n");
  EXPECT_EQ(format->default_system,
            "You are a helpful AI assistant named SmolLM, trained by Hugging Face");
}

TEST(ChatFormatTest, QwenTemplateIsChatmlWithItsOwnSystemPrompt) {
  const auto format = detect(kQwenTemplate);
  ASSERT_TRUE(format) << format.error().message();
  EXPECT_EQ(format->default_system,
            "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
}

TEST(ChatFormatTest, EscapesAndPlainTextAreRead) {
  EXPECT_EQ(detect(R"({{ '<|im_start|>system\nIt\'s \\ so\n<|im_end|>' }})")->default_system,
            "It's \\ so\n");
  EXPECT_EQ(detect("{% if x %}<|im_start|>system\nIt's so<|im_end|>\n{% endif %}")->default_system,
            "It's so");
}

TEST(ChatFormatTest, TemplateWithoutSystemPromptHasNone) {
  EXPECT_EQ(detect("{{ '<|im_start|>' + message['role'] }}")->default_system, "");
  EXPECT_EQ(detect("<|im_start|>system\n{{ system }}<|im_end|>")->default_system, "");
  EXPECT_EQ(detect("'<|im_start|>system\\n")->default_system, "");
}

// The turns as PromptBuilder puts them.
std::string layout(const ChatFormat& format, const std::string& system,
                   const std::vector<std::string>& turns) {
  const std::string text = system.empty() ? format.default_system : system;
  const std::string system_turn =
      text.empty() && !format.system_always ? "" : format.system_open + text + format.system_close;
  std::string out = format.system_in_user ? "" : system_turn;
  for (size_t i = 0; i < turns.size(); ++i) {
    const bool user = i % 2 == 0;
    out += user ? format.user_open : format.assistant_open;
    if (i == 0 && format.system_in_user) out += system_turn;
    out += turns[i] + (user ? format.user_close : format.assistant_close);
  }
  return out + format.assistant_open;
}

// tests/data/chat/make_chat.py renders the models' own templates with Jinja.
TEST(ChatFormatTest, ConversationsAreLaidOutAsTheTemplatesDo) {
  std::ifstream file(SUTURE_TEST_DATA_DIR "/chat/chat.json");
  const auto data = nlohmann::json::parse(file);
  const auto turns = data["turns"].get<std::vector<std::string>>();
  ASSERT_EQ(data["cases"].size(), 7u);
  for (const auto& entry : data["cases"]) {
    const auto format = detect(entry["template"]);
    ASSERT_TRUE(format) << format.error().message();
    EXPECT_EQ(format->name, entry["format"]);
    for (const auto& expected : entry["layouts"]) {
      const std::string system = expected["system"].is_null() ? "" : expected["system"];
      EXPECT_EQ(layout(*format, system, turns), expected["text"]) << format->name;
    }
  }
}

TEST(ChatFormatTest, AnswersEndWithTheTurn) {
  EXPECT_EQ(ChatFormat::named("chatml")->stop, std::vector<std::string>{"<|im_end|>"});
  EXPECT_EQ(ChatFormat::named("llama3.1")->stop, std::vector<std::string>{"<|eot_id|>"});
  EXPECT_EQ(ChatFormat::named("phi3")->stop, std::vector<std::string>{"<|end|>"});
  EXPECT_EQ(ChatFormat::named("gemma")->stop, std::vector<std::string>{"<end_of_turn>"});
}

TEST(ChatFormatTest, UnknownTemplateIsRefusedWithTheSettingThatHelps) {
  for (const char* source : {"", "[INST] {{ message }} [/INST]", "<|im_start|>user<|im_sep|>"}) {
    const auto format = detect(source);
    ASSERT_FALSE(format);
    EXPECT_EQ(format.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(format.error().remedy.find("chat_format"), std::string::npos);
    EXPECT_NE(format.error().remedy.find("chatml"), std::string::npos);
  }
}

TEST(ChatFormatTest, FormatsAreFoundByName) {
  EXPECT_EQ(ChatFormat::named("chatml")->user_open, "<|im_start|>user\n");
  const auto unknown = ChatFormat::named("chattml");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(unknown.error().what.find("chattml"), std::string::npos);
}

}  // namespace
}  // namespace suture
