// Reads values out of a TOML table and says where a wrong one stands: file, line, key, what was
// expected. Keys that nobody knows are errors, with the nearest known one.
#pragma once

#include <toml++/toml.h>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace suture {

template <typename T>
struct Choice {
  std::string_view word;
  T value;
};

class TomlReader {
 public:
  // `key` is the table's own path, "model[1].fusion"; empty for the file.
  TomlReader(const toml::table& table, std::string file, std::string key)
      : table_(table), file_(std::move(file)), key_(std::move(key)) {}

  // Every key must be among `known`; those among `planned` are refused by name.
  Status check_keys(std::span<const std::string_view> known,
                    std::span<const std::string_view> planned) const;

  bool has(std::string_view name) const { return table_.contains(name); }
  const toml::node* find(std::string_view name) const { return table_.get(name); }

  // The value, or `otherwise` if the key is not there.
  Result<int64_t> integer(std::string_view name, int64_t otherwise, int64_t lowest,
                          int64_t highest) const;
  Result<double> number(std::string_view name, double otherwise, double lowest,
                        double highest) const;
  Result<bool> flag(std::string_view name, bool otherwise) const;
  Result<std::string> text(std::string_view name, std::string otherwise, size_t longest) const;
  // An array of texts, empty if the key is not there.
  Result<std::vector<std::string>> texts(std::string_view name, size_t most, size_t longest) const;
  // A table under this key; an empty one if it is not there.
  Result<TomlReader> table(std::string_view name) const;

  // One of the words. `planned` words are refused as not supported in this version.
  template <typename T>
  Result<T> choice(std::string_view name, T otherwise, std::initializer_list<Choice<T>> choices,
                   std::initializer_list<std::string_view> planned = {}) const {
    if (!has(name)) return otherwise;
    std::vector<std::string_view> words;
    for (const auto& choice : choices) words.push_back(choice.word);
    SUTURE_ASSIGN_OR_RETURN(const size_t index, choose(name, words, planned));
    return std::data(choices)[index].value;
  }

  // "line 12: model[1].fusion.gain" in this file.
  std::string where(std::string_view name) const;
  std::string where_of(const toml::node& node, std::string_view name) const;
  std::string key_of(std::string_view name) const;
  const std::string& file() const { return file_; }

  // kInvalidArgument at this key.
  tl::unexpected<Error> refuse(std::string_view name, std::string what,
                               std::string remedy = {}) const;
  tl::unexpected<Error> not_supported(std::string_view name, std::string_view what) const;

 private:
  Result<size_t> choose(std::string_view name, std::span<const std::string_view> words,
                        std::span<const std::string_view> planned) const;
  Result<std::string> checked_text(const toml::node& node, std::string_view name,
                                   size_t longest) const;
  tl::unexpected<Error> unknown_key(const toml::key& key,
                                    std::span<const std::string_view> known) const;

  const toml::table& table_;
  std::string file_;
  std::string key_;
};

// "an integer", "a text": for messages.
std::string_view toml_type_name(const toml::node& node);

}  // namespace suture
