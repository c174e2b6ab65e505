#include "bench/bus/figures.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "bench/bus/child.h"
#include "bus/lease.h"
#include "bus/stream_reader.h"

namespace suture::bus_bench {
namespace {

constexpr uint64_t kAsleepAfterNs = 100'000;  // well after a waiter's spin phase
constexpr uint64_t kSpinningGapNs = 1'000;

// 64 MiB of K/V as a model of 16 layers has it after 4096 tokens: more than caches hold.
KvShape wide_shape() {
  return {.n_layers = 16, .n_kv_heads = 2, .head_dim = 128, .dtype = DType::kF16};
}
constexpr int64_t kWideTokens = 4096;

// Small rows, since what is measured is the commit.
KvShape narrow_shape() {
  return {.n_layers = 1, .n_kv_heads = 1, .head_dim = 8, .dtype = DType::kF16};
}

struct Published {
  std::shared_ptr<Slab> slab;
  std::unique_ptr<StreamWriter> writer;
};

Published publish_stream(const KvShape& shape, int64_t tokens) {
  SlabOptions options;
  options.shape = shape;
  options.max_seq_len = tokens;
  options.max_sequences = 1;
  options.owner = PeerId{1};
  auto slab = Slab::create(options);
  SUTURE_CHECK(slab, "{}", slab.error().message());
  StreamInfo info;
  info.model_fingerprint = "bus_bench";
  info.shape = shape;
  auto writer = (*slab)->open_stream(info, tokens);
  SUTURE_CHECK(writer, "{}", writer.error().message());
  return {std::move(*slab), std::move(*writer)};
}

Spread cache_line(const std::vector<int>& cores, int64_t samples) {
  constexpr uint64_t kBatch = 8;  // few, since another process may come between
  const Board board = Board::create();
  const uint64_t n = kBatch * static_cast<uint64_t>(samples);
  Child child(board, nullptr, {.role = Role::kPong, .core = cores[1], .n = n});
  std::vector<double> one_way;
  uint64_t i = 0;
  const auto exchange = [&] {
    board->ping.store(++i, std::memory_order_release);
    while (board->pong.load(std::memory_order_acquire) != i) spin_pause();
  };
  while (i < n) {
    const uint64_t start = now_ns();
    for (uint64_t j = 0; j < kBatch; ++j) exchange();
    one_way.push_back(static_cast<double>(now_ns() - start) / (2 * kBatch));
  }
  child.wait();
  one_way.erase(one_way.begin());  // the child's start is in it
  return spread_of(std::move(one_way));
}

struct Events {
  Spread late_ns;   // caused -> seen by the child
  Spread cause_ns;  // what causing one took
};

// Causes n events, each once the child says that it waits, and `gap_ns` later.
Events cause_events(const Board& board, Child& child, uint64_t n, uint64_t gap_ns, auto&& cause) {
  std::vector<double> cause_ns;
  for (uint64_t i = 1; i <= n; ++i) {
    await([&] { return board->n_ready.load(std::memory_order_acquire) == i; });
    busy_wait(gap_ns);
    const uint64_t start = now_ns();
    board->sent_ns.store(start, std::memory_order_release);
    cause(i);
    cause_ns.push_back(static_cast<double>(now_ns() - start));
  }
  child.wait();
  std::vector<double> late_ns(board->late_ns.begin(), board->late_ns.begin() + n);
  return {spread_of(std::move(late_ns)), spread_of(std::move(cause_ns))};
}

Spread bare_futex(const std::vector<int>& cores, uint64_t n) {
  const Board board = Board::create();
  Child child(board, nullptr, {.role = Role::kFutex, .core = cores[1], .n = n});
  const auto wake = [&](uint64_t) {
    board->futex_word.fetch_add(1, std::memory_order_seq_cst);
    ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&board->futex_word), FUTEX_WAKE, INT_MAX,
              nullptr, nullptr, 0);
  };
  return cause_events(board, child, n, kAsleepAfterNs, wake).late_ns;
}

Events commits(const std::vector<int>& cores, uint64_t n, Role role) {
  const Published stream = publish_stream(narrow_shape(), static_cast<int64_t>(n));
  const Board board = Board::create();
  Child child(board, stream.slab.get(),
              {.role = role, .core = cores[1], .n = n, .stream = stream.writer->id()});
  const auto commit = [&](uint64_t i) { stream.writer->commit(0, static_cast<int64_t>(i)); };
  return cause_events(board, child, n, role == Role::kSpin ? kSpinningGapNs : kAsleepAfterNs,
                      commit);
}

Spread publish_cost() {
  constexpr int kBatches = 100;
  constexpr int kBatch = 500;
  const Published stream = publish_stream(narrow_shape(), kBatches * kBatch);
  int64_t tokens = 0;
  return time_calls(kBatches, kBatch, [&] { stream.writer->commit(0, ++tokens); });
}

void measure_joining(Figures& figures) {
  const Published stream = publish_stream(wide_shape(), kWideTokens);
  const auto map = [&] {
    return SlabView::map(stream.slab->payload_fd(), stream.slab->control_fd(), PeerId{2}).value();
  };
  figures.map_ns = time_calls(100, 1, map);
  const auto view = map();
  const StreamId id = stream.writer->id();
  figures.attach_ns = time_calls(200, 100, [&] { view->attach(id).value(); });
  const std::shared_ptr<const Control> control(view, &view->control());
  figures.lease_ns = time_calls(200, 100, [&] { Lease::take(control, id, PeerId{2}).value(); });
}

// Every word of the stream gets its number; returns the sum of all words, layers apart.
uint64_t fill(const Published& stream) {
  const auto block_bytes = static_cast<size_t>(wide_shape().block_bytes());
  std::vector<uint64_t> words(block_bytes / sizeof(uint64_t));
  uint64_t next = 0;
  uint64_t sum = 0;
  for (int32_t layer = 0; layer < wide_shape().n_layers; ++layer) {
    const KvLayerView view = stream.writer->layer_view(layer);
    for (int64_t block = 0; block < kv_blocks_for(kWideTokens); ++block) {
      for (uint64_t& word : words) sum += word = ++next;
      std::memcpy(view.base + view.block_ids[block] * block_bytes, words.data(), block_bytes);
    }
    stream.writer->commit(layer, kWideTokens);
  }
  return sum;
}

double gb_per_s(const ThroughputData& data, uint64_t ns, uint32_t readers) {
  return static_cast<double>(data.bytes) / static_cast<double>(ns) / readers;
}

ThroughputFigures throughput(const Published& stream, uint64_t sum, const std::vector<int>& cores,
                             uint32_t readers, int64_t rounds) {
  const Board board = Board::create();
  std::vector<Child> children;
  for (uint32_t i = 0; i < readers; ++i)
    children.emplace_back(board, stream.slab.get(),
                          ChildOptions{.role = Role::kRead,
                                       .core = cores[(i + 1) % cores.size()],
                                       .n = static_cast<uint64_t>(rounds),
                                       .index = i,
                                       .stream = stream.writer->id()});
  await([&] { return board->n_ready.load() == readers; });
  board->go.store(1);
  for (Child& child : children) child.wait();
  ThroughputFigures figures{.readers = readers};
  for (uint32_t i = 0; i < readers; ++i) {
    const ThroughputData& data = board->throughput[i];
    SUTURE_CHECK(data.sum == sum, "reader {} of {} read something else", i, readers);
    figures.read_in_place += gb_per_s(data, data.read_in_place_ns, readers);
    figures.read_private += gb_per_s(data, data.read_private_ns, readers);
    figures.copy += gb_per_s(data, data.copy_ns, readers);
    figures.memcpy_shared += gb_per_s(data, data.memcpy_shared_ns, readers);
    figures.memcpy += gb_per_s(data, data.memcpy_ns, readers);
  }
  return figures;
}

}  // namespace

Figures measure(const Options& options, const std::function<void(const std::string&)>& progress) {
  Figures figures;
  const std::vector<int> all = allowed_cores();
  SUTURE_CHECK(all.size() >= 2, "cores={}: owner and reader need one each", all.size());
  figures.cores = {all[0], all[1]};
  pin_to(figures.cores[0]);
  const auto n = static_cast<uint64_t>(options.samples);
  progress("clock, cache line, futex");
  figures.clock_ns = clock_cost_ns();
  figures.cache_line_ns = cache_line(figures.cores, options.samples);
  figures.futex_ns = bare_futex(figures.cores, n);
  progress("publishing");
  figures.publish_ns = publish_cost();
  figures.visible_spinning_ns = commits(figures.cores, n, Role::kSpin).late_ns;
  const Events sleeping = commits(figures.cores, n, Role::kSleep);
  figures.visible_sleeping_ns = sleeping.late_ns;
  figures.publish_waiting_ns = sleeping.cause_ns;
  progress("attaching");
  measure_joining(figures);
  const Published stream = publish_stream(wide_shape(), kWideTokens);
  const uint64_t sum = fill(stream);
  for (const uint32_t readers : {1u, 2u, 4u, 8u}) {
    progress("reading and copying, " + std::to_string(readers) + " readers");
    figures.throughput.push_back(throughput(stream, sum, all, readers, options.rounds));
  }
  return figures;
}

}  // namespace suture::bus_bench
