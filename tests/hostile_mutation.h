// Damage to files: what bad disks, broken converters and attackers do to them.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace suture {

// Everything it does follows from the seed.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  // One to four changes of bytes: bits, values, integers, cuts, copies.
  std::string bytes(std::string content);
  // One to four changes of words, lines and brackets of a text such as JSON or TOML.
  std::string text(std::string content);
  // Below `n`, which is not 0.
  size_t below(size_t n);

 private:
  size_t changes();
  void change_bytes(std::string& content);
  void put_integer(std::string& content);
  void change_text(std::string& content);
  void replace_word(std::string& content);
  void nest(std::string& content);
  void change_range(std::string& content, size_t begin, size_t end);
  std::string_view any_word();

  std::mt19937_64 random_;
};

}  // namespace suture
