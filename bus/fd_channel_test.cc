#include "bus/fd_channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>

namespace suture {
namespace {

struct Ends {
  FdChannel left;
  FdChannel right;
};

Ends connected() {
  auto listener = FdListener::open().value();
  FdChannel left = FdChannel::connect(listener.address).value();
  return {std::move(left), listener.accept().value()};
}

std::array<UniqueFd, 2> new_pipe() {
  std::array<int, 2> fds = {};
  EXPECT_EQ(::pipe2(fds.data(), O_CLOEXEC), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

std::span<const std::byte> bytes_of(const uint64_t& value) {
  return std::as_bytes(std::span(&value, 1));
}

ErrorCode code_of(const Result<FdMessage>& result) { return result.error().code; }

TEST(FdChannelTest, MessagesKeepTheirBoundaries) {
  const Ends ends = connected();
  ASSERT_TRUE(ends.left.send(bytes_of(1)));
  ASSERT_TRUE(ends.left.send(bytes_of(2)));
  EXPECT_EQ(message_data<uint64_t>(*ends.right.receive()).value(), 1u);
  const FdMessage second = ends.right.receive().value();
  EXPECT_EQ(message_data<uint64_t>(second).value(), 2u);
  EXPECT_EQ(message_data<uint32_t>(second).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(code_of(ends.right.receive()), ErrorCode::kBusy);
}

TEST(FdChannelTest, DescriptorsArriveOpenAndCloseOnExec) {
  const Ends ends = connected();
  const auto pipe = new_pipe();
  const int sent[] = {pipe[0].get(), pipe[1].get()};
  ASSERT_TRUE(ends.left.send(bytes_of(7), sent));
  const FdMessage message = ends.right.receive().value();
  ASSERT_EQ(message.fds.size(), 2u);
  ASSERT_EQ(::write(message.fds[1].get(), "x", 1), 1);
  char read_back = 0;
  ASSERT_EQ(::read(pipe[0].get(), &read_back, 1), 1);
  EXPECT_EQ(read_back, 'x');
  EXPECT_TRUE(::fcntl(message.fds[0].get(), F_GETFD) & FD_CLOEXEC);
}

TEST(FdChannelTest, DroppedMessageClosesItsDescriptors) {
  const Ends ends = connected();
  auto pipe = new_pipe();
  const int write_end = pipe[1].get();
  ASSERT_TRUE(ends.left.send(bytes_of(7), {&write_end, 1}));
  pipe[1].reset();
  ASSERT_TRUE(ends.right.receive());
  char read_back = 0;
  EXPECT_EQ(::read(pipe[0].get(), &read_back, 1), 0);  // end of file: no writer is left
}

TEST(FdChannelTest, OversizedMessageIsRefusedAndTheNextOneArrives) {
  const Ends ends = connected();
  const std::vector<std::byte> large(FdChannel::kMaxBytes + 1);
  ASSERT_EQ(::send(ends.left.fd(), large.data(), large.size(), 0), ssize_t(large.size()));
  ASSERT_TRUE(ends.left.send(bytes_of(3)));
  EXPECT_EQ(code_of(ends.right.receive()), ErrorCode::kCorrupt);
  EXPECT_EQ(message_data<uint64_t>(*ends.right.receive()).value(), 3u);
}

TEST(FdChannelTest, TooManyDescriptorsAreRefused) {
  const Ends ends = connected();
  constexpr size_t kCount = FdChannel::kMaxFds + 1;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kCount * sizeof(int))> control = {};
  const uint64_t value = 1;
  iovec data = {const_cast<uint64_t*>(&value), sizeof(value)};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(kCount * sizeof(int));
  const std::vector<int> fds(kCount, ends.left.fd());
  std::memcpy(CMSG_DATA(part), fds.data(), kCount * sizeof(int));
  ASSERT_EQ(::sendmsg(ends.left.fd(), &header, 0), ssize_t(sizeof(value)));
  EXPECT_EQ(code_of(ends.right.receive()), ErrorCode::kCorrupt);
}

TEST(FdChannelTest, HangUpIsSeenAfterTheLastMessage) {
  Ends ends = connected();
  ASSERT_TRUE(ends.left.send(bytes_of(9)));
  { const FdChannel gone = std::move(ends.left); }
  EXPECT_EQ(message_data<uint64_t>(*ends.right.receive()).value(), 9u);
  EXPECT_EQ(code_of(ends.right.receive()), ErrorCode::kClosed);
  EXPECT_EQ(ends.right.send(bytes_of(1)).error().code, ErrorCode::kClosed);
}

TEST(FdChannelTest, SenderIsToldWhenNothingIsRead) {
  const Ends ends = connected();
  Status sent;
  for (int i = 0; i < 1'000'000 && sent; ++i) sent = ends.left.send(bytes_of(1));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::kBusy);
}

TEST(FdChannelTest, WaitEndsAtItsDeadlineOrWithAMessage) {
  const Ends ends = connected();
  const auto now = std::chrono::steady_clock::now();
  EXPECT_EQ(ends.right.wait_readable(now + std::chrono::milliseconds(1)).error().code,
            ErrorCode::kTimeout);
  ASSERT_TRUE(ends.left.send(bytes_of(1)));
  EXPECT_TRUE(ends.right.wait_readable(now + std::chrono::hours(1)));
}

TEST(FdChannelTest, ConnectSaysWhatIsWrongWithAnAddress) {
  EXPECT_EQ(FdChannel::connect("suture-nobody").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(FdChannel::connect("").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(FdChannel::connect(std::string(200, 'x')).error().code, ErrorCode::kInvalidArgument);
}

TEST(FdListenerTest, AddressesAreRandomAndCredentialsAreOurs) {
  const auto first = FdListener::open().value();
  const auto second = FdListener::open().value();
  EXPECT_NE(first.address, second.address);
  EXPECT_EQ(first.address.size(), std::string("suture-").size() + 32);
  EXPECT_EQ(first.accept().error().code, ErrorCode::kBusy);
  const Ends ends = connected();
  const auto credentials = peer_credentials(ends.right).value();
  EXPECT_EQ(credentials.pid, ::getpid());
  EXPECT_EQ(credentials.uid, ::getuid());
}

}  // namespace
}  // namespace suture
