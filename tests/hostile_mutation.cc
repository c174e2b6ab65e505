#include "tests/hostile_mutation.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

namespace suture {
namespace {

constexpr std::array<uint64_t, 22> kIntegers = {0,
                                                1,
                                                2,
                                                3,
                                                7,
                                                8,
                                                9,
                                                31,
                                                0x7f,
                                                0x80,
                                                0xff,
                                                0x7fff,
                                                0xffff,
                                                0x7fffffff,
                                                0x80000000,
                                                0xffffffff,
                                                uint64_t{1} << 32,
                                                uint64_t{1} << 40,
                                                uint64_t{1} << 60,
                                                0x7fffffffffffffff,
                                                0x8000000000000000,
                                                0xffffffffffffffff};

constexpr std::array<std::string_view, 36> kWords = {"0",
                                                     "-1",
                                                     "1",
                                                     "2",
                                                     "3",
                                                     "1024",
                                                     "65536",
                                                     "131072",
                                                     "1e308",
                                                     "1e-308",
                                                     "-1e9",
                                                     "2147483647",
                                                     "2147483648",
                                                     "4294967296",
                                                     "-0.0",
                                                     "0.5",
                                                     "1e999",
                                                     "nan",
                                                     "inf",
                                                     "null",
                                                     "true",
                                                     "false",
                                                     "\"\"",
                                                     "\"x\"",
                                                     "[]",
                                                     "{}",
                                                     "[0]",
                                                     "[[]]",
                                                     "\"..\"",
                                                     "\"a\"",
                                                     "\"\\u0000\"",
                                                     "\"\\ud800\"",
                                                     "9223372036854775807",
                                                     "18446744073709551615",
                                                     "99999999999999999999",
                                                     "1152921504606846976"};

bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' ||
         c == '+' || c == '"';
}

}  // namespace

size_t Mutator::below(size_t n) { return static_cast<size_t>(random_() % n); }

// Mostly one: more of them hide what one alone reaches.
size_t Mutator::changes() { return below(2) == 0 ? 1 : 1 + below(4); }

std::string Mutator::bytes(std::string content) {
  for (size_t n = changes(); n > 0; --n) change_bytes(content);
  return content;
}

std::string Mutator::text(std::string content) {
  for (size_t n = changes(); n > 0; --n) change_text(content);
  return content;
}

void Mutator::change_bytes(std::string& content) {
  if (content.empty()) return;
  const size_t at = below(content.size());
  switch (below(8)) {
    case 0: content[at] = static_cast<char>(content[at] ^ 1 << below(8)); break;
    case 1: content[at] = static_cast<char>(random_()); break;
    case 2: content.resize(at); break;
    case 3: change_range(content, at, std::min(content.size(), at + 1 + below(64))); break;
    default: put_integer(content); break;
  }
}

// Little-endian, 1 to 8 bytes; mostly near the front, where the counts and lengths are.
void Mutator::put_integer(std::string& content) {
  const size_t size = std::min(size_t{1} << below(4), content.size());
  const size_t room = content.size() - size + 1;
  const size_t at = below(3) == 0 ? below(std::min<size_t>(room, 64)) : below(room);
  uint64_t value = kIntegers[below(kIntegers.size())];
  if (below(4) == 0) value += below(3) - 1;
  std::memcpy(content.data() + at, &value, size);
}

// Out, twice, or over another place.
void Mutator::change_range(std::string& content, size_t begin, size_t end) {
  const std::string range = content.substr(begin, end - begin);
  switch (below(3)) {
    case 0: content.erase(begin, range.size()); break;
    case 1: content.insert(begin, range); break;
    default: content.replace(below(content.size()), range.size(), range); break;
  }
}

void Mutator::change_text(std::string& content) {
  if (content.empty()) return;
  const size_t at = below(content.size());
  switch (below(8)) {
    case 0: change_bytes(content); break;
    case 1: {  // a line, or what stands between two commas
      const char separator = content.find('\n') == std::string::npos || below(2) == 0 ? ',' : '\n';
      const size_t before = content.rfind(separator, at);
      const size_t begin = before == std::string::npos ? 0 : before;
      change_range(content, begin, std::min(content.size(), content.find(separator, at)));
      break;
    }
    case 2: nest(content); break;
    default: replace_word(content); break;
  }
}

std::string_view Mutator::any_word() { return kWords[below(kWords.size())]; }

// Mostly by a value that means something, else by another word of the file or a long one.
void Mutator::replace_word(std::string& content) {
  const auto find_word = [&](size_t from) {
    size_t begin = from;
    while (begin < content.size() && !in_word(content[begin])) ++begin;
    size_t end = begin;
    while (end < content.size() && in_word(content[end])) ++end;
    return std::pair(begin, end);
  };
  const auto [begin, end] = find_word(below(content.size()));
  std::string word(any_word());
  if (below(6) == 0) {
    const auto [other, other_end] = find_word(below(content.size()));
    word = content.substr(other, other_end - other);
  } else if (below(12) == 0) {
    word = '"' + std::string(below(5000), 'a') + '"';
  }
  content.replace(begin, end - begin, word);
}

void Mutator::nest(std::string& content) {
  constexpr std::array<std::string_view, 4> kOpen = {"[", "{\"a\":", "{", "[["};
  const std::string_view open = kOpen[below(kOpen.size())];
  std::string deep;
  for (size_t n = size_t{1} << below(15); n > 0; --n) deep += open;
  content.insert(below(content.size()), deep);
}

}  // namespace suture
