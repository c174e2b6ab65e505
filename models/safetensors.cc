#include "models/safetensors.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "base/checked_math.h"
#include "models/json_text.h"
#include "models/unicode.h"

namespace suture {

static_assert(std::endian::native == std::endian::little, "safetensors are read in place");

namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr size_t kMaxDimensions = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"F32", DType::kF32}, {"F16", DType::kF16}, {"BF16", DType::kBf16},
    {"I32", DType::kI32}, {"I64", DType::kI64},
};

std::optional<DType> dtype_of(std::string_view name) {
  for (const auto& [known, dtype] : kTypes) {
    if (known == name) return dtype;
  }
  return std::nullopt;
}

tl::unexpected<Error> corrupt(std::string what, const std::string& where) {
  return fail(ErrorCode::kCorrupt, std::move(what), where,
              "the file is damaged or incomplete: download it again");
}

Result<uint64_t> expected_bytes(const TensorInfo& tensor, const std::string& where) {
  std::optional<uint64_t> bytes = static_cast<uint64_t>(dtype_info(tensor.dtype).block_bytes);
  for (const int64_t size : tensor.shape) {
    bytes = checked_mul(*bytes, static_cast<uint64_t>(size));
    if (!bytes)
      return corrupt(
          fmt::format("tensor '{}' {} has too many bytes", tensor.name, shape_text(tensor.shape)),
          where);
  }
  return *bytes;
}

// An array of integers from 0 to INT64_MAX, or nothing.
std::optional<std::vector<int64_t>> sizes_of(const nlohmann::json& entry, const char* field) {
  const auto found = entry.find(field);
  if (found == entry.end() || !found->is_array()) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const auto& element : *found) {
    if (!element.is_number_unsigned()) return std::nullopt;
    const auto size = element.get<uint64_t>();
    if (size > INT64_MAX) return std::nullopt;
    sizes.push_back(static_cast<int64_t>(size));
  }
  return sizes;
}

Result<TensorInfo> read_tensor(const std::string& name, const nlohmann::json& entry,
                               std::span<const std::byte> data, const std::string& where) {
  const auto malformed = [&](std::string_view what) {
    return corrupt(fmt::format("tensor '{}': {}", printable(name), what), where);
  };
  if (!is_plain_name(name))
    return malformed("the name is not 1 to 1024 printable characters without spaces");
  if (!entry.is_object()) return malformed("its entry is not an object");
  const auto type = entry.find("dtype");
  if (type == entry.end() || !type->is_string()) return malformed("it has no dtype");
  const auto shape = sizes_of(entry, "shape");
  if (!shape) return malformed("its shape is not a list of sizes");
  if (shape->size() > kMaxDimensions)
    return malformed(
        fmt::format("it has {} dimensions, expected at most {}", shape->size(), kMaxDimensions));
  const auto range = sizes_of(entry, "data_offsets");
  if (!range || range->size() != 2) return malformed("its data_offsets are not two offsets");
  const auto begin = static_cast<uint64_t>((*range)[0]);
  const auto end = static_cast<uint64_t>((*range)[1]);
  if (begin > end || end > data.size())
    return malformed(fmt::format("its bytes {} to {} are not inside the {} bytes of data", begin,
                                 end, data.size()));
  TensorInfo tensor;
  tensor.name = name;
  tensor.shape = *shape;
  const auto type_name = type->get<std::string>();
  if (type_name.empty()) return malformed("the dtype has no name");
  const auto dtype = dtype_of(type_name);
  if (!element_count(tensor.shape))
    return malformed(fmt::format("{} has too many elements", shape_text(tensor.shape)));
  if (!dtype) {
    tensor.unsupported_type = printable(type_name);
    return tensor;
  }
  tensor.dtype = *dtype;
  SUTURE_ASSIGN_OR_RETURN(const uint64_t expected, expected_bytes(tensor, where));
  if (end - begin != expected)
    return malformed(fmt::format("{} {} takes {} bytes, but {} are given", type_name,
                                 shape_text(tensor.shape), expected, end - begin));
  tensor.data = data.subspan(begin, end - begin);
  return tensor;
}

// Errors of the standard library come as exceptions or stream states; this one is a value.
Status write_file(const std::filesystem::path& path, std::string_view header,
                  std::span<const TensorInfo> tensors) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  const uint64_t length = header.size();
  out.write(reinterpret_cast<const char*>(&length), sizeof(length));
  out.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const TensorInfo& tensor : tensors)
    out.write(reinterpret_cast<const char*>(tensor.data.data()),
              static_cast<std::streamsize>(tensor.data.size()));
  out.close();
  if (!out) return fail_errno("cannot write file", errno, path.string());
  return {};
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes,
                                               const std::string& where) {
  uint64_t header_bytes = 0;
  if (bytes.size() < kLengthBytes) return corrupt("this is not a safetensors file", where);
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  if (header_bytes > bytes.size() - kLengthBytes || header_bytes > kMaxHeaderBytes)
    return corrupt(fmt::format("a header of {} bytes does not fit the file", header_bytes), where);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                              header_bytes);
  SUTURE_ASSIGN_OR_RETURN(const nlohmann::json header, parse_json(text, where));
  if (!header.is_object()) return corrupt("the header is not a JSON object", where);

  SafetensorsFile file;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadataKey) {
      for (const auto& [key, value] : entry.items())
        file.metadata_[key] = value.is_string() ? value.get<std::string>() : value.dump();
      continue;
    }
    SUTURE_ASSIGN_OR_RETURN(
        TensorInfo tensor,
        read_tensor(name, entry, bytes.subspan(kLengthBytes + header_bytes), where));
    file.tensors_.push_back(std::move(tensor));
  }
  SUTURE_RETURN_IF_ERROR(check_no_overlap(file.tensors_, where));
  std::stable_sort(
      file.tensors_.begin(), file.tensors_.end(),
      [](const TensorInfo& a, const TensorInfo& b) { return a.data.data() < b.data.data(); });
  return file;
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const TensorInfo& tensor) { return tensor.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

Status write_safetensors(const std::filesystem::path& path, std::span<const TensorInfo> tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  uint64_t offset = 0;
  for (const TensorInfo& tensor : tensors) {
    const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& known) {
      return known.second == tensor.dtype;
    });
    SUTURE_ASSIGN_OR_RETURN(const uint64_t size, expected_bytes(tensor, path.string()));
    if (type == std::end(kTypes) || size != tensor.data.size())
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("tensor '{}' ({} {}, {} bytes) cannot be written as safetensors", tensor.name,
                      tensor.type_name(), shape_text(tensor.shape), tensor.data.size()),
          path.string());
    header[tensor.name] = {
        {"dtype", type->first}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + size}}};
    offset += size;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that tensors begin at a multiple of 8

  std::filesystem::path unfinished = path;
  unfinished += fmt::format(".{}.part", ::getpid());
  Status written = write_file(unfinished, text, tensors);
  std::error_code error;
  if (written) std::filesystem::rename(unfinished, path, error);
  if (written && error)
    written = fail_errno("cannot name the finished file", error.value(), path.string());
  if (!written) std::filesystem::remove(unfinished, error);
  return written;
}

}  // namespace suture
