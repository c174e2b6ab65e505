#include "fusion/token_pairing.h"

#include <algorithm>

namespace suture {

std::vector<int32_t> reading_of(const Tokenizer& tokenizer, std::string_view text, size_t longest) {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  std::vector<int32_t> ids;
  if (vocabulary.add_bos && vocabulary.bos_id) ids.push_back(*vocabulary.bos_id);
  const std::vector<int32_t> encoded = tokenizer.encode(text, SpecialTokens::kAsText);
  ids.insert(ids.end(), encoded.begin(), encoded.end());
  ids.resize(std::min(ids.size(), longest));
  return ids;
}

std::vector<int64_t> token_ends(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                std::string_view text) {
  const SpacePrefix prefix = tokenizer.vocabulary().space_prefix;
  bool added_space = prefix == SpacePrefix::kEverySegment ||
                     (prefix != SpacePrefix::kNone && !text.starts_with(' '));
  std::vector<int64_t> ends;
  size_t end = 0;
  for (const int32_t id : ids) {
    std::string_view piece = tokenizer.piece(id);
    if (added_space && piece.starts_with(' ')) piece.remove_prefix(1);
    if (!tokenizer.piece(id).empty()) added_space = false;
    if (!text.substr(end).starts_with(piece)) break;
    end += piece.size();
    ends.push_back(static_cast<int64_t>(end));
  }
  return ends;
}

std::vector<TokenPair> pair_by_ends(std::span<const int64_t> source_ends,
                                    std::span<const int64_t> target_ends, int32_t sink) {
  std::vector<TokenPair> pairs;
  auto source = static_cast<size_t>(sink);
  auto target = static_cast<size_t>(sink);
  while (source < source_ends.size() && target < target_ends.size()) {
    if (source_ends[source] == target_ends[target])
      pairs.push_back({static_cast<int32_t>(source++), static_cast<int32_t>(target++)});
    else
      ++(source_ends[source] < target_ends[target] ? source : target);
  }
  return pairs;
}

std::vector<int32_t> last_ended(std::span<const int64_t> source_ends,
                                std::span<const int64_t> target_ends) {
  std::vector<int32_t> sources;
  for (const int64_t end : target_ends) {
    const auto passed = std::ranges::upper_bound(source_ends, end) - source_ends.begin();
    if (passed > 0) sources.push_back(static_cast<int32_t>(passed) - 1);
  }
  return sources;
}

std::vector<TokenPair> pair_tokens(const Tokenizer& source, std::span<const int32_t> source_ids,
                                   const Tokenizer& target, std::span<const int32_t> target_ids,
                                   std::string_view text, int32_t sink) {
  const bool same_tokens = source.vocabulary_hash() == target.vocabulary_hash() &&
                           std::ranges::equal(source_ids, target_ids);
  if (!same_tokens)
    return pair_by_ends(token_ends(source, source_ids, text), token_ends(target, target_ids, text),
                        sink);
  std::vector<TokenPair> pairs;
  for (auto i = sink; i < static_cast<int32_t>(source_ids.size()); ++i) pairs.push_back({i, i});
  return pairs;
}

}  // namespace suture
