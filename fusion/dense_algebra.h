// Products and solves of dense matrices, by OpenBLAS. Each call runs on the calling thread alone,
// and callers take turns.
#pragma once

#include <cstdint>

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

// rows [k][n]: each row b becomes the solution x of a x = b, for a that was factored.
void solve(const MatrixView<const double>& factored, const MatrixView<double>& rows);

}  // namespace suture
