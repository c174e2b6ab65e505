#include "models/byte_level_tokenizer.h"

#include <utility>

#include "models/bpe.h"
#include "models/pre_tokenizer.h"

namespace suture {
namespace {

// Byte-level pieces are written in the byte alphabet, all others as they appear in text.
std::vector<std::string> texts_of(const Vocabulary& vocabulary) {
  std::vector<std::string> texts;
  texts.reserve(vocabulary.pieces.size());
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const bool in_alphabet = vocabulary.kinds[id] == TokenKind::kNormal;
    const std::string& piece = vocabulary.pieces[id];
    texts.push_back(in_alphabet ? alphabet_to_bytes(piece) : piece);
  }
  return texts;
}

class ByteLevelTokenizer final : public Tokenizer {
 public:
  ByteLevelTokenizer(Vocabulary vocabulary, std::vector<std::string> texts,
                     PreTokenizer pre_tokenizer, BytePairEncoder encoder)
      : Tokenizer(std::move(vocabulary), std::move(texts)),
        pre_tokenizer_(std::move(pre_tokenizer)),
        encoder_(std::move(encoder)) {}

 private:
  void encode_segment(std::string_view segment, bool /*first*/,
                      std::vector<int32_t>& ids) const override {
    for (std::string_view word : pre_tokenizer_.split(segment)) encoder_.encode(word, ids);
  }
  size_t segment_stable_end(std::string_view segment, bool /*first*/) const override {
    return pre_tokenizer_.stable_end(segment);
  }

  PreTokenizer pre_tokenizer_;
  BytePairEncoder encoder_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_byte_level_tokenizer(Vocabulary vocabulary) {
  SUTURE_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer,
                          PreTokenizer::create(vocabulary.pre_tokenizer));
  SUTURE_ASSIGN_OR_RETURN(BytePairEncoder encoder, BytePairEncoder::create(vocabulary));
  auto texts = texts_of(vocabulary);
  return std::make_unique<ByteLevelTokenizer>(std::move(vocabulary), std::move(texts),
                                              std::move(pre_tokenizer), std::move(encoder));
}

}  // namespace suture
