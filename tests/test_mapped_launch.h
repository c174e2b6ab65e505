// What tests of launches with mapped rows begin with: files of models that do and do not fit each
// other, and a folder for their topology.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/test_folder.h"
#include "models/test_models.h"
#include "tests/test_mapped_rows.h"
#include "tests/test_text_launch.h"

namespace suture {

class MappedLaunchTest : public testing::Test {
 protected:
  // From the slave to the master, with random numbers, as "p.suture" in the topology's folder.
  Projector make_projector(const TemporaryFile& slave) const {
    return make_random_projector(slave.path(), master_.path(), folder_.path() / "p.suture");
  }
  // With every slave.
  static Scoring score(Launch& launch, const ScoreOptions& options) {
    const std::atomic<bool> never = false;
    auto scored = launch.score(options, never);
    EXPECT_TRUE(scored.has_value()) << scored.error().message();
    EXPECT_TRUE(scored && scored->degraded.empty());
    return scored.value_or(Scoring());
  }
  static std::vector<int32_t> with(std::vector<int32_t> ids, const ScoredContinuation& more) {
    for (const ScoredToken& token : more.tokens) ids.push_back(token.id);
    return ids;
  }

  TestFolder folder_;
  const TemporaryFile master_{mapping_master()};
  const TemporaryFile other_{mapped_slave()};
  const TemporaryFile stranger_{mapped_stranger()};  // of another vocabulary
};

}  // namespace suture
