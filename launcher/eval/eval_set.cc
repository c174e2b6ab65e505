#include "launcher/eval/eval_set.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "launcher/eval/answer_reading.h"
#include "launcher/text_file.h"

namespace suture {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxFileBytes = 16 << 20;
constexpr size_t kMaxLineBytes = 1 << 20;  // a JSON value may take a hundred bytes of memory a byte
constexpr size_t kMaxOptions = 26;         // as many as there are letters
constexpr size_t kMaxDocuments = 64;

tl::unexpected<Error> wrong(std::string what, const std::string& where) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), where);
}

// The fields of one line.
class Fields {
 public:
  Fields(const Json& object, const std::string& where) : object_(object), where_(where) {}

  bool has(const char* key) const { return object_.contains(key); }

  Result<std::string> text(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_string())
      return wrong(fmt::format("\"{}\" must be a text", key), where_);
    return found->get<std::string>();
  }

  // Not empty.
  Result<std::string> some_text(const char* key) const {
    SUTURE_ASSIGN_OR_RETURN(std::string value, text(key));
    if (value.empty()) return wrong(fmt::format("\"{}\" is empty", key), where_);
    return value;
  }

  Result<std::vector<std::string>> texts(const char* key, size_t least, size_t most) const {
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_array() || found->size() < least ||
        found->size() > most)
      return wrong(fmt::format("\"{}\" must be a list of {} to {} texts", key, least, most),
                   where_);
    std::vector<std::string> values;
    for (const Json& value : *found) {
      if (!value.is_string() || value.get_ref<const std::string&>().empty())
        return wrong(fmt::format("\"{}\" holds something that is not a text", key), where_);
      values.push_back(value.get<std::string>());
    }
    return values;
  }

  Result<size_t> index(const char* key, size_t below) const {
    const auto found = object_.find(key);
    // Negative numbers are of another type, and those beyond 64 bits are floating point.
    if (found == object_.end() || !found->is_number_unsigned() || found->get<uint64_t>() >= below)
      return wrong(fmt::format("\"{}\" must be a number from 0 to {}", key, below - 1), where_);
    return found->get<size_t>();
  }

  Result<std::vector<ExpectedFact>> facts(const char* key) const {
    if (!has(key)) return wrong(fmt::format("\"{}\" is missing", key), where_);
    SUTURE_ASSIGN_OR_RETURN(std::vector<ExpectedFact> facts, read_facts(object_[key], where_));
    if (facts.empty()) return wrong(fmt::format("\"{}\" is empty", key), where_);
    return facts;
  }

  const std::string& where() const { return where_; }

 private:
  const Json& object_;
  const std::string& where_;
};

Result<EvalTask> read_choice(const Fields& fields) {
  ChoiceItem item;
  if (fields.has("passage")) {
    SUTURE_ASSIGN_OR_RETURN(item.passage, fields.text("passage"));
  }
  SUTURE_ASSIGN_OR_RETURN(item.question, fields.some_text("question"));
  SUTURE_ASSIGN_OR_RETURN(item.options, fields.texts("options", 2, kMaxOptions));
  SUTURE_ASSIGN_OR_RETURN(item.answer, fields.index("answer", item.options.size()));
  return item;
}

// The answer is the number after "####", or nothing but a number.
Result<EvalTask> read_number(const Fields& fields) {
  NumberItem item;
  SUTURE_ASSIGN_OR_RETURN(item.question, fields.some_text("question"));
  SUTURE_ASSIGN_OR_RETURN(const std::string answer, fields.some_text("answer"));
  const size_t mark = answer.rfind("####");
  const auto number = last_number(mark == std::string::npos ? answer : answer.substr(mark));
  if (!number) return wrong("\"answer\" holds no number", fields.where());
  item.number = *number;
  return item;
}

Result<EvalTask> read_code(const Fields& fields) {
  CodeItem item;
  SUTURE_ASSIGN_OR_RETURN(item.prompt, fields.some_text("prompt"));
  SUTURE_ASSIGN_OR_RETURN(item.entry_point, fields.some_text("entry_point"));
  SUTURE_ASSIGN_OR_RETURN(item.canonical_solution, fields.text("canonical_solution"));
  SUTURE_ASSIGN_OR_RETURN(item.test, fields.some_text("test"));
  return item;
}

Result<EvalTask> read_multidoc(const Fields& fields) {
  MultidocItem item;
  SUTURE_ASSIGN_OR_RETURN(item.lang, fields.some_text("lang"));
  SUTURE_ASSIGN_OR_RETURN(item.kind, fields.some_text("kind"));
  SUTURE_ASSIGN_OR_RETURN(item.documents, fields.texts("documents", 1, kMaxDocuments));
  SUTURE_ASSIGN_OR_RETURN(item.question, fields.some_text("question"));
  SUTURE_ASSIGN_OR_RETURN(item.answer, fields.some_text("answer"));
  SUTURE_ASSIGN_OR_RETURN(item.expect, fields.facts("expect"));
  return item;
}

// Cut before the last space of the first half; within a text without spaces, before a character.
size_t middle_of(std::string_view text) {
  const size_t half = text.size() / 2;
  const size_t space = text.find_last_of(" \n", half);
  if (space != std::string_view::npos && space > half / 2) return space;
  size_t middle = half;
  while (middle > 0 && (static_cast<unsigned char>(text[middle]) & 0xC0) == 0x80) --middle;
  return middle;
}

Result<EvalTask> read_text_item(const Fields& fields) {
  SUTURE_ASSIGN_OR_RETURN(const std::string text, fields.some_text("text"));
  const size_t middle = middle_of(text);
  if (middle == 0) return wrong("\"text\" is too short to be cut in two", fields.where());
  return TextItem{text.substr(0, middle), text.substr(middle)};
}

Result<EvalTask> read_task(const Fields& fields) {
  if (fields.has("documents")) return read_multidoc(fields);
  if (fields.has("options")) return read_choice(fields);
  if (fields.has("entry_point")) return read_code(fields);
  if (fields.has("question") && fields.has("answer")) return read_number(fields);
  if (fields.has("text")) return read_text_item(fields);
  return wrong(
      "no item of a known kind: expected \"options\" (multiple choice), \"entry_point\" (code), "
      "\"documents\" (multidoc), \"question\" and \"answer\", or \"text\"",
      fields.where());
}

Result<std::string> read_id(const Fields& fields, const std::string& otherwise) {
  for (const char* key : {"id", "task_id"})
    if (fields.has(key)) return fields.some_text(key);
  return otherwise;
}

Result<EvalItem> read_item(const std::string& line, const std::string& where,
                           const std::string& default_id) {
  if (line.size() > kMaxLineBytes)
    return wrong(fmt::format("the line is longer than {} bytes", kMaxLineBytes), where);
  const auto json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return wrong("the line is not a JSON object", where);
  const Fields fields(json, where);
  EvalItem item;
  SUTURE_ASSIGN_OR_RETURN(item.id, read_id(fields, default_id));
  SUTURE_ASSIGN_OR_RETURN(item.task, read_task(fields));
  return item;
}

}  // namespace

Result<EvalSet> load_eval_set(const std::filesystem::path& path) {
  SUTURE_ASSIGN_OR_RETURN(const auto lines, read_text_lines(path, kMaxFileBytes));
  EvalSet set{path.stem().string(), {}};
  std::set<std::string> ids;
  for (const auto& [line, number, where] : lines) {
    SUTURE_ASSIGN_OR_RETURN(EvalItem item,
                            read_item(line, where, fmt::format("{}:{}", set.name, number)));
    if (!set.items.empty() && set.items.front().task.index() != item.task.index())
      return wrong(fmt::format("a {} item in a set of {}", task_kind_name(item.task),
                               task_kind_name(set.items.front().task)),
                   where);
    if (!ids.insert(item.id).second)
      return wrong(fmt::format("the id \"{}\" is there twice", item.id), where);
    set.items.push_back(std::move(item));
  }
  if (set.items.empty()) return wrong("no items in the file", path.string());
  return set;
}

std::string_view task_kind_name(const EvalTask& task) {
  constexpr std::array<std::string_view, std::variant_size_v<EvalTask>> kNames = {
      "multiple-choice", "exact-match", "code", "multidoc", "text"};
  return kNames[task.index()];
}

}  // namespace suture
