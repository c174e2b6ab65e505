// score and dump against the reference values of the tiny checkpoints.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/mapping.h"
#include "base/test_folder.h"
#include "models/safetensors.h"
#include "tests/test_suture.h"

namespace suture {
namespace {

constexpr double kLogitTolerance = 1e-3;
constexpr double kCacheTolerance = 1e-4;

// A safetensors file held open.
class TensorFile {
 public:
  explicit TensorFile(const std::filesystem::path& path) {
    auto mapping = Mapping::file(path);
    if (!mapping) throw std::runtime_error(mapping.error().message());
    mapping_ = std::move(*mapping);
    auto file = SafetensorsFile::parse(mapping_.bytes(), path.string());
    if (!file) throw std::runtime_error(file.error().message());
    file_ = std::move(*file);
  }
  const std::vector<TensorInfo>& tensors() const { return file_.tensors(); }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  const std::vector<int64_t>& shape(const std::string& name) const {
    return file_.find(name)->shape;
  }
  template <typename T>
  std::vector<T> values(const std::string& name) const {
    const TensorInfo* tensor = file_.find(name);
    if (tensor == nullptr) throw std::runtime_error("no tensor " + name);
    std::vector<T> values(tensor->data.size() / sizeof(T));
    std::memcpy(values.data(), tensor->data.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  Mapping mapping_;
  SafetensorsFile file_;
};

class GoldenCommandsTest : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path checkpoint() const {
    return std::filesystem::path(SUTURE_TEST_DATA_DIR) / "tiny" / GetParam();
  }
  TensorFile golden() const { return TensorFile(checkpoint() / "golden.safetensors"); }
};

TEST_P(GoldenCommandsTest, ScoreAgreesWithTheReference) {
  const TensorFile reference = golden();
  const auto ids = reference.values<int64_t>("input_ids");
  const auto logits = reference.values<float>("logits");  // [T][vocab]
  const size_t vocab = logits.size() / ids.size();
  const SutureRun run = run_suture({"score", checkpoint().string(), "--ids", "-", "--greedy", "16"},
                                   nlohmann::json(ids).dump());
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const auto json = run.json();
  EXPECT_EQ(json["tokens"].get<std::vector<int64_t>>(), ids);
  EXPECT_EQ(json["greedy"].get<std::vector<int64_t>>(), reference.values<int64_t>("greedy_ids"));

  double nll_sum = 0;
  for (size_t row = 0; row < ids.size(); ++row) {
    double sum = 0;
    for (size_t i = 0; i < vocab; ++i) sum += std::exp(double{logits[row * vocab + i]});
    const double logsumexp = std::log(sum);
    if (row + 1 == ids.size()) {
      EXPECT_NEAR(json["logsumexp"], logsumexp, kLogitTolerance);
      continue;
    }
    const double nll = logsumexp - logits[row * vocab + static_cast<size_t>(ids[row + 1])];
    EXPECT_NEAR(json["token_nll"][row], nll, 2 * kLogitTolerance) << "row " << row;
    nll_sum += nll;
  }
  ASSERT_EQ(json["token_nll"].size(), ids.size() - 1);
  EXPECT_NEAR(json["mean_nll"], nll_sum / static_cast<double>(ids.size() - 1), kLogitTolerance);
  ASSERT_EQ(json["top"].size(), 20u);
  for (const auto& pair : json["top"])
    EXPECT_NEAR(pair[1], logits[(ids.size() - 1) * vocab + pair[0].get<size_t>()], kLogitTolerance);
}

TEST_P(GoldenCommandsTest, DumpHoldsLogitsKeysAndValues) {
  const TestFolder folder;
  const TensorFile reference = golden();
  std::string ids;
  for (int64_t id : reference.values<int64_t>("input_ids")) ids += std::to_string(id) + "\n";
  const auto out = folder.path() / "dump.safetensors";
  const SutureRun run =
      run_suture({"dump", checkpoint().string(), "--ids", folder.write("ids", ids).string(),
                  "--out", out.string(), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const TensorFile dumped(out);
  EXPECT_EQ(run.json()["tensors"], dumped.tensors().size());
  size_t compared = 0;
  for (const TensorInfo& tensor : dumped.tensors()) {
    ASSERT_TRUE(reference.has(tensor.name)) << tensor.name;
    EXPECT_EQ(tensor.shape, reference.shape(tensor.name)) << tensor.name;
    const auto expected = reference.values<float>(tensor.name);
    const auto actual = dumped.values<float>(tensor.name);
    ASSERT_EQ(actual.size(), expected.size()) << tensor.name;
    const double tolerance = tensor.name == "logits" ? kLogitTolerance : kCacheTolerance;
    for (size_t i = 0; i < actual.size(); ++i)
      ASSERT_NEAR(actual[i], expected[i], tolerance) << tensor.name << " element " << i;
    ++compared;
  }
  EXPECT_EQ(compared, 7u);  // logits, and K and V of three layers
}

INSTANTIATE_TEST_SUITE_P(Tiny, GoldenCommandsTest, testing::Values("llama", "qwen2"));

}  // namespace
}  // namespace suture
