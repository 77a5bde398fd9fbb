// Runs of a scenario: conditions, each with the same seeds, compared seed by seed.
#ifndef TAKT_BENCH_LAB_STUDY_H_
#define TAKT_BENCH_LAB_STUDY_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tool/run/progress_bar.h"
#include "tool/run/runner.h"
#include "takt/model/step.h"
#include "takt/numeric/summary.h"
#include "takt/numeric/ttest.h"

namespace takt::tool {

// Limits of a step for every engine of a study, unless the paper gives others: vLLM's usual ones.
inline constexpr StepLimits kStepLimits{.tokens = {2048}, .max_seqs = 256};

// Seeds are numbered from the first. Every setup runs with all of them.
struct SeedRange {
  int count = 1;
  int first = 1;

  // Index of a seed's results.
  std::size_t IndexOf(std::uint64_t seed) const { return seed - static_cast<std::uint64_t>(first); }
  std::uint64_t At(std::size_t index) const { return index + static_cast<std::uint64_t>(first); }
};

// Mean with its 95 % confidence interval by Student's t.
struct Interval {
  double mean = 0, low = 0, high = 0;
};
inline Interval IntervalOf(const Moments& m) {
  const auto n = static_cast<double>(m.count());
  const double around =
      n > 1 ? StudentQuantile(0.975, n - 1) * m.deviation() / std::sqrt(n) : std::numeric_limits<double>::infinity();
  return {m.mean(), m.mean() - around, m.mean() + around};
}

// Setup: the conditions of a run, comparable by ==. Figures: its results, all doubles.
template <class Setup, class Figures>
struct Cell {
  Setup setup;
  std::vector<Figures> seeds;  // empty: some runs are incomplete

  bool complete() const { return !seeds.empty(); }
  double Mean(double Figures::* figure) const { return MomentsOf(figure).mean(); }
  double Deviation(double Figures::* figure) const { return MomentsOf(figure).deviation(); }
  Interval Of(double Figures::* figure) const { return IntervalOf(MomentsOf(figure)); }

 private:
  Moments MomentsOf(double Figures::* figure) const {
    Moments moments;
    for (const Figures& seed : seeds) moments.Add(seed.*figure);
    return moments;
  }
};

// Reduction of `ours` against `other`, in % of `other`, over paired seeds.
struct Reduction : Interval {
  double p = 1;  // two-sided paired t test of the figures themselves
};

template <class Setup, class Figures>
Reduction ReductionOf(const Cell<Setup, Figures>& ours, const Cell<Setup, Figures>& other, double Figures::* figure) {
  Moments differences, shares;
  for (std::size_t i = 0; i < std::min(ours.seeds.size(), other.seeds.size()); ++i) {
    const double a = ours.seeds[i].*figure, b = other.seeds[i].*figure;
    differences.Add(a - b);
    shares.Add(b != 0 ? 100 * (1 - a / b) : 0);
  }
  const TTest test = PairedTest(differences);
  return {IntervalOf(shares), std::min(1.0, 2 * std::min(test.p_less, test.p_greater))};
}

// Increase of `ours` over `other`, in % of `other`.
inline Reduction Increase(const Reduction& r) { return {{-r.mean, -r.high, -r.low}, r.p}; }

template <class Setup, class Figures>
class Study {
 public:
  using CellType = Cell<Setup, Figures>;

  explicit Study(SeedRange seeds) : seeds_(seeds) {}

  // Returns the cell of these conditions; creates it if it does not exist.
  std::size_t Add(const Setup& setup) {
    const auto found = std::ranges::find(cells_, setup, &CellType::setup);
    const auto index = static_cast<std::size_t>(found - cells_.begin());
    if (found == cells_.end()) cells_.push_back({setup, {}});
    return index;
  }

  const CellType& operator[](std::size_t cell) const { return cells_[cell]; }
  std::size_t size() const { return cells_.size(); }
  int seeds() const { return seeds_.count; }
  const SeedRange& seed_range() const { return seeds_; }

  // Null if the cell is incomplete or was never added. Valid until the next Add.
  const CellType* Find(const Setup& setup) const {
    const auto found = std::ranges::find(cells_, setup, &CellType::setup);
    return found != cells_.end() && found->complete() ? &*found : nullptr;
  }

  // Empty if either cell is incomplete.
  std::optional<Reduction> Compare(const Setup& ours, const Setup& other, double Figures::* figure) const {
    const CellType *a = Find(ours), *b = Find(other);
    if (a == nullptr || b == nullptr) return std::nullopt;
    return ReductionOf(*a, *b, figure);
  }
  // Mean ratio of our figure to the other's over paired seeds. Empty if either cell is incomplete.
  std::optional<Interval> Ratio(const Setup& ours, const Setup& other, double Figures::* figure) const {
    const std::optional<Reduction> r = Compare(ours, other, figure);
    if (!r) return std::nullopt;
    return Interval{1 - r->mean / 100, 1 - r->high / 100, 1 - r->low / 100};
  }

  // Calls run(setup, seed, progress) from several threads, with seeds numbered from the first. `run` returns
  // absl::StatusOr<std::optional<Figures>>: an empty optional if it was stopped. Returns the first error. After an
  // interrupt some cells stay incomplete.
  template <class Run>
  absl::Status RunCells(int threads, std::string_view what, ProgressBar& bar, Run run) {
    const auto seeds = static_cast<std::size_t>(seeds_.count);
    std::vector<std::optional<Figures>> figures(cells_.size() * seeds);
    std::vector<absl::Status> faults(figures.size());
    RunEach(figures.size(), threads, what, bar, [&](std::size_t i, const RunProgress& progress) {
      const std::uint64_t seed = seeds_.At(i % seeds);
      absl::StatusOr<std::optional<Figures>> result = run(cells_[i / seeds].setup, seed, progress);
      faults[i] = result.status();
      if (result.ok()) figures[i] = *result;
    });
    for (const absl::Status& fault : faults) {
      if (!fault.ok()) return fault;
    }
    for (std::size_t c = 0; c < cells_.size(); ++c) {
      std::vector<Figures> all;
      for (std::size_t s = 0; s < seeds; ++s) {
        if (figures[c * seeds + s]) all.push_back(*figures[c * seeds + s]);
      }
      if (all.size() == seeds) cells_[c].seeds = std::move(all);
    }
    return absl::OkStatus();
  }

 private:
  SeedRange seeds_;
  std::vector<CellType> cells_;
};

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_STUDY_H_
