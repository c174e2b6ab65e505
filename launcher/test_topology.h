// For tests of topology files: the text of a small one, and what is expected of a wrong one.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/test_folder.h"
#include "launcher/topology.h"

namespace suture::topology_test {

inline constexpr std::string_view kMaster = R"([[model]]
name = "master"
role = "master"
path = "a.gguf"
)";

class TopologyTest : public testing::Test {
 protected:
  Result<LaunchSpec> parse(const std::string& text) const {
    return parse_topology(text, folder_.path() / "t.toml");
  }
  // The master followed by a slave with these further lines; the slave begins in line 5.
  Result<LaunchSpec> parse_slave(const std::string& lines) const {
    return parse(std::string(kMaster) +
                 "[[model]]\nname = \"slave\"\nrole = \"slave\"\npath = \"a.gguf\"\n" + lines);
  }
  static void expect_error(const Result<LaunchSpec>& result, ErrorCode code,
                           const std::string& where, const std::string& what) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, code) << result.error().message();
    EXPECT_NE(result.error().where.find(where), std::string::npos) << result.error().message();
    EXPECT_NE(result.error().what.find(what), std::string::npos) << result.error().message();
  }

  TestFolder folder_;
};

}  // namespace suture::topology_test
