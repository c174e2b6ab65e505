// Lengths of the evaluation documents, in tokens of a model they are meant for.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "launcher/eval/eval_set.h"
#include "launcher/model_options.h"
#include "models/checkpoint.h"
#include "models/test_real_models.h"
#include "models/tokenizer.h"

namespace suture {
namespace {

TEST(EvaluationSetsRealTest, DocumentsHave200To1000Tokens) {
  constexpr const char* kModel = "qwen2.5-coder-0.5b-instruct";
  SUTURE_REQUIRE_REAL_MODEL(kModel);
  const auto checkpoint = Checkpoint::open(real_model_path(kModel));
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  const auto tokenizer = open_tokenizer(**checkpoint);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message();
  const auto set =
      load_eval_set(std::filesystem::path(SUTURE_SOURCE_DIR) / "bench/evals" / "multidoc.jsonl");
  ASSERT_TRUE(set.has_value()) << set.error().message();
  std::set<std::string> documents;
  for (const EvalItem& item : set->items) {
    const auto& task = std::get<MultidocItem>(item.task);
    documents.insert(task.documents.begin(), task.documents.end());
  }
  for (const std::string& document : documents) {
    const size_t tokens = (*tokenizer)->encode(document, SpecialTokens::kAsText).size();
    EXPECT_GE(tokens, 200u) << document;
    EXPECT_LE(tokens, 1000u) << document;
  }
}

}  // namespace
}  // namespace suture
