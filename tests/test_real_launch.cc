#include "tests/test_real_launch.h"

#include <atomic>
#include <filesystem>

#include "launcher/manifest.h"

namespace suture {
namespace {

constexpr const char* kModel = "smollm2-135m-instruct";

const std::string kDocument =
    "Harbour log. The ferry Aurelia left the northern pier at 07:40 with 212 passengers. Its "
    "captain, Ines Calder, reported fog over the sound and reduced speed to nine knots. The second "
    "engine was serviced on Tuesday, and the lifeboats were inspected by the coast guard.";

std::filesystem::path model_path() {
  return cached_model_path(*find_model(kModel), model_cache_folder());
}

}  // namespace

void RealLaunchTest::SetUp() {
  if (!std::filesystem::exists(model_path()))
    GTEST_SKIP() << model_path() << " is not there: suture models pull " << kModel;
}

ModelSpec RealLaunchTest::model(const std::string& name, Role role) {
  ModelSpec spec;
  spec.name = name;
  spec.role = role;
  spec.path = model_path();
  return spec;
}

LaunchSpec RealLaunchTest::topology(Placement placement) const {
  LaunchSpec spec;
  spec.topology_path = "test.toml";
  spec.placement = placement;
  spec.max_seq_len = 1024;
  spec.max_sequences = 2;
  spec.models = {model("master", Role::kMaster), model("reader", Role::kSlave),
                 model("twin", Role::kSlave)};
  spec.models[1].documents = {folder_.write("log.txt", kDocument)};
  spec.models[1].fusion.position = SlavePosition::kPrefix;
  spec.models[2].fusion.position = SlavePosition::kAligned;
  spec.models[2].fusion.gain = -1.0;
  return spec;
}

Result<std::unique_ptr<Launch>> RealLaunchTest::start(const LaunchSpec& spec) {
  return start(spec, {}, SUTURE_BINARY);
}

Result<std::unique_ptr<Launch>> RealLaunchTest::start(const LaunchSpec& spec,
                                                      const RestartOptions& restarts,
                                                      const std::string& program) {
  LaunchOptions options;
  options.program = program;
  options.restarts = restarts;
  return Launch::start(spec, options);
}

Result<Answer> RealLaunchTest::ask(Launch& launch, int64_t max_tokens,
                                   const std::function<void(std::string_view)>& on_text) {
  const std::atomic<bool> never = false;
  return launch.ask({"How many passengers did the ferry carry?", max_tokens, {}}, on_text, never);
}

}  // namespace suture
