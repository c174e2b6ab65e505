#include "launcher/fit/fit_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "base/test_folder.h"
#include "fusion/test_projector.h"

namespace suture {
namespace {

constexpr FitShape kShape{
    .source_layers = 2, .source_width = 2, .target_layers = 1, .target_width = 3, .widest = 2};
constexpr int32_t kKinds = 2;
constexpr size_t kDigest = 64;

Gathered empty() {
  return {.texts = 0,
          .key = FitMoments(kShape, kKinds),
          .value = FitMoments(kShape, kKinds),
          .times = {}};
}

Gathered some() {
  Gathered gathered = empty();
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (FitMoments* moments : {&gathered.key, &gathered.value})
    for (const auto kind : {std::optional<int32_t>(), std::optional<int32_t>(1)}) {
      std::vector<float> x(5 * 4);
      std::vector<float> y(5 * 3);
      for (float& value : x) value = normal(random);
      for (float& value : y) value = normal(random);
      moments->add({.source = x, .target = y, .n_rows = 5}, kind, 1);
    }
  gathered.texts = 2;
  gathered.times = {.wall_seconds = 1.5,
                    .gather_cpu_seconds = 0.25,
                    .models_cpu_seconds = 2,
                    .source_tokens = 20,
                    .target_tokens = 30};
  return gathered;
}

const std::string kBinding(kDigest, 'b');

class FitCheckpointTest : public testing::Test {
 protected:
  FitCheckpointTest() : path_(folder_.path() / "p.suture.partial"), gathered_(some()) {
    EXPECT_TRUE(write_checkpoint(path_, kBinding, gathered_));
    std::ifstream file(path_, std::ios::binary);
    content_.assign(std::istreambuf_iterator<char>(file), {});
  }
  static Status read(const std::filesystem::path& path, Gathered& into,
                     const std::string& binding = kBinding) {
    return read_checkpoint(path, binding, 10, into);
  }
  // Reads a file of that content, whose digest is made right.
  Status read_signed(std::string content) const {
    Sha256 hash;
    hash.update(std::string_view(content).substr(0, content.size() - kDigest));
    content.replace(content.size() - kDigest, kDigest, hash.finish());
    Gathered into = empty();
    return read(folder_.write("signed", content), into);
  }
  template <typename T>
  std::string with(size_t offset, T value) const {
    std::string content = content_;
    std::memcpy(content.data() + offset, &value, sizeof(value));
    return content;
  }

  TestFolder folder_;
  std::filesystem::path path_;
  Gathered gathered_;
  std::string content_;
};

TEST_F(FitCheckpointTest, GivesBackWhatWasSaved) {
  Gathered into = empty();
  const Status status = read(path_, into);
  ASSERT_TRUE(status) << status.error().message();
  EXPECT_EQ(into.texts, 2);
  EXPECT_EQ(into.times.wall_seconds, 1.5);
  EXPECT_EQ(into.times.target_tokens, 30);
  EXPECT_EQ(into.key.row_counts(), (std::vector<int64_t>{5, 0, 5}));
  for (const auto& [a, b] :
       {std::pair(&into.key, &gathered_.key), std::pair(&into.value, &gathered_.value)}) {
    const auto read_back = a->storage();
    const auto saved = b->storage();
    for (size_t i = 0; i < saved.size(); ++i)
      EXPECT_TRUE(std::ranges::equal(read_back[i], saved[i]));
  }
}

TEST_F(FitCheckpointTest, SaysIfThereIsNone) {
  Gathered into = empty();
  EXPECT_EQ(read(folder_.path() / "none", into).error().code, ErrorCode::kNotFound);
}

TEST_F(FitCheckpointTest, IsRefusedForAnythingElse) {
  Gathered into = empty();
  EXPECT_EQ(read(path_, into, std::string(kDigest, 'c')).error().code, ErrorCode::kIncompatible);
}

TEST_F(FitCheckpointTest, AnyDamageIsNoticed) {
  for (size_t at = 0; at < content_.size(); at += 5) {
    std::string damaged = content_;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    Gathered into = empty();
    EXPECT_FALSE(read(folder_.write("damaged", damaged), into)) << "byte " << at;
  }
  for (size_t size = 0; size < content_.size(); size += 11) {
    Gathered into = empty();
    EXPECT_FALSE(read(folder_.write("short", content_.substr(0, size)), into)) << size;
  }
  Gathered into = empty();
  EXPECT_FALSE(read(folder_.write("long", content_ + "x"), into));
}

TEST_F(FitCheckpointTest, NumbersThatCannotBeAreRefusedEvenIfTheDigestIsRight) {
  constexpr size_t kTexts = 80;
  constexpr size_t kTimes = 88;
  constexpr size_t kCounts = 128;
  constexpr size_t kSums = kCounts + 3 * sizeof(int64_t);
  ASSERT_TRUE(read_signed(content_));
  EXPECT_EQ(read_signed(with(kTexts, int64_t{11})).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read_signed(with(kTexts, int64_t{-1})).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read_signed(with(kTimes, std::numeric_limits<double>::quiet_NaN())).error().code,
            ErrorCode::kCorrupt);
  EXPECT_EQ(read_signed(with(kCounts, int64_t{-1})).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read_signed(with(kCounts, INT64_MAX)).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read_signed(with(kSums, std::numeric_limits<double>::infinity())).error().code,
            ErrorCode::kCorrupt);
}

TEST(FitBinding, FollowsFromModelsShapeAndTokens) {
  const Projector projector = TestProjector(DType::kF16, {}).value;
  const std::vector<FitReading> readings = {{{1, 2}, {3}, {}, std::nullopt}, {{4}, {5, 6}, {}, 1}};
  const auto binding = [&](const ProjectorSide& source, const FitShape& shape,
                           const std::vector<FitReading>& of) {
    return fit_binding(source, projector.target, shape, of);
  };
  const std::string whole = binding(projector.source, kShape, readings);
  EXPECT_EQ(whole.size(), kDigest);
  EXPECT_EQ(binding(projector.source, kShape, readings), whole);
  ProjectorSide other = projector.source;
  other.kv.model_fingerprint += "'";
  EXPECT_NE(binding(other, kShape, readings), whole);
  FitShape narrow = kShape;
  narrow.widest = 1;
  EXPECT_NE(binding(projector.source, narrow, readings), whole);
  FitShape own = kShape;
  own.own_layers = 1;
  EXPECT_NE(binding(projector.source, own, readings), whole);
  auto changed = readings;
  changed[1].held_out_kind = 0;
  EXPECT_NE(binding(projector.source, kShape, changed), whole);
  changed = readings;
  changed[0].source_ids = {1};
  changed[0].target_ids = {2, 3};
  EXPECT_NE(binding(projector.source, kShape, changed), whole);
}

}  // namespace
}  // namespace suture
