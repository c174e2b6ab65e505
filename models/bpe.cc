#include "models/bpe.h"

#include <fmt/format.h>

#include <deque>
#include <limits>
#include <utility>

#include "models/sentencepiece.h"
#include "models/unicode.h"

namespace suture {
namespace {

struct ByteAlphabet {
  std::array<uint32_t, 256> code_points{};
  std::unordered_map<uint32_t, uint8_t> bytes;

  ByteAlphabet() {
    uint32_t next_unprintable = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      code_points[byte] = printable ? byte : next_unprintable++;
      bytes.emplace(code_points[byte], static_cast<uint8_t>(byte));
    }
  }
};

const ByteAlphabet& byte_alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

// Names of symbols while an encoder is made: tokens first, then what merges add.
class SymbolTable {
 public:
  explicit SymbolTable(const std::vector<std::string>& pieces)
      : next_(static_cast<int32_t>(pieces.size())) {
    ids_.reserve(pieces.size());
    for (size_t id = 0; id < pieces.size(); ++id) {
      ids_.emplace(pieces[id], static_cast<int32_t>(id));
    }
  }

  int32_t intern(const std::string& name) {
    if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
    ids_.emplace(added_.emplace_back(name), next_);
    return next_++;
  }

 private:
  std::unordered_map<std::string_view, int32_t> ids_;
  std::deque<std::string> added_;
  int32_t next_;
};

}  // namespace

std::string byte_to_alphabet(uint8_t byte) {
  std::string character;
  append_utf8(byte_alphabet().code_points[byte], character);
  return character;
}

std::string byte_token_name(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

std::string alphabet_to_bytes(std::string_view piece) {
  std::string bytes;
  while (!piece.empty()) {
    const Utf8Character character = first_character(piece);
    const auto found = character.status == Utf8Status::kValid
                           ? byte_alphabet().bytes.find(character.code_point)
                           : byte_alphabet().bytes.end();
    if (found != byte_alphabet().bytes.end()) {
      bytes.push_back(static_cast<char>(found->second));
    } else {
      bytes += piece.substr(0, character.bytes);
    }
    piece.remove_prefix(character.bytes);
  }
  return bytes;
}

Result<BytePairEncoder> BytePairEncoder::create(const Vocabulary& vocabulary,
                                                BpeAlphabet alphabet) {
  // A merge names at most three symbols of its own.
  const uint64_t most_symbols = vocabulary.pieces.size() + 3 * vocabulary.merges.size() + 256;
  if (most_symbols > std::numeric_limits<Symbol>::max()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} pieces and {} merges are too many", vocabulary.pieces.size(),
                            vocabulary.merges.size()));
  }
  BytePairEncoder encoder;
  SymbolTable symbols(vocabulary.pieces);
  encoder.alphabet_ = alphabet;
  encoder.n_tokens_ = static_cast<Symbol>(vocabulary.pieces.size());
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto name = alphabet == BpeAlphabet::kBytes ? byte_to_alphabet : byte_token_name;
    encoder.byte_symbols_[byte] = symbols.intern(name(static_cast<uint8_t>(byte)));
  }
  encoder.merges_.reserve(vocabulary.merges.size());
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const std::string_view merge = vocabulary.merges[rank];
    // A left side may start with a space, but is never empty.
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return fail(ErrorCode::kCorrupt, fmt::format("merge {} is \"{}\", not a pair", rank, merge),
                  "tokenizer.ggml.merges", "convert the model again");
    }
    const std::string left(merge.substr(0, space));
    const std::string right(merge.substr(space + 1));
    const Symbol result = symbols.intern(left + right);
    if (alphabet == BpeAlphabet::kCharacters && result >= encoder.n_tokens_)
      return fail(ErrorCode::kCorrupt,
                  fmt::format("merge {} forms \"{}\", which is no token", rank, left + right),
                  "merges");
    // Text must not forge a control token.
    if (alphabet == BpeAlphabet::kCharacters &&
        !is_mergeable(vocabulary.kinds[static_cast<size_t>(result)]))
      continue;
    const uint64_t pair = pair_key(symbols.intern(left), symbols.intern(right));
    encoder.merges_.try_emplace(
        pair, SymbolMerge<int32_t>{.priority = static_cast<int32_t>(rank), .result = result});
  }
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const std::string& piece = vocabulary.pieces[id];
    const bool normal = vocabulary.kinds[id] == TokenKind::kNormal;
    if (normal && vocabulary.whole_words)
      encoder.whole_words_.try_emplace(
          alphabet == BpeAlphabet::kBytes ? alphabet_to_bytes(piece) : piece,
          static_cast<Symbol>(id));
    if (!normal || piece.empty() || alphabet == BpeAlphabet::kBytes) continue;
    const Utf8Character first = first_character(piece);
    if (first.status == Utf8Status::kValid && first.bytes == piece.size())
      encoder.character_symbols_.try_emplace(first.code_point, static_cast<Symbol>(id));
  }
  return encoder;
}

std::optional<SymbolMerge<int32_t>> BytePairEncoder::merge_of(Symbol left, Symbol right) const {
  const auto found = merges_.find(pair_key(left, right));
  if (found == merges_.end()) return std::nullopt;
  return found->second;
}

void BytePairEncoder::start(std::string_view word, SymbolRow& row) const {
  for (size_t done = 0; done < word.size();) {
    if (alphabet_ == BpeAlphabet::kCharacters) {
      const Utf8Character character = first_character(word.substr(done));
      const auto found = character_symbols_.find(character.code_point);
      if (character.status == Utf8Status::kValid && found != character_symbols_.end()) {
        row.append(found->second, character.bytes);
        done += character.bytes;
        continue;
      }
    }
    // A byte inside a character starts no character: it comes here too.
    row.append(byte_symbols_[static_cast<uint8_t>(word[done++])], 1);
  }
}

void BytePairEncoder::encode(std::string_view word, std::vector<int32_t>& ids) const {
  if (!whole_words_.empty()) {
    if (const auto found = whole_words_.find(std::string(word)); found != whole_words_.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  SymbolRow row(word.size());
  start(word, row);
  row.merge<int32_t>(
      [this](Symbol left, Symbol right, size_t, size_t) { return merge_of(left, right); });
  row.for_each([&](Symbol symbol, size_t begin, size_t end) {
    append_ids(symbol, word.substr(begin, end - begin), ids);
  });
}

void BytePairEncoder::append_ids(Symbol symbol, std::string_view bytes,
                                 std::vector<int32_t>& ids) const {
  if (symbol < n_tokens_) {
    ids.push_back(symbol);
    return;
  }
  for (char byte : bytes) {
    const Symbol token = byte_symbols_[static_cast<uint8_t>(byte)];
    if (token < n_tokens_) ids.push_back(token);
  }
}

}  // namespace suture
