#include "kernels/matmul.h"

#include <fmt/format.h>

#include "kernels/cpu/cpu_matmul.h"

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

Status check_shape(const MatmulArgs& args) {
  const WeightView& w = args.w;
  SUTURE_RETURN_IF_ERROR(check_type(w.dtype));
  if (args.n_rows < 0 || w.rows < 0 || w.cols <= 0) {
    return refuse(fmt::format("{} rows with a weight of {} x {}", args.n_rows, w.rows, w.cols));
  }
  const DTypeInfo& info = dtype_info(w.dtype);
  if (w.cols % info.block_elements != 0) {
    return refuse(fmt::format("{} columns are not a multiple of the {} of a {} block", w.cols,
                              info.block_elements, info.name));
  }
  int64_t elements = 0;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(w.rows, w.cols, &elements) || !dtype_bytes(w.dtype, elements) ||
      __builtin_mul_overflow(args.n_rows, w.cols * 8, &bytes) ||
      __builtin_mul_overflow(args.n_rows, w.rows * 8, &bytes)) {
    return refuse(fmt::format("{} rows with a weight of {} x {} do not fit an address space",
                              args.n_rows, w.rows, w.cols));
  }
  if (args.path != MatmulPath::kPrefill && args.path != MatmulPath::kDecode) {
    return refuse(fmt::format("unknown path {}", static_cast<int>(args.path)));
  }
  return {};
}

}  // namespace

Status matmul(Stream& stream, const MatmulArgs& args) {
  SUTURE_RETURN_IF_ERROR(check_shape(args));
  if (args.n_rows == 0 || args.w.rows == 0) return {};
  if (args.x == nullptr || args.w.data == nullptr || args.out == nullptr) {
    return refuse("x, w or out is a null pointer");
  }
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
