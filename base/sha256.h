// SHA-256 over bytes that come in pieces.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace suture {

class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // 64 lower-case hexadecimal digits. Nothing may be added afterwards.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace suture
