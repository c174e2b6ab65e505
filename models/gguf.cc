#include "models/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "base/checked_math.h"
#include "models/gguf_bytes.h"
#include "models/unicode.h"

namespace suture {

namespace {

constexpr uint64_t kDefaultAlignment = 32;
// An entry needs at least a key length, a type and one byte; a tensor a name length, a number of
// dimensions, one dimension, a type and an offset.
constexpr uint64_t kMinEntryBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

struct GgmlType {
  uint32_t id;
  std::string_view name;
  std::optional<DType> dtype;
};

constexpr GgmlType kGgmlTypes[] = {
    {0, "f32", DType::kF32},       {1, "f16", DType::kF16},       {2, "q4_0", DType::kQ4_0},
    {3, "q4_1", DType::kQ4_1},     {6, "q5_0", DType::kQ5_0},     {7, "q5_1", DType::kQ5_1},
    {8, "q8_0", DType::kQ8_0},     {9, "q8_1", std::nullopt},     {10, "q2_k", DType::kQ2_K},
    {11, "q3_k", DType::kQ3_K},    {12, "q4_k", DType::kQ4_K},    {13, "q5_k", DType::kQ5_K},
    {14, "q6_k", DType::kQ6_K},    {15, "q8_k", std::nullopt},    {16, "iq2_xxs", std::nullopt},
    {17, "iq2_xs", std::nullopt},  {18, "iq3_xxs", std::nullopt}, {19, "iq1_s", std::nullopt},
    {20, "iq4_nl", DType::kIq4Nl}, {21, "iq3_s", std::nullopt},   {22, "iq2_s", std::nullopt},
    {23, "iq4_xs", std::nullopt},  {24, "i8", std::nullopt},      {25, "i16", std::nullopt},
    {26, "i32", DType::kI32},      {27, "i64", DType::kI64},      {28, "f64", std::nullopt},
    {29, "iq1_m", std::nullopt},   {30, "bf16", DType::kBf16},    {34, "tq1_0", std::nullopt},
    {35, "tq2_0", std::nullopt},   {39, "mxfp4", std::nullopt},
};

GgmlType ggml_type(uint32_t id) {
  for (const GgmlType& type : kGgmlTypes) {
    if (type.id == id) return type;
  }
  return {id, "", std::nullopt};
}

}  // namespace

// Goes through the file once, from front to back.
class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, const std::string& where)
      : bytes_(bytes), where_(where) {}

  Result<GgufFile> run() {
    SUTURE_ASSIGN_OR_RETURN(const Counts counts, read_header());
    file_.entries_.reserve(counts.entries);
    for (uint64_t i = 0; i < counts.entries; ++i) SUTURE_RETURN_IF_ERROR(read_entry(i));
    SUTURE_ASSIGN_OR_RETURN(const uint64_t alignment, read_alignment());
    file_.tensors_.reserve(counts.tensors);
    for (uint64_t i = 0; i < counts.tensors; ++i)
      SUTURE_RETURN_IF_ERROR(read_tensor_info(i, alignment));
    SUTURE_RETURN_IF_ERROR(locate_tensors(alignment));
    SUTURE_RETURN_IF_ERROR(check_no_overlap(file_.tensors_, where_));
    return std::move(file_);
  }

 private:
  struct Counts {
    uint64_t tensors;
    uint64_t entries;
  };

  tl::unexpected<Error> corrupt(std::string what) const {
    return fail(ErrorCode::kCorrupt, std::move(what), where_,
                "the file is damaged or incomplete: download it again");
  }

  uint64_t left() const { return bytes_.size() - position_; }

  Result<std::span<const std::byte>> take(uint64_t size, std::string_view what) {
    if (size > left())
      return corrupt(fmt::format("{} needs {} bytes at offset {}, but the file ends after {}", what,
                                 size, position_, left()));
    const auto taken = bytes_.subspan(position_, size);
    position_ += size;
    return taken;
  }

  template <typename T>
  Result<T> read(std::string_view what) {
    SUTURE_ASSIGN_OR_RETURN(const auto taken, take(sizeof(T), what));
    return load_value<T>(taken);
  }

  Result<std::span<const std::byte>> read_string(std::string_view what) {
    SUTURE_ASSIGN_OR_RETURN(const uint64_t length, read<uint64_t>(what));
    return take(length, what);
  }

  Result<std::string_view> read_name(std::string_view what) {
    SUTURE_ASSIGN_OR_RETURN(const auto taken, read_string(what));
    const std::string_view name = as_text(taken);
    if (!is_plain_name(name))
      return corrupt(fmt::format(
          "the {} that ends at offset {} is not 1 to 1024 printable characters", what, position_));
    return name;
  }

  Result<Counts> read_header() {
    if (bytes_.size() < 4 || as_text(bytes_.first(4)) != "GGUF")
      return corrupt("this is not a GGUF file: it does not begin with 'GGUF'");
    position_ = 4;
    SUTURE_ASSIGN_OR_RETURN(const uint32_t version, read<uint32_t>("GGUF version"));
    if (version == 0x03000000 || version == 0x02000000)
      return fail(ErrorCode::kUnsupported, "this GGUF file is big-endian", where_,
                  "convert it to a little-endian file");
    if (version != 3)
      return fail(ErrorCode::kUnsupported,
                  fmt::format("GGUF version {} is not supported, only version 3", version), where_,
                  "convert the model again with a current converter");
    Counts counts{};
    SUTURE_ASSIGN_OR_RETURN(counts.tensors, read<uint64_t>("tensor count"));
    SUTURE_ASSIGN_OR_RETURN(counts.entries, read<uint64_t>("metadata count"));
    if (counts.entries > left() / kMinEntryBytes)
      return corrupt(fmt::format("{} metadata entries do not fit the file", counts.entries));
    if (counts.tensors > left() / kMinTensorBytes)
      return corrupt(fmt::format("{} tensors do not fit the file", counts.tensors));
    return counts;
  }

  Status read_entry(uint64_t number) {
    SUTURE_ASSIGN_OR_RETURN(const std::string_view key, read_name("metadata key"));
    SUTURE_ASSIGN_OR_RETURN(const uint32_t type, read<uint32_t>(key));
    SUTURE_ASSIGN_OR_RETURN(const GgufValue value, read_value(static_cast<GgufType>(type), key));
    if (!file_.index_.emplace(key, number).second)
      return corrupt(fmt::format("metadata key '{}' appears twice", key));
    file_.entries_.push_back({key, value});
    return {};
  }

  Result<GgufValue> read_value(GgufType type, std::string_view key) {
    GgufValue value;
    value.type = type;
    if (type == GgufType::kArray) {
      SUTURE_RETURN_IF_ERROR(read_array(value, key));
    } else if (type == GgufType::kString) {
      SUTURE_ASSIGN_OR_RETURN(value.bytes, read_string(key));
    } else if (scalar_bytes(type) > 0) {
      SUTURE_ASSIGN_OR_RETURN(value.bytes, take(scalar_bytes(type), key));
    } else {
      return corrupt(
          fmt::format("metadata key '{}' has unknown type {}", key, static_cast<uint32_t>(type)));
    }
    return value;
  }

  Status read_array(GgufValue& value, std::string_view key) {
    SUTURE_ASSIGN_OR_RETURN(const uint32_t element_type, read<uint32_t>(key));
    value.element_type = static_cast<GgufType>(element_type);
    SUTURE_ASSIGN_OR_RETURN(value.count, read<uint64_t>(key));
    const uint64_t element_bytes = scalar_bytes(value.element_type);
    if (element_bytes > 0) {
      const auto size = checked_mul(value.count, element_bytes);
      if (!size) return corrupt(fmt::format("array '{}' is too long: {}", key, value.count));
      SUTURE_ASSIGN_OR_RETURN(value.bytes, take(*size, key));
      return {};
    }
    if (value.element_type != GgufType::kString)
      return fail(ErrorCode::kUnsupported,
                  fmt::format("array '{}' has elements of type {}", key, element_type), where_);
    const uint64_t begin = position_;
    for (uint64_t i = 0; i < value.count; ++i) {
      SUTURE_ASSIGN_OR_RETURN([[maybe_unused]] const auto element, read_string(key));
    }
    value.bytes = bytes_.subspan(begin, position_ - begin);
    return {};
  }

  Result<uint64_t> read_alignment() const {
    const GgufValue* value = file_.find("general.alignment");
    if (value == nullptr) return kDefaultAlignment;
    const auto alignment = value->as_unsigned();
    if (!alignment || *alignment < 8 || *alignment > (1 << 20) || !std::has_single_bit(*alignment))
      return corrupt(fmt::format("general.alignment is {}, expected a power of two from 8 to {}",
                                 printable(value->text()), 1 << 20));
    return *alignment;
  }

  Status read_tensor_info(uint64_t number, uint64_t alignment) {
    SUTURE_ASSIGN_OR_RETURN(const std::string_view name, read_name("tensor name"));
    if (!names_.insert(name).second)
      return corrupt(fmt::format("tensor name '{}' appears twice", name));
    TensorInfo tensor;
    tensor.name = name;
    SUTURE_RETURN_IF_ERROR(read_shape(tensor));
    SUTURE_ASSIGN_OR_RETURN(const uint32_t type_id, read<uint32_t>(name));
    SUTURE_ASSIGN_OR_RETURN(const uint64_t offset, read<uint64_t>(name));
    if (offset % alignment != 0)
      return corrupt(fmt::format("tensor '{}' (number {}) starts at {}, not a multiple of {}", name,
                                 number, offset, alignment));
    const GgmlType type = ggml_type(type_id);
    if (type.dtype) {
      tensor.dtype = *type.dtype;
    } else {
      tensor.unsupported_type =
          type.name.empty() ? fmt::format("ggml type {}", type_id) : std::string(type.name);
    }
    file_.tensors_.push_back(std::move(tensor));
    offsets_.push_back(offset);
    return {};
  }

  Status read_shape(TensorInfo& tensor) {
    SUTURE_ASSIGN_OR_RETURN(const uint32_t n_dims, read<uint32_t>(tensor.name));
    if (n_dims < 1 || n_dims > 4)
      return corrupt(
          fmt::format("tensor '{}' has {} dimensions, expected 1 to 4", tensor.name, n_dims));
    for (uint32_t i = 0; i < n_dims; ++i) {
      SUTURE_ASSIGN_OR_RETURN(const uint64_t size, read<uint64_t>(tensor.name));
      // Below 2^40, a row of the widest type still counts its bytes in 64 bits.
      if (size < 1 || size >= (uint64_t{1} << 40))
        return corrupt(fmt::format("tensor '{}' has a dimension of {}", tensor.name, size));
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
    }
    if (!element_count(tensor.shape))
      return corrupt(fmt::format("tensor '{}' {} has too many elements", tensor.name,
                                 shape_text(tensor.shape)));
    return {};
  }

  // Tensor offsets count from the end of the header, rounded up to the alignment.
  Status locate_tensors(uint64_t alignment) {
    const uint64_t data_begin = (position_ + alignment - 1) / alignment * alignment;
    for (size_t i = 0; i < file_.tensors_.size(); ++i) {
      TensorInfo& tensor = file_.tensors_[i];
      uint64_t size = 1;
      if (tensor.unsupported_type.empty()) {
        SUTURE_ASSIGN_OR_RETURN(size, stored_bytes(tensor));
      }
      const auto begin = checked_add(data_begin, offsets_[i]);
      const auto end = begin ? checked_add(*begin, size) : std::nullopt;
      if (!end || *end > bytes_.size())
        return corrupt(fmt::format("tensor '{}' ({} {}) at offset {} does not fit the file",
                                   tensor.name, tensor.type_name(), shape_text(tensor.shape),
                                   offsets_[i]));
      if (tensor.unsupported_type.empty()) tensor.data = bytes_.subspan(*begin, size);
    }
    return {};
  }

  Result<uint64_t> stored_bytes(const TensorInfo& tensor) const {
    if (tensor.shape.back() % dtype_info(tensor.dtype).block_elements != 0)
      return corrupt(fmt::format("tensor '{}': rows of {} are not whole blocks of {}", tensor.name,
                                 tensor.shape.back(), dtype_name(tensor.dtype)));
    const auto size = dtype_bytes(tensor.dtype, *element_count(tensor.shape));
    if (!size)
      return corrupt(
          fmt::format("tensor '{}' {} has too many bytes", tensor.name, shape_text(tensor.shape)));
    return static_cast<uint64_t>(*size);
  }

  std::span<const std::byte> bytes_;
  const std::string& where_;
  uint64_t position_ = 0;
  GgufFile file_;
  std::unordered_set<std::string_view> names_;  // of tensors
  std::vector<uint64_t> offsets_;               // of tensors, as stored
};

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, const std::string& where) {
  return GgufParser(bytes, where).run();
}

void GgufFile::take_tensors(GgufFile part) {
  tensors_.insert(tensors_.end(), std::make_move_iterator(part.tensors_.begin()),
                  std::make_move_iterator(part.tensors_.end()));
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second].value;
}

}  // namespace suture
