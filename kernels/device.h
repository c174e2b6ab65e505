// The one small interface behind which a backend stands (design §6): memory, streams, events.
//
// Ops enqueue work on a Stream. A CPU stream executes inline: the calling thread is worker 0 of
// the stream's pool, and work is done when the call returns. Code above the kernels treats every
// call as asynchronous and synchronises before it reads a result on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace suture {

enum class DeviceKind : uint8_t { kCpu, kCuda };

// Memory of one device. `data()` is an address in the device's own space: only `_cpu` and `_cuda`
// files may dereference it; everything else copies through a Stream.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::byte* data() = 0;
  virtual size_t size() const = 0;  // bytes
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }
};

class Event {
 public:
  virtual ~Event() = default;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual DeviceKind kind() const = 0;
  // Enqueues a copy of bytes; host memory must stay valid until synchronize().
  virtual Status copy_to_device(std::byte* device_target, std::span<const std::byte> host) = 0;
  virtual Status copy_to_host(std::span<std::byte> host, const std::byte* device_source) = 0;
  virtual Status record(Event& event) = 0;
  virtual Status wait(Event& event) = 0;
  virtual Status synchronize() = 0;
  // How many times an op on this stream had to make something that later ops find ready, such as
  // scratch of its size. Unchanged by an op like one that has run before.
  virtual int64_t lazily_built() const = 0;
  // Threads that share the work of one op; each keeps scratch of its own.
  virtual int workers() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;  // "cpu: AMD EPYC ..., avx512_vnni"
  // Zeroed memory, aligned to at least 64 bytes. kOutOfMemory when there is none.
  virtual Result<std::unique_ptr<Buffer>> allocate(size_t bytes) = 0;
  // Address under which this device can read `host` in place, or nothing (then copy).
  virtual const std::byte* device_address(std::span<const std::byte> host) = 0;
  virtual Result<std::unique_ptr<Stream>> make_stream() = 0;
  virtual Result<std::unique_ptr<Event>> make_event() = 0;
};

// Opens "cpu". "cuda:N" is kUnsupported in a build without CUDA. `threads` is the number of
// workers of each CPU stream, the caller included (1 = no extra thread); 0 = one per core allowed.
Result<std::unique_ptr<Device>> open_device(const std::string& name, int threads);

}  // namespace suture
