// Non-negative least squares against its definition.
#include <cmath>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/numeric/nnls.h"

namespace takt {
namespace {

struct Problem {
  std::size_t rows = 0, columns = 0;
  std::vector<double> a = {};  // by column
  std::vector<double> b = {};

  double at(std::size_t row, std::size_t column) const { return a[column * rows + row]; }
  std::vector<double> Residual(const std::vector<double>& x) const {
    std::vector<double> r = b;
    for (std::size_t c = 0; c < columns; ++c) {
      for (std::size_t i = 0; i < rows; ++i) r[i] -= at(i, c) * x[c];
    }
    return r;
  }
};

// Optimality conditions (Karush, Kuhn and Tucker): no coefficient is negative, more of any column gains nothing, and
// less of a used column gains nothing.
void CheckLeast(const Problem& p, const NonNegativeFit& fit) {
  REQUIRE(fit.coefficients.size() == p.columns);
  const std::vector<double> residual = p.Residual(fit.coefficients);
  double squared = 0, size = 0;
  for (const double r : residual) squared += r * r;
  for (const double b : p.b) size += b * b;
  CHECK(fit.squared_error == Approx(squared).epsilon(1e-8).margin(1e-12 * size));
  for (std::size_t c = 0; c < p.columns; ++c) {
    CHECK(fit.coefficients[c] >= 0);
    double gain = 0, length = 0;
    for (std::size_t i = 0; i < p.rows; ++i) gain += p.at(i, c) * residual[i], length += p.at(i, c) * p.at(i, c);
    const double tolerance = 1e-9 * std::sqrt(length * size);
    CHECK(gain <= tolerance);
    if (fit.coefficients[c] > 0) CHECK(gain >= -tolerance);
  }
}

TEST_CASE("random problems are solved optimally at any column scale") {
  Random random(7);
  for (std::int64_t i = 0; i < Scaled(2000); ++i) {
    Problem p{.rows = 1 + random.Below(30), .columns = 1 + random.Below(9)};
    for (std::size_t c = 0; c < p.columns; ++c) {
      const double scale = std::pow(10, 12 * random.Uniform() - 6);
      const bool copy = c > 0 && random.Chance(0.1);
      for (std::size_t r = 0; r < p.rows; ++r) {
        p.a.push_back(copy ? p.at(r, c - 1) * 3 : scale * (random.Chance(0.2) ? 0 : random.Normal()));
      }
    }
    for (std::size_t r = 0; r < p.rows; ++r) p.b.push_back(random.Normal());
    CAPTURE(i, p.rows, p.columns);
    CheckLeast(p, NonNegativeLeastSquares(p.a, p.b));
  }
}

TEST_CASE("reachable targets are met, and a negative coefficient becomes zero") {
  // b = 2 (1 1 1) + 0.5 (1 2 3)
  const std::vector<double> columns = {1, 1, 1, 1, 2, 3};
  const NonNegativeFit met = NonNegativeLeastSquares(columns, std::vector<double>{2.5, 3, 3.5});
  CHECK(met.coefficients[0] == Approx(2));
  CHECK(met.coefficients[1] == Approx(0.5));
  CHECK(met.squared_error < 1e-20);
  // Falling values: the slope would be negative, so the constant alone is left, their mean.
  const NonNegativeFit falling = NonNegativeLeastSquares(columns, std::vector<double>{3, 2, 1});
  CHECK(falling.coefficients[0] == Approx(2));
  CHECK(falling.coefficients[1] == 0);
  CHECK(falling.squared_error == Approx(2));
}

TEST_CASE("zero columns, no columns and empty targets are solved") {
  CHECK(NonNegativeLeastSquares({}, std::vector<double>{1, 2}).coefficients.empty());
  CHECK(NonNegativeLeastSquares({}, {}).coefficients.empty());
  const NonNegativeFit zero = NonNegativeLeastSquares(std::vector<double>{0, 0, 1, 0}, std::vector<double>{4, 3});
  CHECK(zero.coefficients == std::vector<double>{0, 4});
  CHECK(zero.squared_error == Approx(9));
  CHECK(NonNegativeLeastSquares(std::vector<double>{1, 2}, std::vector<double>{0, 0}).coefficients[0] == 0);
  CHECK(NonNegativeLeastSquares(std::vector<double>{1, 2}, std::vector<double>{-1, -1}).coefficients[0] == 0);
}

}  // namespace
}  // namespace takt
