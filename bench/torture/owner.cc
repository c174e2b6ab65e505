// An owner: opens, fills, forks and closes streams, and produces tokens, in a drawn order for ever.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bench/torture/child.h"
#include "bench/torture/rows.h"
#include "bus/slab.h"
#include "bus/token_ring.h"

namespace suture::torture {
namespace {

constexpr uint32_t kRingCapacity = 32;
constexpr uint32_t kFinished = 7;

uint64_t file_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? info.st_ino : 0;
}

class Owner {
 public:
  explicit Owner(Child child) : child_(std::move(child)) {}

  Status start() {
    SUTURE_ASSIGN_OR_RETURN(slab_, Slab::create({.shape = stream_info().shape,
                                                 .max_seq_len = kMaxTokens,
                                                 .max_sequences = kSequences,
                                                 .owner = child_.self()}));
    child_.step();
    SUTURE_RETURN_IF_ERROR(child_.client().publish_slab(slab_->payload_fd(), slab_->control_fd()));
    child_.step();
    return new_ring();
  }

  Status work() {
    while (true) {
      child_.obey([&](Phase phase) { obey(phase); });
      slab_->heartbeat();
      SUTURE_RETURN_IF_ERROR(one_step());
      child_.step();
    }
  }

 private:
  struct Stream {
    std::unique_ptr<StreamWriter> writer;
    bool forked = false;
  };

  void obey(Phase phase) {
    streams_.clear();
    if (phase != Phase::kCount) return;
    slab_->reclaim();
    ChildData& mine = child_.mine();
    mine.blocks = slab_->n_blocks();
    mine.blocks_free = slab_->free_blocks();
    mine.streams_deferred = slab_->deferred_streams();
  }

  Status one_step() {
    const int64_t what = child_.draw(100);
    if (what < 15) return open(1 + child_.draw(kMaxTokens));
    if (what < 25) return fork();
    if (what < 43) return close_one();
    if (what < 46) return fill();
    if (what < 54) return push_tokens();
    if (what < 55) return finish_ring();
    return append();
  }

  Status open(int64_t tokens) {
    auto writer = slab_->open_stream(stream_info(), tokens);
    if (!writer) return refused(writer.error());
    announce(std::move(*writer), 0, 0);
    return {};
  }

  // A slab that is full is what it should be; anything else is not.
  Status refused(const Error& error) {
    child_.count_error(error, {ErrorCode::kOutOfMemory, ErrorCode::kBusy});
    return {};
  }

  void announce(std::unique_ptr<StreamWriter> writer, uint64_t parent_generation, int64_t prefix) {
    ++child_.counts().streams;
    write_ref(child_.mine().refs.at(writer->id().slot),
              {child_.self(), writer->id(), parent_generation, prefix});
    streams_.push_back({std::move(writer), prefix != 0});
  }

  Stream* any_stream() {
    if (streams_.empty()) return nullptr;
    return &streams_[static_cast<size_t>(child_.draw(std::ssize(streams_)))];
  }

  Status fork() {
    const Stream* parent = any_stream();
    if (parent == nullptr || parent->forked) return {};
    const StreamWriter& from = *parent->writer;
    const int64_t ready = from.committed(from.n_layers() - 1);
    if (ready == 0) return {};
    const int64_t prefix = 1 + child_.draw(ready);
    const int64_t tokens = prefix + child_.draw(kMaxTokens - prefix + 1);
    const uint64_t generation = from.id().generation;
    auto writer = slab_->fork_stream(from, prefix, stream_info(), tokens);
    if (!writer) return refused(writer.error());
    ++child_.counts().forks;
    announce(std::move(*writer), generation, prefix);
    return {};
  }

  Status close_one() {
    const Stream* closed = any_stream();
    if (closed != nullptr) streams_.erase(streams_.begin() + (closed - streams_.data()));
    return {};
  }

  // To the last block, or the last stream slot.
  Status fill() {
    while (true) {
      auto writer = slab_->open_stream(stream_info(), 1);
      if (!writer) {
        ++child_.counts().fills;
        return refused(writer.error());
      }
      announce(std::move(*writer), 0, 0);
    }
  }

  Status append() {
    Stream* stream = any_stream();
    if (stream == nullptr) return open(kMaxTokens);
    StreamWriter& writer = *stream->writer;
    const int64_t first = writer.committed(0);
    const int64_t end = std::min(writer.capacity(), first + 1 + child_.draw(24));
    write_epochs(writer, child_.self(), first, end);
    for (int32_t layer = 0; layer < writer.n_layers(); ++layer) {
      write_rows(writer, child_.self(), layer, end);
      writer.commit(layer, end);
      ++child_.counts().commits;
    }
    return {};
  }

  Status new_ring() {
    SUTURE_ASSIGN_OR_RETURN(auto ring, TokenRing::create(kRingCapacity));
    SUTURE_RETURN_IF_ERROR(child_.client().publish_ring(ring_name(child_.index()), ring->fd()));
    ring_file_ = file_of(ring->fd());
    SUTURE_ASSIGN_OR_RETURN(ring_, TokenRingWriter::open(std::move(ring)));
    return {};
  }

  Status push_tokens() {
    for (int i = 0; i < 16; ++i) {
      const auto bound = std::chrono::microseconds(child_.chance(25) ? 200 : 0);
      if (const Status credit = ring_->wait_credit(deadline_in(bound)); !credit) {
        child_.count_error(credit.error(), {ErrorCode::kTimeout});
        return {};
      }
      // The reader says where the ring starts before it gives the first credit.
      const ChildData& mine = child_.mine();
      if (mine.ring_file.load(std::memory_order_acquire) != ring_file_)
        return fail(ErrorCode::kCorrupt, "credit for a ring that nobody reads");
      const uint64_t index = mine.ring_start.load(std::memory_order_relaxed) + ring_->produced();
      SUTURE_RETURN_IF_ERROR(ring_->push(token_id(child_.index(), index)));
    }
    return {};
  }

  Status finish_ring() {
    ring_->finish(kFinished);
    SUTURE_RETURN_IF_ERROR(child_.client().withdraw_ring(ring_name(child_.index())));
    return new_ring();
  }

  Child child_;
  std::shared_ptr<Slab> slab_;
  std::vector<Stream> streams_;
  std::optional<TokenRingWriter> ring_;
  uint64_t ring_file_ = 0;
};

}  // namespace

int run_owner(Child child) {
  Owner owner(std::move(child));
  const Status status = owner.start().and_then([&] { return owner.work(); });
  fmt::print(stderr, "an owner gave up: {}\n", status.error().message());
  return 1;
}

}  // namespace suture::torture
