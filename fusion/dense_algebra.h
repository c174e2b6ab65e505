// Products and solves of dense matrices, by OpenBLAS. Each call runs on the calling thread alone,
// and callers take turns.
#pragma once

#include <cstdint>
#include <string_view>

namespace suture {

// Row-major; row r begins at data + r * stride.
template <typename T>
struct MatrixView {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;
};

// out = a^T b. a [k][m], b [k][n], out [m][n].
void multiply_transposed_left(const MatrixView<const float>& a, const MatrixView<const float>& b,
                              const MatrixView<float>& out);

// out = alpha a b^T + beta out. a [m][k], b [n][k], out [m][n].
void multiply_transposed_right(double alpha, const MatrixView<const double>& a,
                               const MatrixView<const double>& b, double beta,
                               const MatrixView<double>& out);

// Factors the symmetric positive definite a [n][n] in place, of which only the upper triangle is
// read and written. False if it is not positive definite.
bool factor(const MatrixView<double>& a);

// OpenBLAS picks its kernels by a list of processors, when a process begins; on one that is newer
// than the list it takes those of SSE3, which are several times slower. Gives the value of the
// environment's OPENBLAS_CORETYPE with which a process gets kernels for this processor's AVX2 or
// AVX-512; nullptr where it has them, or the variable is set.
const char* faster_kernels();
// The same for a process that has been given the kernels `picked`, by OpenBLAS's name for them.
const char* faster_kernels(std::string_view picked, bool has_avx2, bool has_avx512);

// rows [k][n]: each row b becomes the solution x of a x = b, for a that was factored.
void solve(const MatrixView<const double>& factored, const MatrixView<double>& rows);

}  // namespace suture
