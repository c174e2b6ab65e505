// What TokenAlignment must come to, computed another way: from the whole text at once.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/token_alignment.h"

namespace suture {

// Byte after the last of each token, for a text without control tokens.
inline std::vector<int64_t> token_ends(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                       int64_t text_bytes) {
  std::vector<int64_t> ends;
  int64_t total = 0;
  for (const int32_t id : ids) ends.push_back(total += std::ssize(tokenizer.piece(id)));
  // A vocabulary that puts a space in front of every text has one byte too many from the start.
  for (int64_t& end : ends) end -= total - text_bytes;
  return ends;
}

// Feeds the master's tokens of `given` one after another and checks that nothing committed ever
// changes; then ends the text with `control`, a token of the master's, and compares with the whole
// text's tokens. Adds 1 to `compared`, unless a vocabulary has no tokens for some of the bytes.
inline void expect_alignment(const Tokenizer& master, const Tokenizer& slave,
                             std::string_view given, int32_t control, int& compared) {
  const auto master_ids = master.encode(given, SpecialTokens::kAsText);
  const std::string text = master.decode(master_ids);
  TokenAlignment growing(master, slave);
  const auto begun = static_cast<std::ptrdiff_t>(growing.slave_ids().size());
  auto expected = growing.slave_ids();
  const auto whole = slave.encode(text, SpecialTokens::kAsText);
  expected.insert(expected.end(), whole.begin(), whole.end());
  size_t matched = 0;
  for (size_t i = 0; i < master_ids.size(); ++i) {
    growing.push(master_ids[i]);
    const auto& ids = growing.slave_ids();
    ASSERT_LE(ids.size(), expected.size()) << text;
    ASSERT_TRUE(std::equal(ids.begin(), ids.end(), expected.begin())) << text << " token " << i;
    for (; matched < growing.matches().size(); ++matched) {
      ASSERT_EQ(growing.matches()[matched].known_at, static_cast<int64_t>(i)) << text;
      ASSERT_LT(growing.matches()[matched].slave_entry, std::ssize(ids)) << text;
    }
    ASSERT_LE(matched, i + 1);
  }
  growing.push(control);
  auto ids = growing.slave_ids();
  ASSERT_GE(ids.size(), expected.size()) << text;
  ASSERT_LE(ids.size(), expected.size() + 1) << "the slave may know the control token as well";
  ids.resize(expected.size());
  ASSERT_EQ(ids, expected) << text;
  ASSERT_EQ(growing.matches().size(), master_ids.size() + 1);
  if (slave.decode(whole) != text && slave.decode(whole) != " " + text) return;
  ++compared;
  const auto master_ends = token_ends(master, master_ids, std::ssize(text));
  const auto slave_ends = token_ends(slave, whole, std::ssize(text));
  for (size_t j = 0; j < master_ids.size(); ++j) {
    const auto after = std::ranges::upper_bound(slave_ends, master_ends[j]) - slave_ends.begin();
    ASSERT_EQ(growing.matches()[j].slave_entry, begun + after - 1) << text << " token " << j;
  }
}

}  // namespace suture
