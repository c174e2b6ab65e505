#include "launcher/toml_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "launcher/nearest.h"

namespace suture {
namespace {

constexpr std::string_view kNotYet = "is not supported in this version";

bool contains(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

std::string_view toml_type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "an array";
    case toml::node_type::string: return "a text";
    case toml::node_type::integer: return "an integer";
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
  }
}

std::string TomlReader::key_of(std::string_view name) const {
  return key_.empty() ? std::string(name) : fmt::format("{}.{}", key_, name);
}

std::string TomlReader::where_of(const toml::node& node, std::string_view name) const {
  return fmt::format("{}:{}: {}", file_, node.source().begin.line, key_of(name));
}

std::string TomlReader::where(std::string_view name) const {
  const toml::node* node = find(name);
  if (node != nullptr) return where_of(*node, name);
  const auto line = table_.source().begin.line;
  return line == 0 ? fmt::format("{}: {}", file_, key_of(name))
                   : fmt::format("{}:{}: {}", file_, line, key_of(name));
}

tl::unexpected<Error> TomlReader::refuse(std::string_view name, std::string what,
                                         std::string remedy) const {
  return fail(ErrorCode::kInvalidArgument, std::move(what), where(name), std::move(remedy));
}

tl::unexpected<Error> TomlReader::not_supported(std::string_view name,
                                                std::string_view what) const {
  return fail(ErrorCode::kUnsupported, fmt::format("{} {}", what, kNotYet), where(name),
              "docs/topology.md lists what is");
}

tl::unexpected<Error> TomlReader::unknown_key(const toml::key& key,
                                              std::span<const std::string_view> known) const {
  std::string remedy = fmt::format("known keys: {}", fmt::join(known, ", "));
  if (const auto near = nearest_word(key.str(), known))
    remedy = fmt::format("did you mean '{}'? {}", *near, remedy);
  return fail(ErrorCode::kInvalidArgument, fmt::format("unknown key '{}'", key.str()),
              fmt::format("{}:{}: {}", file_, key.source().begin.line, key_of(key.str())), remedy);
}

Status TomlReader::check_keys(std::span<const std::string_view> known,
                              std::span<const std::string_view> planned) const {
  for (const auto& [key, node] : table_) {
    if (contains(known, key.str())) continue;
    if (contains(planned, key.str()))
      return not_supported(key.str(), fmt::format("'{}'", key.str()));
    return unknown_key(key, known);
  }
  return {};
}

Result<int64_t> TomlReader::integer(std::string_view name, int64_t otherwise, int64_t lowest,
                                    int64_t highest) const {
  const toml::node* node = find(name);
  if (node == nullptr) return otherwise;
  const std::string expected = fmt::format("expected an integer from {} to {}", lowest, highest);
  if (!node->is_integer())
    return refuse(name, fmt::format("{}, got {}", expected, toml_type_name(*node)));
  const int64_t value = node->as_integer()->get();
  if (value < lowest || value > highest)
    return refuse(name, fmt::format("{}, got {}", expected, value));
  return value;
}

Result<bool> TomlReader::flag(std::string_view name, bool otherwise) const {
  const toml::node* node = find(name);
  if (node == nullptr) return otherwise;
  if (!node->is_boolean())
    return refuse(name, fmt::format("expected true or false, got {}", toml_type_name(*node)));
  return node->as_boolean()->get();
}

Result<double> TomlReader::number(std::string_view name, double otherwise, double lowest,
                                  double highest) const {
  const toml::node* node = find(name);
  if (node == nullptr) return otherwise;
  const std::string expected = fmt::format("expected a number from {} to {}", lowest, highest);
  const auto value = node->is_number() ? node->value<double>() : std::nullopt;
  if (!value) return refuse(name, fmt::format("{}, got {}", expected, toml_type_name(*node)));
  // Written so that NaN, which compares with nothing, is refused.
  if (!(*value >= lowest && *value <= highest))
    return refuse(name, fmt::format("{}, got {}", expected, *value));
  return *value;
}

Result<std::string> TomlReader::checked_text(const toml::node& node, std::string_view name,
                                             size_t longest) const {
  const auto* text = node.as_string();
  if (text == nullptr)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("expected a text, got {}", toml_type_name(node)), where_of(node, name));
  if (text->get().size() > longest)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("expected at most {} bytes, got {}", longest, text->get().size()),
                where_of(node, name));
  return text->get();
}

Result<std::string> TomlReader::text(std::string_view name, std::string otherwise,
                                     size_t longest) const {
  const toml::node* node = find(name);
  if (node == nullptr) return otherwise;
  return checked_text(*node, name, longest);
}

Result<std::vector<std::string>> TomlReader::texts(std::string_view name, size_t most,
                                                   size_t longest) const {
  std::vector<std::string> texts;
  const toml::node* node = find(name);
  if (node == nullptr) return texts;
  const toml::array* array = node->as_array();
  if (array == nullptr)
    return refuse(name, fmt::format("expected an array of texts, got {}", toml_type_name(*node)));
  if (array->size() > most)
    return refuse(name, fmt::format("expected at most {} entries, got {}", most, array->size()));
  for (const toml::node& item : *array) {
    SUTURE_ASSIGN_OR_RETURN(std::string text, checked_text(item, name, longest));
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<TomlReader> TomlReader::table(std::string_view name) const {
  static const toml::table none;
  const toml::node* node = find(name);
  if (node == nullptr) return TomlReader(none, file_, key_of(name));
  if (!node->is_table())
    return refuse(name, fmt::format("expected a table, got {}", toml_type_name(*node)));
  return TomlReader(*node->as_table(), file_, key_of(name));
}

Result<size_t> TomlReader::choose(std::string_view name, std::span<const std::string_view> words,
                                  std::span<const std::string_view> planned) const {
  SUTURE_ASSIGN_OR_RETURN(const std::string word, text(name, {}, 256));
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) return static_cast<size_t>(found - words.begin());
  if (contains(planned, word)) return not_supported(name, fmt::format("{} = \"{}\"", name, word));
  std::string remedy;
  if (const auto near = nearest_word(word, words))
    remedy = fmt::format("did you mean \"{}\"?", *near);
  return refuse(
      name, fmt::format("expected \"{}\", got \"{}\"", fmt::join(words, "\" or \""), word), remedy);
}

}  // namespace suture
