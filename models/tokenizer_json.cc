#include "models/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "models/bpe.h"
#include "models/json_text.h"
#include "models/sentencepiece.h"

namespace suture {
namespace {

using nlohmann::json;

// Ids may leave gaps, but the table must stay in proportion to the file.
constexpr size_t kMaxGaps = 1 << 16;

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The member, or nullptr where it is absent or null.
const json* find(const json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_of(const json& object, std::string_view name) {
  const json* value = find(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

bool flag_of(const json& object, std::string_view name, bool fallback) {
  const json* value = find(object, name);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : fallback;
}

// The parts of a component that may be a "Sequence" of others; `parts` names its list.
std::vector<const json*> parts_of(const json* component, std::string_view parts) {
  if (component == nullptr) return {};
  if (text_of(*component, "type") != "Sequence") return {component};
  std::vector<const json*> list;
  const json* items = find(*component, parts);
  if (items == nullptr || !items->is_array()) return list;
  for (const json& item : *items) list.push_back(&item);
  return list;
}

class TokenizerJsonReader {
 public:
  TokenizerJsonReader(const json& root, const std::string& where) : root_(root), where_(where) {}

  Result<Vocabulary> read() {
    SUTURE_RETURN_IF_ERROR(check_model());
    SUTURE_RETURN_IF_ERROR(read_pieces());
    SUTURE_RETURN_IF_ERROR(read_added_tokens());
    fill_gaps();
    SUTURE_RETURN_IF_ERROR(read_merges());
    if (is_byte_level()) {
      SUTURE_RETURN_IF_ERROR(read_byte_level_rules());
    } else {
      SUTURE_RETURN_IF_ERROR(read_space_rules());
    }
    return std::move(vocabulary_);
  }

 private:
  tl::unexpected<Error> corrupt(std::string_view field, std::string what) const {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: {}", field, what), where_);
  }
  tl::unexpected<Error> unsupported(std::string_view field, const json& value,
                                    std::string_view known) const {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} {} is not supported", field, json_text(value)), where_,
                fmt::format("use a model whose tokenizer has one of: {}", known));
  }

  const json& model() const { return *find(root_, "model"); }

  bool is_byte_level() const { return !flag_of(model(), "byte_fallback", false); }

  Status check_model() {
    const json* model_object = find(root_, "model");
    if (model_object == nullptr || !model_object->is_object())
      return corrupt("model", "expected an object");
    // Files of before 2021 do not name the type of a BPE.
    const json* type = find(*model_object, "type");
    if (type != nullptr && *type != "BPE") return unsupported("model.type", *type, "BPE");
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text_of(*model_object, affix).empty())
        return unsupported(fmt::format("model.{}", affix), *find(*model_object, affix), "none");
    vocabulary_.model = is_byte_level() ? "gpt2" : "llama";
    vocabulary_.whole_words = flag_of(*model_object, "ignore_merges", false);
    return {};
  }

  Status add_piece(std::string_view field, const std::string& piece, const json& id,
                   TokenKind kind) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= most_pieces_)
      return corrupt(field, fmt::format("the id of {} is {}, expected a number below {}",
                                        json_text(piece), json_text(id), most_pieces_));
    const auto index = id.get<size_t>();
    if (index >= vocabulary_.pieces.size()) {
      vocabulary_.pieces.resize(index + 1);
      vocabulary_.kinds.resize(index + 1, TokenKind::kUnused);
    }
    const bool taken = vocabulary_.kinds[index] != TokenKind::kUnused;
    if (taken && vocabulary_.pieces[index] != piece)
      return corrupt(
          field, fmt::format("{} and {} both have the id {}", json_text(vocabulary_.pieces[index]),
                             json_text(piece), index));
    vocabulary_.pieces[index] = piece;
    vocabulary_.kinds[index] = kind;
    return {};
  }

  Status read_pieces() {
    const json* pieces = find(model(), "vocab");
    if (pieces == nullptr || !pieces->is_object())
      return corrupt("model.vocab", "expected an object of pieces and ids");
    const json* added = find(root_, "added_tokens");
    most_pieces_ = pieces->size() + (added == nullptr ? 0 : added->size()) + kMaxGaps;
    const std::string unknown = text_of(model(), "unk_token");
    for (const auto& [piece, id] : pieces->items()) {
      const TokenKind kind = is_byte_level()    ? TokenKind::kNormal
                             : piece == unknown ? TokenKind::kUnknown
                             : is_byte(piece)   ? TokenKind::kByte
                                                : TokenKind::kNormal;
      SUTURE_RETURN_IF_ERROR(add_piece("model.vocab", piece, id, kind));
      if (piece == unknown) vocabulary_.unk_id = id.get<int32_t>();
      n_bytes_ += kind == TokenKind::kByte ? 1 : 0;
    }
    if (!is_byte_level() && n_bytes_ != 256)
      return corrupt("model.vocab", fmt::format("{} byte tokens \"<0x00>\" to \"<0xFF>\", expected "
                                                "256",
                                                n_bytes_));
    return {};
  }

  static bool is_byte(const std::string& piece) {
    const std::string_view digits =
        std::string_view(piece).substr(std::min<size_t>(3, piece.size()));
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return false;
    return digits.find_first_not_of("0123456789ABCDEF") == 2;
  }

  Status read_added_tokens() {
    const json* tokens = find(root_, "added_tokens");
    if (tokens == nullptr) return {};
    if (!tokens->is_array()) return corrupt("added_tokens", "expected a list");
    for (const json& token : *tokens) {
      const std::string content = text_of(token, "content");
      const json* id = find(token, "id");
      if (content.empty() || id == nullptr)
        return corrupt("added_tokens", fmt::format("{} has no content or id", json_text(token)));
      for (const char* rule : {"single_word", "lstrip"})
        if (flag_of(token, rule, false))
          return unsupported(fmt::format("added_tokens: \"{}\" of", rule), token, "rstrip");
      const bool special = flag_of(token, "special", false);
      const bool unknown = !is_byte_level() && content == text_of(model(), "unk_token");
      const TokenKind kind = unknown   ? TokenKind::kUnknown
                             : special ? TokenKind::kControl
                                       : TokenKind::kUserDefined;
      SUTURE_RETURN_IF_ERROR(add_piece("added_tokens", content, *id, kind));
      if (flag_of(token, "rstrip", false)) vocabulary_.strip_after.push_back(id->get<int32_t>());
    }
    std::ranges::sort(vocabulary_.strip_after);
    return {};
  }

  // Rows of the embedding without a token; named as converters to GGUF name them.
  void fill_gaps() {
    for (size_t id = 0; id < vocabulary_.pieces.size(); ++id)
      if (vocabulary_.kinds[id] == TokenKind::kUnused)
        vocabulary_.pieces[id] = fmt::format("[PAD{}]", id);
  }

  Status read_merges() {
    const json* merges = find(model(), "merges");
    if (merges == nullptr || !merges->is_array()) return corrupt("model.merges", "expected a list");
    vocabulary_.merges.reserve(merges->size());
    for (const json& merge : *merges) {
      if (merge.is_string()) {
        vocabulary_.merges.push_back(merge.get<std::string>());
        continue;
      }
      const bool pair =
          merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
      const std::string left = pair ? merge[0].get<std::string>() : "";
      // Both alphabets write a space in another way.
      if (!pair || left.empty() || left.find(' ') != std::string::npos)
        return corrupt("model.merges", fmt::format("{} is no pair of pieces", json_text(merge)));
      vocabulary_.merges.push_back(left + ' ' + merge[1].get<std::string>());
    }
    return {};
  }

  Status read_byte_level_rules() {
    for (const json* part : parts_of(find(root_, "normalizer"), "normalizers"))
      if (text_of(*part, "type") != "NFC") return unsupported("normalizer", *part, "NFC, none");
    // What the words are cut by, in order.
    std::vector<std::string> cuts;
    for (const json* part : parts_of(find(root_, "pre_tokenizer"), "pretokenizers")) {
      const std::string type = text_of(*part, "type");
      if (type == "ByteLevel") {
        if (flag_of(*part, "add_prefix_space", false))
          return unsupported("pre_tokenizer", *part, "ByteLevel without add_prefix_space");
        if (flag_of(*part, "use_regex", true)) cuts.emplace_back("gpt2");
      } else if (type == "Digits" && flag_of(*part, "individual_digits", false)) {
        cuts.emplace_back("digits");
      } else if (type == "Split" && is_isolated(*part)) {
        cuts.push_back(text_of(*find(*part, "pattern"), "Regex"));
      } else {
        return unsupported("pre_tokenizer", *part, kKnownPreTokenizers);
      }
    }
    return choose_pre_tokenizer(cuts);
  }

  static bool is_isolated(const json& split) {
    const json* pattern = find(split, "pattern");
    return pattern != nullptr && !text_of(*pattern, "Regex").empty() &&
           text_of(split, "behavior") == "Isolated" && !flag_of(split, "invert", false);
  }

  Status choose_pre_tokenizer(const std::vector<std::string>& cuts) {
    const std::pair<std::vector<std::string>, const char*> known[] = {
        {{"gpt2"}, "gpt-2"},
        {{"digits", "gpt2"}, "smollm"},
        {{std::string(kQwen2Pattern)}, "qwen2"},
        {{std::string(kLlama3Pattern)}, "llama-bpe"}};
    for (const auto& [parts, name] : known)
      if (parts == cuts) vocabulary_.pre_tokenizer = name;
    if (!vocabulary_.pre_tokenizer.empty()) return {};
    return unsupported("pre_tokenizer", json(cuts), kKnownPreTokenizers);
  }

  // SentencePiece's: spaces become U+2581, and one may be put in front.
  Status read_space_rules() {
    const json mark = std::string(kSpaceMark);
    bool marked = false;
    for (const json* part : parts_of(find(root_, "normalizer"), "normalizers")) {
      const std::string type = text_of(*part, "type");
      if (type == "Prepend" && find(*part, "prepend") != nullptr && (*part)["prepend"] == mark) {
        vocabulary_.space_prefix = SpacePrefix::kEverySegment;
      } else if (type == "Replace" &&
                 part->value("pattern", json()) == json::object({{"String", " "}}) &&
                 part->value("content", json()) == mark) {
        marked = true;
      } else {
        return unsupported("normalizer", *part, "Prepend and Replace of spaces by U+2581");
      }
    }
    for (const json* part : parts_of(find(root_, "pre_tokenizer"), "pretokenizers")) {
      const bool metaspace = text_of(*part, "type") == "Metaspace" &&
                             text_of(*part, "replacement") == std::string(kSpaceMark) &&
                             !flag_of(*part, "split", true);
      // There are no spaces left to split at.
      const bool no_effect = marked && text_of(*part, "type") == "Split" &&
                             part->value("pattern", json()) == json::object({{"String", " "}});
      if (no_effect) continue;
      if (!metaspace) return unsupported("pre_tokenizer", *part, "Metaspace without split, none");
      marked = true;
      SUTURE_RETURN_IF_ERROR(read_prepend_scheme(*part));
    }
    if (!marked)
      return corrupt("normalizer", "spaces are not replaced by U+2581, as byte_fallback expects");
    return {};
  }

  Status read_prepend_scheme(const json& metaspace) {
    const std::string scheme = text_of(metaspace, "prepend_scheme");
    if (scheme == "always" || scheme.empty())
      vocabulary_.space_prefix = SpacePrefix::kEverySegmentUnlessSpace;
    else if (scheme == "first")
      vocabulary_.space_prefix = SpacePrefix::kFirstSegmentUnlessSpace;
    else if (scheme != "never")
      return unsupported("pre_tokenizer", metaspace, "prepend_scheme always, first, never");
    return {};
  }

  static constexpr std::string_view kKnownPreTokenizers =
      "ByteLevel (GPT-2), Digits and ByteLevel (SmolLM2), Split by the pattern of Llama 3 or Qwen2";

  const json& root_;
  const std::string& where_;
  Vocabulary vocabulary_;
  size_t most_pieces_ = 0;
  size_t n_bytes_ = 0;  // byte tokens among the pieces
};

}  // namespace

Result<Vocabulary> parse_tokenizer_json(const json& root, const std::string& where) {
  return TokenizerJsonReader(root, where).read();
}

}  // namespace suture
