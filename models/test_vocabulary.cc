#include "models/test_vocabulary.h"

#include "models/bpe.h"

namespace suture {

Vocabulary make_byte_vocabulary(const std::vector<std::string>& merges,
                                const std::vector<std::pair<std::string, TokenKind>>& extra) {
  Vocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre_tokenizer = "qwen2";
  vocabulary.merges = merges;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.pieces.push_back(byte_to_alphabet(static_cast<uint8_t>(byte)));
  }
  for (const std::string& merge : merges) {
    const size_t space = merge.find(' ', 1);
    vocabulary.pieces.push_back(merge.substr(0, space) + merge.substr(space + 1));
  }
  vocabulary.kinds.assign(vocabulary.pieces.size(), TokenKind::kNormal);
  for (const auto& [piece, kind] : extra) {
    vocabulary.pieces.push_back(piece);
    vocabulary.kinds.push_back(kind);
  }
  return vocabulary;
}

Vocabulary make_chat_vocabulary(const std::vector<std::string>& merges) {
  Vocabulary vocabulary = make_byte_vocabulary(
      merges, {{"<|im_start|>", TokenKind::kControl}, {"<|im_end|>", TokenKind::kControl}});
  vocabulary.eos_id = static_cast<int32_t>(vocabulary.pieces.size()) - 1;
  return vocabulary;
}

}  // namespace suture
