#include "fusion/projector_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "base/sha256.h"
#include "base/test_folder.h"
#include "base/test_fuzz.h"
#include "fusion/test_projector.h"

namespace suture {
namespace {

const TestProjector::Windows kWindows = {{{0, 2}, {1}}, {{0, 1, 2}, {0, 1, 2}}};
// The front of a file: 8 bytes of magic, version, reserved, then this.
constexpr size_t kVersionAt = 8, kReservedAt = 12, kLengthAt = 16, kDigestAt = 24, kFront = 88;

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

size_t header_bytes(const std::string& file) {
  uint64_t length = 0;
  std::memcpy(&length, file.data() + kLengthAt, sizeof(length));
  return length;
}

// Makes the digest of the header fit whatever the header is now.
std::string signed_again(std::string file) {
  Sha256 hash;
  hash.update(std::string_view(file).substr(kFront, header_bytes(file)));
  return file.replace(kDigestAt, 64, hash.finish());
}

void expect_same(const LinearMap& a, const LinearMap& b) {
  EXPECT_EQ(a.window, b.window);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_TRUE(std::ranges::equal(a.weights, b.weights));
  EXPECT_EQ(a.mean, b.mean);
  EXPECT_EQ(a.gamma, b.gamma);
  EXPECT_EQ(a.beta, b.beta);
  EXPECT_EQ(a.ridge, b.ridge);
  EXPECT_EQ(a.r2, b.r2);
  EXPECT_EQ(a.mse, b.mse);
}

class ProjectorFileTest : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "a.suture"; }

  std::string write(const Projector& projector) {
    const Status written = write_projector(path(), projector);
    EXPECT_TRUE(written) << written.error().message();
    return bytes_of(path());
  }

  Result<Projector> read(const std::string& bytes) {
    return read_projector(folder_.write("b.suture", bytes));
  }

  // Whether it is refused, and as damaged rather than for a fault of ours.
  testing::AssertionResult refused(const std::string& bytes) {
    const auto projector = read(bytes);
    if (projector) return testing::AssertionFailure() << "it was read";
    const Error& error = projector.error();
    if (error.where.empty()) return testing::AssertionFailure() << error.message();
    return testing::AssertionSuccess();
  }

  static Projector with_own_first_layer() {
    return TestProjector(DType::kBf16, kWindows, small_source(), small_target(), 1, true).value;
  }

  TestFolder folder_;
  Projector projector_ = TestProjector(DType::kBf16, kWindows).value;
};

TEST_F(ProjectorFileTest, ComesBackAsItWasWritten) {
  for (const DType dtype : {DType::kF16, DType::kBf16}) {
    for (const bool measured : {true, false}) {
      Projector projector = TestProjector(dtype, kWindows).value;
      if (!measured) projector.evidence.reset();
      write(projector);
      const auto read = read_projector(path());
      ASSERT_TRUE(read) << read.error().message();
      EXPECT_EQ(read->source, projector.source);
      EXPECT_EQ(read->target, projector.target);
      EXPECT_EQ(read->fit, projector.fit);
      EXPECT_EQ(read->evidence, projector.evidence);
      ASSERT_EQ(read->layers.size(), projector.layers.size());
      for (size_t l = 0; l < projector.layers.size(); ++l) {
        expect_same(read->layers[l].key, projector.layers[l].key);
        expect_same(read->layers[l].value, projector.layers[l].value);
        const auto address = reinterpret_cast<uintptr_t>(read->layers[l].key.weights.data());
        EXPECT_EQ(address % 64, 0U);
      }
    }
  }
}

TEST_F(ProjectorFileTest, TakesThePlaceOfAFileThatIsStillInUse) {
  write(projector_);
  auto before = read_projector(path());
  ASSERT_TRUE(before);
  Projector measured = *before;
  measured.evidence->contexts[0].n = 99;
  write(measured);
  EXPECT_EQ(read_projector(path())->evidence->contexts[0].n, 99);
  expect_same(before->layers[1].key, projector_.layers[1].key);
  const auto files = std::filesystem::directory_iterator(folder_.path());
  EXPECT_EQ(std::distance(files, {}), 1);  // nothing unfinished is left
}

TEST_F(ProjectorFileTest, WhatIsNotSoundIsNotWritten) {
  const std::string before = write(projector_);
  projector_.layers[0].key.mean[0] = INFINITY;
  EXPECT_FALSE(write_projector(path(), projector_));
  EXPECT_EQ(bytes_of(path()), before);
  EXPECT_EQ(
      write_projector(folder_.path() / "missing" / "a", TestProjector(DType::kF16, kWindows).value)
          .error()
          .code,
      ErrorCode::kIo);
}

TEST_F(ProjectorFileTest, SaysWhatOtherFilesAre) {
  EXPECT_EQ(read_projector(folder_.path() / "none").error().code, ErrorCode::kIo);
  EXPECT_EQ(read("").error().code, ErrorCode::kCorrupt);
  std::string file = write(projector_);
  file[0] = 'G';
  EXPECT_EQ(read(file).error().code, ErrorCode::kInvalidArgument);
  file[0] = 'S';
  file[kVersionAt] = 3;
  EXPECT_EQ(read(file).error().code, ErrorCode::kUnsupported);
}

// What the first version of the format can say is written in it.
TEST_F(ProjectorFileTest, MapsThatTakeTheTargetsFirstLayerAreOfTheSecondVersion) {
  EXPECT_EQ(write(projector_)[kVersionAt], 1);
  EXPECT_FALSE(read_projector(path())->own_first_layer);
  const Projector own = with_own_first_layer();
  std::string file = write(own);
  EXPECT_EQ(file[kVersionAt], 2);
  const auto read_back = read_projector(path());
  ASSERT_TRUE(read_back) << read_back.error().message();
  EXPECT_TRUE(read_back->own_first_layer);
  for (size_t l = 0; l < own.layers.size(); ++l) {
    expect_same(read_back->layers[l].key, own.layers[l].key);
    expect_same(read_back->layers[l].value, own.layers[l].value);
  }
  file[kVersionAt] = 1;
  EXPECT_EQ(read(file).error().code, ErrorCode::kCorrupt);
}

TEST_F(ProjectorFileTest, RefusesFilesThatEndEarlyOrLate) {
  const std::string file = write(projector_);
  ASSERT_TRUE(read(file));
  for (size_t i = 0; i < 50; ++i)
    EXPECT_TRUE(refused(file.substr(0, file.size() * i / 50))) << i << "/50";
  EXPECT_TRUE(refused(file.substr(0, file.size() - 1)));
  EXPECT_TRUE(refused(file + '\0'));
  EXPECT_TRUE(refused(file + std::string(64, '\0')));
}

TEST_F(ProjectorFileTest, RefusesAFlippedBitAnywhere) {
  std::string file = write(with_own_first_layer());
  const size_t front = kFront + header_bytes(file) + 64;
  for (size_t at = 0; at < file.size(); at += at < front ? 1 : 97) {
    const char bit = static_cast<char>(1 << at % 8);
    file[at] = static_cast<char>(file[at] ^ bit);
    EXPECT_TRUE(refused(file)) << "byte " << at;
    file[at] = static_cast<char>(file[at] ^ bit);
  }
}

TEST_F(ProjectorFileTest, RefusesTheNumbersOfAnother) {
  const std::string file = write(projector_);
  const std::string other =
      write(TestProjector(DType::kBf16, kWindows, small_source(), small_target(), 2).value);
  const size_t front = kFront + header_bytes(file);
  ASSERT_EQ(header_bytes(other), header_bytes(file));
  EXPECT_TRUE(refused(file.substr(0, front) + other.substr(front)));
}

// Weights are 16 bits of anything; only their digests can be right.
TEST_F(ProjectorFileTest, RefusesWeightsThatAreNotFinite) {
  for (const DType dtype : {DType::kF16, DType::kBf16}) {
    Projector projector = TestProjector(dtype, kWindows).value;
    std::vector<uint16_t> weights(projector.layers[1].value.weights.begin(),
                                  projector.layers[1].value.weights.end());
    weights[7] = dtype == DType::kF16 ? 0xfc00 : 0x7f80;
    projector.layers[1].value.weights = weights;
    EXPECT_FALSE(write_projector(path(), projector));
  }
}

TEST_F(ProjectorFileTest, RefusesHeadersOfAbsurdSize) {
  std::string file = write(projector_);
  for (const uint64_t length : {uint64_t{0}, uint64_t{8}, uint64_t{1} << 40, UINT64_MAX}) {
    std::string changed = file;
    std::memcpy(changed.data() + kLengthAt, &length, sizeof(length));
    EXPECT_TRUE(refused(changed)) << length;
  }
  file[kReservedAt] = 1;
  EXPECT_TRUE(refused(file));
}

// Headers whose digest is right: whatever they say, they are refused, or they are sound.
TEST_F(ProjectorFileTest, FuzzedHeadersAreRefusedOrSound) {
  const std::string file = write(projector_);
  const size_t length = header_bytes(file);
  int read_anyway = 0;
  const uint64_t rounds = fuzz_rounds(400);
  for (uint64_t round = 0; round < rounds; ++round) {
    FuzzRandom random(round);
    std::string header = random.damaged(file.substr(kFront, length));
    header.resize(length);
    const auto projector = read(signed_again(std::string(file).replace(kFront, length, header)));
    if (!projector) continue;
    ++read_anyway;
    ASSERT_TRUE(validate(*projector)) << "round " << round;
  }
  EXPECT_LT(read_anyway, rounds);
}

}  // namespace
}  // namespace suture
