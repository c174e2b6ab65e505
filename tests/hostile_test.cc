// Thousands of damaged files, and the cases that such damage once broke.
//
//   SUTURE_FUZZ_ROUNDS=100000 SUTURE_FUZZ_SEED=7 build/asan/tests/hostile_test
//   SUTURE_FUZZ_FIRST=1234 SUTURE_FUZZ_ROUNDS=1 SUTURE_FUZZ_SEED=7 ...     one round again
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "base/test_folder.h"
#include "tests/hostile_kinds.h"
#include "tests/hostile_mutation.h"

namespace suture {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kUsualRounds = 1000;
constexpr uint64_t kMaxFailures = 10;
constexpr unsigned kMaxSeconds = 60;  // for one file: then it hangs

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void write(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Half of the changes to a safetensors file hit its header as text, with the length put right.
std::string damaged(Mutator& mutator, const HostileKind& kind, const std::string& valid) {
  if (kind.is_text) return mutator.text(valid);
  if (kind.name != "safetensors" || mutator.below(2) == 0) return mutator.bytes(valid);
  uint64_t length = 0;
  std::memcpy(&length, valid.data(), sizeof(length));
  const std::string header = mutator.text(valid.substr(sizeof(length), length));
  const std::string data = valid.substr(sizeof(length) + length);
  length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + data;
}

class HostileTest : public ::testing::TestWithParam<HostileKind> {
 protected:
  std::string problem(const std::string& content) {
    ::alarm(kMaxSeconds);
    std::string found = GetParam().problem(folder_.path(), GetParam(), content);
    ::alarm(0);
    return found;
  }

  TestFolder folder_;
};

TEST_P(HostileTest, ValidFilesOpen) {
  for (const std::string& valid : GetParam().valid) {
    EXPECT_EQ(problem(valid), "");
    EXPECT_TRUE(last_outcome().starts_with("opened")) << last_outcome();
    const bool is_model = GetParam().name != "topology";
    EXPECT_EQ(last_outcome().ends_with("ran"), is_model) << last_outcome();
  }
}

TEST_P(HostileTest, DamagedFilesOpenOrAreRefused) {
  const HostileKind& kind = GetParam();
  const uint64_t seed = setting("SUTURE_FUZZ_SEED", 1);
  const uint64_t first = setting("SUTURE_FUZZ_FIRST", 0);
  const uint64_t rounds = setting("SUTURE_FUZZ_ROUNDS", kUsualRounds);
  fmt::print("seed {}; a crash leaves its file in {}\n", seed, folder_.path().string());
  uint64_t refused = 0, failures = 0;
  for (uint64_t round = first; round < first + rounds; ++round) {
    Mutator mutator(seed * 1'000'003 + round);
    const std::string content =
        damaged(mutator, kind, kind.valid[mutator.below(kind.valid.size())]);
    const std::string found = problem(content);
    refused += last_outcome().starts_with("opened") ? 0 : 1;
    if (found.empty()) continue;
    const fs::path kept =
        fs::path(::testing::TempDir()) / fmt::format("hostile-{}-{}-{}", kind.name, seed, round);
    write(kept, content);
    ADD_FAILURE() << found << "\n  seed " << seed << " round " << round << ", kept as " << kept;
    if (++failures == kMaxFailures) break;
  }
  fmt::print("{} of {} rounds ended with a refusal\n", refused, rounds);
  const uint64_t expected = rounds < kUsualRounds ? 0 : rounds / 10;
  EXPECT_GE(refused, expected);
}

// tests/data/hostile/make_cases.py says what is wrong with each.
TEST_P(HostileTest, KnownCasesAreRefused) {
  const fs::path corpus = fs::path(SUTURE_TEST_DATA_DIR) / "hostile" / GetParam().name;
  ASSERT_FALSE(fs::is_empty(corpus));
  problem(GetParam().valid.front());
  const auto opened = std::string(last_outcome());  // all the way
  for (const auto& entry : fs::directory_iterator(corpus)) {
    EXPECT_EQ(problem(read(entry.path())), "") << entry.path();
    EXPECT_NE(last_outcome(), opened) << entry.path();
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, HostileTest, ::testing::ValuesIn(hostile_kinds()),
                         [](const auto& kind) {
                           std::string name = kind.param.name;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace suture
