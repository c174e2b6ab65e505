#include "launcher/fit/fit_texts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "base/test_folder.h"
#include "models/test_vocabulary.h"

namespace suture {
namespace {

std::unique_ptr<Tokenizer> bytes() { return Tokenizer::create(make_byte_vocabulary({})).value(); }

class FitTextsTest : public testing::Test {
 protected:
  Result<FitTexts> read(const std::string& name, const std::string& content) const {
    return read_fit_texts({folder_.write(name, content)});
  }
  TestFolder folder_;
};

TEST_F(FitTextsTest, LinesHaveATextAndPerhapsAKind) {
  const auto texts = read("a.jsonl",
                          "{\"text\": \"one\", \"domain\": \"code\", \"lang\": \"c\"}\n\n"
                          "{\"text\": \"two\", \"kind\": \"maths\"}\n{\"text\": \"three\"}\n"
                          "{\"text\": \"four\", \"lang\": \"c\", \"domain\": \"code\"}");
  ASSERT_TRUE(texts) << texts.error().message();
  EXPECT_EQ(texts->kinds, (std::vector<std::string>{"code, c", "maths", "text"}));
  ASSERT_EQ(texts->texts.size(), 4U);
  EXPECT_EQ(texts->texts[3].text, "four");
  EXPECT_EQ(texts->texts[3].kind, 0);
  ASSERT_EQ(texts->files.size(), 1U);
  EXPECT_EQ(texts->files[0].name, "a.jsonl");
  EXPECT_EQ(texts->files[0].sha256.size(), 64U);
}

TEST_F(FitTextsTest, OtherFilesAreTextsOfTheirOwn) {
  std::string content;
  for (int line = 0; line < 4000; ++line) content += fmt::format("line {}\n", line);
  const auto texts = read("long.txt", content);
  ASSERT_TRUE(texts);
  ASSERT_GT(texts->texts.size(), 1U);
  std::string joined;
  for (const FitText& text : texts->texts) {
    EXPECT_EQ(text.text.back(), '\n');
    joined += text.text;
  }
  EXPECT_EQ(joined, content);
}

TEST_F(FitTextsTest, LongLinesAreCutBetweenCharacters) {
  std::string content;
  while (content.size() < 100'000) content += "\u6587x";
  const auto texts = read("long.txt", content);
  ASSERT_TRUE(texts);
  std::string joined;
  for (const FitText& text : texts->texts) {
    EXPECT_NE(static_cast<unsigned char>(text.text.front()) & 0xC0, 0x80);
    joined += text.text;
  }
  EXPECT_EQ(joined, content);
}

TEST_F(FitTextsTest, SaysWhatIsWrongAndWhere) {
  for (const char* line :
       {"nonsense", "[]", "{}", "{\"text\": 7}", "\"text\"", "{\"text\": \"a\""}) {
    const auto texts = read("bad.jsonl", std::string("{\"text\": \"fine\"}\n") + line);
    ASSERT_FALSE(texts) << line;
    EXPECT_EQ(texts.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(texts.error().where.find("bad.jsonl:2"), std::string::npos);
  }
  EXPECT_FALSE(read("bytes.txt", "a\xff"));
  EXPECT_FALSE(read("huge.jsonl", std::string((size_t{1} << 20) + 1, '[')));
  EXPECT_EQ(read_fit_texts({folder_.path() / "none"}).error().code, ErrorCode::kNotFound);
}

TEST_F(FitTextsTest, ManyKindsEndInOneForTheRest) {
  std::string lines;
  for (int i = 0; i < 12; ++i) lines += fmt::format("{{\"text\": \"t\", \"kind\": \"k{}\"}}\n", i);
  const auto texts = read("kinds.jsonl", lines);
  ASSERT_TRUE(texts);
  EXPECT_EQ(texts->kinds.size(), FitTexts::kMaxKinds);
  EXPECT_EQ(texts->kinds.back(), "other");
  EXPECT_EQ(texts->texts[11].kind, 7);
}

TEST_F(FitTextsTest, HeldOutTextsCanBeReadElsewhere) {
  std::string lines;
  for (int i = 0; i < 10; ++i)
    lines += fmt::format("{{\"text\": \"text \\\"{}\\\"\", \"kind\": \"k\"}}\n", i);
  const auto texts = read("all.jsonl", lines);
  ASSERT_TRUE(texts);
  const auto path = folder_.path() / "held-out.jsonl";
  ASSERT_TRUE(write_held_out_texts(path, *texts, 0.2));
  const auto held_out = read_fit_texts({path});
  ASSERT_TRUE(held_out) << held_out.error().message();
  ASSERT_EQ(held_out->texts.size(), 2U);
  EXPECT_EQ(held_out->kinds, (std::vector<std::string>{"k"}));
  for (const FitText& text : held_out->texts) {
    const auto at = std::ranges::find(texts->texts, text.text, &FitText::text);
    ASSERT_NE(at, texts->texts.end());
    EXPECT_TRUE(is_held_out(at - texts->texts.begin(), 0.2));
  }
}

TEST(HeldOut, IsThatShareOfTheTextsInTheMiddleOfGroups) {
  for (const double share : {0.05, 0.1, 0.3, 0.5}) {
    int64_t held_out = 0;
    for (int64_t i = 0; i < 1000; ++i) held_out += is_held_out(i, share) ? 1 : 0;
    EXPECT_EQ(held_out, static_cast<int64_t>(1000 * share));
  }
  EXPECT_FALSE(is_held_out(0, 0.1));
  EXPECT_TRUE(is_held_out(4, 0.1) || is_held_out(5, 0.1));
}

// n texts of a kind, whose first letter says which it is, and which name their own number.
void add_texts(int n, int bytes_each, int32_t kind, FitTexts& texts) {
  const char letter = static_cast<char>('a' + kind);
  for (int i = 0; i < n; ++i) {
    std::string text = fmt::format("{}{:03} ", letter, i);
    while (std::ssize(text) < bytes_each) text += text.substr(0, 5);
    text.resize(static_cast<size_t>(bytes_each));
    texts.texts.push_back({text, kind});
  }
}

TEST(Pieces, HaveThatManyTokensAndAreHeldOutByWholeTexts) {
  FitTexts texts{.texts = {}, .kinds = {"a"}, .files = {}};
  add_texts(20, 160, 0, texts);
  const auto pieces = cut_pieces(texts, *bytes(), {.tokens = 50, .most = 0, .held_out_share = 0.2});
  ASSERT_TRUE(pieces) << pieces.error().message();
  EXPECT_EQ(pieces->size(), 20U * 3);  // what is left of each text is too short
  std::map<std::string, std::set<bool>> sides;
  for (const FitPiece& piece : *pieces) {
    EXPECT_EQ(piece.text.size(), 50U);
    sides[piece.text.substr(0, 5)].insert(piece.held_out);
  }
  EXPECT_EQ(sides.size(), 20U);
  int held_out = 0;
  for (const auto& [text, held] : sides) {
    EXPECT_EQ(held.size(), 1U) << text;
    held_out += *held.begin() ? 1 : 0;
  }
  EXPECT_EQ(held_out, 4);
}

TEST(Pieces, TakeAsManyOfOneKindAsOfAnotherWhereThereAreEnough) {
  FitTexts texts{.texts = {}, .kinds = {"a", "b", "c"}, .files = {}};
  add_texts(100, 50, 0, texts);
  add_texts(10, 50, 1, texts);
  add_texts(50, 50, 2, texts);
  const auto pieces =
      cut_pieces(texts, *bytes(), {.tokens = 50, .most = 70, .held_out_share = 0.2});
  ASSERT_TRUE(pieces);
  std::map<int32_t, int> of_kind;
  for (const FitPiece& piece : *pieces) of_kind[piece.kind] += 1;
  EXPECT_EQ(of_kind, (std::map<int32_t, int>{{0, 30}, {1, 10}, {2, 30}}));
  std::set<int32_t> early;
  for (size_t i = 0; i < 14; ++i) early.insert((*pieces)[i].kind);
  EXPECT_EQ(early.size(), 3U);
}

TEST(Pieces, EndWithWholeCharacters) {
  FitTexts texts{.texts = {}, .kinds = {"a"}, .files = {}};
  for (int i = 0; i < 10; ++i) {
    std::string text;
    for (int j = 0; j < 60; ++j) text += "\u6587";
    texts.texts.push_back({text, 0});
  }
  const auto pieces = cut_pieces(texts, *bytes(), {.tokens = 50, .most = 0, .held_out_share = 0.2});
  ASSERT_TRUE(pieces);
  for (const FitPiece& piece : *pieces) EXPECT_EQ(piece.text.size() % 3, 0U);
}

TEST(Pieces, AreRefusedIfNothingJudges) {
  FitTexts texts{.texts = {}, .kinds = {"a"}, .files = {}};
  add_texts(2, 100, 0, texts);
  const auto pieces = cut_pieces(texts, *bytes(), {});
  ASSERT_FALSE(pieces);
  EXPECT_NE(pieces.error().remedy.find("--held-out"), std::string::npos);
}

}  // namespace
}  // namespace suture
