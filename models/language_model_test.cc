#include "models/language_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "models/test_models.h"
#include "models/test_quantised_model.h"

namespace suture {
namespace {

std::vector<int32_t> long_prompt(const ModelConfig& config, int32_t n) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) ids[static_cast<size_t>(i)] = i * 37 % config.vocab_size;
  return ids;
}

TEST(LanguageModelTest, PromptsAreCutOnTheGridOfEntries) {
  const auto model = load_tiny("llama");
  const auto ids = long_prompt(model->config(), 700);
  auto cache = model->make_cache(1024).value();
  std::vector<std::pair<int64_t, int64_t>> chunks;
  PrefillArgs args;
  args.token_ids = std::span(ids).first(100);
  args.cache = cache.get();
  args.on_chunk = [&](int64_t begin, int64_t end) -> Status {
    chunks.emplace_back(begin, end);
    return {};
  };
  ASSERT_TRUE(model->prefill(args));
  args.token_ids = std::span(ids).subspan(100);
  const auto last = model->prefill(args);
  ASSERT_TRUE(last) << last.error().message();
  using Chunks = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(chunks, (Chunks{{0, 100}, {100, 512}, {512, 700}}));
  const auto in_parts = to_host(*model, *last, model->config().vocab_size);

  auto whole_cache = model->make_cache(1024).value();
  const auto whole = prompt_logits(*model, ids, *whole_cache);
  ASSERT_EQ(whole.size(), ids.size() * in_parts.size());
  EXPECT_EQ(std::vector<float>(whole.end() - std::ssize(in_parts), whole.end()), in_parts);
}

TEST(LanguageModelTest, LastRowIsReturnedWhetherRowsAreAskedForOrNot) {
  const auto model = load_tiny("qwen2");
  const auto ids = long_prompt(model->config(), 40);
  auto cache = model->make_cache(64).value();
  PrefillArgs args;
  args.token_ids = ids;
  args.cache = cache.get();
  std::vector<int64_t> rows;
  std::vector<float> seen;
  args.on_logits = [&](int64_t row, const float* logits) -> Status {
    rows.push_back(row);
    seen = to_host(*model, logits, model->config().vocab_size);
    return {};
  };
  const auto last = model->prefill(args);
  ASSERT_TRUE(last);
  std::vector<int64_t> all_rows(ids.size());
  std::iota(all_rows.begin(), all_rows.end(), 0);
  EXPECT_EQ(rows, all_rows);
  EXPECT_EQ(to_host(*model, *last, model->config().vocab_size), seen);

  auto second_cache = model->make_cache(64).value();
  args.cache = second_cache.get();
  args.on_logits = nullptr;
  const auto only = model->prefill(args);
  ASSERT_TRUE(only);
  EXPECT_EQ(to_host(*model, *only, model->config().vocab_size), seen);
}

TEST(LanguageModelTest, RowsCanBeAskedForFromOneOn) {
  const auto model = load_tiny("qwen2");
  const auto ids = long_prompt(model->config(), 600);
  auto whole_cache = model->make_cache(1024).value();
  const auto whole = prompt_logits(*model, ids, *whole_cache);
  auto cache = model->make_cache(1024).value();
  PrefillArgs args;
  args.token_ids = ids;
  args.cache = cache.get();
  args.first_logits_row = 510;  // before the end of the first chunk
  std::vector<int64_t> rows;
  std::vector<float> seen;
  args.on_logits = [&](int64_t row, const float* logits) -> Status {
    rows.push_back(row);
    const auto host = to_host(*model, logits, model->config().vocab_size);
    seen.insert(seen.end(), host.begin(), host.end());
    return {};
  };
  ASSERT_TRUE(model->prefill(args));
  ASSERT_EQ(rows.size(), 90u);
  EXPECT_EQ(rows.front(), 510);
  EXPECT_EQ(rows.back(), 599);
  EXPECT_EQ(seen, std::vector<float>(whole.end() - std::ssize(seen), whole.end()));

  args.first_logits_row = 601;
  EXPECT_EQ(model->prefill(args).error().code, ErrorCode::kInvalidArgument);
}

// As a slave reads and follows: others attend to its rows.
TEST(LanguageModelTest, WhoWantsNoLogitsGetsTheSameRows) {
  const auto model = load_tiny("qwen2");
  const auto ids = long_prompt(model->config(), 600);
  const auto whole_cache = model->make_cache(1024).value();
  prompt_logits(*model, ids, *whole_cache);
  ASSERT_TRUE(model->decode(5, *whole_cache));
  const auto cache = model->make_cache(1024).value();
  PrefillArgs args;
  args.token_ids = ids;
  args.cache = cache.get();
  args.first_logits_row = 600;
  EXPECT_EQ(model->prefill(args).value(), nullptr);
  const auto mate = model->make_cache(8).value();
  const DecodeItem items[] = {{.token_id = 5, .cache = cache.get(), .wants_logits = false},
                              {.token_id = 5, .cache = mate.get()}};
  const auto answers = model->decode_batch(items);
  EXPECT_EQ(answers[0].value(), nullptr);
  EXPECT_NE(answers[1].value(), nullptr);
  for (int32_t layer = 0; layer < model->config().n_layers; ++layer) {
    const KvRows rows = read_rows(*model, *cache, layer);
    EXPECT_EQ(rows.key, read_rows(*model, *whole_cache, layer).key);
    EXPECT_EQ(rows.value, read_rows(*model, *whole_cache, layer).value);
  }
}

TEST(LanguageModelTest, RefusesAnEmptyPrompt) {
  const auto model = load_tiny("llama");
  auto cache = model->make_cache(64).value();
  PrefillArgs args;
  args.cache = cache.get();
  const auto last = model->prefill(args);
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, ErrorCode::kInvalidArgument);
}

TEST(LanguageModelTest, RefusesUnknownDevicesAndFiles) {
  const auto no_device = LanguageModel::load(tiny_folder("llama"), {.device = "abacus"});
  ASSERT_FALSE(no_device);
  const auto no_file = LanguageModel::load(tiny_folder("no such model"), {});
  ASSERT_FALSE(no_file);
  EXPECT_EQ(no_file.error().code, ErrorCode::kNotFound);
}

// GGUF files of this family hold the rows of q and k in another order, and rotate accordingly.
TEST(LanguageModelTest, NeighbourPairsOfGgufMatchTheReference) {
  const auto folder = load_tiny("llama");
  const ModelConfig& config = folder->config();
  GgufBuilder builder;
  builder.text("general.architecture", "llama")
      .u32("llama.block_count", static_cast<uint32_t>(config.n_layers))
      .u32("llama.context_length", static_cast<uint32_t>(config.max_positions))
      .u32("llama.embedding_length", static_cast<uint32_t>(config.hidden_size))
      .u32("llama.feed_forward_length", static_cast<uint32_t>(config.ffn_size))
      .u32("llama.attention.head_count", static_cast<uint32_t>(config.n_heads))
      .u32("llama.attention.head_count_kv", static_cast<uint32_t>(config.n_kv_heads))
      .u32("llama.vocab_size", static_cast<uint32_t>(config.vocab_size))
      .f32("llama.rope.freq_base", config.ropes[0].theta)
      .f32("llama.attention.layer_norm_rms_epsilon", config.norm_eps);
  for (const TensorInfo* tensor : folder->checkpoint().tensors()) {
    std::vector<std::byte> data(tensor->data.begin(), tensor->data.end());
    const bool rotated =
        tensor->name.ends_with("attn_q.weight") || tensor->name.ends_with("attn_k.weight");
    const size_t row_bytes = tensor->data.size() / static_cast<size_t>(tensor->shape[0]);
    const auto head_dim = static_cast<size_t>(config.head_dim);
    for (size_t row = 0; rotated && row < static_cast<size_t>(tensor->shape[0]); ++row) {
      const size_t head = row / head_dim;
      const size_t half = row % head_dim / (head_dim / 2);
      const size_t pair = row % (head_dim / 2);
      const size_t target = head * head_dim + 2 * pair + half;
      std::ranges::copy(tensor->data.subspan(row * row_bytes, row_bytes),
                        data.begin() + static_cast<long>(target * row_bytes));
    }
    builder.tensor(tensor->name, {tensor->shape.rbegin(), tensor->shape.rend()}, GgufBuilder::kF32,
                   data);
  }
  const TemporaryFile file(builder.build());
  const auto model = LanguageModel::load(file.path(), {});
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ((*model)->config().rope_pairing, RopePairing::kNeighbours);
  const Golden golden("llama");
  auto cache = (*model)->make_cache(64).value();
  const auto logits = prompt_logits(**model, golden.ids("input_ids"), *cache);
  EXPECT_LE(max_difference(logits, golden.floats("logits")), 1e-3f);
}

// A batch needs more scratch than a token, but no more than a prompt.
TEST(LanguageModelTest, AfterWarmUpTheLargestBatchBuildsNothing) {
  const TemporaryFile file(quantised_llama());
  const auto model = LanguageModel::load(file.path(), {.threads = 2}).value();
  ASSERT_TRUE(model->warm_up());
  const int64_t built = model->lazily_built();
  std::vector<std::unique_ptr<KvCache>> caches;
  std::vector<DecodeItem> items;
  for (int64_t i = 0; i < LanguageModel::kMaxBatch; ++i) {
    caches.push_back(model->make_cache(2).value());
    items.push_back({1, caches.back().get()});
  }
  for (const SequenceLogits& answer : model->decode_batch(items)) EXPECT_TRUE(answer);
  EXPECT_EQ(model->lazily_built(), built);
}

TEST(LanguageModelTest, AfterWarmUpNoPassBuildsAnything) {
  for (const int threads : {1, 3}) {
    const auto cold = load_tiny("qwen2", threads);
    const auto warm = load_tiny("qwen2", threads);
    ASSERT_TRUE(warm->warm_up().has_value());
    const int64_t built = warm->lazily_built();
    EXPECT_GT(built, cold->lazily_built());
    const std::vector<int32_t> ids = {3, 1, 2};
    std::vector<std::vector<float>> logits;
    for (LanguageModel* model : {cold.get(), warm.get()}) {
      const auto cache = model->make_cache(16);
      logits.push_back(prompt_logits(*model, ids, **cache));
      const auto next = model->decode(4, **cache);
      ASSERT_TRUE(next.has_value());
      logits.push_back(to_host(*model, *next, model->config().vocab_size));
    }
    EXPECT_EQ(warm->lazily_built(), built) << threads << " threads";
    EXPECT_GT(cold->lazily_built(), 0);
    EXPECT_EQ(logits[0], logits[2]);
    EXPECT_EQ(logits[1], logits[3]);
  }
}

}  // namespace
}  // namespace suture
