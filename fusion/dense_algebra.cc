#include "fusion/dense_algebra.h"

#include <cblas.h>
#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>

#include "base/check.h"

// LAPACK's names, which are part of OpenBLAS. Matrices lie by columns there.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
void dpotrf_(const char* triangle, const int* n, double* a, const int* stride, int* info);
void dpotrs_(const char* triangle, const int* n, const int* n_right, const double* a,
             const int* stride, double* b, const int* b_stride, int* info);
}
// NOLINTEND(readability-identifier-naming)

namespace suture {
namespace {

// By columns, the upper triangle of rows is the lower one.
constexpr const char* kTriangle = "L";

// To be held during a call. Of several hundred texts that two threads gathered at the same time,
// the products of one or two came out wrong, with OpenBLAS 0.3.21 built with threads and without,
// and nothing reported it. A build with threads would start its own beside the caller's.
std::unique_lock<std::mutex> own_turn() {
  static std::mutex mutex;
  static const bool alone = [] {
    openblas_set_num_threads(1);
    return true;
  }();
  static_cast<void>(alone);
  return std::unique_lock(mutex);
}

int as_int(int64_t value) {
  SUTURE_CHECK(value >= 0 && value <= INT32_MAX, "matrix extent {}", value);
  return static_cast<int>(value);
}

}  // namespace

const char* faster_kernels(std::string_view picked, bool has_avx2, bool has_avx512) {
  constexpr std::array<std::string_view, 6> kWithAvx2 = {
      "Haswell", "Zen", "Excavator", "SkylakeX", "Cooperlake", "SapphireRapids"};
  if (!has_avx2 || std::ranges::count(kWithAvx2, picked) != 0) return nullptr;
  return has_avx512 ? "SkylakeX" : "Haswell";
}

const char* faster_kernels() {
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) return nullptr;
  const int64_t can = hwy::SupportedTargets();
  const bool has_avx512 = (can & HWY_AVX3) != 0;
  const bool has_avx2 = has_avx512 || (can & HWY_AVX2) != 0;
  return faster_kernels(openblas_get_corename(), has_avx2, has_avx512);
}

void multiply_transposed_left(const MatrixView<const float>& a, const MatrixView<const float>& b,
                              const MatrixView<float>& out) {
  SUTURE_CHECK(a.rows == b.rows && a.columns == out.rows && b.columns == out.columns,
               "{} x {}, {} x {}, {} x {}", a.rows, a.columns, b.rows, b.columns, out.rows,
               out.columns);
  const auto turn = own_turn();
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, as_int(out.rows), as_int(out.columns),
              as_int(a.rows), 1, a.data, as_int(a.stride), b.data, as_int(b.stride), 0, out.data,
              as_int(out.stride));
}

void multiply_transposed_right(double alpha, const MatrixView<const double>& a,
                               const MatrixView<const double>& b, double beta,
                               const MatrixView<double>& out) {
  SUTURE_CHECK(a.columns == b.columns && a.rows == out.rows && b.rows == out.columns,
               "{} x {}, {} x {}, {} x {}", a.rows, a.columns, b.rows, b.columns, out.rows,
               out.columns);
  const auto turn = own_turn();
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, as_int(out.rows), as_int(out.columns),
              as_int(a.columns), alpha, a.data, as_int(a.stride), b.data, as_int(b.stride), beta,
              out.data, as_int(out.stride));
}

bool factor(const MatrixView<double>& a) {
  const auto turn = own_turn();
  const int n = as_int(a.rows);
  const int stride = as_int(a.stride);
  int info = 0;
  dpotrf_(kTriangle, &n, a.data, &stride, &info);
  return info == 0;
}

void solve(const MatrixView<const double>& factored, const MatrixView<double>& rows) {
  const auto turn = own_turn();
  const int n = as_int(factored.rows);
  const int n_rows = as_int(rows.rows);
  const int stride = as_int(factored.stride);
  const int rows_stride = as_int(rows.stride);
  int info = 0;
  dpotrs_(kTriangle, &n, &n_rows, factored.data, &stride, rows.data, &rows_stride, &info);
  SUTURE_CHECK(info == 0, "dpotrs: {}", info);
}

}  // namespace suture
