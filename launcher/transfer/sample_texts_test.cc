#include "launcher/transfer/sample_texts.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace suture {
namespace {

std::string refused(const std::filesystem::path& file) {
  const auto loaded = load_sample_texts({file});
  return loaded ? std::string() : loaded.error().message();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(SampleTextsTest, FilesHoldOneTextOrOneALine) {
  const TestFolder folder;
  const auto one = folder.write("one.txt", "all of it\nis one text");
  const auto many = folder.write("many.jsonl",
                                 "{\"text\": \"a\", \"kind\": \"code\", \"domain\": \"x\"}\n\n"
                                 "{\"domain\": \"reading\", \"lang\": \"zh\", \"text\": \"b\"}\n"
                                 "{\"text\": \"a\"}\n{\"lang\": \"en\", \"text\": \"c\"}\n");
  const SampleTexts loaded = load_sample_texts({one, many}).value();
  ASSERT_EQ(loaded.texts.size(), 4u);
  EXPECT_EQ(loaded.duplicates, 1);
  EXPECT_EQ(loaded.texts[0].text, "all of it\nis one text");
  EXPECT_EQ(loaded.texts[0].kind, "");
  EXPECT_EQ(loaded.texts[1].kind, "code");
  EXPECT_EQ(loaded.texts[2].kind, "reading, zh");
  EXPECT_EQ(loaded.texts[2].id, many.string() + ":3");
  EXPECT_EQ(loaded.texts[3].kind, "en");
  // printf a | sha256sum
  EXPECT_EQ(loaded.texts[1].sha256,
            "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb");
  EXPECT_NE(loaded.texts[1].file_sha256, loaded.texts[1].sha256);
  EXPECT_EQ(loaded.texts[1].file_sha256, loaded.texts[3].file_sha256);
}

TEST(SampleTextsTest, WhatIsNoTextIsRefusedByFileAndLine) {
  const TestFolder folder;
  EXPECT_TRUE(contains(refused(folder.path() / "missing.txt"), "missing.txt: no such file"));
  EXPECT_TRUE(contains(refused(folder.write("e.txt", "")), "holds no text"));
  EXPECT_TRUE(contains(refused(folder.write("e.jsonl", "\n \n")), "holds no text"));
  EXPECT_TRUE(contains(refused(folder.write("b.txt", "\xff")), "is not UTF-8"));
  EXPECT_TRUE(contains(refused(folder.write("a.jsonl", "{\"text\": \"x\"}\nnot json\n")),
                       "a.jsonl:2: is not a JSON object"));
  EXPECT_TRUE(contains(refused(folder.write("n.jsonl", "{\"text\": 3}\n")), "n.jsonl:1"));
  EXPECT_TRUE(contains(refused(folder.write("m.jsonl", "{\"txt\": \"a\"}\n")), "has no \"text\""));
  EXPECT_TRUE(contains(refused(folder.write("k.jsonl", "{\"text\": \"a\", \"kind\": []}\n")),
                       "\"kind\" is not a text"));
  EXPECT_TRUE(contains(refused(folder.path()), "is not a file"));
}

TEST(SampleTextsTest, TextsOfTheFitAreFoundByTheirFileOrThemselves) {
  std::vector<SampleText> texts(3);
  texts[0].sha256 = "aa";
  texts[0].file_sha256 = "f1";
  texts[1].sha256 = "bb";
  texts[1].file_sha256 = "f2";
  texts[2].sha256 = "cc";
  texts[2].file_sha256 = "f2";
  FitParameters fit;
  EXPECT_EQ(remove_fitted(texts, fit), 0);
  fit.files = {{"whole file", "f1"}, {"one text", "cc"}, {"another", "dd"}};
  EXPECT_EQ(remove_fitted(texts, fit), 2);
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_EQ(texts[0].sha256, "bb");
}

}  // namespace
}  // namespace suture
