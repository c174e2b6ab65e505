#include "models/json_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "base/mapping.h"
#include "models/unicode.h"

namespace suture {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 64;
constexpr const char* kRemedy = "the file is damaged or incomplete: download it again";

// Watches the parser; once something is wrong, nothing more is kept.
class Watch {
 public:
  bool operator()(json::parse_event_t event, const json& parsed) {
    if (!problem_.empty()) return false;
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start: open_.emplace_back(); break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end: open_.pop_back(); break;
      case json::parse_event_t::key:
        if (!open_.back().insert(parsed.get<std::string>()).second)
          problem_ = fmt::format("the name '{}' appears twice in one JSON object",
                                 printable(parsed.get<std::string>()));
        break;
      case json::parse_event_t::value: break;
    }
    if (open_.size() > kMaxDepth)
      problem_ = fmt::format("JSON is nested deeper than {} levels", kMaxDepth);
    return problem_.empty();
  }

  const std::string& problem() const { return problem_; }

 private:
  std::vector<std::set<std::string>> open_;  // names in the objects around the parser's position
  std::string problem_;
};

}  // namespace

Result<json> parse_json(std::string_view text, const std::string& where) {
  Watch watch;
  json value;
  try {
    value = json::parse(
        text, [&](int, json::parse_event_t event, json& parsed) { return watch(event, parsed); });
  } catch (const json::parse_error& error) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("malformed JSON at byte {} of {}", error.byte, text.size()), where,
                kRemedy);
  } catch (const json::exception& error) {  // a number beyond the range of a double
    return fail(ErrorCode::kCorrupt, printable(error.what(), 200), where, kRemedy);
  }
  if (!watch.problem().empty()) return fail(ErrorCode::kCorrupt, watch.problem(), where, kRemedy);
  return value;
}

Result<json> read_json_object(const std::filesystem::path& path, uint64_t max_bytes) {
  SUTURE_ASSIGN_OR_RETURN(const Mapping mapping, Mapping::file(path));
  if (mapping.size() > max_bytes)
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("the file has {} bytes, expected at most {}", mapping.size(), max_bytes),
        path.string());
  const std::string_view text(reinterpret_cast<const char*>(mapping.data()), mapping.size());
  SUTURE_ASSIGN_OR_RETURN(json value, parse_json(text, path.string()));
  if (!value.is_object())
    return fail(ErrorCode::kCorrupt,
                fmt::format("this is {}, expected a JSON object", json_text(value)), path.string());
  return value;
}

std::string json_text(const json& value) {
  return printable(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace suture
