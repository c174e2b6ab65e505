#include "kernels/matmul.h"

#include <fmt/format.h>

#include "kernels/cpu/cpu_matmul.h"
#include "kernels/packed_weights.h"

namespace suture {
namespace {

tl::unexpected<Error> refuse(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "matmul");
}

Status check_type(DType dtype) {
  if (!is_weight(dtype)) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("weights of type {}, expected one of {}", dtype_name(dtype),
                            known_weight_types()),
                "matmul");
  }
  return {};
}

Status check_shape(const WeightView& w, int64_t n_rows) {
  SUTURE_RETURN_IF_ERROR(check_type(w.dtype));
  if (n_rows < 0 || w.rows < 0 || w.cols <= 0) {
    return refuse(fmt::format("{} rows with a weight of {} x {}", n_rows, w.rows, w.cols));
  }
  const DTypeInfo& info = dtype_info(w.dtype);
  if (w.cols % info.block_elements != 0) {
    return refuse(fmt::format("{} columns are not a multiple of the {} of a {} block", w.cols,
                              info.block_elements, info.name));
  }
  if (w.layout == WeightLayout::kTiles && !is_packable(w.dtype)) {
    return refuse(fmt::format("weights of type {} have no tiles", info.name));
  }
  int64_t elements = 0;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(w.rows, w.cols, &elements) || !dtype_bytes(w.dtype, elements) ||
      __builtin_mul_overflow(n_rows, w.cols * 8, &bytes) ||
      __builtin_mul_overflow(n_rows, w.rows * 8, &bytes)) {
    return refuse(fmt::format("{} rows with a weight of {} x {} do not fit an address space",
                              n_rows, w.rows, w.cols));
  }
  return {};
}

Status check_part(const MatmulGroupArgs& args, const MatmulPart& part) {
  SUTURE_RETURN_IF_ERROR(check_shape(part.w, args.n_rows));
  if (part.w.cols != args.parts[0].w.cols) {
    return refuse(fmt::format("weights of {} and {} columns with the same x", args.parts[0].w.cols,
                              part.w.cols));
  }
  if (args.n_rows == 0 || part.w.rows == 0) return {};
  if (args.x == nullptr || part.w.data == nullptr || part.out == nullptr) {
    return refuse("x, w or out is a null pointer");
  }
  return {};
}

}  // namespace

Status matmul(Stream& stream, const MatmulArgs& args) {
  const MatmulPart part = {args.w, args.bias, args.out};
  return matmul(stream, MatmulGroupArgs{args.x, std::span(&part, 1), args.n_rows, args.path});
}

Status matmul(Stream& stream, const MatmulGroupArgs& args) {
  if (args.parts.empty() || args.parts.size() > kMaxMatmulParts) {
    return refuse(fmt::format("{} matrices, expected 1 to {}", args.parts.size(), kMaxMatmulParts));
  }
  if (args.path != MatmulPath::kPrefill && args.path != MatmulPath::kDecode) {
    return refuse(fmt::format("unknown path {}", static_cast<int>(args.path)));
  }
  for (const MatmulPart& part : args.parts) SUTURE_RETURN_IF_ERROR(check_part(args, part));
  if (args.n_rows == 0) return {};
  if (stream.kind() == DeviceKind::kCpu) return matmul_cpu(stream, args);
  return fail(ErrorCode::kUnsupported, "no matmul for this device", "matmul");
}

Status dequantise(DType dtype, const std::byte* source, int64_t elements, float* target) {
  SUTURE_RETURN_IF_ERROR(check_type(dtype));
  if (!dtype_bytes(dtype, elements)) {
    return refuse(fmt::format("{} elements of {}", elements, dtype_name(dtype)));
  }
  if (elements == 0) return {};
  if (source == nullptr || target == nullptr) return refuse("source or target is a null pointer");
  dequantise_cpu(dtype, source, elements, target);
  return {};
}

}  // namespace suture
