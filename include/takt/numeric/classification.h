// Measures of the quality of predicted probabilities.
#ifndef TAKT_NUMERIC_CLASSIFICATION_H_
#define TAKT_NUMERIC_CLASSIFICATION_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"
#include "takt/config.h"

namespace takt {

// Sorts outcomes by descending score, and returns the mean precision over the true outcomes; 0 if no outcome is true.
// Ties keep their order.
inline double AveragePrecision(std::span<const double> scores, std::span<const std::uint8_t> outcomes) {
  TAKT_ASSERT(scores.size() == outcomes.size());
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(
      order, [&](std::size_t a, std::size_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  double found = 0, sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (outcomes[order[i]] == 0) continue;
    ++found;
    sum += found / static_cast<double>(i + 1);
  }
  return found > 0 ? sum / found : 0;
}

// Returns the mean of -ln p for the predicted probability p, at least 10^-15, of the actual outcome.
inline double CrossEntropy(std::span<const double> scores, std::span<const std::uint8_t> outcomes) {
  TAKT_ASSERT(scores.size() == outcomes.size());
  double sum = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    sum -= exact::Log(std::max(outcomes[i] != 0 ? scores[i] : 1 - scores[i], 1e-15));
  }
  return scores.empty() ? 0 : sum / static_cast<double>(scores.size());
}

// A bin of a reliability plot: predicted probability and observed frequency.
struct ReliabilityBin {
  std::int64_t count = 0;
  double score = 0;  // mean score in the bin
  double share = 0;  // share of true outcomes in the bin
};

// Returns bins of equal width over 0 .. 1, including empty ones.
inline std::vector<ReliabilityBin> Reliability(std::span<const double> scores, std::span<const std::uint8_t> outcomes,
                                               std::size_t bins = 10) {
  TAKT_ASSERT(scores.size() == outcomes.size());
  std::vector<ReliabilityBin> all(bins);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double at = std::clamp(scores[i], 0.0, 1.0) * static_cast<double>(bins);
    ReliabilityBin& bin = all[std::min(static_cast<std::size_t>(at), bins - 1)];
    ++bin.count;
    bin.score += scores[i];
    bin.share += outcomes[i] != 0 ? 1 : 0;
  }
  for (ReliabilityBin& bin : all) {
    if (bin.count == 0) continue;
    bin.score /= static_cast<double>(bin.count);
    bin.share /= static_cast<double>(bin.count);
  }
  return all;
}

// Returns the expected calibration error: the mean of |score - share|, weighted by count.
inline double ExpectedCalibrationError(std::span<const ReliabilityBin> bins) {
  double sum = 0, count = 0;
  for (const ReliabilityBin& bin : bins) {
    sum += Rounded(static_cast<double>(bin.count) * std::abs(bin.score - bin.share));
    count += static_cast<double>(bin.count);
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace takt

#endif  // TAKT_NUMERIC_CLASSIFICATION_H_
