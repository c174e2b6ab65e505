#include "bench/bus/child.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "base/check.h"
#include "bench/bus/clock.h"
#include "bus/memfd.h"
#include "bus/stream_reader.h"

namespace suture::bus_bench {
namespace {

constexpr int kBoardFd = 3;
constexpr int kPayloadFd = 4;
constexpr int kControlFd = 5;
constexpr auto kBound = std::chrono::seconds(30);

void answer_pings(BoardData& board, uint64_t n) {
  for (uint64_t i = 1; i <= n; ++i) {
    while (board.ping.load(std::memory_order_acquire) != i) spin_pause();
    board.pong.store(i, std::memory_order_release);
  }
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t value) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, value, nullptr, nullptr, 0);
}

// Says that it waits for event i, waits, and notes how late it saw it.
template <typename Wait>
void note_events(BoardData& board, uint64_t n, Wait&& wait) {
  for (uint64_t i = 1; i <= n; ++i) {
    board.n_ready.store(i, std::memory_order_release);
    wait(i);
    const uint64_t seen = now_ns();
    board.late_ns[i - 1] = seen - board.sent_ns.load(std::memory_order_acquire);
  }
}

StreamReader attach(StreamId stream) {
  const auto view = SlabView::map(kPayloadFd, kControlFd, PeerId{2});
  SUTURE_CHECK(view, "{}", view.error().message());
  auto reader = (*view)->attach(stream);
  SUTURE_CHECK(reader, "{}", reader.error().message());
  return std::move(*reader);
}

uint64_t sum_of(const std::byte* bytes, size_t size) {
  const auto* words = reinterpret_cast<const uint64_t*>(bytes);
  std::array<uint64_t, 8> sums = {};
  for (size_t i = 0; i < size / sizeof(uint64_t); i += sums.size())
    for (size_t j = 0; j < sums.size(); ++j) sums[j] += words[i + j];
  uint64_t sum = 0;
  for (const uint64_t part : sums) sum += part;
  return sum;
}

// One block of one layer after the other, as attention goes through them.
template <typename Use>
void for_each_block(const StreamReader& reader, Use&& use) {
  const auto bytes = static_cast<size_t>(reader.shape().block_bytes());
  size_t at = 0;
  for (int32_t layer = 0; layer < reader.n_layers(); ++layer) {
    const KvLayerView view = reader.layer_view(layer);
    for (int64_t block = 0; block < reader.capacity() / kKvBlockTokens; ++block, at += bytes)
      use(view.base + view.block_ids[block] * bytes, at, bytes);
  }
}

uint64_t timed(auto&& work) {
  const uint64_t start = cpu_ns();
  work();
  return cpu_ns() - start;
}

// Page-aligned like the blocks of a slab: how two buffers lie to each other changes memcpy's speed
// by half.
struct FreePages {
  void operator()(std::byte* pages) const { ::operator delete[](pages, std::align_val_t{4096}); }
};
using Pages = std::unique_ptr<std::byte[], FreePages>;

Pages filled_pages(size_t size) {
  Pages pages(new (std::align_val_t{4096}) std::byte[size]);
  std::memset(pages.get(), 1, size);
  return pages;
}

Mapping filled_memfd(size_t size) {
  const UniqueFd fd = create_memfd("bus-bench-copy", size).value();
  Mapping mapping = Mapping::shared(fd.get(), size, Mapping::Access::kReadWrite).value();
  std::memset(mapping.data(), 1, size);
  return mapping;
}

// All in turn, so that whatever else the machine does disturbs them alike. A round more than
// counts comes first: it brings the pages of a mapping, which a reader makes once.
ThroughputData read_and_copy(const StreamReader& reader, uint64_t rounds) {
  const auto size = static_cast<size_t>(reader.shape().token_bytes() * reader.capacity());
  const Pages copy = filled_pages(size);
  const Pages source = filled_pages(size);
  const Mapping shared = filled_memfd(size);
  const auto block = static_cast<size_t>(reader.shape().block_bytes());
  ThroughputData data;
  volatile uint64_t sink = 0;
  for (uint64_t round = 0; round <= rounds; ++round) {
    if (round == 1) data = {};
    uint64_t sum = 0;
    data.read_in_place_ns += timed([&] {
      for_each_block(
          reader, [&](const std::byte* from, size_t, size_t bytes) { sum += sum_of(from, bytes); });
    });
    data.sum = sum;
    data.read_private_ns += timed([&] {
      for (size_t at = 0; at < size; at += block) sink = sink + sum_of(source.get() + at, block);
    });
    data.copy_ns += timed([&] {
      for_each_block(reader, [&](const std::byte* from, size_t at, size_t bytes) {
        std::memcpy(copy.get() + at, from, bytes);
      });
    });
    data.memcpy_shared_ns += timed([&] {
      for (size_t at = 0; at < size; at += block)
        std::memcpy(copy.get() + at, shared.data() + at, block);
    });
    data.memcpy_ns += timed([&] {
      for (size_t at = 0; at < size; at += block)
        std::memcpy(copy.get() + at, source.get() + at, block);
    });
    data.bytes += size;
  }
  return data;
}

void play(const Board& board, const ChildOptions& options) {
  switch (options.role) {
    case Role::kPong: return answer_pings(*board, options.n);
    case Role::kFutex:
      return note_events(*board, options.n, [&](uint64_t i) {
        const auto before = static_cast<uint32_t>(i - 1);
        while (board->futex_word.load(std::memory_order_acquire) == before)
          futex_wait(board->futex_word, before);
      });
    case Role::kSpin: {
      const StreamReader reader = attach(options.stream);
      return note_events(*board, options.n, [&](uint64_t i) {
        while (reader.committed(0) < static_cast<int64_t>(i)) spin_pause();
      });
    }
    case Role::kSleep: {
      StreamReader reader = attach(options.stream);
      return note_events(*board, options.n, [&](uint64_t i) {
        const Status status = reader.wait(0, static_cast<int64_t>(i), deadline_in(kBound));
        SUTURE_CHECK(status, "{}", status.error().message());
      });
    }
    case Role::kRead: {
      const StreamReader reader = attach(options.stream);
      board->n_ready.fetch_add(1);
      await([&] { return board->go.load() != 0; });
      board->throughput[options.index] = read_and_copy(reader, options.n);
    }
  }
}

}  // namespace

Board Board::create() {
  UniqueFd fd = create_memfd("bus-bench", sizeof(BoardData)).value();
  Mapping mapping =
      Mapping::shared(fd.get(), sizeof(BoardData), Mapping::Access::kReadWrite).value();
  return {std::move(fd), std::move(mapping)};
}

Board Board::inherited() {
  return {UniqueFd(),
          Mapping::shared(kBoardFd, sizeof(BoardData), Mapping::Access::kReadWrite).value()};
}

Child::Child(const Board& board, const Slab* slab, const ChildOptions& options) {
  std::vector<std::string> arguments = {"bus_bench",
                                        kChildFlag,
                                        std::to_string(static_cast<int>(options.role)),
                                        std::to_string(options.core),
                                        std::to_string(options.n),
                                        std::to_string(options.index),
                                        std::to_string(options.stream.slot),
                                        std::to_string(options.stream.generation)};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  // Copies above the numbers that the child gets, so that none is overwritten while it is needed.
  std::vector<UniqueFd> copies;
  for (const int fd : {board.fd(), slab != nullptr ? slab->payload_fd() : board.fd(),
                       slab != nullptr ? slab->control_fd() : board.fd()})
    copies.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 16));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, copies[0].get(), kBoardFd);
  ::posix_spawn_file_actions_adddup2(&actions, copies[1].get(), kPayloadFd);
  ::posix_spawn_file_actions_adddup2(&actions, copies[2].get(), kControlFd);
  const int error = ::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  SUTURE_CHECK(error == 0, "errno={}", error);
}

Child::~Child() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Child::wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0) SUTURE_CHECK(errno == EINTR, "errno={}", errno);
  pid_ = -1;
  SUTURE_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status={}", status);
}

int run_child(char** arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ChildOptions options;
  options.role = static_cast<Role>(std::stoi(arguments[0]));
  options.core = std::stoi(arguments[1]);
  options.n = std::stoull(arguments[2]);
  options.index = static_cast<uint32_t>(std::stoul(arguments[3]));
  options.stream = {static_cast<uint32_t>(std::stoul(arguments[4])), std::stoull(arguments[5])};
  pin_to(options.core);
  play(Board::inherited(), options);
  return 0;
}

}  // namespace suture::bus_bench
