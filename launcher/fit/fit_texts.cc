#include "launcher/fit/fit_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "base/new_file.h"
#include "base/sha256.h"
#include "fusion/token_pairing.h"
#include "launcher/text_file.h"
#include "models/unicode.h"

namespace suture {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxFileBytes = size_t{256} << 20;
constexpr size_t kMaxLineBytes = 1 << 20;  // a JSON value may take a hundred bytes of memory a byte
constexpr size_t kLongTextBytes = 16 << 10;  // so that a single file has texts to hold out
// A token of text is seldom longer; what is cut too early makes a piece shorter, no more.
constexpr size_t kBytesPerToken = 16;
constexpr int64_t kFewestTokens = 16;  // of a piece
constexpr size_t kMaxKindBytes = 64;

std::string digest_of(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

class TextReader {
 public:
  Status add_file(const std::filesystem::path& file) {
    SUTURE_ASSIGN_OR_RETURN(const std::string content, read_text_file(file, kMaxFileBytes));
    all_.files.push_back({printable(file.filename().string()), digest_of(content)});
    const std::string where = file.string();
    if (file.extension() == ".jsonl") return add_lines(content, where);
    add_long_text(content);
    return {};
  }
  FitTexts take() { return std::move(all_); }

 private:
  int32_t kind_index(std::string kind) {
    kind = printable(kind, kMaxKindBytes);
    if (kind.empty()) kind = "text";
    const auto known = std::ranges::find(all_.kinds, kind);
    const auto index = std::distance(all_.kinds.begin(), known);
    constexpr auto kLast = static_cast<std::ptrdiff_t>(FitTexts::kMaxKinds - 1);
    if (known != all_.kinds.end()) return static_cast<int32_t>(index);
    if (index <= kLast) all_.kinds.push_back(index < kLast ? std::move(kind) : "other");
    return static_cast<int32_t>(std::min(index, kLast));
  }

  // Between two lines, or wherever a text has none for long.
  void add_long_text(std::string_view text) {
    const int32_t kind = kind_index("text");
    while (!text.empty()) {
      size_t end = text.size();
      if (end > 2 * kLongTextBytes) {
        end = text.find('\n', kLongTextBytes);
        end = end >= 2 * kLongTextBytes ? whole_characters(text, 2 * kLongTextBytes) : end + 1;
      }
      all_.texts.push_back({std::string(text.substr(0, end)), kind});
      text.remove_prefix(end);
    }
  }

  // The longest start of at most that many bytes that ends with a character.
  static size_t whole_characters(std::string_view text, size_t bytes) {
    while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
    return bytes;
  }

  Status add_lines(std::string_view content, const std::string& file) {
    for (int number = 1; !content.empty(); ++number) {
      const size_t end = std::min(content.find('\n'), content.size());
      const std::string_view line = content.substr(0, end);
      content.remove_prefix(std::min(end + 1, content.size()));
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      SUTURE_RETURN_IF_ERROR(add_line(line, fmt::format("{}:{}", file, number)));
    }
    return {};
  }

  Status add_line(std::string_view line, const std::string& where) {
    if (line.size() > kMaxLineBytes)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the line is longer than {} bytes", kMaxLineBytes), where);
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto text = json.is_object() ? json.find("text") : json.end();
    if (text == json.end() || !text->is_string())
      return fail(ErrorCode::kInvalidArgument, "expected {\"text\": TEXT, \"kind\": KIND}", where);
    all_.texts.push_back({text->get<std::string>(), kind_index(kind_of(json))});
    return {};
  }

  static std::string kind_of(const Json& line) {
    std::string kind;
    const auto append = [&](const char* field) {
      const auto found = line.find(field);
      if (found == line.end() || !found->is_string()) return;
      kind += (kind.empty() ? "" : ", ") + found->get<std::string>();
    };
    append("kind");
    if (!kind.empty()) return kind;
    append("domain");
    append("lang");
    return kind;
  }

  FitTexts all_;
};

// The longest start of the text that is at most that many tokens and ends with a whole character.
struct Start {
  size_t bytes = 0;
  int64_t tokens = 0;
};

Start first_tokens(std::string_view text, const Tokenizer& tokenizer, int64_t tokens) {
  const auto is_whole = [text](size_t end) {
    return end == text.size() || (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
  };
  const auto longest = static_cast<size_t>(tokens);
  size_t given = std::min(text.size(), longest * kBytesPerToken);
  while (!is_whole(given)) --given;
  const auto ids = reading_of(tokenizer, text.substr(0, given), longest);
  const auto ends = token_ends(tokenizer, ids, text.substr(0, given));
  for (size_t n = ends.size(); n > 0; --n)
    if (const auto end = static_cast<size_t>(ends[n - 1]); is_whole(end))
      return {end, static_cast<int64_t>(n)};
  return {};
}

void cut(const FitText& text, bool held_out, const Tokenizer& tokenizer, int64_t tokens,
         std::vector<FitPiece>& pieces) {
  std::string_view rest = text.text;
  while (!rest.empty()) {
    const Start start = first_tokens(rest, tokenizer, tokens);
    if (start.bytes == 0 || start.tokens < std::min(kFewestTokens, tokens)) return;
    pieces.push_back({std::string(rest.substr(0, start.bytes)), text.kind, held_out});
    rest.remove_prefix(start.bytes);
  }
}

// How many of each kind are taken of at most `most` in all: as many of one as of another, as far as
// there are.
std::vector<size_t> shares_of(const std::vector<std::vector<FitPiece>>& kinds, int64_t most) {
  std::vector<size_t> shares(kinds.size());
  auto left = static_cast<size_t>(most);
  for (bool more = true; more && left > 0;) {
    more = false;
    for (size_t kind = 0; kind < kinds.size() && left > 0; ++kind) {
      if (shares[kind] == kinds[kind].size()) continue;
      ++shares[kind];
      --left;
      more = true;
    }
  }
  return shares;
}

// Every kind spread over the whole, so that a fit that is looked at early has seen all of them.
std::vector<FitPiece> mixed(std::vector<std::vector<FitPiece>> kinds, int64_t most) {
  struct Place {
    double at;
    FitPiece* piece;
  };
  std::vector<Place> places;
  const std::vector<size_t> shares = shares_of(kinds, most);
  for (size_t kind = 0; kind < kinds.size(); ++kind)
    for (size_t i = 0; i < shares[kind]; ++i) {
      const auto share = static_cast<double>(shares[kind]);
      places.push_back({(static_cast<double>(i) + 0.5) / share,
                        &kinds[kind][i * kinds[kind].size() / shares[kind]]});
    }
  std::ranges::stable_sort(places, {}, &Place::at);
  std::vector<FitPiece> pieces;
  pieces.reserve(places.size());
  for (const Place& place : places) pieces.push_back(std::move(*place.piece));
  return pieces;
}

}  // namespace

Result<FitTexts> read_fit_texts(const std::vector<std::filesystem::path>& files) {
  TextReader reader;
  for (const std::filesystem::path& file : files) SUTURE_RETURN_IF_ERROR(reader.add_file(file));
  return reader.take();
}

bool is_held_out(int64_t index_in_kind, double share) {
  const auto held_out_before = [share](int64_t i) {
    return std::floor(static_cast<double>(i) * share + 0.5);
  };
  return held_out_before(index_in_kind + 1) > held_out_before(index_in_kind);
}

Status write_held_out_texts(const std::filesystem::path& path, const FitTexts& texts,
                            double share) {
  SUTURE_ASSIGN_OR_RETURN(NewFile file, NewFile::create(path));
  std::vector<int64_t> texts_of(texts.kinds.size());
  for (const FitText& text : texts.texts) {
    const auto kind = static_cast<size_t>(text.kind);
    if (!is_held_out(texts_of[kind]++, share)) continue;
    const std::string line = Json({{"kind", texts.kinds[kind]}, {"text", text.text}}).dump() + "\n";
    SUTURE_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(line))));
  }
  return file.finish();
}

Result<std::vector<FitPiece>> cut_pieces(const FitTexts& texts, const Tokenizer& tokenizer,
                                         const PieceOptions& options) {
  std::vector<std::vector<FitPiece>> kinds(texts.kinds.size());
  std::vector<int64_t> texts_of(texts.kinds.size());
  int64_t all = 0;
  for (const FitText& text : texts.texts) {
    const auto kind = static_cast<size_t>(text.kind);
    const bool held_out = is_held_out(texts_of[kind]++, options.held_out_share);
    cut(text, held_out, tokenizer, options.tokens, kinds[kind]);
  }
  for (const auto& pieces : kinds) all += std::ssize(pieces);
  auto pieces = mixed(std::move(kinds), options.most == 0 ? all : options.most);
  const auto held_out = std::ranges::count_if(pieces, &FitPiece::held_out);
  if (held_out == 0 || held_out == std::ssize(pieces))
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} of {} pieces of text would be held out", held_out, pieces.size()),
                "fit", "give more texts of a kind, or another --held-out share");
  return pieces;
}

}  // namespace suture
