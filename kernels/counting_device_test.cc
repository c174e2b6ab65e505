#include "kernels/counting_device.h"

#include <gtest/gtest.h>

#include <array>

namespace suture {
namespace {

TEST(CountingDeviceTest, CountsWhatIsAskedForAndGivesNothing) {
  CountingDevice device;
  const auto first = device.allocate(1000);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ((*first)->size(), 1000u);
  EXPECT_EQ((*first)->data(), nullptr);
  // More than any computer has: counted all the same.
  ASSERT_TRUE(device.allocate(size_t{1} << 60).has_value());
  EXPECT_EQ(device.allocated_bytes(), (uint64_t{1} << 60) + 1000);
}

TEST(CountingDeviceTest, CopiesTouchNothing) {
  CountingDevice device;
  const auto stream = device.make_stream();
  ASSERT_TRUE(stream.has_value());
  const std::array<std::byte, 16> host{};
  EXPECT_TRUE((*stream)->copy_to_device(nullptr, host).has_value());
  EXPECT_TRUE((*stream)->synchronize().has_value());
  EXPECT_EQ(device.device_address(host), host.data());
}

}  // namespace
}  // namespace suture
