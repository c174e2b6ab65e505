#include <gtest/gtest.h>

#include "bus/test_child.h"

int main(int argc, char** argv) {
  if (const auto status = suture::run_as_child(argc, argv)) return *status;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
