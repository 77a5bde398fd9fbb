// A quantile random forest: of each row it answers with the distribution of the labels of rows like it.
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
#include "takt/model/estimate.h"

namespace takt {

namespace internal {

// Begins where a cache line does.
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

// Rows to learn from: `numeric` and `categories` features of each, one after the other, and a label.
struct ForestData {
  std::size_t numeric = 0;     // features of a row; NaN: not known
  std::size_t categories = 0;  // features whose values are names; 0 is one like any other

  std::vector<float> numbers = {};         // rows x numeric
  std::vector<std::uint64_t> names = {};   // rows x categories
  std::vector<float> labels = {};          // of each row: 0 or more
  // Of each row: a tree takes or leaves the rows of a group together. Empty: each row is a group. Where rows tell of
  // each other (calls of one workflow) and have no groups, what the report says is better than new ones will be.
  std::vector<std::uint64_t> groups = {};

  std::size_t rows() const { return labels.size(); }
};

struct ForestRow {
  std::span<const float> numbers = {};
  std::span<const std::uint64_t> names = {};
};

struct ForestOptions {
  int trees = 100;
  int min_leaf = 10;           // rows of a leaf, at least; half of that orders no better, and takes twice the memory
  int max_depth = 32;
  double feature_share = 1.0 / 3;  // of the features, tried for each split (Breiman's for regression)
  int leaf_labels = 8;  // that stand for those of a leaf, evenly spaced by rank: 16 bytes, one look into memory
  int out_of_bag_rows = 4096;  // by which the mean is calibrated and the error told
  std::uint64_t seed = 1;
};

// How well a forest did on rows that it left out, tree by tree (out of bag), with the other rows of their groups.
struct ForestReport {
  std::int64_t rows = 0, nodes = 0, leaves = 0;
  std::int64_t checked = 0;  // rows that were left out of some tree, of those that were looked at
  std::array<double, 5> coverage = {};  // share of labels at or below the quantile of Estimate::kLevels[i]
  double calibration_error = 0;  // mean of |coverage - level| over the levels; a label that ties counts half
  double tau_distance = 0;  // Kendall's, of the medians to the labels: 0 .. 1, 0.5: no better than chance
};

// Room to work in, one for each thread that predicts; it grows to what is needed and then allocates nothing.
struct ForestScratch {
  std::vector<std::uint16_t> ranks = {}, spare = {};
  std::vector<std::uint8_t> bins = {};
  std::vector<std::uint32_t> leaves = {};
};

// Immutable: any number of threads may predict from one.
//
// Trees: each from a bootstrap sample of the groups of rows, grown until leaves are small; a split is the one among
// feature_share of the features that reduces the variance of log(1 + label) most, since lengths have heavy tails.
// Features are cut into at most 256 bins (at the midpoints of their values where they have no more, at quantiles
// otherwise); names are ordered by the mean of their labels, once (Wright and Koenig, 2019), those beyond the 254 most
// frequent are one. A name never seen counts as those rare ones, or as the middle one where there were none; NaN goes
// its own way where there was NaN to learn from, and counts as the median where not.
//
// Prediction: the labels of the leaves that the row falls into, pooled over the trees, each of which
// counts the same (Meinshausen, 2006), and of those any quantile, linear between ranks (type 7). The mean is the
// pooled mean, mapped so that it is right on average for rows that a tree had left out (isotonic regression).
class QuantileForest {
 public:
  // Deterministic: the same whatever `parallel` does. InvalidArgument: no rows, sizes that do not match, labels that
  // are no number or negative (the first is named), or options; Cancelled: `progress` said so.
  static absl::StatusOr<std::shared_ptr<const QuantileForest>> Train(const ForestData& data,
                                                                     const ForestOptions& options = {},
                                                                     const ParallelFor& parallel = SerialFor,
                                                                     const Progress& progress = {});

  // Of `rows.size()` rows at once, which is faster than one by one. `known`: the label is larger than this (nothing
  // known: negative), and what is told is the rest beyond it; empty or one for each row. Beyond all but 8 of the pooled
  // labels the rest is taken as exponential, with the mean by which those 8 exceed the next below.
  void Predict(std::span<const ForestRow> rows, std::span<const double> known, std::span<Estimate> out,
               ForestScratch& scratch) const;
  Estimate Predict(const ForestRow& row, ForestScratch& scratch, double known = -1) const;

  // Any quantile, each p in [0, 1]; nothing known beforehand.
  void Quantiles(const ForestRow& row, std::span<const double> p, std::span<double> out, ForestScratch& scratch) const;

  // Bytes that Load reads on any machine; they end in a checksum. Load: DataLoss where they were cut off or damaged,
  // InvalidArgument where they are something else or of another version.
  std::string Save() const;
  static absl::StatusOr<std::shared_ptr<const QuantileForest>> Load(std::string_view bytes);

  const ForestReport& report() const { return report_; }
  std::size_t numeric() const { return numeric_.size(); }
  std::size_t categories() const { return names_.size(); }
  std::size_t trees() const { return roots_.size(); }

 private:
  friend struct ForestBuilder;
  friend struct ForestFile;

  // 4 bytes. Rows whose bin of `feature` is above `bin` go to node 2 * `child` + 1 of the tree, others to the one
  // before it; both come after their parent. A leaf has the bin kLeaf, above which there is none, and in `child` its
  // number in the tree.
  struct Node {
    std::uint8_t feature = 0, bin = 0;
    std::uint16_t child = 0;
  };

  static constexpr std::uint8_t kLeaf = 255;  // bins end below it where rows part

  struct NumericFeature {
    std::vector<float> bounds = {};  // ascending; bin: how many are below the value
    std::uint8_t missing = 0;  // bin of NaN
  };
  struct NameFeature {
    std::vector<std::uint64_t> names = {};  // ascending
    std::vector<std::uint8_t> bins = {};  // of each
    std::uint8_t other = 0;  // of all others
  };

  std::size_t features() const { return numeric_.size() + names_.size(); }
  void Bins(const ForestRow& row, std::uint8_t* bins) const;
  // Leaves by number in the forest, of the trees from `first` up to `last`, tree by tree, of `rows` rows with `stride`
  // bins.
  void Leaves(const std::uint8_t* bins, std::size_t rows, std::size_t stride, std::size_t first, std::size_t last,
              std::uint32_t* leaves) const;
  // Of pooled labels; `some` is room for those beyond `known`.
  Estimate Predicted(std::span<const std::uint16_t> ranks, double known, bool calibrate,
                     std::vector<std::uint16_t>& some) const;
  double Calibrated(double mean) const;

  std::vector<NumericFeature> numeric_;
  std::vector<NameFeature> names_;
  std::vector<std::uint32_t> roots_;  // of each tree in nodes_
  std::vector<Node, internal::LineAllocator<Node>> nodes_;  // what follows each other mostly shares a cache line
  std::vector<std::uint32_t> first_leaves_;  // of each tree in labels_
  std::vector<std::uint16_t> labels_;  // leaf_labels_ of each leaf: ranks in values_
  std::size_t leaf_labels_ = 1;
  std::vector<float> values_;  // ascending, distinct
  std::vector<double> raw_means_, means_;  // ascending pairs: a pooled mean, and what it stands for
  ForestReport report_;
};

}  // namespace takt

#endif  // TAKT_LEARNING_QUANTILE_FOREST_H_
