// The CPU's stream: work runs on the calling thread and its pool before the call returns.
#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>

#include "base/check.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/device.h"

namespace suture {

// Zeroed memory aligned to a cache line; untouched pages cost nothing.
class AlignedMemory {
 public:
  static constexpr size_t kAlignment = 64;

  AlignedMemory() = default;
  explicit AlignedMemory(size_t bytes);  // data() is nullptr when there is no such memory

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> owned_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

class CpuStream : public Stream {
 public:
  CpuStream(int threads, Isa isa) : pool_(threads), isa_(isa) {}

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  Status copy_to_device(std::byte* device_target, std::span<const std::byte> host) override;
  Status copy_to_host(std::span<std::byte> host, const std::byte* device_source) override;
  // Everything before the call is already done: recording, waiting and synchronising are free.
  Status record(Event&) override { return {}; }
  Status wait(Event&) override { return {}; }
  Status synchronize() override { return {}; }
  int64_t lazily_built() const override { return lazily_built_.load(std::memory_order_relaxed); }
  int workers() const override { return pool_.size(); }

  ThreadPool& pool() { return pool_; }
  Isa isa() const { return isa_; }

  // Memory for one op's intermediate values, valid until the next call; contents undefined.
  Result<std::byte*> scratch(size_t bytes);
  // A worker has made something that it keeps. Any thread.
  void note_lazily_built() { lazily_built_.fetch_add(1, std::memory_order_relaxed); }

 private:
  ThreadPool pool_;
  Isa isa_;
  AlignedMemory scratch_;
  std::atomic<int64_t> lazily_built_ = 0;
};

// The stream as what it is; only `_cpu` files call this, after the dispatcher looked at kind().
inline CpuStream& as_cpu(Stream& stream) {
  SUTURE_CHECK(stream.kind() == DeviceKind::kCpu, "kind={}", static_cast<int>(stream.kind()));
  return static_cast<CpuStream&>(stream);
}

}  // namespace suture
