#include "models/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <string>
#include <utility>

#include "base/check.h"
#include "models/unicode.h"

namespace suture {
namespace {

struct FreePcre {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
using Pattern = std::unique_ptr<pcre2_code, FreePcre>;
using MatchData = std::unique_ptr<pcre2_match_data, FreePcre>;
using MatchContext = std::unique_ptr<pcre2_match_context, FreePcre>;

// The published patterns with two changes that leave every match as it is. White space is spelled
// out ([\t-\r\x85\p{Z}]), because PCRE2's \s also takes U+180E. And repetitions are possessive
// where giving back could not help, so that no text makes the matcher go back over long runs:
// \s*[\r\n]+ becomes "spaces, then line ends" as often as it fits.
#define SUTURE_SPACE R"(\t-\r\x{85}\p{Z})"

// A digit is always alone.
constexpr const char* kSingleDigits = R"(\p{N})";

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}++| ?\p{N}++)"
                              "| ?[^" SUTURE_SPACE R"(\p{L}\p{N}]++)"
                              "|[" SUTURE_SPACE "]+(?![^" SUTURE_SPACE
                              "])"
                              "|[" SUTURE_SPACE "]++";

// Of Llama 3 and Qwen2, which differ in how many digits go together.
#define SUTURE_LLAMA3(digits)                                                              \
  R"('(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))"                                 \
  R"(|[^\r\n\p{L}\p{N}]?+\p{L}++|)" digits "| ?[^" SUTURE_SPACE R"(\p{L}\p{N}]++[\r\n]*+)" \
  R"(|(?:(?:[\t\x0B\x0C\x{85}\p{Z}]*+[\r\n]++)++))"                                        \
  "|[" SUTURE_SPACE "]+(?![^" SUTURE_SPACE                                                 \
  "])"                                                                                     \
  "|[" SUTURE_SPACE "]++"

constexpr const char* kLlama3 = SUTURE_LLAMA3(R"(\p{N}{1,3}+)");
constexpr const char* kQwen2 = SUTURE_LLAMA3(R"(\p{N})");

#undef SUTURE_LLAMA3
#undef SUTURE_SPACE

struct Scheme {
  std::string_view name;
  std::array<const char*, 2> patterns;  // each cuts what the one before has left; nullptr = none
};
constexpr Scheme kSchemes[] = {
    {"gpt-2", {kGpt2, nullptr}},
    {"smollm", {kSingleDigits, kGpt2}},
    {"starcoder", {kSingleDigits, kGpt2}},
    {"qwen2", {kQwen2, nullptr}},
    {"deepseek-r1-qwen", {kQwen2, nullptr}},
    {"llama-bpe", {kLlama3, nullptr}},
    {"llama3", {kLlama3, nullptr}},
    {"llama-v3", {kLlama3, nullptr}},
};

// Far above what a pattern needs for one word, and low enough to end within seconds.
constexpr uint32_t kMatchLimit = 50'000'000;

Pattern compile(const char* source) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Pattern pattern(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source), PCRE2_ZERO_TERMINATED,
                                PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
  SUTURE_CHECK(pattern != nullptr, "pattern={} error={} offset={}", source, error, offset);
  // Where the system refuses executable memory this fails, and matching interprets the pattern.
  pcre2_jit_compile(pattern.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  return pattern;
}

// The text with every byte that is not UTF-8 turned into a control character: of the same length,
// and of a class (no letter, number or space) that the patterns take for a symbol.
std::string with_symbols_for_invalid_bytes(std::string_view text) {
  std::string valid(text);
  for (size_t done = 0; done < text.size();) {
    const Utf8Character character = first_character(text.substr(done));
    if (character.status != Utf8Status::kValid)
      valid.replace(done, character.bytes, character.bytes, '\x01');
    done += character.bytes;
  }
  return valid;
}

MatchData make_match_data() {
  MatchData match(pcre2_match_data_create(1, nullptr));
  SUTURE_CHECK(match != nullptr, "no memory for a match");
  return match;
}

}  // namespace

struct PreTokenizer::State {
  std::vector<Pattern> patterns;
  MatchContext context{pcre2_match_context_create(nullptr)};

  // Searches from `begin`; below 0 as pcre2_match() says it.
  int search(const Pattern& pattern, std::string_view text, size_t begin, uint32_t options,
             const MatchData& match) const {
    return pcre2_match(pattern.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), begin,
                       PCRE2_NO_UTF_CHECK | options, match.get(), context.get());
  }

  // Appends the lengths of the words of `text`: matches, and what lies between them.
  void cut(const Pattern& pattern, std::string_view text, const MatchData& match,
           std::vector<size_t>& lengths) const {
    size_t done = 0;
    while (done < text.size()) {
      // No match, or one that reached the limit: the rest is one word, and nothing is lost.
      if (search(pattern, text, done, 0, match) < 0) break;
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
      if (range[0] > done) lengths.push_back(range[0] - done);
      lengths.push_back(range[1] - range[0]);
      done = range[1];
    }
    if (done < text.size()) lengths.push_back(text.size() - done);
  }

  std::vector<size_t> word_lengths(std::string_view text) const {
    // One per call, so that several threads may split at once.
    const MatchData match = make_match_data();
    std::vector<size_t> lengths = {text.size()};
    for (const Pattern& pattern : patterns) {
      std::vector<size_t> finer;
      size_t begin = 0;
      for (size_t length : lengths) {
        cut(pattern, text.substr(begin, length), match, finer);
        begin += length;
      }
      lengths = std::move(finer);
    }
    return lengths;
  }

  // Where the first word begins that more text could still change.
  size_t certain_end(std::string_view text) const {
    const MatchData match = make_match_data();
    std::string_view open = text;
    for (const Pattern& pattern : patterns) open = open_word(pattern, open, match);
    return static_cast<size_t>(open.data() - text.data());
  }

  // The word that more text could still change, as far as its own text is certain; maybe empty.
  // A partial match is one that asked for what comes after the end of the text.
  std::string_view open_word(const Pattern& pattern, std::string_view text,
                             const MatchData& match) const {
    size_t done = 0;
    while (done < text.size()) {
      const int found = search(pattern, text, done, PCRE2_PARTIAL_HARD, match);
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found == PCRE2_ERROR_PARTIAL) return text.substr(done, range[0] - done);
      if (found < 0) return text.substr(done, 0);
      done = range[1];
    }
    return text.substr(done);
  }
};

PreTokenizer::PreTokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::create(std::string_view name) {
  std::string known;
  for (const Scheme& scheme : kSchemes) {
    if (scheme.name == name) {
      auto state = std::make_unique<State>();
      SUTURE_CHECK(state->context != nullptr, "no memory for a match context");
      pcre2_set_match_limit(state->context.get(), kMatchLimit);
      for (const char* source : scheme.patterns) {
        if (source != nullptr) state->patterns.push_back(compile(source));
      }
      return PreTokenizer(std::move(state));
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", scheme.name);
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("pre-tokenizer \"{}\" is not known", printable(name)),
              "tokenizer.ggml.pre", fmt::format("use a model with one of: {}", known));
}

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
  std::vector<std::string_view> words;
  size_t begin = 0;
  for (size_t length : state_->word_lengths(with_symbols_for_invalid_bytes(text))) {
    words.push_back(text.substr(begin, length));
    begin += length;
  }
  return words;
}

size_t PreTokenizer::stable_end(std::string_view text) const {
  const std::string valid = with_symbols_for_invalid_bytes(text);
  const std::string_view whole = std::string_view(valid).substr(0, whole_characters(text));
  const size_t certain = state_->certain_end(whole);
  // Cut off at the end of a word, the text must have that word still: of "\t\tx" the words are
  // "\t", "\t", "x", but "\t\t" is one.
  size_t end = valid.size();
  for (std::vector<size_t> lengths = state_->word_lengths(valid); !lengths.empty();
       lengths.pop_back()) {
    if (end <= certain && state_->word_lengths(whole.substr(0, end)) == lengths) break;
    end -= lengths.back();
  }
  return end;
}

}  // namespace suture
