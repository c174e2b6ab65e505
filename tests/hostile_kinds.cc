#include "tests/hostile_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string_view>
#include <utility>

#include "base/mapping.h"
#include "launcher/topology.h"
#include "models/forward.h"
#include "models/test_models.h"
#include "models/tokenizer.h"
#include "tests/hostile_allocation.h"

namespace suture {
namespace {

namespace fs = std::filesystem;

// Opening may copy what it reads into tables of strings and JSON values, and ids of a
// tokenizer.json may leave 65536 out; running adds scratch for a chunk of rows, whose width the
// weights bound.
constexpr size_t kOpenBytesPerByte = 100, kOpenBytes = 4 << 20;
constexpr size_t kRunBytesPerByte = 200, kRunBytes = 64 << 20;
constexpr size_t kMaxMessage = 1000;

std::string outcome;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void write(const fs::path& path, std::string_view content) {
  fs::create_directories(path.parent_path());
  fs::remove(path);  // some file systems wait for the disk when a file is written over
  std::ofstream(path, std::ios::binary) << content;
}

// ---- The property ----

std::string fault_of(const Error& error, std::string_view in_where) {
  if (error.what.empty() || error.what.size() > kMaxMessage)
    return fmt::format("a message of {} bytes", error.what.size());
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  if (std::any_of(error.what.begin(), error.what.end(), is_control))
    return "a message with control characters: " + error.what;
  if (error.where.find(in_where) == std::string::npos)
    return "an error that does not name its place: " + error.message();
  return {};
}

std::string fault_of(const AllocationPeak& peak, size_t bound, std::string_view when) {
  if (peak.bytes() <= bound) return {};
  return fmt::format("{} took {} bytes, expected at most {}", when, peak.bytes(), bound);
}

// Memory of the device counts, as malloc() would not.
class CountingBuffer final : public Buffer {
 public:
  explicit CountingBuffer(std::unique_ptr<Buffer> buffer) : buffer_(std::move(buffer)) {
    count_allocation(buffer_->size());
  }
  ~CountingBuffer() override { count_release(buffer_->size()); }
  std::byte* data() override { return buffer_->data(); }
  size_t size() const override { return buffer_->size(); }

 private:
  std::unique_ptr<Buffer> buffer_;
};

class CountingDevice final : public Device {
 public:
  DeviceKind kind() const override { return device_->kind(); }
  std::string name() const override { return device_->name(); }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes) override {
    SUTURE_ASSIGN_OR_RETURN(auto buffer, device_->allocate(bytes));
    return std::make_unique<CountingBuffer>(std::move(buffer));
  }
  const std::byte* device_address(std::span<const std::byte> host) override {
    return device_->device_address(host);
  }
  Result<std::unique_ptr<Stream>> make_stream() override { return device_->make_stream(); }
  Result<std::unique_ptr<Event>> make_event() override { return device_->make_event(); }

 private:
  std::unique_ptr<Device> device_ = open_device("cpu", 1).value();
};

void use_tokenizer(const Tokenizer& tokenizer) {
  tokenizer.stable_end("an example");
  auto ids = tokenizer.encode("an example, naïve 你\xff", SpecialTokens::kParse);
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) ids.push_back(id);
  tokenizer.decode(ids);
}

// Metadata, tensors and tokenizer, as `inspect` and `tokenize` read them.
std::string problem_of_reading(const Checkpoint& checkpoint, std::string_view folder) {
  outcome = "opened";
  checkpoint.metadata();
  checkpoint.fingerprint();
  for (const TensorInfo* tensor : checkpoint.tensors()) {
    if (element_count(tensor->shape) < 0) return "a tensor of negative size";
  }
  auto vocabulary = checkpoint.vocabulary();
  if (!vocabulary) return fault_of(vocabulary.error(), folder);
  const auto tokenizer = Tokenizer::create(std::move(*vocabulary));
  if (!tokenizer) return fault_of(tokenizer.error(), "token");
  use_tokenizer(**tokenizer);
  outcome = "opened, tokenizes";
  return {};
}

Result<const float*> run_model(const Checkpoint& checkpoint) {
  CountingDevice device;
  const ModelConfig& config = checkpoint.config();
  SUTURE_ASSIGN_OR_RETURN(const auto stream, device.make_stream());
  SUTURE_ASSIGN_OR_RETURN(const Weights weights, load_weights(checkpoint, device));
  SUTURE_ASSIGN_OR_RETURN(const auto forward, Forward::create(config, weights, device, *stream));
  SUTURE_ASSIGN_OR_RETURN(const auto cache, make_heap_kv_cache(device, config.kv_shape(), 8));
  const int32_t last = config.vocab_size - 1;
  const std::vector<int32_t> ids = {0, last, last / 2};
  SequenceRows rows;
  rows.token_ids = ids;
  rows.cache = cache.get();
  SUTURE_RETURN_IF_ERROR(forward->run(rows, MatmulPath::kPrefill));
  rows.token_ids = std::span(ids).first(1);
  return forward->run(rows, MatmulPath::kDecode);
}

std::string problem_of_model(const fs::path& path, const fs::path& folder) {
  size_t size = 0;
  for (const auto& entry : fs::directory_iterator(folder)) size += fs::file_size(entry);
  const AllocationPeak opening;
  const auto checkpoint = Checkpoint::open(path);
  if (!checkpoint) {
    outcome = checkpoint.error().message();
    const std::string fault = fault_of(checkpoint.error(), folder.string());
    return fault.empty() ? fault_of(opening, size * kOpenBytesPerByte + kOpenBytes, "opening")
                         : fault;
  }
  std::string fault = problem_of_reading(**checkpoint, folder.string());
  if (fault.empty())
    fault = fault_of(opening, size * kOpenBytesPerByte + kOpenBytes, "opening and reading");
  if (!fault.empty()) return fault;
  const AllocationPeak running;
  if (const auto logits = run_model(**checkpoint); !logits) {
    outcome = logits.error().message();
    fault = fault_of(logits.error(), folder.string());
    if (!fault.empty()) return fault;
  } else {
    outcome += ", ran";
  }
  return fault_of(running, size * kRunBytesPerByte + kRunBytes, "running");
}

// ---- Valid files ----

const std::initializer_list<std::string_view> kPieces = {"<s>", "a", "b", "ab", "\xC4\xA0"};
const std::initializer_list<std::string_view> kScored = {"<unk>", "<s>", "<0x61>", "b",
                                                         "\xE2\x96\x81"};

GgufBuilder with_bpe(GgufBuilder builder) {
  return builder.text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", "qwen2")
      .strings("tokenizer.ggml.tokens", kPieces)
      .int32s("tokenizer.ggml.token_type", {3, 1, 1, 1, 1})
      .strings("tokenizer.ggml.merges", {"a b"})
      .u32("tokenizer.ggml.bos_token_id", 0)
      .flag("tokenizer.ggml.add_bos_token", true)
      .text("tokenizer.chat_template", "{{ messages }}");
}

GgufBuilder with_scores(GgufBuilder builder) {
  return builder.text("tokenizer.ggml.model", "llama")
      .strings("tokenizer.ggml.tokens", kScored)
      .int32s("tokenizer.ggml.token_type", {2, 3, 6, 1, 1})
      .floats("tokenizer.ggml.scores", {0, 0, 0, -1, -2})
      .u32("tokenizer.ggml.eos_token_id", 1);
}

// A qwen2 of blocks: hidden 32, 2 heads of 16, 1 K/V head, MLP of 32, 5 tokens.
GgufBuilder block_model() {
  GgufBuilder builder;
  builder.text("general.architecture", "qwen2")
      .u32("general.alignment", 64)
      .u32("qwen2.block_count", 1)
      .u32("qwen2.context_length", 64)
      .u32("qwen2.embedding_length", 32)
      .u32("qwen2.feed_forward_length", 32)
      .u32("qwen2.attention.head_count", 2)
      .u32("qwen2.attention.head_count_kv", 1)
      .u32("qwen2.vocab_size", 5)
      .f32("qwen2.attention.layer_norm_rms_epsilon", 1e-6f);
  builder.alignment = 64;
  const auto add = [&](std::string_view name, std::vector<uint64_t> dims, uint32_t type,
                       size_t bytes) {
    builder.tensor(name, std::move(dims), type, std::vector<std::byte>(bytes, std::byte{0x11}));
  };
  add("token_embd.weight", {32, 5}, 8, 5 * 34);
  for (const char* name : {"attn_norm.weight", "ffn_norm.weight", "attn_q.bias"})
    add(fmt::format("blk.0.{}", name), {32}, 0, 32 * 4);
  add("blk.0.attn_k.bias", {16}, 0, 16 * 4);
  add("blk.0.attn_v.bias", {16}, 1, 16 * 2);
  add("blk.0.attn_q.weight", {32, 32}, 2, 32 * 18);
  add("blk.0.attn_k.weight", {32, 16}, 7, 16 * 24);
  add("blk.0.attn_v.weight", {32, 16}, 20, 16 * 18);
  add("blk.0.attn_output.weight", {32, 32}, 3, 32 * 20);
  for (const char* name : {"ffn_gate", "ffn_up", "ffn_down"})
    add(fmt::format("blk.0.{}.weight", name), {32, 32}, 6, 32 * 22);
  add("output_norm.weight", {32}, 0, 32 * 4);
  return builder;
}

constexpr const char* kPartNames[] = {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"};

std::string part(uint16_t number) {
  const auto tensors = one_layer_tensors();
  GgufBuilder builder = number == 0 ? with_bpe(one_layer_metadata()) : GgufBuilder();
  builder.u16("split.no", number)
      .u16("split.count", 2)
      .u32("split.tensors.count", static_cast<uint32_t>(tensors.size()));
  for (size_t i = number; i < tensors.size(); i += 2) {
    const auto& dims = tensors[i].dims;
    const std::vector<float> values(dims[0] * (dims.size() > 1 ? dims[1] : 1), 0.5f);
    builder.tensor(tensors[i].name, dims, GgufBuilder::kF32, std::as_bytes(std::span(values)));
  }
  return text_of(builder.build());
}

constexpr std::string_view kConfig = R"({"architectures": ["LlamaForCausalLM"],
"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "head_dim": 4,
"num_attention_heads": 2, "num_hidden_layers": 1, "num_key_value_heads": 1, "vocab_size": 5,
"max_position_embeddings": 64, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
"tie_word_embeddings": true, "rope_scaling": null, "hidden_act": "silu"})";

constexpr std::pair<std::string_view, std::string_view> kFolderNames[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

std::string folder_name(std::string_view canonical) {
  for (const auto& [own, stored] : kFolderNames) {
    if (canonical == own) return std::string(stored);
    if (canonical == fmt::format("blk.0.{}.weight", own))
      return fmt::format("model.layers.0.{}.weight", stored);
  }
  return {};
}

constexpr const char* kShardNames[] = {"model-00001-of-00002.safetensors",
                                       "model-00002-of-00002.safetensors"};

// Every `step`-th tensor of the one-layer model from `first` on.
std::string safetensors(size_t first, size_t step) {
  const auto shapes = one_layer_tensors();
  std::vector<std::vector<float>> values(shapes.size());
  std::vector<TensorInfo> tensors;
  for (size_t i = first; i < shapes.size(); i += step) {
    const auto& dims = shapes[i].dims;
    TensorInfo tensor;
    tensor.name = folder_name(shapes[i].name);
    tensor.shape.assign(dims.rbegin(), dims.rend());
    values[i].assign(static_cast<size_t>(*element_count(tensor.shape)), 0.5f);
    tensor.data = std::as_bytes(std::span(values[i]));
    tensors.push_back(std::move(tensor));
  }
  const TemporaryFile file({}, ".safetensors");
  if (!write_safetensors(file.path(), tensors)) return {};
  return text_of(Mapping::file(file.path()).value().bytes());
}

std::string index() {
  std::string map;
  const auto shapes = one_layer_tensors();
  for (size_t i = 0; i < shapes.size(); ++i)
    map += fmt::format("{}\"{}\": \"{}\"", i == 0 ? "" : ",\n", folder_name(shapes[i].name),
                       kShardNames[i % 2]);
  return fmt::format("{{\"metadata\": {{\"total_size\": 1000}},\n\"weight_map\": {{{}}}}}", map);
}

constexpr std::string_view kTokenizer = R"({"version": "1.0",
"added_tokens": [{"id": 0, "content": "<s>", "single_word": false, "lstrip": false,
 "rstrip": false, "normalized": false, "special": true}],
"normalizer": null,
"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
 "use_regex": true},
"post_processor": null, "decoder": {"type": "ByteLevel"},
"model": {"type": "BPE", "dropout": null, "unk_token": null, "byte_fallback": false,
 "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3, "Ġ": 4}, "merges": ["a b"]}})";

constexpr std::string_view kTopology = R"([bus]
max_seq_len = 4096
max_sequences = 2

[[model]]
name = "master"
role = "master"
path = "a.gguf"
threads = 1
system = "You have read some documents."

[[model]]
name = "slave"
role = "slave"
path = "a.gguf"
documents = ["a.txt"]
fusion = { mode = "concat", position = "prefix", gain = 0.5 }

[sampling]
temperature = 0.7
top_k = 40
seed = 7
)";

// ---- Opening ----

std::string problem_of_gguf(const fs::path& folder, const HostileKind& kind,
                            const std::string& content) {
  write(folder / kind.file, content);
  return problem_of_model(folder / kind.file, folder);
}

std::string problem_of_first_part(const fs::path& folder, const HostileKind& kind,
                                  const std::string& content) {
  static const std::string second = part(1);
  write(folder / kPartNames[1], second);
  return problem_of_gguf(folder, kind, content);
}

std::string problem_of_second_part(const fs::path& folder, const HostileKind& kind,
                                   const std::string& content) {
  static const std::string first = part(0);
  write(folder / kPartNames[0], first);
  return problem_of_gguf(folder, kind, content);
}

// The folder in one piece, or in shards where the index is the hostile file.
std::string problem_of_folder(const fs::path& folder, const HostileKind& kind,
                              const std::string& content) {
  static const std::string whole = safetensors(0, 1);
  static const std::string shards[] = {safetensors(0, 2), safetensors(1, 2)};
  write(folder / "config.json", kConfig);
  if (kind.file.ends_with(".index.json")) {
    for (int i : {0, 1}) write(folder / kShardNames[i], shards[i]);
  } else {
    write(folder / "model.safetensors", whole);
  }
  write(folder / kind.file, content);
  return problem_of_model(folder, folder);
}

// The model runs without its tokenizer.
std::string problem_of_tokenizer(const fs::path& folder, const HostileKind& kind,
                                 const std::string& content) {
  std::string fault = problem_of_folder(folder, kind, content);
  if (outcome.find("tokenizes") == std::string::npos) outcome = "the tokenizer is refused";
  return fault;
}

std::string problem_of_topology(const fs::path& folder, const HostileKind& kind,
                                const std::string& content) {
  write(folder / "a.txt", "A document.");
  const AllocationPeak peak;
  write(folder / kind.file, content);
  const auto spec = parse_topology(content, folder / kind.file);
  outcome = "opened";
  if (!spec) {
    outcome = spec.error().message();
    std::string fault = fault_of(spec.error(), folder.string());
    if (!fault.empty()) return fault;
  }
  return fault_of(peak, content.size() * kOpenBytesPerByte + kOpenBytes, "reading");
}

}  // namespace

const std::vector<HostileKind>& hostile_kinds() {
  static const std::vector<HostileKind> kinds = {
      {"gguf",
       "m.gguf",
       {text_of(with_bpe(one_layer_llama()).build()),
        text_of(with_scores(one_layer_llama()).build()), text_of(with_bpe(block_model()).build())},
       false,
       problem_of_gguf},
      {"gguf-first-part", kPartNames[0], {part(0)}, false, problem_of_first_part},
      {"gguf-second-part", kPartNames[1], {part(1)}, false, problem_of_second_part},
      {"safetensors", "model.safetensors", {safetensors(0, 1)}, false, problem_of_folder},
      {"index", "model.safetensors.index.json", {index()}, true, problem_of_folder},
      {"config", "config.json", {std::string(kConfig)}, true, problem_of_folder},
      {"tokenizer", "tokenizer.json", {std::string(kTokenizer)}, true, problem_of_tokenizer},
      {"topology", "t.toml", {std::string(kTopology)}, true, problem_of_topology},
  };
  return kinds;
}

const std::string& last_outcome() { return outcome; }

}  // namespace suture
