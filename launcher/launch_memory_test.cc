#include "launcher/launch_memory.h"

#include <gtest/gtest.h>

#include <charconv>
#include <limits>

#include "base/test_folder.h"
#include "fusion/projection.h"
#include "fusion/projector_file.h"
#include "fusion/test_projector.h"
#include "models/checkpoint.h"
#include "models/test_models.h"
#include "models/test_text_model.h"
#include "models/test_vocabulary.h"

namespace suture {
namespace {

constexpr uint64_t kPlenty = uint64_t{1} << 40;

ModelSpec model(const std::string& name, Role role, const std::string& folder) {
  ModelSpec spec;
  spec.name = name;
  spec.role = role;
  spec.path = std::filesystem::path(SUTURE_TEST_DATA_DIR) / "tiny" / folder;
  return spec;
}

LaunchSpec twins_and_a_stranger() {
  LaunchSpec spec;
  spec.topology_path = "t.toml";
  spec.max_seq_len = 4096;
  spec.max_sequences = 2;
  spec.models = {model("master", Role::kMaster, "llama"), model("twin", Role::kSlave, "llama"),
                 model("stranger", Role::kSlave, "qwen2")};
  return spec;
}

LaunchMemory memory_of(const LaunchSpec& spec, uint64_t available = kPlenty) {
  auto memory = launch_memory(spec, available);
  EXPECT_TRUE(memory.has_value()) << memory.error().message();
  return memory.value_or(LaunchMemory());
}

// The number after `text` in a remedy.
int64_t number_after(const std::string& remedy, std::string_view text) {
  const size_t at = remedy.find(text);
  if (at == std::string::npos) return 0;
  int64_t number = 0;
  const char* begin = remedy.data() + at + text.size();
  std::from_chars(begin, remedy.data() + remedy.size(), number);
  return number;
}

TEST(LaunchMemoryTest, AFileThatTwoProcessesMapCountsOnce) {
  const LaunchMemory memory = memory_of(twins_and_a_stranger());
  ASSERT_EQ(memory.processes.size(), 4u);
  const ProcessMemory& master = memory.processes[0];
  const ProcessMemory& twin = memory.processes[1];
  const ProcessMemory& stranger = memory.processes[2];
  EXPECT_EQ(memory.processes[3].name, "launcher");
  EXPECT_TRUE(master.shares_weights_with.empty());
  EXPECT_EQ(twin.shares_weights_with, "master");
  EXPECT_TRUE(stranger.shares_weights_with.empty());
  EXPECT_GT(master.weight_bytes, twin.weight_bytes);
  EXPECT_EQ(twin.kv_bytes, master.kv_bytes);
  EXPECT_EQ(twin.activation_bytes, master.activation_bytes);
  EXPECT_EQ(memory.total_bytes(), master.total_bytes() + twin.total_bytes() +
                                      stranger.total_bytes() + memory.processes[3].total_bytes());
}

TEST(LaunchMemoryTest, KvIsProportionalToLengthAndSequences) {
  LaunchSpec spec = twins_and_a_stranger();
  const uint64_t before = memory_of(spec).kv_bytes();
  spec.max_seq_len *= 2;
  EXPECT_NEAR(static_cast<double>(memory_of(spec).kv_bytes()), 2.0 * before, 0.02 * before);
  spec.max_sequences *= 2;
  EXPECT_NEAR(static_cast<double>(memory_of(spec).kv_bytes()), 4.0 * before, 0.02 * before);
}

// A slave of another shape comes to answer in words, of which it may say 256 tokens. The launcher
// has its tokenizer too; the master keeps nothing of it.
TEST(LaunchMemoryTest, AModeThatIsLeftOpenIsSettledFirst) {
  const TemporaryFile master(text_model({.vocabulary = make_chat_vocabulary({})}));
  const TemporaryFile slave(text_model({.vocabulary = make_chat_vocabulary({}), .kv_heads = 1}));
  LaunchSpec spec = twins_and_a_stranger();
  spec.models.pop_back();
  spec.models[0].path = master.path();
  spec.models[1].path = slave.path();
  const LaunchMemory plain = memory_of(spec);
  spec.models[1].fusion.mode = FusionMode::kText;
  spec.models[1].fusion.draft = 256;
  const LaunchMemory asked = memory_of(spec);
  spec.models[1].fusion.mode = FusionMode::kAuto;
  spec.models[1].fusion.draft = 0;
  const LaunchMemory settled = memory_of(spec);
  EXPECT_EQ(settled.total_bytes(), asked.total_bytes());
  EXPECT_EQ(settled.processes[0].total_bytes(), plain.processes[0].total_bytes());
  EXPECT_GT(settled.processes[1].kv_bytes, plain.processes[1].kv_bytes);
  EXPECT_GT(settled.processes[2].runtime_bytes, plain.processes[2].runtime_bytes);
}

TEST(LaunchMemoryTest, ADraftNeedsRoomBesideTheLongestSequence) {
  LaunchSpec spec = twins_and_a_stranger();
  const LaunchMemory before = memory_of(spec);
  spec.models[1].fusion.draft = 4096;  // as long again
  const LaunchMemory after = memory_of(spec);
  EXPECT_EQ(after.processes[0].kv_bytes, before.processes[0].kv_bytes);
  EXPECT_EQ(after.processes[2].kv_bytes, before.processes[2].kv_bytes);
  const auto once = static_cast<double>(before.processes[1].kv_bytes);
  EXPECT_NEAR(static_cast<double>(after.processes[1].kv_bytes), 2.0 * once, 0.02 * once);
}

TEST(LaunchMemoryTest, OneProcessForAllNeedsLessThanProcesses) {
  LaunchSpec spec = twins_and_a_stranger();
  const uint64_t processes = memory_of(spec).total_bytes();
  spec.placement = Placement::kInProcess;
  EXPECT_LT(memory_of(spec).total_bytes(), processes);
}

TEST(LaunchMemoryTest, TheRemedyFits) {
  LaunchSpec spec = twins_and_a_stranger();
  spec.max_seq_len = 1 << 20;
  spec.max_sequences = 64;
  const LaunchMemory all = memory_of(spec);
  const uint64_t available = all.total_bytes() - all.kv_bytes() / 2;
  const Status refused = check_memory(memory_of(spec, available), spec);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  const std::string& remedy = refused.error().remedy;
  EXPECT_NE(remedy.find("leave out slave 'twin'"), std::string::npos) << remedy;
  EXPECT_NE(remedy.find("--force"), std::string::npos) << remedy;

  LaunchSpec shorter = spec;
  shorter.max_seq_len = number_after(remedy, "max_seq_len = ");
  ASSERT_GT(shorter.max_seq_len, spec.max_seq_len / 3) << remedy;
  EXPECT_TRUE(check_memory(memory_of(shorter, available), shorter).has_value()) << remedy;
  LaunchSpec fewer = spec;
  fewer.max_sequences = static_cast<int32_t>(number_after(remedy, "max_sequences = "));
  ASSERT_GT(fewer.max_sequences, 20) << remedy;
  EXPECT_TRUE(check_memory(memory_of(fewer, available), fewer).has_value()) << remedy;
}

TEST(LaunchMemoryTest, NoLengthIsProposedWhereNoneHelps) {
  const LaunchSpec spec = twins_and_a_stranger();
  const Status refused = check_memory(memory_of(spec, 1000), spec);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().remedy.find("max_seq_len"), std::string::npos);
}

// The projector, its scratch and the mapped K/V belong to the process that maps.
TEST(LaunchMemoryTest, AProjectorCountsWhereItIsApplied) {
  LaunchSpec spec = twins_and_a_stranger();
  spec.models.erase(spec.models.begin() + 1);
  ModelSpec& slave = spec.models[1];
  const LaunchMemory without = memory_of(spec);
  const auto source = Checkpoint::open(slave.path).value();
  const auto target = Checkpoint::open(spec.master().path).value();
  const ModelConfig& config = target->config();
  const TestProjector made(DType::kBf16,
                           TestProjector::Windows(static_cast<size_t>(config.n_layers), {{0}, {0}}),
                           source->config(), config);
  const TestFolder folder;
  slave.fusion.mode = FusionMode::kProject;
  slave.fusion.projector = folder.path() / "p.suture";
  ASSERT_TRUE(write_projector(slave.fusion.projector, made.value));
  // 4096 tokens of 2 sequences, all layers, K and V.
  const uint64_t mapped_kv = 2ull * 4096 * static_cast<uint64_t>(config.kv_shape().token_bytes());
  for (const ProjectorUse apply : {ProjectorUse::kWriter, ProjectorUse::kReader}) {
    slave.fusion.apply = apply;
    const LaunchMemory memory = memory_of(spec);
    const size_t maps = apply == ProjectorUse::kWriter ? 1 : 0;
    const ProcessMemory& process = memory.processes[maps];
    const ProcessMemory& before = without.processes[maps];
    EXPECT_EQ(process.weight_bytes - before.weight_bytes,
              static_cast<uint64_t>(made.value.weight_bytes()) + Projection::map_bytes(made.value));
    EXPECT_GT(process.activation_bytes, before.activation_bytes);
    EXPECT_GE(process.kv_bytes - before.kv_bytes, mapped_kv);
    EXPECT_LT(process.kv_bytes - before.kv_bytes, mapped_kv + mapped_kv / 8);
    EXPECT_EQ(memory.processes[1 - maps].total_bytes(), without.processes[1 - maps].total_bytes());
  }
}

TEST(LaunchMemoryTest, TableAndJsonShowEveryPart) {
  const LaunchMemory memory = memory_of(twins_and_a_stranger());
  const std::string table = memory_table(memory);
  for (const char* word : {"weights", "K/V", "activations", "logits", "runtime", "master", "twin",
                           "stranger", "launcher", "shared", "free"})
    EXPECT_NE(table.find(word), std::string::npos) << word;
  const nlohmann::json json = to_json(memory);
  EXPECT_EQ(json.at("processes").size(), 4u);
  EXPECT_EQ(json.at("total_bytes"), memory.total_bytes());
  EXPECT_EQ(json.at("processes")[1].at("shares_weights_with"), "master");
}

}  // namespace
}  // namespace suture
