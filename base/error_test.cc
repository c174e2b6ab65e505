#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>

namespace suture {
namespace {

Result<int> half_of(int value) {
  if (value % 2 != 0)
    return fail(ErrorCode::kInvalidArgument, "odd", "half_of", "give an even one");
  return value / 2;
}

Result<int> quarter_of(int value) {
  SUTURE_ASSIGN_OR_RETURN(const int half, half_of(value));
  SUTURE_ASSIGN_OR_RETURN(const int quarter, half_of(half));
  return quarter;
}

Status is_even(int value) {
  SUTURE_RETURN_IF_ERROR(half_of(value));
  return {};
}

Result<std::unique_ptr<int>> boxed(int value) {
  SUTURE_ASSIGN_OR_RETURN(auto box, Result<std::unique_ptr<int>>(std::make_unique<int>(value)));
  return box;
}

TEST(ErrorTest, MessageHasPlaceAndRemedyOnlyWhenGiven) {
  EXPECT_EQ((Error{ErrorCode::kIo, "disk full", "", ""}.message()), "disk full");
  EXPECT_EQ((Error{ErrorCode::kIo, "disk full", "a.gguf", ""}.message()), "a.gguf: disk full");
  EXPECT_EQ((Error{ErrorCode::kIo, "disk full", "a.gguf", "free 2 GB"}.message()),
            "a.gguf: disk full\n  remedy: free 2 GB");
}

TEST(ErrorTest, EveryCodeHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::kBusy); ++code)
    names.insert(error_code_name(static_cast<ErrorCode>(code)));
  EXPECT_EQ(names.size(), static_cast<size_t>(ErrorCode::kBusy) + 1);
  EXPECT_EQ(names.count("unknown"), 0u);
  EXPECT_EQ(error_code_name(ErrorCode::kStaleGeneration), "stale_generation");
}

TEST(ErrorTest, AssignOrReturnPassesValuesAndTheFirstError) {
  EXPECT_EQ(quarter_of(12), 3);
  const auto odd = quarter_of(6);
  ASSERT_FALSE(odd.has_value());
  EXPECT_EQ(odd.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(odd.error().remedy, "give an even one");
}

TEST(ErrorTest, AssignOrReturnMovesValuesThatCannotBeCopied) {
  const auto box = boxed(4);
  ASSERT_TRUE(box.has_value());
  EXPECT_EQ(**box, 4);
}

TEST(ErrorTest, ReturnIfErrorPassesTheErrorOn) {
  EXPECT_TRUE(is_even(4).has_value());
  const auto odd = is_even(5);
  ASSERT_FALSE(odd.has_value());
  EXPECT_EQ(odd.error().where, "half_of");
}

TEST(ErrorTest, ErrnoIsSpelledOut) {
  const auto error = fail_errno("cannot open file", ENOENT, "a.gguf").value();
  EXPECT_EQ(error.code, ErrorCode::kIo);
  EXPECT_EQ(error.what, "cannot open file: No such file or directory");
  EXPECT_EQ(error.where, "a.gguf");
}

}  // namespace
}  // namespace suture
