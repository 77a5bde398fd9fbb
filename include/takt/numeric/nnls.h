// Least squares with nonnegative coefficients.
#ifndef TAKT_NUMERIC_NNLS_H_
#define TAKT_NUMERIC_NNLS_H_

#include <span>
#include <vector>

namespace takt {

struct NonNegativeFit {
  std::vector<double> coefficients;  // coefficients x, one per column of A
  double squared_error = 0;          // |A x - b|^2
};

// Returns the x >= 0 that minimizes |A x - b|. `columns` holds A column by column; each column is as long as `target`
// (b). Columns may differ in scale by any factor. Only one of several linearly dependent columns is used. To weight
// rows, scale both sides. Active-set method: Lawson and Hanson, Solving Least Squares Problems (1974), chapter 23, on
// the triangle of a QR decomposition of A. O(rows columns^2).
NonNegativeFit NonNegativeLeastSquares(std::span<const double> columns, std::span<const double> target);

}  // namespace takt

#endif  // TAKT_NUMERIC_NNLS_H_
