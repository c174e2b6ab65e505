// Cuts text into the words inside which byte pairs may merge.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace suture {

class PreTokenizer {
 public:
  // By GGUF's tokenizer.ggml.pre. kUnsupported lists the known names.
  static Result<PreTokenizer> create(std::string_view name);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // The words of `text` in order; together they are the text. Bytes that are not UTF-8 count as
  // symbols. Time is linear in the text.
  std::vector<std::string_view> split(std::string_view text) const;
  // The length of a start of `text` whose words, cut on their own, stay whatever text follows.
  size_t stable_end(std::string_view text) const;

 private:
  struct State;
  explicit PreTokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace suture
