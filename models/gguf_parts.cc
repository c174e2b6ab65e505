#include "models/gguf_parts.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>

namespace suture {
namespace {

constexpr std::string_view kRemedy =
    "put all parts of the model, as they were published, into one folder";

struct PartName {
  std::string stem;  // "name" of "name-00001-of-00003.gguf"
  uint64_t number;   // from 1
  uint64_t count;

  std::string of(uint64_t other) const {
    return fmt::format("{}-{:05}-of-{:05}.gguf", stem, other, count);
  }
};

std::optional<uint64_t> digits(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Nothing if the name is not that of a part.
std::optional<PartName> part_name(const std::string& name) {
  constexpr std::string_view kShape = "-00001-of-00003.gguf";
  if (name.size() <= kShape.size()) return std::nullopt;
  const size_t begin = name.size() - kShape.size();
  const std::string_view tail = std::string_view(name).substr(begin);
  const auto number = digits(tail.substr(1, 5)), count = digits(tail.substr(10, 5));
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  PartName part = {name.substr(0, begin), *number, *count};
  if (part.of(*number) != name) return std::nullopt;
  return part;
}

// A split.* key; nothing if it is not there or no count.
std::optional<uint64_t> split_key(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  return value == nullptr ? std::nullopt : value->as_unsigned();
}

std::string text_of(const std::optional<uint64_t>& value) {
  return value ? fmt::to_string(*value) : "not there";
}

tl::unexpected<Error> wrong_key(std::string_view key, const std::optional<uint64_t>& value,
                                uint64_t expected, const std::filesystem::path& path) {
  return fail(ErrorCode::kCorrupt,
              fmt::format("{} is {}, expected {}", key, text_of(value), expected), path.string(),
              std::string(kRemedy));
}

// Number and count within a part must be those of its name.
Status check_part(const GgufFile& file, const PartName& name, uint64_t number,
                  const std::filesystem::path& path) {
  const auto stored = split_key(file, "split.no"), count = split_key(file, "split.count");
  if (stored != number - 1) return wrong_key("split.no", stored, number - 1, path);
  if (count != name.count) return wrong_key("split.count", count, name.count, path);
  return {};
}

struct OpenPart {
  Mapping mapping;
  GgufFile file;
};

Result<OpenPart> open_part(const std::filesystem::path& path) {
  SUTURE_ASSIGN_OR_RETURN(Mapping mapping, Mapping::file(path));
  SUTURE_ASSIGN_OR_RETURN(GgufFile file, GgufFile::parse(mapping.bytes(), path.string()));
  return OpenPart{std::move(mapping), std::move(file)};
}

// Opens the parts of a model in their order.
class PartReader {
 public:
  PartReader(std::filesystem::path folder, PartName name)
      : folder_(std::move(folder)), name_(std::move(name)) {}

  Result<GgufParts> run() {
    for (uint64_t number = 1; number <= name_.count; ++number)
      SUTURE_RETURN_IF_ERROR(add(number, folder_ / name_.of(number)));
    const auto total = split_key(parts_.file, "split.tensors.count");
    const size_t found = parts_.file.tensors().size();
    if (total != found)
      return fail(ErrorCode::kCorrupt,
                  fmt::format("split.tensors.count is {}, but the {} parts hold {} tensors",
                              text_of(total), name_.count, found),
                  parts_.paths[0].string(), std::string(kRemedy));
    return std::move(parts_);
  }

 private:
  Status add(uint64_t number, const std::filesystem::path& path) {
    std::error_code error;
    if (!std::filesystem::exists(path, error))
      return fail(ErrorCode::kNotFound,
                  fmt::format("part {} of {} of this model is missing", number, name_.count),
                  path.string(), std::string(kRemedy));
    SUTURE_ASSIGN_OR_RETURN(OpenPart part, open_part(path));
    SUTURE_RETURN_IF_ERROR(check_part(part.file, name_, number, path));
    for (const TensorInfo& tensor : part.file.tensors()) {
      if (!names_.insert(tensor.name).second)
        return fail(ErrorCode::kCorrupt,
                    fmt::format("tensor '{}' is also in an earlier part", tensor.name),
                    path.string(), std::string(kRemedy));
    }
    parts_.paths.push_back(path);
    parts_.mappings.push_back(std::move(part.mapping));
    if (number == 1) {
      parts_.file = std::move(part.file);
    } else {
      parts_.file.take_tensors(std::move(part.file));
    }
    return {};
  }

  std::filesystem::path folder_;
  PartName name_;
  std::unordered_set<std::string> names_;
  GgufParts parts_;
};

}  // namespace

Result<GgufParts> open_gguf_parts(const std::filesystem::path& path) {
  SUTURE_ASSIGN_OR_RETURN(OpenPart part, open_part(path));
  const auto count = split_key(part.file, "split.count");
  if (part.file.find("split.count") == nullptr || count == 1u) {
    GgufParts single;
    single.paths.push_back(path);
    single.mappings.push_back(std::move(part.mapping));
    single.file = std::move(part.file);
    return single;
  }
  const auto name = part_name(path.filename().string());
  if (!name)
    return fail(ErrorCode::kCorrupt,
                fmt::format("split.count is {}: this is a part of a model, and its name should "
                            "end in -00001-of-{:05}.gguf",
                            text_of(count), count.value_or(0)),
                path.string(), "give the part its published name again");
  SUTURE_RETURN_IF_ERROR(check_part(part.file, *name, name->number, path));
  return PartReader(path.parent_path(), *name).run();
}

}  // namespace suture
