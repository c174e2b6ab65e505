// Launches of the smallest cached model, for tests that look at them from inside.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "actors/launch.h"
#include "base/test_folder.h"

namespace suture {

// Skips its tests where the model is not cached.
class RealLaunchTest : public testing::Test {
 protected:
  void SetUp() override;

  static ModelSpec model(const std::string& name, Role role);
  // A master, a reader of a document, and an aligned twin of the master, in this order.
  LaunchSpec topology(Placement placement) const;

  static Result<std::unique_ptr<Launch>> start(const LaunchSpec& spec);
  static Result<std::unique_ptr<Launch>> start(const LaunchSpec& spec,
                                               const RestartOptions& restarts,
                                               const std::string& program);
  static Result<Answer> ask(
      Launch& launch, int64_t max_tokens,
      const std::function<void(std::string_view)>& on_text = [](std::string_view) {});

  TestFolder folder_;
};

}  // namespace suture
