// The part of a launch that finds words in what its models read.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "actors/launch_state.h"
#include "kernels/attention.h"
#include "models/token_spans.h"

namespace suture {
namespace {

// What a model reads of a request, or before it.
struct TextRead {
  int32_t reader = 0;
  const Tokenizer& tokenizer;
  std::span<const int32_t> ids;
};

// The models whose rows the master sees, and their drafts.
size_t readers_of(const LaunchSpec& spec) {
  size_t readers = 0;
  for (const ModelSpec& model : spec.models)
    if (!model.hands_over()) readers += model.drafts() ? 2 : 1;
  return readers;
}

Status validate(const AttentionQuery& query, size_t models) {
  const size_t most = static_cast<size_t>(kMaxAttentionShares) / models - 1;
  if (query.keywords.size() > most)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} keywords, at most {} are possible with {} models",
                            query.keywords.size(), most, models),
                "attention");
  if (std::ranges::any_of(query.keywords, &std::string::empty))
    return fail(ErrorCode::kInvalidArgument, "a keyword is empty", "attention");
  return {};
}

}  // namespace

Result<AttentionWatch> Launch::State::watch(const AttentionQuery& query,
                                            const std::vector<int32_t>& tail,
                                            const std::vector<RequestText>& texts) const {
  AttentionWatch watch;
  if (!query.wanted) return watch;
  SUTURE_RETURN_IF_ERROR(validate(query, readers_of(spec)));
  if (!query.keywords.empty() && std::ranges::any_of(spec.models, &ModelSpec::transfers))
    return fail(ErrorCode::kUnsupported,
                "keywords are looked for in what the master reads, and a slave reads in its place",
                "attention", "ask without keywords, or with another fusion mode");
  watch.on = true;
  watch.keywords = query.keywords;
  const Tokenizer& own = prepared.encodings->tokenizer();
  std::vector<int32_t> whole = prepared.master_head;
  whole.insert(whole.end(), tail.begin(), tail.end());
  watch.readers = {spec.master().name};
  std::vector<TextRead> all = {{0, own, whole}};
  for (size_t i = 0; i < spec.models.size(); ++i) {
    if (!spec.models[i].is_slave() || spec.models[i].hands_over()) continue;
    const std::string& name = spec.models[i].name;
    const auto text = std::ranges::find(texts, name, &RequestText::slave);
    const bool prefix = spec.models[i].is_slave_at(SlavePosition::kPrefix);
    const std::vector<int32_t>& standing = prefix ? contexts[i].head_ids : whole;
    all.push_back({static_cast<int32_t>(watch.readers.size()),
                   prefix ? prepared.slave_prompts.at(name).tokenizer() : own,
                   text != texts.end() ? text->token_ids : standing});
    watch.readers.push_back(name);
    if (spec.models[i].drafts()) watch.readers.push_back(draft_reader(name));
  }
  for (int32_t k = 0; k < std::ssize(watch.keywords); ++k) {
    const std::string& word = watch.keywords[static_cast<size_t>(k)];
    const size_t before = watch.entries.size();
    for (const TextRead& read : all)
      for (const TokenSpan& span : spans_of_word(read.tokenizer, read.ids, word))
        watch.entries.push_back({k, read.reader, span.begin, span.end});
    if (query.must_occur && watch.entries.size() == before)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the keyword '{}' occurs nowhere in what the models read", word),
                  "attention", "write it as the text does, letter by letter");
  }
  return watch;
}

}  // namespace suture
