// Writes small GGUF files for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace suture {

class GgufBuilder {
 public:
  static constexpr uint32_t kF32 = 0;  // ggml type ids
  static constexpr uint32_t kF16 = 1;
  static constexpr uint32_t kQ4_0 = 2;
  static constexpr uint32_t kQ8_1 = 9;

  GgufBuilder& u16(std::string_view key, uint16_t value) { return entry(key, 2, value); }
  GgufBuilder& u32(std::string_view key, uint32_t value) { return entry(key, 4, value); }
  GgufBuilder& f32(std::string_view key, float value) { return entry(key, 6, value); }
  GgufBuilder& flag(std::string_view key, bool value) {
    return entry(key, 7, static_cast<uint8_t>(value));
  }
  GgufBuilder& text(std::string_view key, std::string_view value);
  GgufBuilder& strings(std::string_view key, std::initializer_list<std::string_view> values);
  GgufBuilder& strings(std::string_view key, std::span<const std::string> values);
  GgufBuilder& int32s(std::string_view key, std::span<const int32_t> values);
  GgufBuilder& int32s(std::string_view key, std::initializer_list<int32_t> values);
  GgufBuilder& floats(std::string_view key, std::initializer_list<float> values);
  // `dims` as the file has them: the contiguous one first.
  GgufBuilder& tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type,
                      std::span<const std::byte> data);

  // Fields that a test may get wrong.
  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t extra_tensors = 0;  // claimed, but not there
  uint64_t extra_entries = 0;
  uint64_t alignment = 32;  // at which tensors are put

  std::vector<std::byte> build() const;

 private:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;
    uint32_t type;
    std::vector<std::byte> data;
  };

  template <typename T>
  static void put(std::string& out, T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out.append(bytes, sizeof(T));
  }
  static void put_string(std::string& out, std::string_view text);
  void begin(std::string_view key, uint32_t type);
  template <typename T>
  GgufBuilder& entry(std::string_view key, uint32_t type, T value) {
    begin(key, type);
    put(entries_, value);
    return *this;
  }

  std::string entries_;
  uint64_t n_entries_ = 0;
  std::vector<Tensor> tensors_;
};

}  // namespace suture
