// Predictions of lengths made honest: what has followed on predictions like this one, learnt as work ends.
#ifndef TAKT_LEARNING_CALIBRATION_H_
#define TAKT_LEARNING_CALIBRATION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/model/estimate.h"
#include "takt/numeric/summary.h"

namespace takt {

// How far predictions are from what came: by octaves of the prediction, the mean actual against the mean predicted.
struct CalibrationError {
  std::int64_t count = 0;
  double bias = 0;       // ln(sum of actual / sum of predicted): above 0, predictions are too small on the whole
  double by_octave = 0;  // mean over predictions of |ln(mean actual / mean predicted)| of their octave
  double spread = 0;     // standard deviation of ln(actual / predicted): what no calibration by the mean can mend
};

// Adds them up. Constant memory; pairs that are no lengths are left out, lengths below one count as one.
class CalibrationCheck {
 public:
  void Observe(double predicted, double actual);
  CalibrationError error() const;

 private:
  struct Octave {
    double count = 0, predicted = 0, actual = 0;
  };
  std::array<Octave, 50> octaves_{};  // of lengths up to 1e15
  Moments errors_;  // ln(actual / predicted)
};

// Turns a prediction into the mean of what came of predictions like it (a posterior mean), with quantiles, given also
// the tokens that the workflow has generated already: where predictions know little (class means), these tell much.
//
// A table of half-octaves of the prediction by octaves of the tokens generated. Three layers, each drawn towards the
// one before by as many pseudo-observations as its noise asks for (8 times the squared coefficient of variation, 1 to
// 64): a line through the logarithms of what came, which starts as the identity; per row the ratio of sums actual /
// line; per cell the ratio actual / (row x column). Rows, and the rows of each column, are made monotone by pooling
// adjacent violators (Ayer et al., 1955; isotonic calibration: Zadrozny and Elkan, KDD 2002), so that for equal tokens
// generated the larger prediction stays at least as large; between the means of rows the result is linear in
// logarithms. Quantiles are log-normal about the mean, with the variance of ln(actual / predicted) in the row.
//
// An observation counts at most as e^reach times the mean that was expected, reach = max(3, 4 standard deviations of
// ln(actual / predicted)). Cells forget: their sums are halved at `window`. When the newest errors differ from those
// before (Kolmogorov and Smirnov, p below `drift_p`), all is forgotten but the newest.
//
// Bias to know of: what is learnt is learnt from what has ended, and the short ends first.
//
// Deterministic and total. About 60 KB; Observe allocates nothing, and every so often (8 to 256 observations) makes the
// table anew, some 30 microseconds.
class Calibration {
 public:
  struct Options {
    std::int64_t window = 2048;  // observations in a cell at which they count half; at least 2
    double drift_p = 1e-6;  // of the test for drift; 0: never
  };

  Calibration() : Calibration(Options{}) {}
  explicit Calibration(const Options& options);

  // `predicted`: the prediction's mean [tokens]; `generated`: tokens that the workflow has generated before. Unknown
  // where the prediction is.
  Estimate Expect(double predicted, double generated) const;

  // What had been predicted so, then, has come out as `actual` [tokens]. Left out where `predicted` or `actual` is no
  // length. `again`: of the same workflow as one before, with which it is likely to go wrong alike, so that the test
  // for drift does not count it.
  void Observe(double predicted, double generated, double actual, bool again = false);

  std::int64_t observations() const { return observations_; }  // since it last forgot
  std::int64_t drifts() const { return drifts_; }

 private:
  static constexpr std::size_t kRows = 42;  // half-octaves of tokens, up to 2^20.5 and beyond
  static constexpr std::size_t kColumns = 18;  // none, below 16, then octaves up to 2^19 and beyond
  static constexpr std::size_t kRecent = 512;  // observations that the test for drift looks back on
  static constexpr std::size_t kNewest = 128;  // of these, against the rest
  static constexpr std::size_t kTestEvery = 32;

  struct Sums {
    double count = 0, predicted = 0, actual = 0;
    double error = 0, error_squares = 0;  // of ln(actual / predicted)

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
  // Of a column, by row: ln(mean) at row_at_, and the variance of errors.
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
  std::vector<Sums> cells_;  // by column, then row
  Line line_;
  std::int64_t observations_ = 0, drifts_ = 0, rebuild_at_ = 0;
  std::size_t kept_ = 0;  // observations that the test for drift counts
  std::vector<Pair> recent_;  // a ring; the next goes to kept_ % kRecent
  std::vector<double> newest_, before_;  // errors: of the test for drift
  // Made of the above by Rebuild.
  double slope_ = 1, deviation_ = 0;
  std::array<double, kRows> row_at_{};  // ln(mean predicted) of the row
  std::vector<Curve> columns_;
};

}  // namespace takt

#endif  // TAKT_LEARNING_CALIBRATION_H_
