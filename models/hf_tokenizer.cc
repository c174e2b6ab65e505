#include "models/hf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "models/json_text.h"
#include "models/tokenizer_json.h"

namespace suture {
namespace {

using nlohmann::json;

// The largest known (256 thousand pieces and their merges) has 35 MB.
constexpr uint64_t kMaxTokenizerBytes = 128 << 20;
constexpr uint64_t kMaxConfigBytes = 1 << 20;

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// An empty object if there is no such file.
Result<json> read_optional(const std::filesystem::path& path) {
  if (!is_there(path)) return json::object();
  return read_json_object(path, kMaxConfigBytes);
}

struct Files {
  json tokenizer_config;
  json special_tokens_map;
  json generation_config;
  json config;
};

Result<Files> read_files(const std::filesystem::path& folder) {
  Files files;
  SUTURE_ASSIGN_OR_RETURN(files.tokenizer_config, read_optional(folder / "tokenizer_config.json"));
  SUTURE_ASSIGN_OR_RETURN(files.special_tokens_map,
                          read_optional(folder / "special_tokens_map.json"));
  SUTURE_ASSIGN_OR_RETURN(files.generation_config,
                          read_optional(folder / "generation_config.json"));
  SUTURE_ASSIGN_OR_RETURN(files.config, read_optional(folder / "config.json"));
  return files;
}

// A token is named as text, or as an object with its text under "content".
std::optional<int32_t> id_of_token(const json& object, const char* key,
                                   const Vocabulary& vocabulary) {
  const json value = object.value(key, json());
  const json& name = value.is_object() && value.contains("content") ? value["content"] : value;
  if (!name.is_string()) return std::nullopt;
  const auto found = std::ranges::find(vocabulary.pieces, name.get<std::string>());
  if (found == vocabulary.pieces.end()) return std::nullopt;
  return static_cast<int32_t>(found - vocabulary.pieces.begin());
}

// One id or a list of them; what is no id of the vocabulary is left out.
std::vector<int32_t> ids_of(const json& object, const char* key, const Vocabulary& vocabulary) {
  const json value = object.value(key, json());
  std::vector<int32_t> ids;
  const auto add = [&](const json& id) {
    if (id.is_number_unsigned() && id.get<uint64_t>() < vocabulary.pieces.size())
      ids.push_back(id.get<int32_t>());
  };
  if (value.is_array())
    for (const json& id : value) add(id);
  else
    add(value);
  return ids;
}

void read_special_ids(const Files& files, Vocabulary& vocabulary) {
  const auto find = [&](const char* name, const char* id_key) -> std::optional<int32_t> {
    for (const json* file : {&files.tokenizer_config, &files.special_tokens_map})
      if (const auto id = id_of_token(*file, name, vocabulary)) return id;
    for (const json* file : {&files.generation_config, &files.config})
      if (const auto ids = ids_of(*file, id_key, vocabulary); !ids.empty()) return ids[0];
    return std::nullopt;
  };
  vocabulary.bos_id = find("bos_token", "bos_token_id");
  vocabulary.eos_id = find("eos_token", "eos_token_id");
  vocabulary.end_ids = ids_of(files.generation_config, "eos_token_id", vocabulary);
}

// Whether a text begins with BOS is said in one place or in the other.
bool adds_bos(const json& tokenizer_config, const json& tokenizer, const Vocabulary& vocabulary) {
  if (!vocabulary.bos_id) return false;
  const json flag = tokenizer_config.value("add_bos_token", json());
  if (flag.is_boolean()) return flag.get<bool>();
  const std::string& bos = vocabulary.pieces[static_cast<size_t>(*vocabulary.bos_id)];
  const json post = tokenizer.value("post_processor", json());
  const json processors = post.is_object() ? post.value("processors", json::array({post})) : json();
  if (!processors.is_array()) return false;
  return std::ranges::any_of(processors, [&](const json& processor) {
    const json single = processor.is_object() ? processor.value("single", json()) : json();
    if (!single.is_array() || single.empty() || !single[0].is_object()) return false;
    const json first = single[0].value("SpecialToken", json());
    return first.is_object() && first.value("id", json()) == bos;
  });
}

Result<std::string> read_chat_template(const std::filesystem::path& folder,
                                       const json& tokenizer_config) {
  const auto path = folder / "chat_template.jinja";
  if (is_there(path)) {
    std::error_code error;
    if (std::filesystem::file_size(path, error) > kMaxConfigBytes || error)
      return fail(ErrorCode::kCorrupt,
                  fmt::format("expected a file of at most {} bytes", kMaxConfigBytes),
                  path.string());
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  const json value = tokenizer_config.value("chat_template", json());
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return std::string();
  // Several templates have names.
  std::string text;
  for (const json& named : value) {
    if (!named.is_object() || !named.value("template", json()).is_string()) continue;
    if (text.empty() || named.value("name", json()) == "default")
      text = named["template"].get<std::string>();
  }
  return text;
}

// The embedding often has more rows than there are tokens; they are named as in GGUF files.
Status pad(Vocabulary& vocabulary, int32_t vocab_size, const std::string& where) {
  const size_t n_tokens = vocabulary.pieces.size();
  const auto rows = static_cast<size_t>(std::max(vocab_size, 0));
  if (n_tokens > rows)
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} tokens for an embedding of {} rows", n_tokens, rows), where);
  if (rows > 2 * n_tokens + (1 << 16)) return {};  // not in proportion to the file
  for (size_t id = n_tokens; id < rows; ++id) {
    vocabulary.pieces.push_back(fmt::format("[PAD{}]", id));
    vocabulary.kinds.push_back(TokenKind::kUnused);
  }
  return {};
}

}  // namespace

Result<Vocabulary> read_hf_vocabulary(const std::filesystem::path& folder, int32_t vocab_size) {
  const auto path = folder / "tokenizer.json";
  if (!is_there(path))
    return fail(ErrorCode::kNotFound, "the folder has no tokenizer.json", folder.string(),
                "copy it from where the model came from, or give token ids");
  SUTURE_ASSIGN_OR_RETURN(const json tokenizer, read_json_object(path, kMaxTokenizerBytes));
  SUTURE_ASSIGN_OR_RETURN(Vocabulary vocabulary, parse_tokenizer_json(tokenizer, path.string()));
  SUTURE_ASSIGN_OR_RETURN(const Files files, read_files(folder));
  read_special_ids(files, vocabulary);
  vocabulary.add_bos = adds_bos(files.tokenizer_config, tokenizer, vocabulary);
  SUTURE_ASSIGN_OR_RETURN(vocabulary.chat_template,
                          read_chat_template(folder, files.tokenizer_config));
  SUTURE_RETURN_IF_ERROR(pad(vocabulary, vocab_size, path.string()));
  return vocabulary;
}

}  // namespace suture
