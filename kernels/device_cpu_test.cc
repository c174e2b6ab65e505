#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "kernels/cpu/cpu_stream.h"
#include "kernels/device.h"

namespace suture {
namespace {

TEST(DeviceTest, OpensByNameAndRefusesTheRest) {
  auto device = open_device("cpu", 1);
  ASSERT_TRUE(device.has_value());
  EXPECT_TRUE((*device)->name().starts_with("cpu: "));
  EXPECT_EQ(open_device("cuda:0", 1).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(open_device("tpu", 1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(open_device("cpu", -1).error().code, ErrorCode::kInvalidArgument);
}

TEST(DeviceTest, MemoryIsZeroedAlignedAndRefusedWhenThereIsNone) {
  auto device = open_device("cpu", 1).value();
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{1} << 20}) {
    auto buffer = device->allocate(bytes).value();
    ASSERT_NE(buffer->data(), nullptr);
    EXPECT_EQ(buffer->size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    EXPECT_TRUE(std::all_of(buffer->data(), buffer->data() + bytes,
                            [](std::byte b) { return b == std::byte{0}; }));
  }
  constexpr size_t kMost = std::numeric_limits<size_t>::max();
  EXPECT_EQ(device->allocate(kMost).error().code, ErrorCode::kOutOfMemory);
}

TEST(DeviceTest, CopiesThereAndBack) {
  auto device = open_device("cpu", 1).value();
  auto stream = device->make_stream().value();
  auto buffer = device->allocate(4).value();
  const std::array<std::byte, 4> sent = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  std::array<std::byte, 4> received{};
  ASSERT_TRUE(stream->copy_to_device(buffer->data(), sent).has_value());
  ASSERT_TRUE(stream->copy_to_host(received, buffer->data()).has_value());
  ASSERT_TRUE(stream->synchronize().has_value());
  EXPECT_EQ(sent, received);
  EXPECT_EQ(device->device_address(sent), sent.data());
}

TEST(IsaTest, AnOverrideLowersButNeverRaises) {
  EXPECT_EQ(limited_isa("").value(), best_isa());
  EXPECT_EQ(limited_isa("scalar").value(), Isa::kScalar);
  EXPECT_LE(limited_isa("avx512_vnni").value(), best_isa());
  EXPECT_EQ(limited_isa("neon").error().code, ErrorCode::kInvalidArgument);
  for (Isa isa : kAllIsas) EXPECT_EQ(limited_isa(isa_name(isa)).value(), std::min(isa, best_isa()));
}

}  // namespace
}  // namespace suture
