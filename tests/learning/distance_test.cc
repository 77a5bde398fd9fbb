// Wasserstein-1, the half-sample mode and scaling onto a line, each against brute force.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "Eigen/Eigenvalues"
#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/learning/line_mds.h"
#include "takt/learning/mode.h"
#include "takt/learning/wasserstein.h"

namespace takt {
namespace {

std::vector<double> Sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<double> Sample(Random& random, std::size_t n, double mu, double sigma) {
  std::vector<double> values(n);
  for (double& v : values) v = random.LogNormal(mu, sigma);
  return Sorted(values);
}

// Repeats each value as often as the other sample has values, and matches one to one.
double BruteForceW1(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> as, bs;
  for (const double x : a) as.insert(as.end(), b.size(), x);
  for (const double x : b) bs.insert(bs.end(), a.size(), x);
  double sum = 0;
  for (std::size_t i = 0; i < as.size(); ++i) sum += std::abs(as[i] - bs[i]);
  return sum / static_cast<double>(as.size());
}

TEST_CASE("Wasserstein-1 agrees with brute force for any sample sizes") {
  CHECK(std::isnan(Wasserstein1({}, std::vector<double>{1})));
  CHECK(Wasserstein1(std::vector<double>{3}, std::vector<double>{5}) == 2);
  CHECK(Wasserstein1(std::vector<double>{0}, std::vector<double>{1, 2, 6}) == 3);  // to a point at zero: the mean
  Random random(1);
  for (int i = 0; i < Scaled(200); ++i) {
    const std::vector<double> a = Sample(random, 1 + random.Below(40), 1, 1);
    const std::vector<double> b = Sample(random, 1 + random.Below(40), 1.2, 0.5);
    CHECK(Wasserstein1(a, b) == Approx(BruteForceW1(a, b)).epsilon(1e-12));
    CHECK(Wasserstein1(a, b) == Wasserstein1(b, a));
    CHECK(Wasserstein1(a, a) == 0);
  }
  const std::vector<float> q = {1, 2, 3}, r = {2, 2, 7};
  CHECK(QuantileDistance<float>(q, r) == Approx(5.0 / 3));
  CHECK(QuantileDistance<float>({}, {}) == 0);
}

double BruteForceMode(std::vector<double> v) {
  while (v.size() > 3) {
    const std::size_t half = (v.size() + 1) / 2;
    std::vector<double> widths;
    for (std::size_t i = 0; i + half <= v.size(); ++i) widths.push_back(v[i + half - 1] - v[i]);
    const auto best = std::min_element(widths.begin(), widths.end()) - widths.begin();
    v = {v.begin() + best, v.begin() + best + static_cast<std::ptrdiff_t>(half)};
  }
  if (v.size() == 1) return v[0];
  if (v.size() == 2) return (v[0] + v[1]) / 2;
  if (v[1] - v[0] == v[2] - v[1]) return v[1];
  return v[1] - v[0] < v[2] - v[1] ? (v[0] + v[1]) / 2 : (v[1] + v[2]) / 2;
}

TEST_CASE("the half-sample mode finds the mode") {
  CHECK(std::isnan(HalfSampleMode({})));
  CHECK(HalfSampleMode(std::vector<double>{4}) == 4);
  CHECK(HalfSampleMode(std::vector<double>{1, 2, 9}) == 1.5);
  CHECK(HalfSampleMode(std::vector<double>(100, 7.0)) == 7);
  Random random(2);
  for (int i = 0; i < Scaled(200); ++i) {
    const std::vector<double> v = Sample(random, 1 + random.Below(60), 0, 1);
    CHECK(HalfSampleMode(v) == BruteForceMode(v));
  }
  // A log-normal's mode is exp(mu - sigma^2), well below its median.
  const std::vector<double> v = Sample(random, 100'000, 2, 0.5);
  CHECK(HalfSampleMode(v) == Approx(std::exp(1.75)).epsilon(0.1));
}

constexpr std::size_t kLevels = 24;

// Quantile functions of n log-normal distributions, row by row.
std::vector<float> Curves(Random& random, std::size_t n) {
  std::vector<float> rows;
  for (std::size_t i = 0; i < n; ++i) {
    const double mu = 2 * random.Uniform(), sigma = 0.2 + random.Uniform();
    const std::vector<double> v = Sample(random, kLevels, mu, sigma);
    for (const double x : v) rows.push_back(static_cast<float>(x));
  }
  return rows;
}

Eigen::MatrixXd Distances(const std::vector<float>& rows, std::size_t levels) {
  const auto n = static_cast<Eigen::Index>(rows.size() / levels);
  Eigen::MatrixXd d(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < n; ++j) {
      const auto row = [&](Eigen::Index r) {
        return std::span<const float>(rows).subspan(static_cast<std::size_t>(r) * levels, levels);
      };
      d(i, j) = QuantileDistance(row(i), row(j));
    }
  }
  return d;
}

// Classical scaling by its definition.
Eigen::VectorXd BruteForceLine(const Eigen::MatrixXd& d) {
  const Eigen::Index n = d.rows();
  const Eigen::MatrixXd j = Eigen::MatrixXd::Identity(n, n) - Eigen::MatrixXd::Constant(n, n, 1.0 / double(n));
  const Eigen::MatrixXd b = -0.5 * j * d.cwiseProduct(d) * j;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solved(b);
  return solved.eigenvectors().col(n - 1) * std::sqrt(solved.eigenvalues()(n - 1));
}

TEST_CASE("scaling onto a line is the leading eigenvector") {
  Random random(3);
  for (const std::size_t n : {2u, 3u, 10u, 40u, 130u}) {
    CAPTURE(n);
    const std::vector<float> rows = Curves(random, n);
    LineMds mds;
    mds.Fit(rows, kLevels);
    Eigen::VectorXd expected = BruteForceLine(Distances(rows, kLevels));
    if (expected(0) * mds.coordinates()[0] < 0) expected = -expected;
    const double size = expected.cwiseAbs().maxCoeff();
    for (std::size_t i = 0; i < n; ++i) {
      CHECK(mds.coordinates()[i] == Approx(expected(static_cast<Eigen::Index>(i))).margin(1e-4 * size));
    }
    // A fitted point is placed at its own position.
    for (std::size_t i = 0; i < n; ++i) {
      const auto row = std::span<const float>(rows).subspan(i * kLevels, kLevels);
      CHECK(mds.Place(row) == Approx(mds.coordinates()[i]).margin(1e-4 * size));
    }
  }
}

TEST_CASE("points on a line return unchanged, larger ones above") {
  std::vector<float> rows;
  const std::vector<float> at = {3, 0, 10, 4, 0.5};
  for (const float x : at) rows.insert(rows.end(), kLevels, x);
  for (const int smacof : {0, 5}) {
    LineMds mds;
    mds.Fit(rows, kLevels, {.smacof_steps = smacof});
    for (std::size_t i = 0; i < at.size(); ++i) {
      CHECK(mds.coordinates()[i] - mds.coordinates()[1] == Approx(at[i]).epsilon(1e-5).margin(1e-5));
    }
    CHECK(mds.Stress() < 1e-5);
    const std::vector<float> between(kLevels, 7.0f);
    CHECK(mds.Place(between) - mds.coordinates()[1] == Approx(7).epsilon(1e-5));
  }
}

TEST_CASE("SMACOF never fits worse") {
  Random random(4);
  for (int i = 0; i < Scaled(20); ++i) {
    const std::vector<float> rows = Curves(random, 30);
    LineMds classical, smacof;
    classical.Fit(rows, kLevels);
    smacof.Fit(rows, kLevels, {.smacof_steps = 20});
    CHECK(smacof.Stress() <= classical.Stress() + 1e-6);
  }
}

TEST_CASE("coinciding points, coinciding means and empty sets are handled") {
  LineMds mds;
  mds.Fit({}, kLevels);
  CHECK(mds.coordinates().empty());
  const std::vector<float> same(5 * kLevels, 2.0f);
  mds.Fit(same, kLevels);
  for (const double x : mds.coordinates()) CHECK(x == 0);
  CHECK(mds.Place(std::vector<float>(kLevels, 3.0f)) == Approx(1));
  const std::vector<float> zeros(5 * kLevels, 0.0f);
  mds.Fit(zeros, kLevels);
  for (const double x : mds.coordinates()) CHECK(x == 0);
  // Equal means, one narrow and two wide spreads. Distances separate them.
  std::vector<float> rows(3 * kLevels, 5.0f);
  for (std::size_t k = 0; k < kLevels; ++k) rows[kLevels + k] = rows[2 * kLevels + k] = k < kLevels / 2 ? 0.0f : 10.0f;
  mds.Fit(rows, kLevels);
  CHECK(std::abs(mds.coordinates()[0] - mds.coordinates()[1]) == Approx(5).epsilon(1e-4));
  CHECK(mds.coordinates()[1] == Approx(mds.coordinates()[2]).margin(1e-4));
}

}  // namespace
}  // namespace takt
