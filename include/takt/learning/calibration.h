// Corrects predicted output lengths by the actual lengths of finished calls.
#ifndef TAKT_LEARNING_CALIBRATION_H_
#define TAKT_LEARNING_CALIBRATION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/model/estimate.h"
#include "takt/numeric/summary.h"

namespace takt {

// Errors of predictions. Mean actual and mean predicted lengths are compared per octave of the prediction.
struct CalibrationError {
  std::int64_t count = 0;
  double bias = 0;  // ln(sum of actual / sum of predicted); positive: predictions are too small overall
  double by_octave = 0;  // |ln(mean actual / mean predicted)| per octave, averaged over the predictions
  double spread = 0;  // standard deviation of ln(actual / predicted), which calibration does not reduce
};

// Accumulates errors in constant memory. Invalid lengths are ignored; lengths below 1 count as 1.
class CalibrationCheck {
 public:
  void Observe(double predicted, double actual);
  CalibrationError error() const;

 private:
  struct Octave {
    double count = 0, predicted = 0, actual = 0;
  };
  std::array<Octave, 50> octaves_{};  // octaves of lengths up to 1e15
  Moments errors_;  // moments of ln(actual / predicted)
};

// Returns a posterior mean and quantiles for a prediction, given the tokens that the workflow has generated. Generated
// tokens help most if predictions are weak, such as class means.
//
// The table has a row per half-octave of the prediction and a column per octave of generated tokens. The table has
// three layers. Each layer is shrunk towards the previous one:
// - a line that maps ln(predicted) to ln(actual), initially the identity
// - per row, the ratio of the actual length to the line
// - per cell, the ratio of the actual length to row x column
//
// The prior has the weight of 8 times the squared coefficient of variation, clamped to 1 to 64 observations. A larger
// prediction never gives a smaller result: rows are made monotone by pooling adjacent violators (Ayer et al., 1955;
// Zadrozny and Elkan, KDD 2002). Between rows, the result is interpolated linearly in logarithms. Quantiles are
// log-normal, with the row's variance of ln(actual / predicted).
//
// An observation counts as at most e^reach times the expected mean, with reach = max(3, 4 standard deviations of
// ln(actual / predicted)). A cell's sums are halved at `window`. If the newest errors differ from the earlier ones
// (Kolmogorov-Smirnov, p below `drift_p`), the earlier ones are forgotten.
//
// Known bias: short calls end first and are learnt first. Deterministic. About 60 KB. Observe does not allocate. It
// rebuilds the table every 8 to 256 observations, in about 30 us.
class Calibration {
 public:
  struct Options {
    std::int64_t window = 2048;  // observations at which a cell's sums are halved; at least 2
    double drift_p = 1e-6;  // significance level of the test for drift; 0: no test
  };

  Calibration() : Calibration(Options{}) {}
  explicit Calibration(const Options& options);

  // Returns the calibrated estimate; unknown if the prediction is unknown. `predicted`: mean of the prediction
  // [tokens]. `generated`: tokens that the workflow has generated before.
  Estimate Expect(double predicted, double generated) const;

  // Adds an observation [tokens]; ignored if `predicted` or `actual` is not a valid length. `again`: a call of the same
  // workflow was observed before. The test for drift ignores such observations, since errors within a workflow are
  // correlated.
  void Observe(double predicted, double generated, double actual, bool again = false);

  std::int64_t observations() const { return observations_; }  // number of observations since the last drift
  std::int64_t drifts() const { return drifts_; }

 private:
  static constexpr std::size_t kRows = 42;  // number of rows, one per half-octave of tokens up to 2^20.5 and beyond
  // number of columns, by generated tokens: 0, below 16, then octaves up to 2^19 and beyond
  static constexpr std::size_t kColumns = 18;
  static constexpr std::size_t kRecent = 512;  // maximum observations in the test for drift
  static constexpr std::size_t kNewest = 128;  // newest observations, which the test for drift compares with the others
  static constexpr std::size_t kTestEvery = 32;

  struct Sums {
    double count = 0, predicted = 0, actual = 0;
    double error = 0, error_squares = 0;  // sums of ln(actual / predicted) and of its square

    void Add(const Sums& more, double share = 1);
    double SquaresAboutMean() const;
  };
  // Sums of a regression of errors on x = ln(predicted).
  struct Line {
    double count = 0, x = 0, error = 0, xx = 0, x_error = 0, error_squares = 0;
  };
  struct Pair {
    double predicted = 0, generated = 0, actual = 0;
  };
  // Results for a column: ln(mean) at each row's row_at_, and each row's variance of errors.
  struct Curve {
    std::array<double, kRows> log_mean{}, variance{};
  };

  static std::size_t RowOf(double log_predicted);
  static std::size_t ColumnOf(double generated);
  Sums& cell(std::size_t column, std::size_t row) { return cells_[column * kRows + row]; }
  void Learn(const Pair& seen);
  bool Drifted();
  void ForgetAllButNewest();
  void Rebuild();
  double LogMean(double log_predicted, std::size_t column) const;

  Options options_;
  std::vector<Sums> cells_;  // sums of each cell, by column, then row
  Line line_;
  std::int64_t observations_ = 0, drifts_ = 0, rebuild_at_ = 0;
  std::size_t kept_ = 0;  // number of observations in the test for drift
  std::vector<Pair> recent_;  // ring buffer; the next observation goes to kept_ % kRecent
  std::vector<double> newest_, before_;  // errors that the test for drift compares
  // Results of Rebuild.
  double slope_ = 1, deviation_ = 0;
  std::array<double, kRows> row_at_{};  // ln(mean predicted) of each row
  std::vector<Curve> columns_;
};

}  // namespace takt

#endif  // TAKT_LEARNING_CALIBRATION_H_
