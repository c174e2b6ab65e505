// Where a master looked, to be read by a person.
#pragma once

#include <string>

#include "actors/attention_shares.h"

namespace suture {

// Under an answer: of each model, and of each keyword in what it has read, the share over all
// layers and the layers in which it is largest. A line feed after each row.
std::string attention_table(const AttentionShares& shares);

// Markdown: a row for each layer, a column for each model and for each keyword in a model that has
// read it.
std::string attention_markdown(const AttentionShares& shares);

}  // namespace suture
