#include "takt/workload/cascadia.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>
#include <utility>

#include "takt/base/exact_math.h"
#include "takt/base/random.h"
#include "takt/base/rounded.h"

namespace takt {
namespace {

double NormalCdf(double x) { return 0.5 * exact::Erfc(-x / std::numbers::sqrt2); }

double NormalQuantile(double p) {
  double low = -9, high = 9;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (NormalCdf(middle) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Returns P(X < a, Y < b) of standard normals with correlation rho, by Simpson's rule.
double BothBelow(double a, double b, double rho) {
  constexpr int kSteps = 400;
  constexpr double kFrom = -9;
  const double width = (a - kFrom) / kSteps;
  const auto density = [&](double x) {
    return exact::Exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi) *
           NormalCdf((b - rho * x) / std::sqrt(1 - rho * rho));
  };
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) sum += density(kFrom + i * width) * (i == 0 || i == kSteps ? 1 : i % 2 ? 4 : 2);
  return sum * width / 3;
}

struct Knot {
  double score, below;  // P(score < `score`)
};

// A piecewise linear distribution, from 0 at 0 to 1 at 100.
class Scores {
 public:
  explicit Scores(std::vector<Knot> knots) : knots_(std::move(knots)) {
    knots_.insert(knots_.begin(), {0, 0});
    knots_.push_back({100, 1});
  }
  double Quantile(double p) const {
    std::size_t i = 1;
    while (i + 1 < knots_.size() && knots_[i].below < p) ++i;
    const Knot &a = knots_[i - 1], &b = knots_[i];
    return a.score + (b.score - a.score) * std::clamp((p - a.below) / (b.below - a.below), 0.0, 1.0);
  }

 private:
  std::vector<Knot> knots_;
};

constexpr double kCoupling = 0.6;  // correlation of the normals behind the scores of two models

// Returns P(s2 < h2) such that the share p3 reaches the largest model, if p2 reaches the middle model.
double MiddleBelow(double p2, double p3) {
  const double a = NormalQuantile(p2);
  double low = -9, high = 9;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (BothBelow(a, middle, kCoupling) < p3 ? low : high) = middle;
  }
  return NormalCdf((low + high) / 2);
}

// Table 2 of the paper: thresholds and processing ratios. Trace 2 has one point of the middle model, and trace 3 has
// none. Both take the shape of trace 1, with its probabilities scaled to match trace 2's point.
struct Marginals {
  Scores small, middle;
  double prompt, output;  // medians, tokens
};

Marginals MarginalsOf(int trace) {
  const std::vector<Knot> middle = {
      {25, MiddleBelow(.54, .11)}, {64, MiddleBelow(.62, .21)}, {91, MiddleBelow(.94, .50)}};
  if (trace == 1) return {Scores({{69, .54}, {74, .62}, {99, .94}}), Scores(middle), 400, 600};
  constexpr double kPoint = 18;
  const double scale = MiddleBelow(.31, .03) / (middle[0].below * kPoint / middle[0].score);
  std::vector<Knot> scaled = middle;
  for (Knot& knot : scaled) knot.below *= scale;
  if (trace == 2) return {Scores({{61, .31}}), Scores(scaled), 300, 450};
  return {Scores({{10, .05}, {32, .23}}), Scores(scaled), 200, 300};
}

// Returns the Pearson correlation of normals with this rank correlation.
double PearsonOf(double spearman) {
  const double x = std::numbers::pi / 6 * spearman;
  double term = x, sine = x;
  for (int n = 2; n < 24; n += 2) sine += term *= -x * x / (n * (n + 1));
  return 2 * sine;
}

}  // namespace

CascadiaDraw DrawCascadia(int trace, std::size_t models, std::size_t requests, std::uint64_t seed, double harder) {
  const Marginals marginals = MarginalsOf(trace);
  constexpr double kSigma = 0.8, kLargest = 95, kLargestSd = 4;
  Random random(Mix64(seed) + static_cast<std::uint64_t>(trace));
  CascadiaDraw draw;
  const double link = PearsonOf(0.5);
  for (std::size_t i = 0; i < requests; ++i) {
    const double common = random.Normal();
    double z[3];
    for (double& own : z) own = std::sqrt(kCoupling) * common + std::sqrt(1 - kCoupling) * random.Normal();
    CascadeSample s;
    s.prompt = std::max(1, static_cast<std::int32_t>(random.LogNormal(exact::Log(marginals.prompt), kSigma)));
    const double shift = -harder * kSigma * common, own = kSigma * std::sqrt(1 - Rounded(harder * harder));
    const auto output =
        std::max(1, static_cast<std::int32_t>(random.LogNormal(exact::Log(marginals.output) + Rounded(shift), own)));
    s.outputs.assign(models, output);
    s.scores.push_back(marginals.small.Quantile(NormalCdf(z[0])));
    if (models > 2) s.scores.push_back(marginals.middle.Quantile(NormalCdf(z[1])));
    if (models > 1) s.scores.push_back(std::clamp(kLargest + kLargestSd * z[2], 0.0, 100.0));
    draw.sample.push_back(std::move(s));
    draw.router.push_back(link * z[0] + std::sqrt(1 - link * link) * random.Normal());
  }
  return draw;
}

std::vector<CascadeSample> Rejudged(std::vector<CascadeSample> sample, double bias, double noise, std::uint64_t seed) {
  Random random(seed);
  for (CascadeSample& s : sample) {
    for (double& score : s.scores) score = std::clamp(score * (1 + bias) + noise * random.Normal(), 0.0, 100.0);
  }
  return sample;
}

std::vector<CascadeSample> RejudgedByLearned(std::vector<CascadeSample> sample, double rank_correlation,
                                             std::uint64_t seed) {
  Random random(seed);
  const double link = PearsonOf(rank_correlation);
  const std::size_t models = sample.empty() ? 0 : sample.front().scores.size();
  const auto n = static_cast<double>(sample.size());
  for (std::size_t m = 0; m < models; ++m) {
    std::vector<double> sorted;
    for (const CascadeSample& s : sample) sorted.push_back(s.scores[m]);
    std::vector<std::size_t> order(sample.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sorted[a] < sorted[b]; });
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      const double z = NormalQuantile((static_cast<double>(rank) + 0.5) / n);
      const double p = NormalCdf(link * z + std::sqrt(1 - link * link) * random.Normal());
      sample[order[rank]].scores[m] = sorted[std::min(static_cast<std::size_t>(p * n), sorted.size() - 1)];
    }
  }
  return sample;
}

std::vector<CascadeSample> WithMeanLengths(std::vector<CascadeSample> sample) {
  double prompt = 0;
  std::vector<double> outputs(sample.front().outputs.size());
  for (const CascadeSample& s : sample) {
    prompt += s.prompt;
    for (std::size_t m = 0; m < outputs.size(); ++m) outputs[m] += s.outputs[m];
  }
  const auto n = static_cast<double>(sample.size());
  for (CascadeSample& s : sample) {
    s.prompt = static_cast<std::int32_t>(std::lround(prompt / n));
    for (std::size_t m = 0; m < outputs.size(); ++m)
      s.outputs[m] = static_cast<std::int32_t>(std::lround(outputs[m] / n));
  }
  return sample;
}

}  // namespace takt
