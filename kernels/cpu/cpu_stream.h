// The CPU's stream: work runs on the calling thread and its pool before the call returns.
#pragma once

#include "base/check.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/device.h"

namespace suture {

class CpuStream : public Stream {
 public:
  explicit CpuStream(int threads) : pool_(threads) {}

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  Status copy_to_device(std::byte* device_target, std::span<const std::byte> host) override;
  Status copy_to_host(std::span<std::byte> host, const std::byte* device_source) override;
  // Everything before the call is already done: recording, waiting and synchronising are free.
  Status record(Event&) override { return {}; }
  Status wait(Event&) override { return {}; }
  Status synchronize() override { return {}; }

  ThreadPool& pool() { return pool_; }

 private:
  ThreadPool pool_;
};

// The stream as what it is; only `_cpu` files call this, after the dispatcher looked at kind().
inline CpuStream& as_cpu(Stream& stream) {
  SUTURE_CHECK(stream.kind() == DeviceKind::kCpu, "kind={}", static_cast<int>(stream.kind()));
  return static_cast<CpuStream&>(stream);
}

}  // namespace suture
