#include "models/bpe.h"

#include <fmt/format.h>

#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

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

Result<BytePairEncoder> BytePairEncoder::create(const Vocabulary& vocabulary) {
  // A merge names at most three symbols of its own.
  const uint64_t most_symbols = vocabulary.pieces.size() + 3 * vocabulary.merges.size() + 256;
  if (most_symbols > std::numeric_limits<Symbol>::max()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} pieces and {} merges are too many", vocabulary.pieces.size(),
                            vocabulary.merges.size()));
  }
  BytePairEncoder encoder;
  SymbolTable symbols(vocabulary.pieces);
  encoder.n_tokens_ = static_cast<Symbol>(vocabulary.pieces.size());
  for (size_t byte = 0; byte < 256; ++byte) {
    encoder.byte_symbols_[byte] = symbols.intern(byte_to_alphabet(static_cast<uint8_t>(byte)));
  }
  encoder.merges_.reserve(vocabulary.merges.size());
  encoder.merge_ranks_.reserve(vocabulary.merges.size());
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
    const Merge pair{symbols.intern(left), symbols.intern(right), symbols.intern(left + right)};
    encoder.merge_ranks_.emplace(pair_key(pair.left, pair.right), static_cast<int32_t>(rank));
    encoder.merges_.push_back(pair);
  }
  return encoder;
}

const BytePairEncoder::Merge* BytePairEncoder::merge_of(Symbol left, Symbol right) const {
  const auto found = merge_ranks_.find(pair_key(left, right));
  return found == merge_ranks_.end() ? nullptr : &merges_[static_cast<size_t>(found->second)];
}

void BytePairEncoder::encode(std::string_view word, std::vector<int32_t>& ids) const {
  constexpr size_t kNone = std::string_view::npos;
  constexpr Symbol kMergedAway = -1;
  // A linked list of symbols; a node is named by the byte at which its symbol begins.
  struct Node {
    Symbol symbol;
    size_t previous;
    size_t next;
  };
  std::vector<Node> nodes(word.size());
  for (size_t i = 0; i < word.size(); ++i) {
    nodes[i] = {byte_symbols_[static_cast<uint8_t>(word[i])], i == 0 ? kNone : i - 1,
                i + 1 == word.size() ? kNone : i + 1};
  }

  // Merges to do, best first. Merges are ordered as in memory, so a pointer is a rank.
  using Candidate = std::pair<const Merge*, size_t>;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto consider = [&](size_t left) {
    if (left == kNone || nodes[left].next == kNone) return;
    const Merge* merge = merge_of(nodes[left].symbol, nodes[nodes[left].next].symbol);
    if (merge != nullptr) candidates.emplace(merge, left);
  };
  for (size_t i = 0; i < word.size(); ++i) consider(i);

  while (!candidates.empty()) {
    const auto [merge, left] = candidates.top();
    candidates.pop();
    Node& node = nodes[left];
    const size_t right = node.next;
    // A merge made meanwhile may have taken either side.
    if (node.symbol != merge->left || right == kNone || nodes[right].symbol != merge->right) {
      continue;
    }
    node.symbol = merge->result;
    node.next = nodes[right].next;
    nodes[right].symbol = kMergedAway;
    if (node.next != kNone) nodes[node.next].previous = left;
    consider(node.previous);
    consider(left);
  }

  for (size_t i = 0; i < word.size(); i = nodes[i].next) {
    append_ids(nodes[i].symbol, word.substr(i, nodes[i].next - i), ids);
  }
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
