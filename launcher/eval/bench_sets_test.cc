// The sets of bench/evals/ are what their README says.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "launcher/eval/answer_reading.h"
#include "launcher/eval/eval_set.h"

namespace suture {
namespace {

EvalSet load(const std::string& name) {
  auto set = load_eval_set(std::filesystem::path(SUTURE_TEST_DATA_DIR "/../../bench/evals") /
                           (name + ".jsonl"));
  EXPECT_TRUE(set.has_value()) << set.error().message();
  return set.value_or(EvalSet());
}

TEST(BenchSetsTest, EverySetLoads) {
  struct Expected {
    const char* name;
    const char* kind;
    size_t items;
  };
  for (const auto& [name, kind, items] :
       {Expected{"humaneval", "code", 82}, Expected{"gsm8k", "exact-match", 300},
        Expected{"agieval-gaokao-history", "multiple-choice", 110},
        Expected{"agieval-gaokao-geography", "multiple-choice", 90},
        Expected{"agieval-gaokao-biology", "multiple-choice", 100},
        Expected{"agieval-sat-en", "multiple-choice", 100},
        Expected{"agieval-lsat-lr", "multiple-choice", 200},
        Expected{"agieval-lsat-rc", "multiple-choice", 120}}) {
    const EvalSet set = load(name);
    ASSERT_EQ(set.items.size(), items) << name;
    EXPECT_EQ(task_kind_name(set.items[0].task), kind) << name;
  }
}

TEST(BenchSetsTest, CanonicalSolutionsAreBodiesThatNothingCutsOff) {
  for (const EvalItem& item : load("humaneval").items) {
    const auto& code = std::get<CodeItem>(item.task);
    EXPECT_EQ(cut_completion(code.canonical_solution), code.canonical_solution) << item.id;
    EXPECT_NE(code.prompt.find("def " + code.entry_point + "("), std::string::npos) << item.id;
  }
}

// ---- Multidoc: what a set that was written by hand may get wrong ----

class MultidocSetTest : public testing::Test {
 protected:
  const EvalSet set_ = load("multidoc");
};

TEST_F(MultidocSetTest, IsBalanced) {
  std::map<std::string, int> items, kinds;
  std::map<std::string, std::set<std::string>> documents;
  for (const EvalItem& item : set_.items) {
    const auto& task = std::get<MultidocItem>(item.task);
    ++items[task.lang];
    ++kinds[task.kind];
    documents[task.lang].insert(task.documents.begin(), task.documents.end());
  }
  EXPECT_GE(set_.items.size(), 60u);
  EXPECT_EQ(items["en"], items["zh"]);
  EXPECT_EQ(items.size(), 2u);
  EXPECT_EQ(kinds.size(), 3u);
  for (const char* kind : {"fact", "multi-hop", "summary"}) EXPECT_GE(kinds[kind], 10) << kind;
  for (const char* lang : {"en", "zh"}) EXPECT_GE(documents[lang].size(), 24u) << lang;
}

TEST_F(MultidocSetTest, FactsComeFromTheDocumentsAlone) {
  for (const EvalItem& item : set_.items) {
    const auto& task = std::get<MultidocItem>(item.task);
    EXPECT_TRUE(task.documents.size() == 2 || task.documents.size() == 3) << item.id;
    for (const ExpectedFact& fact : task.expect) {
      const auto holds = [&fact](const std::string& text) { return holds_fact(text, fact); };
      EXPECT_TRUE(std::ranges::any_of(task.documents, holds))
          << item.id << ": " << fact.spellings[0];
      EXPECT_TRUE(holds(task.answer)) << item.id << ": " << fact.spellings[0];
      EXPECT_FALSE(holds(task.question)) << item.id << ": " << fact.spellings[0];
    }
  }
}

TEST_F(MultidocSetTest, NoDocumentAloneAnswersAMultiHopQuestion) {
  for (const EvalItem& item : set_.items) {
    const auto& task = std::get<MultidocItem>(item.task);
    if (task.kind != "multi-hop") continue;
    for (const std::string& document : task.documents)
      EXPECT_FALSE(std::ranges::all_of(task.expect, [&](const ExpectedFact& fact) {
        return holds_fact(document, fact);
      })) << item.id;
  }
}

}  // namespace
}  // namespace suture
