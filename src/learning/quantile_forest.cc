#include "takt/learning/quantile_forest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "learning/pack.h"
#include "takt/base/exact_math.h"
#include "takt/base/faults.h"
#include "takt/base/random.h"
#include "takt/numeric/correlation.h"
#include "takt/numeric/quantile.h"

namespace takt {
namespace {

constexpr std::size_t kBins = 256;
constexpr std::size_t kMostFeatures = 254;
constexpr std::size_t kMostTrees = 10'000, kMostLeafLabels = 1000;
constexpr std::size_t kTail = 8;  // pooled labels that estimate the tail beyond them

absl::Status Checked(const ForestData& data, const ForestOptions& o) {
  const auto invalid = [](const std::string& text) { return absl::InvalidArgumentError("forest: " + text); };
  const std::size_t rows = data.rows();
  if (rows == 0) return invalid("there are no rows to learn from");
  if (data.numbers.size() != rows * data.numeric || data.names.size() != rows * data.categories) {
    return invalid("the number of features does not match that of labels, " + std::to_string(rows));
  }
  if (!data.groups.empty() && data.groups.size() != rows)
    return invalid("some rows lack a group; expected one per row");
  if (data.numeric + data.categories > kMostFeatures) return invalid("more than 254 features");
  for (std::size_t i = 0; i < rows; ++i) {
    if (data.labels[i] >= 0 && std::isfinite(data.labels[i])) continue;
    return invalid("the label of row " + std::to_string(i) + " is no length: " + std::to_string(data.labels[i]));
  }
  if (rows > std::numeric_limits<std::uint32_t>::max()) return invalid("more than 2^32 - 1 rows");
  Faults faults;
  faults.ExpectOptions(o, "forest: ");
  return faults.ToStatus();
}

// Returns a bound x between a and b with a <= x < b.
float Midpoint(float a, float b) {
  const auto middle = static_cast<float>(0.5 * (static_cast<double>(a) + static_cast<double>(b)));
  return middle >= a && middle < b ? middle : a;
}

// Returns the number of ascending bounds below x.
std::uint8_t BinOf(std::span<const float> bounds, float x) {
  const float* at = bounds.data();
  std::size_t n = bounds.size();
  while (n > 0) {  // branches would be mispredicted
    const std::size_t half = (n + 1) / 2;
    at += at[half - 1] < x ? half : 0;
    n -= half;
  }
  return static_cast<std::uint8_t>(at - bounds.data());
}

// Finds the order statistics `want` (ascending) of ranks below 2^16. Counts the high bits, then the low bits of ranks
// that share the high bits of a wanted one.
template <std::size_t N>
void Select(std::span<const std::uint16_t> ranks, int shift, const std::array<std::size_t, N>& want,
            std::array<std::uint16_t, N>& got) {
  std::array<std::uint32_t, kBins> coarse{};
  for (const std::uint16_t rank : ranks) ++coarse[static_cast<std::size_t>(rank >> shift)];
  std::array<std::uint8_t, kBins> place;
  place.fill(N);
  std::array<std::size_t, N> before, cell;
  std::uint8_t places = 0;
  for (std::size_t i = 0, bin = 0, passed = 0; i < N; ++i) {
    while (passed + coarse[bin] <= want[i]) passed += coarse[bin++];
    if (place[bin] == N) place[bin] = places++;
    cell[i] = bin;
    before[i] = passed;
  }
  if (shift == 0) {
    for (std::size_t i = 0; i < N; ++i) got[i] = static_cast<std::uint16_t>(cell[i]);
    return;
  }
  std::array<std::array<std::uint32_t, kBins>, N + 1> fine;  // the last row takes all other ranks
  for (std::size_t i = 0; i < places; ++i) fine[i].fill(0);
  const unsigned mask = (1u << shift) - 1;
  for (const std::uint16_t rank : ranks) ++fine[place[static_cast<std::size_t>(rank >> shift)]][rank & mask];
  for (std::size_t i = 0; i < N; ++i) {
    std::size_t low = 0, passed = before[i];
    while (passed + fine[place[cell[i]]][low] <= want[i]) passed += fine[place[cell[i]]][low++];
    got[i] = static_cast<std::uint16_t>((cell[i] << shift) | low);
  }
}

double SumOf(std::span<const std::uint16_t> ranks, const std::vector<float>& values) {
  std::array<double, 4> sums{};  // four chains of additions instead of one
  std::size_t i = 0;
  for (; i + 4 <= ranks.size(); i += 4) {
    for (std::size_t k = 0; k < 4; ++k) sums[k] += static_cast<double>(values[ranks[i + k]]);
  }
  for (; i < ranks.size(); ++i) sums[0] += static_cast<double>(values[ranks[i]]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

// --- Training. ---

struct ForestBuilder {
  const ForestData& data;
  const ForestOptions& options;
  QuantileForest& forest;

  std::vector<std::uint8_t> bins = {};  // feature by feature
  std::vector<double> targets = {};     // log(1 + label)
  std::vector<std::uint16_t> ranks = {};  // of labels
  std::vector<std::uint32_t> group_of = {};  // of each row, from 0; empty: each row is a group
  std::size_t group_count = 0;

  using Node = QuantileForest::Node;
  struct Split {
    double gain = 0;
    std::size_t feature = 0, bin = 0;
  };
  struct Tree {
    std::vector<Node> nodes = {};
    std::vector<std::uint16_t> labels = {};
    std::vector<bool> drawn = {};  // by row
    std::size_t leaves = 0;
  };

  // A node of a growing tree: the rows that reach it, and its children or its leaf's number.
  struct Sketch {
    std::size_t begin = 0, end = 0;
    int depth = 0;
    bool leaf = true;
    std::size_t child = 0;
    Split split = {};
  };
  static constexpr std::size_t kNone = SIZE_MAX;
  // Pairs and leaves have 16-bit numbers. In the worst case each cache line holds a single pair.
  static constexpr std::size_t kMostLeaves = 0x7000;

  std::size_t rows() const { return data.rows(); }

  void Prepare(const ParallelFor& parallel) {
    const std::size_t n = rows();
    std::vector<float> sorted = data.labels;
    std::ranges::sort(sorted);
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    constexpr std::size_t kMostKept = 0x10000;
    std::vector<float>& values = forest.values_;
    if (sorted.size() <= kMostKept) {
      values = std::move(sorted);
    } else {
      for (std::size_t i = 0; i < kMostKept; ++i) values.push_back(sorted[i * (sorted.size() - 1) / (kMostKept - 1)]);
    }
    std::map<std::uint64_t, std::uint32_t> numbers;
    for (const std::uint64_t group : data.groups) {
      group_of.push_back(numbers.try_emplace(group, static_cast<std::uint32_t>(numbers.size())).first->second);
    }
    group_count = group_of.empty() ? n : numbers.size();
    targets.resize(n);
    ranks.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      targets[i] = exact::Log1p(static_cast<double>(data.labels[i]));
      ranks[i] = static_cast<std::uint16_t>(std::ranges::lower_bound(values, data.labels[i]) - values.begin());
    }
    forest.numeric_.resize(data.numeric);
    forest.names_.resize(data.categories);
    bins.resize(n * forest.features());
    parallel(forest.features(),
             [this](std::size_t f) { f < data.numeric ? CutNumbers(f) : OrderNames(f - data.numeric); });
  }

  void CutNumbers(std::size_t f) {
    const std::size_t n = rows();
    QuantileForest::NumericFeature& feature = forest.numeric_[f];
    std::vector<float> sorted;
    for (std::size_t i = 0; i < n; ++i) {
      const float x = data.numbers[i * data.numeric + f];
      if (x == x) sorted.push_back(x);
    }
    std::ranges::sort(sorted);
    const bool some_missing = sorted.size() < n;
    const std::size_t most = kBins - 1 - (some_missing ? 1 : 0);
    std::vector<float>& bounds = feature.bounds;
    std::size_t distinct = sorted.empty() ? 0 : 1;
    for (std::size_t i = 1; i < sorted.size(); ++i) distinct += sorted[i] != sorted[i - 1] ? 1u : 0u;
    if (some_missing && !sorted.empty()) bounds.push_back(-std::numeric_limits<float>::infinity());
    const std::size_t step_count = distinct <= most + 1 ? sorted.size() : most + 1;
    for (std::size_t k = 1; k < step_count; ++k) {
      const std::size_t at = k * sorted.size() / step_count;
      const auto below = std::lower_bound(sorted.begin(), sorted.end(), sorted[at]);  // smaller values end here
      if (below == sorted.begin()) continue;
      const float bound = Midpoint(*(below - 1), sorted[at]);
      if (bounds.empty() || bound > bounds.back()) bounds.push_back(bound);
    }
    if (!some_missing && !sorted.empty()) feature.missing = BinOf(bounds, sorted[sorted.size() / 2]);
    std::uint8_t* out = &bins[f * n];
    for (std::size_t i = 0; i < n; ++i) {
      const float x = data.numbers[i * data.numeric + f];
      out[i] = x == x ? BinOf(bounds, x) : feature.missing;
    }
  }

  void OrderNames(std::size_t c) {
    const std::size_t n = rows();
    QuantileForest::NameFeature& feature = forest.names_[c];
    struct Group {
      std::uint64_t name = 0;
      std::size_t count = 0;
      double sum = 0;
      bool rare = false;
    };
    std::map<std::uint64_t, Group> of_name;
    for (std::size_t i = 0; i < n; ++i) {
      Group& group = of_name[data.names[i * data.categories + c]];
      ++group.count;
      group.sum += targets[i];
    }
    std::vector<Group> groups;
    for (auto& [name, group] : of_name) groups.push_back({name, group.count, group.sum});
    std::ranges::stable_sort(groups, std::greater{}, &Group::count);
    Group rare{.rare = true};
    for (; groups.size() > kBins - 2; groups.pop_back()) {
      rare.count += groups.back().count;
      rare.sum += groups.back().sum;
    }
    if (rare.count > 0) groups.push_back(rare);
    std::ranges::stable_sort(groups, {}, [](const Group& g) { return g.sum / static_cast<double>(g.count); });
    feature.other = static_cast<std::uint8_t>(groups.size() / 2);
    std::vector<std::pair<std::uint64_t, std::uint8_t>> places;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (groups[g].rare) feature.other = static_cast<std::uint8_t>(g);
      else places.emplace_back(groups[g].name, static_cast<std::uint8_t>(g));
    }
    std::ranges::sort(places);
    for (const auto& [name, bin] : places) {
      feature.names.push_back(name);
      feature.bins.push_back(bin);
    }
    std::uint8_t* out = &bins[(data.numeric + c) * n];
    for (std::size_t i = 0; i < n; ++i) out[i] = BinOfName(feature, data.names[i * data.categories + c]);
  }

  static std::uint8_t BinOfName(const QuantileForest::NameFeature& feature, std::uint64_t name) {
    const auto at = std::ranges::lower_bound(feature.names, name);
    if (at == feature.names.end() || *at != name) return feature.other;
    return feature.bins[static_cast<std::size_t>(at - feature.names.begin())];
  }

  struct Cell {
    double sum = 0;
    std::uint32_t count = 0;
  };
  struct Histogram {
    std::array<Cell, kBins> cells{};
    std::array<std::uint64_t, 4> used{};  // bit by bin: small nodes use few
  };

  // Rows of a node, and the features for its split.
  struct Work {
    std::vector<std::uint32_t> rows = {};
    std::vector<double> targets = {};
    std::vector<std::uint32_t> spare_rows = {};
    std::vector<double> spare_targets = {};
    Histogram histogram = {};
    std::vector<std::size_t> order = {};  // of features
  };

  // Finds the best split of [begin, end) by one feature if it beats `best`. Returns false if the feature is constant.
  bool TryFeature(Work& w, std::size_t begin, std::size_t end, std::size_t feature, double sum, Split& best) const {
    const std::uint8_t* column = &bins[feature * rows()];
    Histogram& h = w.histogram;
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint8_t bin = column[w.rows[i]];
      h.cells[bin].sum += w.targets[i];
      ++h.cells[bin].count;
      h.used[bin / 64] |= std::uint64_t{1} << (bin % 64);
    }
    const auto n = static_cast<double>(end - begin);
    const auto least = static_cast<std::size_t>(options.min_leaf);
    std::size_t left = 0, cells = 0;
    double left_sum = 0;
    for (std::size_t word = 0; word < h.used.size(); ++word) {
      for (std::uint64_t bits = std::exchange(h.used[word], 0); bits != 0; bits &= bits - 1) {
        const std::size_t bin = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
        const Cell cell = std::exchange(h.cells[bin], {});
        ++cells;
        left += cell.count;
        left_sum += cell.sum;
        if (left < least || end - begin - left < least) continue;
        const auto left_n = static_cast<double>(left);
        const double right_sum = sum - left_sum;
        const double gain = left_sum * left_sum / left_n + right_sum * right_sum / (n - left_n) - sum * sum / n;
        if (gain > best.gain) best = {gain, feature, bin};
      }
    }
    return cells > 1;
  }

  Split BestSplit(Work& w, std::size_t begin, std::size_t end, Random& random) const {
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += w.targets[i];
    // Gains below rounding errors do not count.
    Split best{.gain = 1e-9 * (1 + sum * sum / static_cast<double>(end - begin))};
    const double floor = best.gain;
    const std::size_t features = forest.features();
    const auto tries = static_cast<std::size_t>(std::ceil(options.feature_share * static_cast<double>(features)));
    for (std::size_t i = 0, tried = 0; i < features && tried < tries; ++i) {
      std::swap(w.order[i], w.order[i + random.Below(features - i)]);
      tried += TryFeature(w, begin, end, w.order[i], sum, best) ? 1u : 0u;
    }
    if (best.gain <= floor) best.gain = 0;
    return best;
  }

  // Partitions the rows stably. Returns the start of the right side.
  std::size_t Part(Work& w, std::size_t begin, std::size_t end, const Split& split) const {
    const std::uint8_t* column = &bins[split.feature * rows()];
    std::size_t left = begin, right = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const bool goes_left = column[w.rows[i]] <= split.bin;
      w.spare_rows[right] = w.rows[i];
      w.spare_targets[right] = w.targets[i];
      w.rows[left] = w.rows[i];
      w.targets[left] = w.targets[i];
      left += goes_left ? 1 : 0;
      right += goes_left ? 0 : 1;
    }
    std::copy_n(w.spare_rows.begin(), right, w.rows.begin() + static_cast<std::ptrdiff_t>(left));
    std::copy_n(w.spare_targets.begin(), right, w.targets.begin() + static_cast<std::ptrdiff_t>(left));
    return left;
  }

  void Leaf(Tree& tree, const Work& w, std::size_t begin, std::size_t end) const {
    std::vector<std::uint16_t> all;
    for (std::size_t i = begin; i < end; ++i) all.push_back(ranks[w.rows[i]]);
    std::ranges::sort(all);
    const std::size_t kept = forest.leaf_labels_;
    for (std::size_t k = 0; k < kept; ++k) tree.labels.push_back(all[(2 * k + 1) * all.size() / (2 * kept)]);
  }

  // Groups pairs of siblings by cache line: a pair, and below it the pairs that most rows reach.
  void Arrange(Tree& tree, const std::vector<Sketch>& old) const {
    constexpr std::size_t kLine = 64 / sizeof(Node);
    const auto weight = [&](std::size_t pair) { return old[pair + 1].end - old[pair].begin; };
    std::vector<std::size_t> places(old.size()), order = {0, kNone};  // new place by old, old by new
    std::vector<std::size_t> tops;  // first of the pair that a group begins with
    if (!old[0].leaf) tops.push_back(old[0].child);
    while (!tops.empty()) {
      std::vector<std::size_t> open = {tops.back()}, group;
      tops.pop_back();
      while (!open.empty() && 2 * group.size() < kLine) {
        const auto heaviest = std::ranges::max_element(open, {}, weight);
        group.push_back(*heaviest);
        open.erase(heaviest);
        for (const std::size_t node : {group.back(), group.back() + 1}) {
          if (!old[node].leaf) open.push_back(old[node].child);
        }
      }
      const std::size_t room = kLine - order.size() % kLine;
      if (2 * group.size() > room) order.resize(order.size() + room, kNone);
      for (const std::size_t pair : group) {
        for (const std::size_t node : {pair, pair + 1}) {
          places[node] = order.size();
          order.push_back(node);
        }
      }
      tops.insert(tops.end(), open.rbegin(), open.rend());
    }
    order.resize((order.size() + kLine - 1) / kLine * kLine, kNone);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Sketch node = order[i] == kNone ? Sketch{} : old[order[i]];
      tree.nodes.push_back(node.leaf ? Node{0, QuantileForest::kLeaf, static_cast<std::uint16_t>(node.child)}
                                     : Node{static_cast<std::uint8_t>(node.split.feature),
                                            static_cast<std::uint8_t>(node.split.bin),
                                            static_cast<std::uint16_t>(places[node.child] / 2)});
    }
  }

  // Nodes are made level by level. Arrange sets their final order.
  Tree Grow(std::uint64_t number) const {
    const std::size_t n = rows();
    Random random(Mix64(options.seed) ^ number);
    Tree tree;
    std::vector<std::uint32_t> times(group_count);
    for (std::size_t i = 0; i < group_count; ++i) ++times[random.Below(group_count)];
    Work w;
    tree.drawn.resize(n);
    for (std::uint32_t row = 0; row < n; ++row) {
      const std::uint32_t copies = times[group_of.empty() ? row : group_of[row]];
      tree.drawn[row] = copies > 0;
      w.rows.insert(w.rows.end(), copies, row);
      w.targets.insert(w.targets.end(), copies, targets[row]);
    }
    w.spare_rows.resize(w.rows.size());
    w.spare_targets.resize(w.rows.size());
    w.order.resize(forest.features());
    std::iota(w.order.begin(), w.order.end(), std::size_t{0});

    std::vector<Sketch> nodes = {{.end = w.rows.size()}};
    std::size_t leaves = 1;
    for (std::size_t at = 0; at < nodes.size(); ++at) {
      const Sketch node = nodes[at];
      Split split;
      const bool large = node.end - node.begin >= 2 * static_cast<std::size_t>(options.min_leaf);
      if (large && node.depth < options.max_depth && leaves < kMostLeaves) {
        split = BestSplit(w, node.begin, node.end, random);
      }
      if (!(split.gain > 0)) {
        nodes[at].child = tree.leaves++;
        Leaf(tree, w, node.begin, node.end);
        continue;
      }
      ++leaves;
      const std::size_t middle = Part(w, node.begin, node.end, split);
      nodes[at].leaf = false;
      nodes[at].child = nodes.size();
      nodes[at].split = split;
      nodes.push_back({.begin = node.begin, .end = middle, .depth = node.depth + 1});
      nodes.push_back({.begin = middle, .end = node.end, .depth = node.depth + 1});
    }
    Arrange(tree, nodes);
    return tree;
  }

  void Append(const Tree& tree) {
    forest.roots_.push_back(static_cast<std::uint32_t>(forest.nodes_.size()));
    forest.first_leaves_.push_back(static_cast<std::uint32_t>(forest.labels_.size() / forest.leaf_labels_));
    forest.nodes_.insert(forest.nodes_.end(), tree.nodes.begin(), tree.nodes.end());
    forest.labels_.insert(forest.labels_.end(), tree.labels.begin(), tree.labels.end());
    const auto leaves = static_cast<std::int64_t>(tree.leaves);
    forest.report_.leaves += leaves;
    forest.report_.nodes += 2 * leaves - 1;
  }

  // Predicts each row by the trees that did not train on it. Sets the map of means and the report.
  void Calibrate(const std::vector<std::vector<bool>>& drawn, const ParallelFor& parallel) {
    const std::size_t n = rows(), features = forest.features();
    const std::size_t count = std::min(n, static_cast<std::size_t>(options.out_of_bag_rows));
    std::vector<Estimate> predicted(count);
    std::vector<double> labels(count), medians(count);
    constexpr std::size_t kChunk = 64;
    parallel((count + kChunk - 1) / kChunk, [&](std::size_t chunk) {
      std::vector<std::uint8_t> row(features + 1);
      std::vector<std::uint16_t> pooled, spare;
      for (std::size_t k = chunk * kChunk; k < std::min(count, (chunk + 1) * kChunk); ++k) {
        const std::size_t i = k * n / count;
        for (std::size_t f = 0; f < features; ++f) row[f] = bins[f * n + i];
        pooled.clear();
        for (std::size_t t = 0; t < drawn.size(); ++t) {
          if (drawn[t][i]) continue;
          std::uint32_t leaf = 0;
          forest.Leaves(row.data(), 1, row.size(), t, t + 1, &leaf);
          const std::uint16_t* from = &forest.labels_[leaf * forest.leaf_labels_];
          pooled.insert(pooled.end(), from, from + forest.leaf_labels_);
        }
        predicted[k] = forest.Predicted(pooled, -1, false, spare);
        labels[k] = static_cast<double>(data.labels[i]);
        medians[k] = predicted[k].known() ? predicted[k].Quantile(0.5) : std::numeric_limits<double>::quiet_NaN();
      }
    });
    Report(predicted, labels, medians);
    MapMeans(predicted, labels);
  }

  void Report(const std::vector<Estimate>& predicted, const std::vector<double>& labels,
              const std::vector<double>& medians) {
    ForestReport& report = forest.report_;
    for (std::size_t k = 0; k < predicted.size(); ++k) {
      if (!predicted[k].known()) continue;
      ++report.checked;
      for (std::size_t l = 0; l < report.coverage.size(); ++l) {
        const auto quantile = static_cast<double>(predicted[k].quantiles[l]);
        report.coverage[l] += labels[k] < quantile ? 1 : labels[k] == quantile ? 0.5 : 0;
      }
    }
    if (report.checked == 0) return;
    for (std::size_t l = 0; l < report.coverage.size(); ++l) {
      report.coverage[l] /= static_cast<double>(report.checked);
      report.calibration_error += std::abs(report.coverage[l] - Estimate::kLevels[l]);
    }
    report.calibration_error /= static_cast<double>(report.coverage.size());
    report.tau_distance = CountPairs(labels, medians).distance();
  }

  // Isotonic regression of labels on pooled means over groups of neighbours (pool adjacent violators).
  void MapMeans(const std::vector<Estimate>& predicted, const std::vector<double>& labels) {
    std::vector<std::pair<double, double>> pairs;
    for (std::size_t k = 0; k < predicted.size(); ++k) {
      if (predicted[k].known()) pairs.emplace_back(predicted[k].mean, labels[k]);
    }
    std::ranges::sort(pairs);
    constexpr std::size_t kGroups = 32, kLeast = 64;
    const std::size_t groups = std::min(kGroups, pairs.size() / kLeast);
    struct Block {
      double raw = 0, mean = 0, weight = 0;
    };
    std::vector<Block> blocks;
    for (std::size_t g = 0; g < groups; ++g) {
      Block block;
      for (std::size_t k = g * pairs.size() / groups; k < (g + 1) * pairs.size() / groups; ++k) {
        block.raw += pairs[k].first;
        block.mean += pairs[k].second;
        ++block.weight;
      }
      block.raw /= block.weight;
      block.mean /= block.weight;
      while (!blocks.empty() && blocks.back().mean >= block.mean) {
        const Block& b = blocks.back();
        const double weight = b.weight + block.weight;
        block.raw = (block.raw * block.weight + b.raw * b.weight) / weight;
        block.mean = (block.mean * block.weight + b.mean * b.weight) / weight;
        block.weight = weight;
        blocks.pop_back();
      }
      blocks.push_back(block);
    }
    for (const Block& b : blocks) {
      if (!(b.raw > 0) || (!forest.raw_means_.empty() && !(b.raw > forest.raw_means_.back()))) continue;
      forest.raw_means_.push_back(b.raw);
      forest.means_.push_back(b.mean);
    }
  }
};

absl::StatusOr<std::shared_ptr<const QuantileForest>> QuantileForest::Train(const ForestData& data,
                                                                            const ForestOptions& options,
                                                                            const ParallelFor& parallel,
                                                                            const Progress& progress) {
  if (absl::Status status = Checked(data, options); !status.ok()) return status;
  const auto forest = std::make_shared<QuantileForest>();
  forest->leaf_labels_ = static_cast<std::size_t>(options.leaf_labels);
  ForestBuilder builder{data, options, *forest};
  builder.Prepare(parallel);
  const auto trees = static_cast<std::size_t>(options.trees);
  constexpr std::size_t kAtOnce = 32;
  std::vector<std::vector<bool>> drawn;
  for (std::size_t done = 0; done < trees; done += kAtOnce) {
    if (progress && !progress(static_cast<double>(done) / static_cast<double>(trees))) {
      return absl::CancelledError("forest: training was stopped");
    }
    std::vector<ForestBuilder::Tree> grown(std::min(kAtOnce, trees - done));
    parallel(grown.size(), [&](std::size_t i) { grown[i] = builder.Grow(done + i); });
    for (ForestBuilder::Tree& tree : grown) {
      builder.Append(tree);
      drawn.push_back(std::move(tree.drawn));
    }
  }
  forest->report_.rows = static_cast<std::int64_t>(data.rows());
  builder.Calibrate(drawn, parallel);
  return forest;
}

// --- Prediction. ---

void QuantileForest::Bins(const ForestRow& row, std::uint8_t* bins) const {
  for (std::size_t f = 0; f < numeric_.size(); ++f) {
    const float x = f < row.numbers.size() ? row.numbers[f] : std::numeric_limits<float>::quiet_NaN();
    bins[f] = x == x ? BinOf(numeric_[f].bounds, x) : numeric_[f].missing;
  }
  for (std::size_t c = 0; c < names_.size(); ++c) {
    bins[numeric_.size() + c] = ForestBuilder::BinOfName(names_[c], c < row.names.size() ? row.names[c] : 0);
  }
}

void QuantileForest::Leaves(const std::uint8_t* bins, std::size_t rows, std::size_t stride, std::size_t first,
                            std::size_t last, std::uint32_t* leaves) const {
  // Descends with many lanes in parallel, level by level, and prefetches a lane's next node during the turns of the
  // others. Uses arithmetic instead of branches, because a row's path is unpredictable. Finished lanes leave the list.
  constexpr std::size_t kLanes = 64;
  struct Lane {
    std::uint32_t root, at;  // in nodes_
    std::uint32_t x;  // of its row in bins
    std::uint32_t place;  // in leaves
  };
  std::array<Lane, kLanes> lanes;
  const Node* const nodes = nodes_.data();
  const std::size_t all = (last - first) * rows;
  std::size_t tree = first, row = 0;
  for (std::size_t begin = 0; begin < all; begin += kLanes) {
    const std::size_t end = std::min(begin + kLanes, all);
    for (std::size_t i = begin; i < end; ++i) {
      lanes[i - begin] = {roots_[tree], roots_[tree], static_cast<std::uint32_t>(row * stride),
                          static_cast<std::uint32_t>(i)};
      if (++row == rows) row = 0, ++tree;
    }
    for (std::size_t n = end - begin; n > 0;) {
      std::size_t left = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const Lane lane = lanes[i];
        const Node node = nodes[lane.at];
        const std::uint32_t above = (std::uint32_t{node.bin} - bins[lane.x + node.feature]) >> 31;
        const std::uint32_t next = lane.root + 2u * node.child + above;
        leaves[lane.place] = node.child;  // the last one counts: the leaf's number
        __builtin_prefetch(nodes + next);  // of a leaf: somewhere
        lanes[left] = {lane.root, next, lane.x, lane.place};
        left += 1 - ((node.bin + 1u) >> 8);
      }
      n = left;
    }
    for (std::size_t i = begin; i < end; ++i) {
      leaves[i] += first_leaves_[first + i / rows];
      __builtin_prefetch(&labels_[leaves[i] * leaf_labels_], 0, 2);
    }
  }
}

double QuantileForest::Calibrated(double mean) const {
  if (raw_means_.empty()) return mean;
  const auto at = std::ranges::lower_bound(raw_means_, mean);
  if (at == raw_means_.begin()) return mean * (means_.front() / raw_means_.front());
  if (at == raw_means_.end()) return mean * (means_.back() / raw_means_.back());
  const auto i = static_cast<std::size_t>(at - raw_means_.begin());
  const double share = (mean - raw_means_[i - 1]) / (raw_means_[i] - raw_means_[i - 1]);
  return means_[i - 1] + (means_[i] - means_[i - 1]) * share;
}

Estimate QuantileForest::Predicted(std::span<const std::uint16_t> ranks, double known, bool calibrate,
                                   std::vector<std::uint16_t>& some) const {
  if (ranks.empty()) return {};
  const std::size_t n = ranks.size();
  const double pooled = SumOf(ranks, values_) / static_cast<double>(n);
  Estimate e{.mean = calibrate ? Calibrated(pooled) : pooled};
  std::span<const std::uint16_t> beyond = ranks;
  if (known >= 0) {
    some.clear();
    const auto bound = std::ranges::upper_bound(values_, known, {}, [](float v) { return static_cast<double>(v); });
    const auto least = bound - values_.begin();
    std::ranges::copy_if(ranks, std::back_inserter(some), [least](std::uint16_t r) { return r >= least; });
    if (some.size() < kTail) {
      some.assign(ranks.begin(), ranks.end());
      std::ranges::sort(some, std::greater{});
      const std::size_t top = std::min(kTail, n);
      const double next = n > top ? static_cast<double>(values_[some[top]]) : 0;
      const double excess = SumOf(std::span(some).first(top), values_) / static_cast<double>(top) - next;
      e.mean = std::max(excess, 1.0);
      for (std::size_t l = 0; l < e.quantiles.size(); ++l) {
        e.quantiles[l] = static_cast<float>(-exact::Log1p(-Estimate::kLevels[l]) * e.mean);
      }
      return e;
    }
    beyond = some;
    const double raw = SumOf(beyond, values_) / static_cast<double>(beyond.size());
    const double scaled = pooled > 0 ? raw * (e.mean / pooled) : raw;
    e.mean = (scaled > known ? scaled : raw) - known;
  }

  constexpr std::size_t kLevels = Estimate::kLevels.size();
  std::array<std::size_t, 2 * kLevels> want;
  std::array<std::uint16_t, 2 * kLevels> got;
  std::array<double, kLevels> shares;
  for (std::size_t l = 0; l < kLevels; ++l) {
    const auto [below, share] = internal::RankOf(Estimate::kLevels[l], beyond.size(), QuantileKind::kLinear);
    want[2 * l] = below;
    want[2 * l + 1] = std::min(below + 1, beyond.size() - 1);
    shares[l] = share;
  }
  // With few ranks, the lower rank of one level may come before the upper rank of the level below.
  std::array<std::size_t, 2 * kLevels> ascending = want;
  std::ranges::sort(ascending);
  const int shift = std::max(0, static_cast<int>(std::bit_width(values_.size() - 1)) - 8);
  Select(beyond, shift, ascending, got);
  const auto at = [&](std::size_t position) {
    const auto i = static_cast<std::size_t>(std::ranges::lower_bound(ascending, position) - ascending.begin());
    return static_cast<double>(values_[got[i]]);
  };
  for (std::size_t l = 0; l < kLevels; ++l) {
    const double value = internal::Between(at(want[2 * l]), at(want[2 * l + 1]), shares[l]);
    e.quantiles[l] = static_cast<float>(known >= 0 ? value - known : value);
  }
  return e;
}

void QuantileForest::Predict(std::span<const ForestRow> rows, std::span<const double> known, std::span<Estimate> out,
                             ForestScratch& scratch) const {
  constexpr std::size_t kAtOnce = 64;  // their bins and leaves stay in the first cache
  constexpr auto kUsualLabels = static_cast<std::size_t>(ForestOptions{}.leaf_labels);
  for (std::size_t from = 0; from < rows.size(); from += kAtOnce) {
    const std::size_t n = std::min(kAtOnce, rows.size() - from);
    scratch.bins.resize(std::max(scratch.bins.size(), n * features() + 1));
    scratch.leaves.resize(std::max(scratch.leaves.size(), n * trees()));
    for (std::size_t i = 0; i < n; ++i) Bins(rows[from + i], &scratch.bins[i * features()]);
    scratch.ranks.resize(trees() * leaf_labels_);
    Leaves(scratch.bins.data(), n, features(), 0, trees(), scratch.leaves.data());
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t* const leaves = &scratch.leaves[i];
      std::uint16_t* to = scratch.ranks.data();
      for (std::size_t t = 0; t < trees(); ++t, to += leaf_labels_) {
        const std::uint16_t* labels = &labels_[leaves[t * n] * leaf_labels_];
        if (leaf_labels_ == kUsualLabels) std::copy_n(labels, kUsualLabels, to);  // one instruction instead of a call
        else std::copy_n(labels, leaf_labels_, to);
      }
      out[from + i] = Predicted(scratch.ranks, known.empty() ? -1 : known[from + i], true, scratch.spare);
    }
  }
}

Estimate QuantileForest::Predict(const ForestRow& row, ForestScratch& scratch, double known) const {
  Estimate e;
  Predict(std::span(&row, 1), std::span(&known, 1), std::span(&e, 1), scratch);
  return e;
}

void QuantileForest::Quantiles(const ForestRow& row, std::span<const double> p, std::span<double> out,
                               ForestScratch& scratch) const {
  Predict(row, scratch);  // leaves the pooled ranks
  std::vector<double> values;
  for (const std::uint16_t rank : scratch.ranks) values.push_back(static_cast<double>(values_[rank]));
  std::ranges::sort(values);
  for (std::size_t i = 0; i < p.size(); ++i) out[i] = QuantileOfSorted(values, p[i]);
}

// --- Files. ---

struct ForestFile {
  static constexpr std::string_view kMagic = "takt forest ";
  static constexpr std::uint32_t kVersion = 2;
  using Node = QuantileForest::Node;

  static std::string Save(const QuantileForest& f) {
    internal::Packer out(kMagic, kVersion);
    out.Put(static_cast<std::uint64_t>(f.numeric_.size()));
    for (const auto& feature : f.numeric_) {
      out.Put(feature.bounds);
      out.Put(feature.missing);
    }
    out.Put(static_cast<std::uint64_t>(f.names_.size()));
    for (const auto& feature : f.names_) {
      out.Put(feature.names);
      out.Put(feature.bins);
      out.Put(feature.other);
    }
    out.Put(f.roots_);
    out.Put(f.first_leaves_);
    out.Put(static_cast<std::uint64_t>(f.leaf_labels_));
    out.Put(static_cast<std::uint64_t>(f.nodes_.size()));
    for (const Node& node : f.nodes_) {
      out.Put(node.feature);
      out.Put(node.bin);
      out.Put(node.child);
    }
    out.Put(f.labels_);
    out.Put(f.values_);
    out.Put(f.raw_means_);
    out.Put(f.means_);
    const ForestReport& r = f.report_;
    for (const std::int64_t x : {r.rows, r.nodes, r.leaves, r.checked}) out.Put(x);
    for (const double x : r.coverage) out.Put(x);
    out.Put(r.calibration_error);
    out.Put(r.tau_distance);
    return out.Take();
  }

  static absl::StatusOr<std::shared_ptr<const QuantileForest>> Load(std::string_view bytes) {
    auto in = internal::Unpacker::Open(bytes, kMagic, kVersion, "a forest");
    if (!in.ok()) return in.status();
    const auto forest = std::make_shared<QuantileForest>();
    QuantileForest& f = *forest;
    for (auto n = in->Get<std::uint64_t>(); n > 0 && in->ok(); --n) {
      auto& feature = f.numeric_.emplace_back();
      in->Get(feature.bounds);
      feature.missing = in->Get<std::uint8_t>();
    }
    for (auto n = in->Get<std::uint64_t>(); n > 0 && in->ok(); --n) {
      auto& feature = f.names_.emplace_back();
      in->Get(feature.names);
      in->Get(feature.bins);
      feature.other = in->Get<std::uint8_t>();
    }
    in->Get(f.roots_);
    in->Get(f.first_leaves_);
    f.leaf_labels_ = in->Get<std::uint64_t>();
    for (auto n = in->Get<std::uint64_t>(); n > 0 && in->ok(); --n) {
      auto& node = f.nodes_.emplace_back();
      node.feature = in->Get<std::uint8_t>();
      node.bin = in->Get<std::uint8_t>();
      node.child = in->Get<std::uint16_t>();
    }
    in->Get(f.labels_);
    in->Get(f.values_);
    in->Get(f.raw_means_);
    in->Get(f.means_);
    ForestReport& r = f.report_;
    for (std::int64_t* x : {&r.rows, &r.nodes, &r.leaves, &r.checked}) *x = in->Get<std::int64_t>();
    for (double& x : r.coverage) x = in->Get<double>();
    r.calibration_error = in->Get<double>();
    r.tau_distance = in->Get<double>();
    if (!in->done() || !Sound(f)) return absl::DataLossError("the file of a forest is damaged: sizes differ");
    return forest;
  }

  // Checks that prediction ends and stays within the read data.
  static bool Sound(const QuantileForest& f) {
    for (const auto& feature : f.numeric_) {
      if (feature.bounds.size() >= kBins || !std::ranges::is_sorted(feature.bounds)) return false;
    }
    for (const auto& feature : f.names_) {
      if (feature.bins.size() != feature.names.size() || !std::ranges::is_sorted(feature.names)) return false;
    }
    if (f.roots_.empty() || f.values_.empty() || f.values_.size() > 0x10000) return false;
    const auto length = [](float v) { return v >= 0 && std::isfinite(v); };
    if (!std::ranges::is_sorted(f.values_) || !std::ranges::all_of(f.values_, length)) return false;
    const std::size_t trees = f.roots_.size();
    if (trees > kMostTrees || f.leaf_labels_ > kMostLeafLabels) return false;
    if (f.first_leaves_.size() != trees || f.leaf_labels_ == 0 || f.labels_.empty()) return false;
    if (f.features() > kMostFeatures || f.labels_.size() % f.leaf_labels_ != 0) return false;
    const std::size_t leaves = f.labels_.size() / f.leaf_labels_;
    for (std::size_t t = 0; t < trees; ++t) {
      const std::size_t begin = f.roots_[t], end = t + 1 < trees ? f.roots_[t + 1] : f.nodes_.size();
      if (begin >= end || end > f.nodes_.size()) return false;
      for (std::size_t i = 0; i < end - begin; ++i) {
        const Node& node = f.nodes_[begin + i];
        const std::size_t child = 2 * std::size_t{node.child};
        const bool leaf = node.bin == QuantileForest::kLeaf;
        if (leaf && (node.feature != 0 || f.first_leaves_[t] + std::size_t{node.child} >= leaves)) return false;
        if (!leaf && (node.feature >= f.features() || child <= i || child + 1 >= end - begin)) return false;
      }
    }
    if (!std::ranges::all_of(f.labels_, [&](std::uint16_t rank) { return rank < f.values_.size(); })) return false;
    if (f.raw_means_.size() != f.means_.size()) return false;
    for (std::size_t i = 0; i < f.means_.size(); ++i) {
      if (!(f.raw_means_[i] > (i > 0 ? f.raw_means_[i - 1] : 0)) || !(f.means_[i] >= 0)) return false;
    }
    return true;
  }
};

std::string QuantileForest::Save() const { return ForestFile::Save(*this); }

absl::StatusOr<std::shared_ptr<const QuantileForest>> QuantileForest::Load(std::string_view bytes) {
  return ForestFile::Load(bytes);
}

}  // namespace takt
