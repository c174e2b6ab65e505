#include "models/test_models.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <utility>

#include "kernels/kv_rows.h"

namespace suture {
namespace {

template <typename T>
std::vector<T> values_of(const TensorInfo& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

}  // namespace

std::filesystem::path tiny_folder(std::string_view name) {
  return std::filesystem::path(SUTURE_TEST_DATA_DIR) / "tiny" / name;
}

std::unique_ptr<LanguageModel> load_tiny(std::string_view name, int threads) {
  return LanguageModel::load(tiny_folder(name), {.threads = threads}).value();
}

Golden::Golden(std::string_view name, std::string_view file) {
  const auto path = tiny_folder(name) / fmt::format("{}.safetensors", file);
  mapping_ = Mapping::file(path).value();
  file_ = SafetensorsFile::parse(mapping_.bytes(), path.string()).value();
}

std::vector<int32_t> Golden::ids(std::string_view tensor) const {
  const auto values = values_of<int64_t>(*file_->find(tensor));
  return {values.begin(), values.end()};
}

std::vector<float> Golden::floats(std::string_view tensor) const {
  return values_of<float>(*file_->find(tensor));
}

GgufBuilder one_layer_metadata(std::string_view architecture) {
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", architecture, name); };
  GgufBuilder builder;
  builder.text("general.architecture", architecture)
      .u32(key("block_count"), 1)
      .u32(key("context_length"), 64)
      .u32(key("embedding_length"), 8)
      .u32(key("feed_forward_length"), 12)
      .u32(key("attention.head_count"), 2)
      .u32(key("attention.head_count_kv"), 1)
      .u32(key("vocab_size"), 5)
      .f32(key("attention.layer_norm_rms_epsilon"), 1e-5f);
  return builder;
}

std::vector<TensorShape> one_layer_tensors() {
  return {
      {"token_embd.weight", {8, 5}},    {"blk.0.attn_norm.weight", {8}},
      {"blk.0.attn_q.weight", {8, 8}},  {"blk.0.attn_k.weight", {8, 4}},
      {"blk.0.attn_v.weight", {8, 4}},  {"blk.0.attn_output.weight", {8, 8}},
      {"blk.0.ffn_norm.weight", {8}},   {"blk.0.ffn_gate.weight", {8, 12}},
      {"blk.0.ffn_up.weight", {8, 12}}, {"blk.0.ffn_down.weight", {12, 8}},
      {"output_norm.weight", {8}},
  };
}

GgufBuilder one_layer_llama(std::string_view left_out) {
  GgufBuilder builder = one_layer_metadata();
  for (const auto& [name, dims] : one_layer_tensors()) {
    if (name == left_out) continue;
    std::vector<float> values(dims[0] * (dims.size() > 1 ? dims[1] : 1));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i + 1));
    builder.tensor(name, dims, GgufBuilder::kF32, std::as_bytes(std::span(values)));
  }
  return builder;
}

TemporaryFile::TemporaryFile(std::span<const std::byte> bytes, std::string_view extension) {
  static std::atomic<int> count = 0;
  path_ = std::filesystem::path(::testing::TempDir()) /
          fmt::format("suture-{}-{}{}", ::getpid(), count++, extension);
  std::ofstream(path_, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

TemporaryFile::~TemporaryFile() { std::filesystem::remove(path_); }

std::vector<float> to_host(LanguageModel& model, const float* device, int64_t n) {
  std::vector<float> host(static_cast<size_t>(n));
  EXPECT_TRUE(model.stream().copy_to_host(std::as_writable_bytes(std::span(host)),
                                          reinterpret_cast<const std::byte*>(device)));
  EXPECT_TRUE(model.stream().synchronize());
  return host;
}

std::vector<float> prompt_logits(LanguageModel& model, std::span<const int32_t> ids, KvCache& cache,
                                 const SequencePlan* plan) {
  std::vector<float> all;
  PrefillArgs args;
  args.token_ids = ids;
  args.cache = &cache;
  args.plan = plan;
  args.on_logits = [&](int64_t, const float* logits) -> Status {
    const auto row = to_host(model, logits, model.config().vocab_size);
    all.insert(all.end(), row.begin(), row.end());
    return {};
  };
  const auto last = model.prefill(args);
  EXPECT_TRUE(last) << last.error().message();
  return all;
}

KvRows read_rows(LanguageModel& model, KvCache& cache, int32_t layer) {
  const KvShape& shape = cache.shape();
  const int64_t n = int64_t{shape.n_kv_heads} * cache.committed(layer) * shape.head_dim;
  const auto bytes = static_cast<size_t>(n) * sizeof(float);
  auto key = model.device().allocate(bytes).value();
  auto value = model.device().allocate(bytes).value();
  const auto status =
      kv_gather(model.stream(), {key->as<float>(), value->as<float>(), 0, cache.committed(layer),
                                 shape, cache.layer_view(layer)});
  EXPECT_TRUE(status) << status.error().message();
  return {to_host(model, key->as<float>(), n), to_host(model, value->as<float>(), n)};
}

float max_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<float>::infinity();
  float largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const float difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;  // keeps NaN
  }
  return largest;
}

}  // namespace suture
