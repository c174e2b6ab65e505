// What processes of one file have in common, counted by the system.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bus/broker.h"
#include "bus/broker_client.h"
#include "bus/test_child.h"
#include "models/language_model.h"
#include "models/test_real_models.h"

namespace suture {
namespace {

constexpr const char* kModel = "smollm2-135m-instruct";
constexpr const char* kSecret = "open sesame";

// Arguments: address, name, model. Loads it, as the processes of a launch do, and keeps it.
SUTURE_TEST_CHILD(model_process) {
  const auto broker = BrokerClient::connect(args[0], kSecret, args[1]).value();
  const LoadOptions options{
      .packed_memory = [&](const std::string& key, uint64_t bytes, const FillMemory& fill) {
        return broker->shared_blob(key, bytes, fill);
      }};
  const auto model = LanguageModel::load(args[2], options).value();
  const Status warm = model->warm_up();
  parent.say(warm ? "ready" : warm.error().message());
  parent.hear();
  return 0;
}

// In bytes. A page that n processes have is resident in each, and counts 1/n in its shares.
struct Memory {
  uint64_t packed_share = 0;  // packed weights
  uint64_t all_share = 0;     // everything
  uint64_t resident = 0;      // everything, shared pages in full
};

Memory memory_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps");
  Memory memory;
  bool packed = false;
  for (std::string line; std::getline(file, line);) {
    const uint64_t bytes = std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10) * 1024;
    // "7f1c00000000-7f1c05a00000 r--s 00000000 00:01 1034 /memfd:suture-blob (deleted)", then
    // "Rss: 92160 kB" and so on.
    if (line.find('-') < line.find(' ')) packed = line.find("suture-blob") != std::string::npos;
    if (line.starts_with("Rss:")) memory.resident += bytes;
    if (!line.starts_with("Pss:")) continue;
    memory.all_share += bytes;
    if (packed) memory.packed_share += bytes;
  }
  return memory;
}

class WeightSharingTest : public testing::Test {
 protected:
  void SetUp() override {
    SUTURE_REQUIRE_REAL_MODEL(kModel);
    BrokerOptions options;
    options.secret = kSecret;
    broker_ = Broker::start(std::move(options)).value();
  }

  void start_processes(int n) {
    for (int i = 0; i < n; ++i)
      processes_.push_back(std::make_unique<ChildProcess>(
          "model_process",
          std::vector<std::string>{broker_->address(), std::to_string(processes_.size()),
                                   real_model_path(kModel).string()}));
    for (size_t i = processes_.size() - static_cast<size_t>(n); i < processes_.size(); ++i)
      ASSERT_EQ(processes_[i]->hear(), "ready");
  }

  // Of all processes together; `resident` is that of the largest.
  Memory sum() const {
    Memory all;
    for (const auto& process : processes_) {
      const Memory one = memory_of(process->pid());
      all.packed_share += one.packed_share;
      all.all_share += one.all_share;
      all.resident = std::max(all.resident, one.resident);
    }
    std::printf("%zu processes: %.1f MB in all, %.1f MB of packed weights, the largest %.1f MB\n",
                processes_.size(), static_cast<double>(all.all_share) / 1e6,
                static_cast<double>(all.packed_share) / 1e6,
                static_cast<double>(all.resident) / 1e6);
    return all;
  }

  std::unique_ptr<Broker> broker_;
  std::vector<std::unique_ptr<ChildProcess>> processes_;
};

TEST_F(WeightSharingTest, TwoMoreProcessesOfAFileAddNoWeights) {
  const auto file_bytes = std::filesystem::file_size(real_model_path(kModel));
  start_processes(1);
  const Memory alone = sum();
  EXPECT_GT(alone.packed_share, file_bytes / 2);  // it is the right memory that is looked at
  EXPECT_LE(alone.resident, file_bytes * 5 / 4);
  start_processes(2);  // at the same time
  const Memory three = sum();
  // Each has all of the one copy, so the thirds add up to it, but for the kilobyte to which the
  // system rounds each.
  EXPECT_NEAR(static_cast<double>(three.packed_share), static_cast<double>(alone.packed_share),
              3 * 1024);
  EXPECT_LT((three.all_share - alone.all_share) / 2, file_bytes * 15 / 100);
}

}  // namespace
}  // namespace suture
