// A quantile random forest: predicts the distribution of a row's label from similar training rows.
#ifndef TAKT_LEARNING_QUANTILE_FOREST_H_
#define TAKT_LEARNING_QUANTILE_FOREST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/parallel.h"
#include "takt/base/spec.h"
#include "takt/model/estimate.h"

namespace takt {

namespace internal {

// Allocates memory that starts at a cache line.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}  // NOLINT: rebinding is implicit

  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kLine); }
  friend bool operator==(LineAllocator, LineAllocator) { return true; }
};

}  // namespace internal

// Training rows, each with `numeric` and `categories` features and a label.
struct ForestData {
  std::size_t numeric = 0;  // number of numeric features per row; NaN: unknown
  std::size_t categories = 0;  // number of features per row whose values are names; 0 is a name like any other

  std::vector<float> numbers = {};  // numeric features, row by row
  std::vector<std::uint64_t> names = {};  // names, row by row
  std::vector<float> labels = {};          // label of each row, at least 0
  // Group of each row; a tree trains on all rows of a group or on none. Empty: each row is its own group. Without
  // groups, the report is too optimistic if rows depend on each other, such as calls of one workflow.
  std::vector<std::uint64_t> groups = {};

  std::size_t rows() const { return labels.size(); }
};

struct ForestRow {
  std::span<const float> numbers = {};
  std::span<const std::uint64_t> names = {};
};

struct ForestOptions {
  int trees = 100;
  int min_leaf = 10;  // minimum rows per leaf; with half of the default, memory doubles and ranking does not improve
  int max_depth = 32;
  double feature_share = 1.0 / 3;  // share of features tried per split (Breiman's value for regression)
  int leaf_labels = 8;  // number of labels stored per leaf, evenly spaced by rank; 8 labels take 16 bytes
  int out_of_bag_rows = 4096;  // number of rows for calibrating the mean and for the report
  std::uint64_t seed = 1;

  template <class Self, class List>
  static constexpr auto ListOptions(Self& self, List&& list) {
    return list(Option("trees", self.trees, {.least = 1, .most = 10'000}),
                Option("min_leaf", self.min_leaf, {.least = 1}), Option("max_depth", self.max_depth, {.most = 1000}),
                Option("feature_share", self.feature_share, {.least = 1e-9, .most = 1}),
                Option("leaf_labels", self.leaf_labels, {.least = 1, .most = 1000}),
                Option("out_of_bag_rows", self.out_of_bag_rows));
  }
};

// Errors of a forest on out-of-bag rows: each row is predicted by the trees that left out its group.
struct ForestReport {
  std::int64_t rows = 0, nodes = 0, leaves = 0;
  std::int64_t checked = 0;  // number of examined rows that some tree left out
  std::array<double, 5> coverage = {};  // share of labels at or below the quantile of Estimate::kLevels[i]
  double calibration_error = 0;  // mean of |coverage - level| over the levels; a tied label counts half
  double tau_distance = 0;  // Kendall's distance between medians and labels, 0 to 1; 0.5: random order
};

// Working memory of one predicting thread. After warm-up it does not grow.
struct ForestScratch {
  std::vector<std::uint16_t> ranks = {}, spare = {};
  std::vector<std::uint8_t> bins = {};
  std::vector<std::uint32_t> leaves = {};
};

// Immutable, so any number of threads may share it.
//
// Training: each tree grows from a bootstrap sample of the groups, until its leaves are small. A split tries
// feature_share of the features and takes the one that most reduces the variance of log(1 + label), because lengths
// have heavy tails. Numeric features have at most 256 bins: one per value if there are few values, otherwise quantiles.
// Names are ordered once by the mean of their labels (Wright and Koenig, 2019). All names but the 254 most frequent
// share a bin.
//
// Unknown values: a new name counts as a rare name. If no name is rare, a new name counts as the middle name. NaN has
// its own bin if training had NaN. Otherwise NaN counts as the median.
//
// Prediction: the labels of the row's leaves are pooled over the trees with equal weights (Meinshausen, 2006).
// Quantiles are linear between ranks (type 7). The pooled mean is corrected by isotonic regression on out-of-bag rows.
class QuantileForest {
 public:
  // Trains a forest, which does not depend on `parallel`. InvalidArgument: no rows, sizes that do not match, an invalid
  // option, or a negative or NaN label; the message names the first such label. Cancelled: `progress` returned false.
  static absl::StatusOr<std::shared_ptr<const QuantileForest>> Train(const ForestData& data,
                                                                     const ForestOptions& options = {},
                                                                     const ParallelFor& parallel = SerialFor,
                                                                     const Progress& progress = {});

  // Predicts all rows; batches are faster than single rows. `known` is empty, or a lower bound of each label (negative:
  // none). Predictions are then the excess over the bound. If fewer than 8 pooled labels exceed it, the excess is
  // exponential. The mean of the excess is then the mean of the 8 largest labels minus the next smaller label.
  void Predict(std::span<const ForestRow> rows, std::span<const double> known, std::span<Estimate> out,
               ForestScratch& scratch) const;
  Estimate Predict(const ForestRow& row, ForestScratch& scratch, double known = -1) const;

  // Sets the row's quantiles at levels p in [0, 1], without a lower bound.
  void Quantiles(const ForestRow& row, std::span<const double> p, std::span<double> out, ForestScratch& scratch) const;

  // Returns bytes that Load accepts on any machine; they end with a checksum. Load: DataLoss if the bytes are truncated
  // or damaged, InvalidArgument if they are not a forest or of another version.
  std::string Save() const;
  static absl::StatusOr<std::shared_ptr<const QuantileForest>> Load(std::string_view bytes);

  const ForestReport& report() const { return report_; }
  std::size_t numeric() const { return numeric_.size(); }
  std::size_t categories() const { return names_.size(); }
  std::size_t trees() const { return roots_.size(); }

 private:
  friend struct ForestBuilder;
  friend struct ForestFile;

  // A node of 4 bytes. Rows with a bin of `feature` above `bin` go to node 2 * `child` + 1 of the tree, others to node
  // 2 * `child`. Children have larger numbers than their parent. A leaf has bin kLeaf, and its number in `child`.
  struct Node {
    std::uint8_t feature = 0, bin = 0;
    std::uint16_t child = 0;
  };

  static constexpr std::uint8_t kLeaf = 255;  // bin of a leaf, larger than the bin of any split

  struct NumericFeature {
    std::vector<float> bounds = {};  // bounds of bins, ascending; the bin of a value is the number of bounds below it
    std::uint8_t missing = 0;  // bin of NaN
  };
  struct NameFeature {
    std::vector<std::uint64_t> names = {};  // known names, ascending
    std::vector<std::uint8_t> bins = {};  // bin of each name
    std::uint8_t other = 0;  // bin of all other names
  };

  std::size_t features() const { return numeric_.size() + names_.size(); }
  void Bins(const ForestRow& row, std::uint8_t* bins) const;
  // Finds the leaves of each row in trees [first, last), tree by tree, as numbers in the forest. A row has `stride`
  // bins.
  void Leaves(const std::uint8_t* bins, std::size_t rows, std::size_t stride, std::size_t first, std::size_t last,
              std::uint32_t* leaves) const;
  // Returns the estimate from pooled labels. `some` holds the labels above `known`.
  Estimate Predicted(std::span<const std::uint16_t> ranks, double known, bool calibrate,
                     std::vector<std::uint16_t>& some) const;
  double Calibrated(double mean) const;

  std::vector<NumericFeature> numeric_;
  std::vector<NameFeature> names_;
  std::vector<std::uint32_t> roots_;  // index of each tree's root in nodes_
  std::vector<Node, internal::LineAllocator<Node>> nodes_;  // all trees; successive nodes mostly share a cache line
  std::vector<std::uint32_t> first_leaves_;  // number of each tree's first leaf
  std::vector<std::uint16_t> labels_;  // labels of each leaf (leaf_labels_ per leaf), as ranks in values_
  std::size_t leaf_labels_ = 1;
  std::vector<float> values_;  // distinct labels, ascending
  std::vector<double> raw_means_, means_;  // pooled means, ascending, and the corrected value of each
  ForestReport report_;
};

}  // namespace takt

#endif  // TAKT_LEARNING_QUANTILE_FOREST_H_
