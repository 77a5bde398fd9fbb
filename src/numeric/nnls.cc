#include "takt/numeric/nnls.h"

#include <algorithm>
#include <cstddef>

#include "Eigen/Dense"
#include "takt/config.h"

namespace takt {
namespace {

using Index = Eigen::Index;

// Returns the least-squares solution over the columns in `used`, with zeros elsewhere.
Eigen::VectorXd SolveOver(const Eigen::MatrixXd& a, const Eigen::VectorXd& b, const std::vector<Index>& used) {
  const Eigen::VectorXd part = a(Eigen::all, used).colPivHouseholderQr().solve(b);
  Eigen::VectorXd x = Eigen::VectorXd::Zero(a.cols());
  x(used) = part;
  return x;
}

// Columns of `a` have unit length, or are zero.
Eigen::VectorXd ActiveSets(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
  Eigen::VectorXd x = Eigen::VectorXd::Zero(a.cols());
  std::vector<Index> used;
  std::vector<bool> barred(
      static_cast<std::size_t>(a.cols()));  // columns whose coefficient would be negative at once because of rounding
  const double least = 1e-12 * b.norm();
  // The theory needs no limit, but rounding errors could cause an endless loop.
  for (Index turn = 0; turn < 10 * a.cols() && static_cast<Index>(used.size()) < a.cols(); ++turn) {
    const Eigen::VectorXd gain = a.transpose() * (b - a * x);
    Index best = -1;
    for (Index i = 0; i < a.cols(); ++i) {
      const bool free = !barred[static_cast<std::size_t>(i)] && std::ranges::find(used, i) == used.end();
      if (free && gain(i) > least && (best < 0 || gain(i) > gain(best))) best = i;
    }
    if (best < 0) break;
    used.push_back(best);
    Eigen::VectorXd wish = SolveOver(a, b, used);
    if (!(wish(best) > 0)) {
      used.pop_back();
      barred[static_cast<std::size_t>(best)] = true;
      continue;
    }
    // Moves towards the target until a coefficient is zero, removes its column, and computes a new target.
    while (!std::ranges::all_of(used, [&](Index i) { return wish(i) > 0; })) {
      double share = 1;
      Index first = used.front();
      for (const Index i : used) {
        const double until = wish(i) > 0 ? 2 : x(i) / (x(i) - wish(i));
        if (until < share) share = until, first = i;
      }
      x += share * (wish - x);
      x(first) = 0;
      std::erase_if(used, [&](Index i) { return !(x(i) > 0); });
      if (used.empty()) break;
      wish = SolveOver(a, b, used);
    }
    if (used.empty()) break;
    x = wish;
    barred.assign(barred.size(), false);
  }
  return x;
}

}  // namespace

NonNegativeFit NonNegativeLeastSquares(std::span<const double> columns, std::span<const double> target) {
  const auto rows = static_cast<Index>(target.size());
  const Index count = rows > 0 ? static_cast<Index>(columns.size()) / rows : 0;
  TAKT_ASSERT(count * rows == static_cast<Index>(columns.size()));
  if (count == 0) return {};
  const Eigen::Map<const Eigen::MatrixXd> a(columns.data(), rows, count);
  const Eigen::Map<const Eigen::VectorXd> b(target.data(), rows);
  const Eigen::VectorXd lengths = a.colwise().norm();

  // [A b] = Q R, and Q preserves distances. The columns of R replace A, and its last column replaces b.
  Eigen::MatrixXd both(rows, count + 1);
  for (Index i = 0; i < count; ++i) both.col(i) = a.col(i) / (lengths(i) > 0 ? lengths(i) : 1);
  both.col(count) = b;
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(both);
  const Index kept = std::min(rows, count + 1);
  const Eigen::MatrixXd r = qr.matrixQR().topRows(kept).triangularView<Eigen::Upper>();

  const Eigen::VectorXd x = ActiveSets(r.leftCols(count), r.col(count));
  NonNegativeFit fit;
  fit.squared_error = (r.leftCols(count) * x - r.col(count)).squaredNorm();
  for (Index i = 0; i < count; ++i) fit.coefficients.push_back(lengths(i) > 0 ? x(i) / lengths(i) : 0);
  return fit;
}

}  // namespace takt
