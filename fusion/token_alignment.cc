#include "fusion/token_alignment.h"

#include <algorithm>
#include <string_view>

namespace suture {
namespace {

bool has_text(TokenKind kind) {
  return kind == TokenKind::kNormal || kind == TokenKind::kUserDefined || kind == TokenKind::kByte;
}

std::unordered_map<std::string_view, int32_t> control_tokens(const Vocabulary& vocabulary) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id)
    if (vocabulary.kinds[id] == TokenKind::kControl)
      ids.emplace(vocabulary.pieces[id], static_cast<int32_t>(id));
  return ids;
}

}  // namespace

TokenAlignment::TokenAlignment(const Tokenizer& master, const Tokenizer& slave)
    : master_(master), slave_(slave), slave_controls_(control_tokens(slave.vocabulary())) {
  if (slave.vocabulary().add_bos && slave.vocabulary().bos_id)
    append_slave_token(*slave.vocabulary().bos_id, 0);
}

bool TokenAlignment::is_control(int32_t master_id) const {
  const auto& kinds = master_.vocabulary().kinds;
  const auto index = static_cast<size_t>(master_id);
  return master_id >= 0 && index < kinds.size() && !has_text(kinds[index]);
}

void TokenAlignment::push(int32_t master_id) {
  if (is_control(master_id)) return push_control(master_id);
  std::string_view text = master_.piece(master_id);
  const bool begins = window_begins_ && window_.empty();
  const bool adds_space = master_.vocabulary().space_prefix != SpacePrefix::kNone;
  if (begins && adds_space && text.starts_with(' ')) text.remove_prefix(1);
  window_ += text;
  text_bytes_ += static_cast<int64_t>(text.size());
  master_ends_.push_back(text_bytes_);
  restart_window();
  const std::string_view given = window_text(window_.size());
  const size_t stable = slave_.stable_end(given);
  if (stable > 0) commit(window_.size() - given.size() + stable);
  match_committed(master_tokens() - 1);
}

void TokenAlignment::finish() {
  commit(window_.size());
  match_committed(master_tokens() - 1);
}

void TokenAlignment::push_control(int32_t master_id) {
  const int64_t index = master_tokens();
  commit(window_.size());
  match_committed(index);
  window_.clear();
  committed_ = window_tokens_ = 0;
  window_begins_ = true;
  const auto& bos = master_.vocabulary().bos_id;
  const bool is_first_bos = index == 0 && bos && master_id == *bos;
  const bool has_own_bos = is_first_bos && !slave_ids_.empty();
  const auto found = slave_controls_.find(master_.piece(master_id, /*control_names=*/true));
  if (!has_own_bos && found != slave_controls_.end())
    append_slave_token(found->second, text_bytes_);
  master_ends_.push_back(text_bytes_);
  match_committed(index);
}

// Where tokens are certain the rest can be encoded for itself. A tokenizer that puts a space in
// front of a text must meet one there, and one that always does is given the text without its own.
void TokenAlignment::restart_window() {
  if (committed_ == 0) return;
  const Vocabulary& vocabulary = slave_.vocabulary();
  const bool at_space = committed_ + 1 < window_.size() && window_[committed_] == ' ';
  if (vocabulary.space_prefix != SpacePrefix::kNone && !at_space) return;
  if (std::ranges::binary_search(vocabulary.strip_after, slave_ids_.back())) return;
  window_.erase(0, committed_);
  committed_ = window_tokens_ = 0;
  window_begins_ = false;
}

// The first `end` bytes of the window as the slave's tokenizer is to be given them.
std::string_view TokenAlignment::window_text(size_t end) const {
  const std::string_view text = std::string_view(window_).substr(0, end);
  const bool adds_space = slave_.vocabulary().space_prefix == SpacePrefix::kEverySegment;
  return adds_space && !window_begins_ && !text.empty() ? text.substr(1) : text;
}

void TokenAlignment::commit(size_t end) {
  if (end <= committed_) return;
  const auto ids = slave_.encode(window_text(end), SpecialTokens::kAsText);
  const SpacePrefix prefix = slave_.vocabulary().space_prefix;
  const bool adds_space = prefix == SpacePrefix::kEverySegment ||
                          (prefix != SpacePrefix::kNone && !window_.starts_with(' '));
  int64_t byte = committed_bytes_;
  committed_bytes_ += static_cast<int64_t>(end - committed_);
  for (size_t i = window_tokens_; i < ids.size(); ++i) {
    std::string_view piece = slave_.piece(ids[i]);
    const bool first = window_begins_ && i == 0;
    if (first && adds_space && piece.starts_with(' ')) piece.remove_prefix(1);
    byte += static_cast<int64_t>(piece.size());
    // Where pieces are not the text itself, what they end with is known all the same.
    append_slave_token(ids[i],
                       i + 1 == ids.size() ? committed_bytes_ : std::min(byte, committed_bytes_));
  }
  window_tokens_ = ids.size();
  committed_ = end;
}

void TokenAlignment::append_slave_token(int32_t id, int64_t end) {
  slave_ids_.push_back(id);
  slave_ends_.push_back(end);
}

void TokenAlignment::match_committed(int64_t known_at) {
  while (matches_.size() < master_ends_.size() &&
         master_ends_[matches_.size()] <= committed_bytes_) {
    const int64_t end = master_ends_[matches_.size()];
    while (passed_ < slave_ends_.size() && slave_ends_[passed_] <= end) ++passed_;
    matches_.push_back({static_cast<int64_t>(passed_) - 1, known_at});
    if (passed_ == 0) first_matched_ = static_cast<int64_t>(matches_.size());
  }
}

}  // namespace suture
