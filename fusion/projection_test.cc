#include "fusion/projection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "fusion/eight_bit_map.h"
#include "fusion/test_projector.h"
#include "kernels/test_kv.h"

namespace suture {
namespace {

constexpr int64_t kTokens = 75, kRows = 41;

// ---- The formula, in float64 ----

// Frequencies as the rules define them, for the rules that the tests use.
std::vector<double> frequencies_of(const RopeSchedule& rope, int32_t dim) {
  const RopeTable table = rope_table(rope, dim, 0);
  return {table.frequencies.begin(), table.frequencies.end()};
}

double factor_of(const RopeSchedule& rope, int32_t dim) {
  return static_cast<double>(rope_table(rope, dim, 0).attention_factor);
}

// Turns the heads of a row as complex numbers, on or back, by the angles of their layer.
void turn(const StreamInfo& kv, int32_t layer, double position, bool back,
          std::vector<double>& row) {
  const RopeSchedule& rope =
      kv.ropes[static_cast<size_t>(kv.layer_ropes[static_cast<size_t>(layer)])];
  const auto dim = static_cast<size_t>(kv.shape.head_dim);
  const std::vector<double> frequencies = frequencies_of(rope, kv.shape.head_dim);
  const double factor = factor_of(rope, kv.shape.head_dim);
  for (size_t head = 0; head < row.size(); head += dim) {
    for (size_t i = 0; i < dim / 2; ++i) {
      const bool halves = kv.rope_pairing == RopePairing::kHalves;
      double& a = row[head + (halves ? i : 2 * i)];
      double& b = row[head + (halves ? i + dim / 2 : 2 * i + 1)];
      const auto turned = std::polar(factor, position * frequencies[i]);
      const std::complex<double> pair(a, b);
      const auto out = back ? pair / turned : pair * turned;
      a = out.real();
      b = out.imag();
    }
  }
}

// `own`: the row of the target's first layer, or nothing.
std::vector<double> mapped(const LinearMap& map, const std::vector<std::vector<double>>& layers,
                           std::span<const float> own) {
  std::vector<double> x;
  for (const int32_t layer : map.window)
    x.insert(x.end(), layers[static_cast<size_t>(layer)].begin(),
             layers[static_cast<size_t>(layer)].end());
  x.insert(x.end(), own.begin(), own.end());
  std::vector<float> weights(map.weights.size());
  EXPECT_TRUE(dequantise(map.dtype, reinterpret_cast<const std::byte*>(map.weights.data()),
                         std::ssize(map.weights), weights.data()));
  std::vector<double> y(map.beta.size());
  for (size_t o = 0; o < y.size(); ++o) {
    for (size_t i = 0; i < x.size(); ++i)
      y[o] += static_cast<double>(weights[o * x.size() + i]) *
              (x[i] - static_cast<double>(map.mean[i]));
    y[o] = static_cast<double>(map.gamma[o]) * y[o] + static_cast<double>(map.beta[o]);
  }
  return y;
}

// ---- The case ----

// Two models, stored rows of the source, and rows of the target that a projection wrote.
class Case {
 public:
  Case(DType weights, const ModelConfig& source, const ModelConfig& target,
       const TestProjector::Windows& windows, bool own_first_layer = false)
      : projector(std::make_shared<Projector>(
            TestProjector(weights, windows, source, target, 1, own_first_layer).value)) {
    for (int32_t l = 0; l < source.n_layers; ++l)
      source_rows.emplace_back(source.kv_shape(), kTokens, random_);
    for (int32_t l = 0; l < target.n_layers; ++l)
      target_rows.emplace_back(target.kv_shape(), kTokens, random_);
    for (int32_t row = 0; row < kRows; ++row) {
      entries.push_back((row * 29 + 3) % static_cast<int32_t>(kTokens));
      source_positions.push_back(entries.back() + 11);
      target_positions.push_back(2 * row + 500);
      target_tokens.push_back(row % kVocabulary);
    }
    std::normal_distribution<float> normal;
    for (std::vector<float>* table : {&first_keys_, &first_values_}) {
      table->resize(static_cast<size_t>(kVocabulary * projector->target.width()));
      for (float& value : *table) value = normal(random_);
    }
  }

  std::unique_ptr<Projection> projection(Device& device, Stream& stream, int64_t max_rows = kRows) {
    ProjectionSetup setup{projector, projector->source.kv, projector->target.kv, max_rows};
    if (projector->own_first_layer)
      setup.first_layer = [this](std::span<const int32_t> tokens, MatmulPath, float* key,
                                 float* value) -> Status {
        for (const int32_t token : tokens) {
          key = std::ranges::copy(first_row(first_keys_, token), key).out;
          value = std::ranges::copy(first_row(first_values_, token), value).out;
        }
        return {};
      };
    auto made = Projection::create(device, stream, std::move(setup));
    SUTURE_CHECK(made.has_value(), "{}", made.error().message());
    return std::move(*made);
  }

  // Rows [begin, end) of the case.
  ProjectionRows rows(int64_t begin, int64_t end) {
    views_.clear();
    for (TestSequence& layer : source_rows) views_.push_back(layer.view());
    const auto part = [begin, end](const std::vector<int32_t>& list) {
      return std::span(list).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    };
    ProjectionRows rows;
    rows.source = views_;
    rows.source_entries = part(entries);
    rows.source_positions = part(source_positions);
    rows.target_positions = part(target_positions);
    if (projector->own_first_layer) rows.target_tokens = part(target_tokens);
    return rows;
  }

  // Maps all rows, up to `step` at a time, to entries 20 and on.
  void run(int threads, int64_t step, MatmulPath path = MatmulPath::kPrefill) {
    const auto device = open_device("cpu", threads);
    ASSERT_TRUE(device);
    const auto stream = (*device)->make_stream();
    ASSERT_TRUE(stream);
    const auto projection = this->projection(**device, **stream, step);
    for (int64_t begin = 0; begin < kRows; begin += step) {
      ProjectionRows some = rows(begin, std::min(kRows, begin + step));
      some.path = path;
      ASSERT_TRUE(projection->read(some));
      for (int32_t l = 0; l < projector->target.n_layers(); ++l)
        ASSERT_TRUE(projection->write(l, target_rows[static_cast<size_t>(l)].view(), 20 + begin));
    }
  }

  // [rows][target width] of K or V of a target layer, as the projection wrote them.
  std::vector<float> written(size_t layer, bool key) {
    TestSequence& sequence = target_rows[layer];
    const KvShape& shape = sequence.shape;
    std::vector<float> keys(static_cast<size_t>(kRows * sequence.width())), values(keys.size());
    EXPECT_TRUE(kv_gather(*cpu_stream(1),
                          {keys.data(), values.data(), 20, 20 + kRows, shape, sequence.view()}));
    const std::vector<float>& gathered = key ? keys : values;  // [kv_head][rows][head_dim]
    std::vector<float> rows;
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t head = 0; head < shape.n_kv_heads; ++head) {
        const auto at = gathered.begin() + (head * kRows + row) * shape.head_dim;
        rows.insert(rows.end(), at, at + shape.head_dim);
      }
    return rows;
  }

  // The same by the formula.
  std::vector<double> expected(size_t layer, bool key) const {
    std::vector<double> all;
    for (size_t row = 0; row < kRows; ++row) {
      std::vector<std::vector<double>> source;
      for (size_t l = 0; l < source_rows.size(); ++l) source.push_back(plain(l, row, key));
      const LayerProjection& maps = projector->layers[layer];
      std::span<const float> own;
      if (projector->own_first_layer)
        own = first_row(key ? first_keys_ : first_values_, target_tokens[row]);
      std::vector<double> y = mapped(key ? maps.key : maps.value, source, own);
      if (key)
        turn(projector->target.kv, static_cast<int32_t>(layer), target_positions[row], false, y);
      all.insert(all.end(), y.begin(), y.end());
    }
    return all;
  }

  std::shared_ptr<Projector> projector;
  std::vector<TestSequence> source_rows;  // [source layers]
  std::vector<TestSequence> target_rows;  // [target layers]
  std::vector<int32_t> entries, source_positions, target_positions, target_tokens;

 private:
  // The target's first layer is a table here.
  static constexpr int32_t kVocabulary = 5;
  std::span<const float> first_row(const std::vector<float>& table, int32_t token) const {
    const auto width = static_cast<size_t>(projector->target.width());
    return std::span(table).subspan(static_cast<size_t>(token) * width, width);
  }

  std::vector<double> plain(size_t layer, size_t row, bool key) const {
    const TestSequence& sequence = source_rows[layer];
    const std::vector<float>& all = key ? sequence.key : sequence.value;
    const auto at = all.begin() + entries[row] * sequence.width();
    std::vector<double> values(at, at + sequence.width());
    if (key)
      turn(projector->source.kv, static_cast<int32_t>(layer), source_positions[row], true, values);
    return values;
  }

  std::mt19937 random_{5};
  std::vector<float> first_keys_, first_values_;  // [kVocabulary][target width]
  std::vector<KvLayerView> views_;
};

// The distance of what was written to the formula, relative to the size of the rows.
double relative_error(Case& example, size_t layer, bool key) {
  const std::vector<float> written = example.written(layer, key);
  const std::vector<double> expected = example.expected(layer, key);
  EXPECT_EQ(written.size(), expected.size());
  double error = 0, size = 0;
  for (size_t i = 0; i < written.size(); ++i) {
    error += std::pow(static_cast<double>(written[i]) - expected[i], 2);
    size += std::pow(expected[i], 2);
  }
  return std::sqrt(error / size);
}

// Of maps in 8 bits: eight_bit_map_test.cc says where it comes from.
constexpr double kEightBitTolerance = 1.2e-2;

// `tolerance` is that of maps in 16 bits.
void expect_formula(Case& example, double tolerance) {
  const auto of = [tolerance](const LinearMap& map) {
    return fits_eight_bits(map) ? kEightBitTolerance : tolerance;
  };
  for (size_t layer = 0; layer < example.target_rows.size(); ++layer) {
    const LayerProjection& maps = example.projector->layers[layer];
    EXPECT_LT(relative_error(example, layer, true), of(maps.key)) << "K of layer " << layer;
    EXPECT_LT(relative_error(example, layer, false), of(maps.value)) << "V of layer " << layer;
  }
}

const TestProjector::Windows kWindows = {{{0, 2}, {1}}, {{0, 1, 2}, {0, 1, 2}}};

ModelConfig grouped(int32_t n_layers, int32_t n_kv_heads, int32_t head_dim, DType kv_dtype) {
  ModelConfig config;
  config.n_layers = n_layers;
  config.n_heads = 4 * n_kv_heads;
  config.n_kv_heads = n_kv_heads;
  config.head_dim = head_dim;
  config.kv_dtype = kv_dtype;
  config.ropes = {{.theta = 1e6F}};
  config.layer_rules.resize(static_cast<size_t>(n_layers));
  return config;
}

// bf16 products of prompts, and float32 ones of generated tokens with K/V in float32.
constexpr double kPrefillTolerance = 4e-3, kDecodeTolerance = 1e-6;

TEST(ProjectionTest, FollowsTheFormulaBetweenModelsThatDifferInEverything) {
  for (const DType dtype : {DType::kF16, DType::kBf16}) {
    Case example(dtype, small_source(), small_target(), kWindows);
    example.run(2, kRows, MatmulPath::kDecode);
    expect_formula(example, kDecodeTolerance);
    example.run(2, kRows, MatmulPath::kPrefill);
    expect_formula(example, kPrefillTolerance);
  }
}

// Two K/V heads of 64 to eight of 32 with four queries each, K/V in 16 bits on both sides.
TEST(ProjectionTest, FollowsTheFormulaWithGroupedQueries) {
  const ModelConfig source = grouped(4, 2, 64, DType::kBf16);
  const ModelConfig target = grouped(3, 8, 32, DType::kF16);
  const TestProjector::Windows windows = {
      {{0, 1, 2, 3}, {0, 1, 2, 3}}, {{0, 1, 2, 3}, {3}}, {{2}, {1, 3}}};
  for (const DType dtype : {DType::kF16, DType::kBf16}) {
    Case example(dtype, source, target, windows);
    for (const MatmulPath path : {MatmulPath::kPrefill, MatmulPath::kDecode}) {
      example.run(1, 16, path);
      expect_formula(example, kPrefillTolerance);
    }
  }
}

TEST(ProjectionTest, FollowsTheFormulaWithTheTargetsOwnFirstLayer) {
  Case example(DType::kBf16, small_source(), small_target(), kWindows, /*own_first_layer=*/true);
  for (const int64_t step : {kRows, int64_t{7}}) {
    example.run(2, step, MatmulPath::kDecode);
    expect_formula(example, kDecodeTolerance);
  }
  example.run(2, kRows, MatmulPath::kPrefill);
  expect_formula(example, kPrefillTolerance);
  // In 8 bits.
  Case wide(DType::kBf16, grouped(2, 2, 64, DType::kBf16), grouped(2, 8, 32, DType::kF16),
            {{{0, 1}, {0, 1}}, {{0, 1}, {1}}}, /*own_first_layer=*/true);
  wide.run(1, 16, MatmulPath::kPrefill);
  expect_formula(wide, kPrefillTolerance);
}

TEST(ProjectionTest, TheTargetsOwnFirstLayerTakesTokensAndSomethingThatKnowsThem) {
  Case example(DType::kBf16, small_source(), small_target(), kWindows, /*own_first_layer=*/true);
  const auto device = open_device("cpu", 1);
  const auto stream = (*device)->make_stream();
  const auto projection = example.projection(**device, **stream);
  ProjectionRows rows = example.rows(0, 8);
  EXPECT_TRUE(projection->read(rows));
  rows.target_tokens = rows.target_tokens.first(7);
  EXPECT_FALSE(projection->read(rows));
  const Projector& projector = *example.projector;
  EXPECT_FALSE(Projection::create(
      **device, **stream, {example.projector, projector.source.kv, projector.target.kv, 8}));
}

// One mean off by a lot: the product itself never sees it.
TEST(ProjectionTest, LargeConstantPartsAreTakenOffBeforeTheProduct) {
  Case example(DType::kBf16, small_source(), small_target(), kWindows);
  for (LayerProjection& layer : example.projector->layers)
    for (size_t i = 0; i < layer.value.mean.size(); i += 2) layer.value.mean[i] = 300;
  for (TestSequence& layer : example.source_rows) {
    for (size_t i = 0; i < layer.value.size(); i += 2) layer.value[i] = 300 + layer.value[i] / 4;
    layer.shape.dtype = DType::kF16;
    for (float& value : layer.value) value = std::round(value * 4) / 4;  // exact in float16
    layer.write(0, kTokens);
  }
  example.run(1, kRows);
  EXPECT_LT(relative_error(example, 0, false), kPrefillTolerance);
  EXPECT_LT(relative_error(example, 1, false), kPrefillTolerance);
}

TEST(ProjectionTest, ARowsBitsDependOnTheRowAlone) {
  for (const MatmulPath path : {MatmulPath::kPrefill, MatmulPath::kDecode}) {
    Case together(DType::kF16, small_source(), small_target(), kWindows);
    together.run(1, kRows, path);
    for (const auto& [threads, step] : {std::pair{3, kRows}, {1, int64_t{1}}, {2, int64_t{7}}}) {
      Case apart(DType::kF16, small_source(), small_target(), kWindows);
      apart.run(threads, step, path);
      for (size_t layer = 0; layer < 2; ++layer) {
        EXPECT_EQ(apart.written(layer, true), together.written(layer, true)) << step;
        EXPECT_EQ(apart.written(layer, false), together.written(layer, false)) << step;
      }
    }
  }
}

// Layers with the same input take it from what was made for the first of them, and only then.
TEST(ProjectionTest, LayersShareTheirInputUntilOtherRowsAreRead) {
  const TestProjector::Windows windows = {{{0, 2}, {1}}, {{0, 2}, {0, 1}}};
  Case example(DType::kF16, small_source(), small_target(), windows);
  example.projector->layers[1].key.mean = example.projector->layers[0].key.mean;
  example.run(1, 7, MatmulPath::kDecode);
  expect_formula(example, kDecodeTolerance);
}

// What one target layer read for another one's window is not taken for its own.
TEST(ProjectionTest, LayersMayComeInAnyOrder) {
  Case forwards(DType::kBf16, small_source(), small_target(), kWindows);
  forwards.run(1, kRows);
  Case backwards(DType::kBf16, small_source(), small_target(), kWindows);
  const auto device = open_device("cpu", 1);
  const auto stream = (*device)->make_stream();
  const auto projection = backwards.projection(**device, **stream);
  ASSERT_TRUE(projection->read(backwards.rows(0, kRows)));
  for (const int32_t layer : {1, 0, 1})
    ASSERT_TRUE(
        projection->write(layer, backwards.target_rows[static_cast<size_t>(layer)].view(), 20));
  for (size_t layer = 0; layer < 2; ++layer)
    EXPECT_EQ(backwards.written(layer, true), forwards.written(layer, true));
}

// The dynamic rule has other frequencies beyond its limit; rows say by which they were turned.
TEST(ProjectionTest, RowsAreTurnedBackByTheRuleOfTheirEpoch) {
  ModelConfig source = small_source();
  source.ropes[1] = {.scaling = RopeScaling::kDynamic, .factor = 2, .original_positions = 64};
  Case within(DType::kF16, source, small_target(), kWindows);
  within.run(1, kRows);
  Case beyond(DType::kF16, source, small_target(), kWindows);
  const auto device = open_device("cpu", 1);
  const auto stream = (*device)->make_stream();
  const auto projection = beyond.projection(**device, **stream);
  ProjectionRows rows = beyond.rows(0, kRows);
  rows.source_epoch = 256;
  ASSERT_TRUE(projection->read(rows));
  for (int32_t l = 0; l < 2; ++l)
    ASSERT_TRUE(projection->write(l, beyond.target_rows[static_cast<size_t>(l)].view(), 20));
  // K of target layer 0 looks at source layers 0 and 2 only, which turn by another rule.
  EXPECT_EQ(beyond.written(0, true), within.written(0, true));
  EXPECT_NE(beyond.written(1, true), within.written(1, true));
  EXPECT_EQ(beyond.written(1, false), within.written(1, false));
}

TEST(ProjectionTest, RefusesRowsAndModelsThatDoNotFit) {
  Case example(DType::kF16, small_source(), small_target(), kWindows);
  const auto device = open_device("cpu", 1);
  const auto stream = (*device)->make_stream();
  const auto projection = example.projection(**device, **stream, 8);
  EXPECT_TRUE(projection->read(example.rows(0, 8)));
  EXPECT_FALSE(projection->read(example.rows(0, 9)));
  ProjectionRows rows = example.rows(0, 8);
  rows.target_positions = rows.target_positions.first(7);
  EXPECT_FALSE(projection->read(rows));
  rows = example.rows(0, 8);
  rows.source = rows.source.first(2);
  EXPECT_FALSE(projection->read(rows));
  example.entries[3] = -1;
  EXPECT_FALSE(projection->read(example.rows(0, 8)));
  EXPECT_FALSE(projection->write(2, example.target_rows[0].view(), 0));
  EXPECT_FALSE(projection->write(-1, example.target_rows[0].view(), 0));

  const StreamInfo& source = example.projector->source.kv;
  StreamInfo narrow = source;
  narrow.shape.n_kv_heads = 1;
  EXPECT_FALSE(Projection::create(**device, **stream,
                                  {example.projector, narrow, example.projector->target.kv, 8}));
  EXPECT_FALSE(Projection::create(**device, **stream, {example.projector, source, source, 8}));
  EXPECT_FALSE(Projection::create(**device, **stream,
                                  {example.projector, source, example.projector->target.kv, 0}));
}

}  // namespace
}  // namespace suture
