// The tokens of one text in two vocabularies (design §4): what a slave of another vocabulary reads
// while its master's text grows, and which of its entries belongs to which of the master's tokens.
//
// The text is that of the master's tokens. The slave's tokens of it are committed as far as no
// later text can change them. A master token takes the slave token that ends at or last before its
// own end, as soon as all its bytes are committed. Both depend on the tokens pushed so far alone,
// so the slave's process and the master's come to the same, each for itself, and a text that comes
// at once gives what it gives token by token.
//
// Control tokens have no bytes. They end a run of text, which is committed then, and stand for the
// slave's control token of the same name; where it has none the slave does not see them.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/tokenizer.h"

namespace suture {

class TokenAlignment {
 public:
  // Both must outlive the object.
  TokenAlignment(const Tokenizer& master, const Tokenizer& slave);

  void push(int32_t master_id);
  // The text ends here: all of it is certain. Nothing is pushed afterwards.
  void finish();

  // What the slave reads, as far as it is certain; it begins with the slave's BOS if it wants one.
  const std::vector<int32_t>& slave_ids() const { return slave_ids_; }
  int64_t master_tokens() const { return static_cast<int64_t>(master_ends_.size()); }

  struct Match {
    int64_t slave_entry = -1;  // -1: no slave token ends so early
    int64_t known_at = 0;      // the master token with which its bytes were committed
  };
  // Of the first master tokens, as far as their bytes are committed. Neither member ever falls.
  const std::vector<Match>& matches() const { return matches_; }
  // Leading master tokens without a slave token.
  int64_t first_matched() const { return first_matched_; }

 private:
  bool is_control(int32_t master_id) const;
  void push_control(int32_t master_id);
  void commit(size_t end);
  void restart_window();
  std::string_view window_text(size_t end) const;
  void append_slave_token(int32_t id, int64_t end);
  void match_committed(int64_t known_at);

  const Tokenizer& master_;
  const Tokenizer& slave_;
  std::unordered_map<std::string_view, int32_t> slave_controls_;  // by name

  // Text since the last place where encoding could start afresh, and how much of it is committed.
  std::string window_;
  size_t committed_ = 0;       // bytes of window_
  size_t window_tokens_ = 0;   // slave tokens of these bytes
  bool window_begins_ = true;  // a run of text begins with the window

  int64_t text_bytes_ = 0;            // of all runs so far
  int64_t committed_bytes_ = 0;       // of these
  std::vector<int64_t> master_ends_;  // [master tokens] in bytes of all runs
  std::vector<int32_t> slave_ids_;
  std::vector<int64_t> slave_ends_;  // [slave_ids]
  std::vector<Match> matches_;
  size_t passed_ = 0;  // slave tokens that end at or before the last matched token
  int64_t first_matched_ = 0;
};

}  // namespace suture
