// Least squares with coefficients that are not negative.
#ifndef TAKT_NUMERIC_NNLS_H_
#define TAKT_NUMERIC_NNLS_H_

#include <span>
#include <vector>

namespace takt {

struct NonNegativeFit {
  std::vector<double> coefficients;  // one per column
  double squared_error = 0;          // |A x - b|^2
};

// The x >= 0 that minimises |A x - b|, where `columns` holds A column by column, each as long as `target` (b).
// Columns may differ in scale by any factor; of columns that say the same, one is used. Rows that should count more
// are scaled by the caller, on both sides. Active sets: Lawson and Hanson, Solving Least Squares Problems (1974),
// chapter 23, on the triangle that a QR decomposition leaves of A: O(rows columns^2).
NonNegativeFit NonNegativeLeastSquares(std::span<const double> columns, std::span<const double> target);

}  // namespace takt

#endif  // TAKT_NUMERIC_NNLS_H_
