#include "base/sha256.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

// Vectors of FIPS 180-4.
TEST(Sha256Test, EmptyInput) {
  Sha256 hash;
  EXPECT_EQ(hash.finish(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256Test, PiecesHashLikeTheWhole) {
  Sha256 hash;
  hash.update("a");
  hash.update("");
  hash.update("bc");
  EXPECT_EQ(hash.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace suture
