// The runs of a scenario: conditions, each under the same seeds, and how they compare seed by seed.
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

// Of every engine of a study, unless the paper tells another: vLLM's customary limits of a step.
inline constexpr StepLimits kStepLimits{.tokens = {2048}, .max_seqs = 256};

// Seeds count from the first; the runs of each setup have them all.
struct SeedRange {
  int count = 1;
  int first = 1;

  // Where the results of a seed stand.
  std::size_t IndexOf(std::uint64_t seed) const { return seed - static_cast<std::uint64_t>(first); }
  std::uint64_t At(std::size_t index) const { return index + static_cast<std::uint64_t>(first); }
};

// Setup: what is run, an equality; Figures: what came of it, in doubles.
template <class Setup, class Figures>
struct Cell {
  Setup setup;
  std::vector<Figures> seeds;  // empty: not all of them have ended

  bool complete() const { return !seeds.empty(); }
  double Mean(double Figures::* figure) const { return MomentsOf(figure).mean(); }
  double Deviation(double Figures::* figure) const { return MomentsOf(figure).deviation(); }

 private:
  Moments MomentsOf(double Figures::* figure) const {
    Moments moments;
    for (const Figures& seed : seeds) moments.Add(seed.*figure);
    return moments;
  }
};

// A mean with its 95 % confidence interval by Student's t.
struct Interval {
  double mean = 0, low = 0, high = 0;
};
inline Interval IntervalOf(const Moments& m) {
  const auto n = static_cast<double>(m.count());
  const double around =
      n > 1 ? StudentQuantile(0.975, n - 1) * m.deviation() / std::sqrt(n) : std::numeric_limits<double>::infinity();
  return {m.mean(), m.mean() - around, m.mean() + around};
}

// By how much `ours` is lower than `other`, in % of other, over paired seeds.
struct Reduction : Interval {
  double p = 1;  // of a paired t test of the figures themselves, two-sided
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

// The other way round: by how much `ours` is higher.
inline Reduction Increase(const Reduction& r) { return {{-r.mean, -r.high, -r.low}, r.p}; }

template <class Setup, class Figures>
class Study {
 public:
  using CellType = Cell<Setup, Figures>;

  explicit Study(SeedRange seeds) : seeds_(seeds) {}

  // The cell of these conditions, which is made where there is none.
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

  // Null where it is not complete, or was never added. Valid until the next Add.
  const CellType* Find(const Setup& setup) const {
    const auto found = std::ranges::find(cells_, setup, &CellType::setup);
    return found != cells_.end() && found->complete() ? &*found : nullptr;
  }

  // Nothing where one of them is not complete.
  std::optional<Reduction> Compare(const Setup& ours, const Setup& other, double Figures::* figure) const {
    const CellType *a = Find(ours), *b = Find(other);
    if (a == nullptr || b == nullptr) return std::nullopt;
    return ReductionOf(*a, *b, figure);
  }

  // run(setup, seed, progress): absl::StatusOr<std::optional<Figures>>, nothing where it was stopped; seeds count from
  // the first. Called from several threads. The first error; after an interrupt some cells stay incomplete.
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
