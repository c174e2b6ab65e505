#include "models/weight_packing.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <random>
#include <utility>

#include "base/unique_fd.h"
#include "kernels/packed_weights.h"
#include "models/language_model.h"
#include "models/test_models.h"

namespace suture {
namespace {

constexpr uint64_t kHidden = 64;
constexpr uint64_t kFfn = 96;
constexpr uint64_t kVocab = 40;  // not a whole number of tiles

// Blocks of Q4_0: a finite scale of about 1/256, then sixteen bytes of codes.
std::vector<std::byte> random_q4_0(uint64_t elements, uint32_t seed) {
  std::vector<std::byte> bytes(elements / 32 * 18);
  std::mt19937 random(seed);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  for (size_t at = 1; at < bytes.size(); at += 18) bytes[at] = std::byte{0x1c};
  return bytes;
}

// A llama of one layer with matrices of Q4_0, the embedding tied.
std::vector<std::byte> quantised_llama(uint32_t seed = 1) {
  GgufBuilder builder;
  builder.text("general.architecture", "llama")
      .u32("llama.block_count", 1)
      .u32("llama.context_length", 64)
      .u32("llama.embedding_length", kHidden)
      .u32("llama.feed_forward_length", kFfn)
      .u32("llama.attention.head_count", 4)
      .u32("llama.attention.head_count_kv", 2)
      .u32("llama.vocab_size", kVocab)
      .f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  const std::vector<float> ones(kHidden, 1.0f);
  for (const char* norm : {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"})
    builder.tensor(norm, {kHidden}, GgufBuilder::kF32, std::as_bytes(std::span(ones)));
  const std::vector<std::pair<const char*, std::vector<uint64_t>>> matrices = {
      {"token_embd.weight", {kHidden, kVocab}},
      {"blk.0.attn_q.weight", {kHidden, kHidden}},
      {"blk.0.attn_k.weight", {kHidden, kHidden / 2}},
      {"blk.0.attn_v.weight", {kHidden, kHidden / 2}},
      {"blk.0.attn_output.weight", {kHidden, kHidden}},
      {"blk.0.ffn_gate.weight", {kHidden, kFfn}},
      {"blk.0.ffn_up.weight", {kHidden, kFfn}},
      {"blk.0.ffn_down.weight", {kFfn, kHidden}}};
  for (const auto& [name, dims] : matrices)
    builder.tensor(name, dims, GgufBuilder::kQ4_0, random_q4_0(dims[0] * dims[1], seed++));
  return builder.build();
}

// What packing the tensor by itself gives.
std::vector<std::byte> tiles_of(const Checkpoint& checkpoint, std::string_view name) {
  const TensorInfo& tensor = *checkpoint.find(name);
  const WeightView rows = {tensor.dtype, tensor.data.data(), tensor.shape[0], tensor.shape[1]};
  std::vector<std::byte> tiles(
      static_cast<size_t>(packed_bytes(rows.dtype, rows.rows, rows.cols).value()));
  EXPECT_TRUE(pack_tiles(rows, 0, (rows.rows + kPackedRows - 1) / kPackedRows, tiles.data()));
  return tiles;
}

std::vector<std::byte> content_of(const WeightView& packed) {
  const auto bytes = packed_bytes(packed.dtype, packed.rows, packed.cols).value();
  return {packed.data, packed.data + bytes};
}

// Memory under keys, as processes share it: filled by the first that asks.
struct SharedMemory {
  std::map<std::string, std::pair<UniqueFd, uint64_t>> blobs;
  int filled = 0;

  PackedMemory memory() {
    return
        [this](const std::string& key, uint64_t bytes, const FillMemory& fill) -> Result<Mapping> {
          if (!blobs.contains(key)) {
            UniqueFd fd(::memfd_create("test", MFD_CLOEXEC));
            EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
            auto writable = Mapping::shared(fd.get(), bytes, Mapping::Access::kReadWrite).value();
            SUTURE_RETURN_IF_ERROR(fill({writable.data(), writable.size()}));
            blobs[key] = {std::move(fd), bytes};
            ++filled;
          }
          const auto& [fd, size] = blobs.at(key);
          EXPECT_EQ(size, bytes);
          return Mapping::shared(fd.get(), bytes, Mapping::Access::kReadOnly);
        };
  }
};

class WeightPackingTest : public testing::Test {
 protected:
  std::unique_ptr<LanguageModel> load(const std::filesystem::path& path,
                                      const LoadOptions& options = {}) {
    auto model = LanguageModel::load(path, options);
    EXPECT_TRUE(model) << model.error().message();
    return std::move(*model);
  }

  TemporaryFile file_{quantised_llama()};
};

TEST_F(WeightPackingTest, QuantisedMatricesBecomeTilesAndTheEmbeddingStaysRows) {
  for (const int threads : {1, 3}) {
    const auto model = load(file_.path(), {.threads = threads});
    const Checkpoint& checkpoint = model->checkpoint();
    const Weights& weights = model->weights();
    const LayerWeights& layer = weights.layers[0];
    const std::map<std::string, const WeightView*> packed = {
        {"token_embd.weight", &weights.output},
        {"blk.0.attn_q.weight", &layer.q},
        {"blk.0.attn_k.weight", &layer.k},
        {"blk.0.attn_v.weight", &layer.v},
        {"blk.0.attn_output.weight", &layer.attention_out},
        {"blk.0.ffn_gate.weight", &layer.gate},
        {"blk.0.ffn_up.weight", &layer.up},
        {"blk.0.ffn_down.weight", &layer.down}};
    for (const auto& [name, view] : packed) {
      EXPECT_EQ(view->layout, WeightLayout::kTiles) << name;
      EXPECT_EQ(content_of(*view), tiles_of(checkpoint, name)) << name;
    }
    EXPECT_EQ(weights.embedding.layout, WeightLayout::kRows);
    EXPECT_EQ(weights.embedding.data, checkpoint.find("token_embd.weight")->data.data());
    EXPECT_EQ(weights.packed.size(),
              packed_weight_bytes(load_weights(checkpoint, model->device()).value()).value());
  }
}

TEST_F(WeightPackingTest, RowsOfAFusedMatrixBecomeTilesOfTheirOwn) {
  const auto checkpoint = Checkpoint::open(file_.path()).value();
  const TensorInfo& gate = *checkpoint->find("blk.0.ffn_gate.weight");
  const int64_t row_bytes = dtype_bytes(gate.dtype, kHidden).value();
  Weights weights;
  weights.layers.resize(1);
  weights.layers[0].q = {gate.dtype, gate.data.data(), 21, kHidden};
  weights.layers[0].k = {gate.dtype, gate.data.data() + 21 * row_bytes, 75, kHidden};
  const Weights rows = {.layers = weights.layers};
  ASSERT_TRUE(pack_weights(*checkpoint, "fingerprint", 2, {}, weights));
  for (const auto matrix : {&LayerWeights::q, &LayerWeights::k}) {
    const WeightView& view = rows.layers[0].*matrix;
    std::vector<std::byte> tiles(packed_bytes(view.dtype, view.rows, view.cols).value());
    ASSERT_TRUE(pack_tiles(view, 0, (view.rows + 15) / 16, tiles.data()));
    EXPECT_EQ(content_of(weights.layers[0].*matrix), tiles);
  }
}

TEST_F(WeightPackingTest, ModelsOfOneFileShareAndOthersDoNot) {
  SharedMemory shared;
  const auto first = load(file_.path(), {.packed_memory = shared.memory()});
  const auto second = load(file_.path(), {.threads = 2, .packed_memory = shared.memory()});
  EXPECT_EQ(shared.filled, 1);
  EXPECT_EQ(content_of(first->weights().output), content_of(second->weights().output));
  const TemporaryFile other(quantised_llama(7));
  load(other.path(), {.packed_memory = shared.memory()});
  EXPECT_EQ(shared.filled, 2);
  for (const auto& [key, blob] : shared.blobs) EXPECT_LE(key.size(), 63u);  // of the broker's keys
}

TEST_F(WeightPackingTest, SharedAndOwnWeightsGiveTheSameLogits) {
  SharedMemory shared;
  std::vector<std::vector<float>> logits;
  for (const LoadOptions& options :
       {LoadOptions{}, LoadOptions{.threads = 3}, LoadOptions{.packed_memory = shared.memory()}}) {
    const auto model = load(file_.path(), options);
    ASSERT_TRUE(model->warm_up());
    const auto cache = model->make_cache(16).value();
    logits.push_back(prompt_logits(*model, std::vector<int32_t>{1, 2, 3, 39}, *cache));
    const float* next = model->decode(4, *cache).value();
    const auto decoded = to_host(*model, next, kVocab);
    logits.back().insert(logits.back().end(), decoded.begin(), decoded.end());
  }
  EXPECT_EQ(logits[0], logits[1]);
  EXPECT_EQ(logits[0], logits[2]);
}

TEST_F(WeightPackingTest, MemoryThatCannotBeHadIsTheModelsError) {
  const auto none = [](const std::string&, uint64_t, const FillMemory&) -> Result<Mapping> {
    return fail(ErrorCode::kOutOfMemory, "none left");
  };
  EXPECT_EQ(LanguageModel::load(file_.path(), {.packed_memory = none}).error().what, "none left");
}

TEST_F(WeightPackingTest, PlainWeightsStayWhereTheyLie) {
  const TemporaryFile plain(one_layer_llama().build());
  const auto never = [](const std::string&, uint64_t, const FillMemory&) -> Result<Mapping> {
    return fail(ErrorCode::kOutOfMemory, "not needed");
  };
  const auto model = load(plain.path(), {.packed_memory = never});
  EXPECT_EQ(model->weights().layers[0].down.layout, WeightLayout::kRows);
  EXPECT_EQ(model->weights().packed.size(), 0u);
}

TEST_F(WeightPackingTest, OnlyWhatIsNotPackedIsUsedInPlace) {
  const auto model = load(file_.path());
  for (const TensorInfo* tensor : model->checkpoint().tensors())
    EXPECT_FALSE(is_used_in_place(*tensor, model->weights()) && is_packable(tensor->dtype))
        << tensor->name;
  const TemporaryFile plain(one_layer_llama().build());
  const auto tied = load(plain.path());  // its embedding is the output matrix as well
  for (const TensorInfo* tensor : tied->checkpoint().tensors())
    EXPECT_EQ(is_used_in_place(*tensor, tied->weights()), tensor->shape.size() > 1)  // no norms
        << tensor->name;
}

}  // namespace
}  // namespace suture
