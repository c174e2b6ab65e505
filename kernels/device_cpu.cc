#include <sched.h>

#include <cstring>
#include <limits>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_stream.h"

namespace suture {
namespace {

constexpr int kMaxThreads = 1024;

class CpuBuffer : public Buffer {
 public:
  CpuBuffer(AlignedMemory memory, size_t size) : memory_(std::move(memory)), size_(size) {}
  std::byte* data() override { return memory_.data(); }
  size_t size() const override { return size_; }

 private:
  AlignedMemory memory_;
  size_t size_;
};

class CpuEvent : public Event {};

class CpuDevice : public Device {
 public:
  CpuDevice(int threads, Isa isa) : threads_(threads), isa_(isa) {}

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override {
    return "cpu: " + cpu_model_name() + ", " + std::string(isa_name(isa_));
  }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes) override {
    AlignedMemory memory(bytes);
    if (memory.data() == nullptr) {
      return fail(ErrorCode::kOutOfMemory, fmt::format("no memory for {} bytes", bytes), "cpu");
    }
    return std::make_unique<CpuBuffer>(std::move(memory), bytes);
  }
  const std::byte* device_address(std::span<const std::byte> host) override { return host.data(); }
  Result<std::unique_ptr<Stream>> make_stream() override {
    return std::make_unique<CpuStream>(threads_, isa_);
  }
  Result<std::unique_ptr<Event>> make_event() override { return std::make_unique<CpuEvent>(); }

 private:
  int threads_;
  Isa isa_;
};

int cores_allowed() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return CPU_COUNT(&allowed);
  return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
}

}  // namespace

AlignedMemory::AlignedMemory(size_t bytes) {
  if (bytes > std::numeric_limits<size_t>::max() - kAlignment) return;
  // calloc, not aligned_alloc and memset: fresh pages are zero already and stay untouched.
  size_t room = bytes + kAlignment;
  void* memory = std::calloc(room, 1);
  if (memory == nullptr) return;
  owned_.reset(memory);
  data_ = static_cast<std::byte*>(std::align(kAlignment, bytes, memory, room));
  size_ = bytes;
}

Result<std::byte*> CpuStream::scratch(size_t bytes) {
  if (scratch_.data() == nullptr || scratch_.size() < bytes) {
    scratch_ = AlignedMemory();  // give the old memory back before asking for more
    scratch_ = AlignedMemory(bytes);
    note_lazily_built();
    if (scratch_.data() == nullptr) {
      return fail(ErrorCode::kOutOfMemory, fmt::format("no memory for {} bytes", bytes),
                  "cpu scratch");
    }
  }
  return scratch_.data();
}

Status CpuStream::copy_to_device(std::byte* device_target, std::span<const std::byte> host) {
  if (!host.empty()) std::memcpy(device_target, host.data(), host.size());
  return {};
}

Status CpuStream::copy_to_host(std::span<std::byte> host, const std::byte* device_source) {
  if (!host.empty()) std::memcpy(host.data(), device_source, host.size());
  return {};
}

Result<std::unique_ptr<Device>> open_cpu_device(int threads) {
  if (threads < 0 || threads > kMaxThreads) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} threads", threads), "cpu",
                fmt::format("use 1 to {}, or 0 for one per core", kMaxThreads));
  }
  SUTURE_ASSIGN_OR_RETURN(Isa isa, isa_from_environment());
  return std::make_unique<CpuDevice>(threads == 0 ? cores_allowed() : threads, isa);
}

}  // namespace suture
