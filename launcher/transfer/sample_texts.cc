#include "launcher/transfer/sample_texts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "base/sha256.h"
#include "launcher/text_file.h"

namespace suture {
namespace {

constexpr size_t kMaxFileBytes = 256 << 20;

std::string hash_of(std::string_view text) {
  Sha256 sha;
  sha.update(text);
  return sha.finish();
}

Result<std::string> string_field(const nlohmann::json& line, const char* name,
                                 const std::string& where) {
  const auto field = line.find(name);
  if (field == line.end()) return std::string();
  if (!field->is_string())
    return fail(ErrorCode::kInvalidArgument, fmt::format("\"{}\" is not a text", name), where);
  return field->get<std::string>();
}

Result<SampleText> read_line(const std::string& line, const std::string& where) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object())
    return fail(ErrorCode::kInvalidArgument, "is not a JSON object", where,
                "each line is {\"text\": TEXT}, and \"kind\" if texts are of several kinds");
  SampleText sample{.id = where, .kind = {}, .text = {}, .sha256 = {}, .file_sha256 = {}};
  SUTURE_ASSIGN_OR_RETURN(sample.text, string_field(json, "text", where));
  if (sample.text.empty())
    return fail(ErrorCode::kInvalidArgument, "has no \"text\", or an empty one", where);
  SUTURE_ASSIGN_OR_RETURN(sample.kind, string_field(json, "kind", where));
  if (!sample.kind.empty()) return sample;
  SUTURE_ASSIGN_OR_RETURN(sample.kind, string_field(json, "domain", where));
  SUTURE_ASSIGN_OR_RETURN(const std::string lang, string_field(json, "lang", where));
  if (!sample.kind.empty() && !lang.empty()) sample.kind += ", ";
  sample.kind += lang;
  return sample;
}

Result<std::vector<SampleText>> read_lines(const std::string& content, const std::string& name) {
  std::vector<SampleText> samples;
  std::istringstream lines(content);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    SUTURE_ASSIGN_OR_RETURN(samples.emplace_back(),
                            read_line(line, fmt::format("{}:{}", name, number)));
  }
  return samples;
}

Result<std::vector<SampleText>> load_file(const std::filesystem::path& file) {
  SUTURE_ASSIGN_OR_RETURN(const std::string content, read_text_file(file, kMaxFileBytes));
  std::vector<SampleText> samples;
  if (file.extension() == ".jsonl") {
    SUTURE_ASSIGN_OR_RETURN(samples, read_lines(content, file.string()));
  } else if (!content.empty()) {
    samples.push_back(
        {.id = file.string(), .kind = {}, .text = content, .sha256 = {}, .file_sha256 = {}});
  }
  if (samples.empty()) return fail(ErrorCode::kInvalidArgument, "holds no text", file.string());
  const std::string file_hash = hash_of(content);
  for (SampleText& sample : samples) {
    sample.sha256 = hash_of(sample.text);
    sample.file_sha256 = file_hash;
  }
  return samples;
}

}  // namespace

Result<SampleTexts> load_sample_texts(const std::vector<std::filesystem::path>& files) {
  SampleTexts loaded;
  std::set<std::string> known;
  for (const std::filesystem::path& file : files) {
    SUTURE_ASSIGN_OR_RETURN(std::vector<SampleText> samples, load_file(file));
    for (SampleText& sample : samples) {
      if (known.insert(sample.sha256).second)
        loaded.texts.push_back(std::move(sample));
      else
        ++loaded.duplicates;
    }
  }
  return loaded;
}

int64_t remove_fitted(std::vector<SampleText>& texts, const FitParameters& fit) {
  std::set<std::string> fitted;
  for (const FitFile& file : fit.files) fitted.insert(file.sha256);
  return static_cast<int64_t>(std::erase_if(texts, [&](const SampleText& text) {
    return fitted.contains(text.sha256) || fitted.contains(text.file_sha256);
  }));
}

}  // namespace suture
