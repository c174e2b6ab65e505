// Text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/special_tokens.h"
#include "models/vocabulary.h"

namespace suture {

enum class SpecialTokens : uint8_t {
  kAsText,  // "<|im_end|>" in the text is ordinary text: the safe choice for what users type
  kParse,   // control tokens written out in the text become their ids (chat templates)
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // kUnsupported names the tokenizer model or pre-tokenizer and the known ones.
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary);

  // Adds no BOS or EOS. Any bytes are accepted; n log n in the length of the text.
  std::vector<int32_t> encode(std::string_view text, SpecialTokens special) const;
  // The length of a start of `text` whose tokens stay, whatever text follows: encode() of it begins
  // encode(text + anything), with SpecialTokens::kAsText. Never less for a longer text.
  size_t stable_end(std::string_view text) const;
  // Bytes of one token as they appear in text; control tokens give their name only if asked.
  std::string_view piece(int32_t id, bool control_names = false) const;
  std::string decode(std::span<const int32_t> ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  int32_t vocab_size() const { return static_cast<int32_t>(vocabulary().pieces.size()); }
  // End of text or end of turn: generation stops here.
  bool is_end(int32_t id) const;
  // SHA-256 over all pieces and special ids, as hex: equal means tokens map one to one. Which
  // special id begins or ends a text is left out: there a base model and its fine-tunes differ.
  const std::string& vocabulary_hash() const { return vocabulary_hash_; }

 protected:
  // texts: [vocab] the bytes that each piece stands for.
  Tokenizer(Vocabulary vocabulary, std::vector<std::string> texts);

 private:
  // The text between two tokens that are cut out of it, never empty; whether the whole text begins
  // with it. stable_end() means it as above.
  virtual void encode_segment(std::string_view segment, bool first,
                              std::vector<int32_t>& ids) const = 0;
  virtual size_t segment_stable_end(std::string_view segment, bool first) const = 0;

  // Where the segment behind a token begins: further on if the token swallows white space.
  size_t segment_begin(std::string_view text, const SpecialTokenFinder::Occurrence& token) const;

  Vocabulary vocabulary_;
  std::vector<std::string> texts_;  // [vocab]
  SpecialTokenFinder in_text_;      // what ordinary text may contain
  SpecialTokenFinder parsed_;       // and with SpecialTokens::kParse
  std::vector<int32_t> end_ids_;    // sorted
  std::string vocabulary_hash_;
};

// Turns tokens into text as they come, holding back bytes until a UTF-8 character is whole.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  // Text that is complete now, maybe empty. Invalid bytes come out as U+FFFD.
  std::string push(int32_t id);
  // What is left at the end; an unfinished character comes out as U+FFFD.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;  // start of an unfinished character
};

}  // namespace suture
