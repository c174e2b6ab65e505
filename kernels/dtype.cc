#include "kernels/dtype.h"

#include <array>

#include "base/check.h"

namespace suture {
namespace {

constexpr std::array<DTypeInfo, kDTypes> kInfos = {{
    {"f32", 1, 4},
    {"f16", 1, 2},
    {"bf16", 1, 2},
    {"i32", 1, 4},
    {"i64", 1, 8},
    {"q4_0", 32, 18},
    {"q4_1", 32, 20},
    {"q5_0", 32, 22},
    {"q5_1", 32, 24},
    {"q8_0", 32, 34},
    {"q2_k", 256, 84},
    {"q3_k", 256, 110},
    {"q4_k", 256, 144},
    {"q5_k", 256, 176},
    {"q6_k", 256, 210},
    {"iq4_nl", 32, 18},
}};
static_assert(kInfos.back().name == "iq4_nl", "an entry for each DType, in its order");

}  // namespace

const DTypeInfo& dtype_info(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  SUTURE_CHECK(index < kInfos.size(), "dtype={}", index);
  return kInfos[index];
}

std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }

bool is_quantised(DType dtype) { return dtype_info(dtype).block_elements > 1; }

bool is_weight(DType dtype) { return dtype != DType::kI32 && dtype != DType::kI64; }

std::string known_weight_types() {
  std::string names;
  for (size_t i = 0; i < kDTypes; ++i) {
    if (!is_weight(static_cast<DType>(i))) continue;
    if (!names.empty()) names += ", ";
    names += kInfos[i].name;
  }
  return names;
}

std::optional<int64_t> dtype_bytes(DType dtype, int64_t elements) {
  const DTypeInfo& info = dtype_info(dtype);
  if (elements < 0 || elements % info.block_elements != 0) return std::nullopt;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / info.block_elements, info.block_bytes, &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace suture
