#include "takt/planning/rollout.h"

#include "takt/base/faults.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "fmt/format.h"

namespace takt {
namespace {

std::size_t At(int i) { return static_cast<std::size_t>(i); }

// Tolerance for comparing sums of rates with a floor.
constexpr double kSlack = 1e-9;

class Search {
 public:
  Search(const RolloutProblem& problem, std::vector<double> floor, std::vector<int> more_gpus)
      : problem_(problem), floor_(std::move(floor)), free_(problem.gpus), rate_(floor_.size()) {
    for (std::size_t k = 0; k < free_.size(); ++k) free_[k] += more_gpus[k];
    for (const RolloutReplicas& r : problem.replicas) {
      free_[At(r.gpu_class)] -= r.from * r.gpus;
      rate_[At(r.model)] += r.from * r.rate;
      left_.push_back(std::abs(r.to - r.from));
      steps_left_ += left_.back();
    }
    for (std::size_t i = 0; i < problem.replicas.size(); ++i) order_.push_back(static_cast<int>(i));
    // Tries starts first, and large replicas before small ones, because large gaps are rarest.
    std::ranges::stable_sort(order_, [&](int a, int b) {
      const RolloutReplicas& x = problem.replicas[At(a)];
      const RolloutReplicas& y = problem.replicas[At(b)];
      return std::pair(Starts(x) ? 0 : 1, -x.gpus) < std::pair(Starts(y) ? 0 : 1, -y.gpus);
    });
  }

  RolloutStatus Run() {
    next_.assign(1, 0);
    while (steps_left_ > 0) {
      if (Advance()) continue;
      dead_.insert(left_);
      if (path_.empty()) return RolloutStatus::kImpossible;
      if (std::cmp_greater_equal(dead_.size(), problem_.most_states)) return RolloutStatus::kUnknown;
      Apply(path_.back(), -1);
      path_.pop_back();
      next_.pop_back();
    }
    return RolloutStatus::kFound;
  }

  const std::vector<int>& path() const { return path_; }  // kinds of replicas, once per step

 private:
  static bool Starts(const RolloutReplicas& r) { return r.to > r.from; }

  // Takes one more step to a state that no search has failed from. Returns false if there is none.
  bool Advance() {
    for (std::size_t& next = next_.back(); next < order_.size();) {
      const int kind = order_[next++];
      if (left_[At(kind)] == 0 || !Allowed(problem_.replicas[At(kind)])) continue;
      Apply(kind, 1);
      if (dead_.contains(left_)) {
        Apply(kind, -1);
        continue;
      }
      path_.push_back(kind);
      next_.push_back(0);
      return true;
    }
    return false;
  }

  bool Allowed(const RolloutReplicas& r) const {
    if (Starts(r)) return free_[At(r.gpu_class)] >= r.gpus;
    const double floor = floor_[At(r.model)];
    return rate_[At(r.model)] - r.rate >= floor - kSlack * std::max(1.0, floor);
  }

  // Takes a step. With -1, undoes it.
  void Apply(int kind, int times) {
    const RolloutReplicas& r = problem_.replicas[At(kind)];
    const int more = Starts(r) ? times : -times;
    left_[At(kind)] -= times;
    steps_left_ -= times;
    free_[At(r.gpu_class)] -= more * r.gpus;
    rate_[At(r.model)] += more * r.rate;
  }

  const RolloutProblem& problem_;
  std::vector<double> floor_;
  std::vector<int> free_;
  std::vector<double> rate_;
  std::vector<int> left_;  // remaining steps of each kind: the state
  int steps_left_ = 0;
  std::vector<int> order_;
  std::vector<int> path_;
  std::vector<std::size_t> next_;  // by depth, the next index in `order_`
  std::set<std::vector<int>> dead_;
};

std::vector<double> RatesOf(const RolloutProblem& problem, int RolloutReplicas::* count) {
  std::vector<double> rates(problem.needed.size());
  for (const RolloutReplicas& r : problem.replicas) rates[At(r.model)] += r.*count * r.rate;
  return rates;
}

void Unroll(const RolloutProblem& problem, const std::vector<int>& path, Rollout& rollout) {
  std::vector<double> rate = RatesOf(problem, &RolloutReplicas::from);
  rollout.least = rate;
  for (const int kind : path) {
    const RolloutReplicas& r = problem.replicas[At(kind)];
    const bool start = r.to > r.from;
    const double end = rollout.seconds + (start ? r.start_s : r.stop_s);
    rollout.steps.push_back({kind, start, rollout.seconds, end});
    rollout.seconds = end;
    rate[At(r.model)] += start ? r.rate : -r.rate;
    rollout.least[At(r.model)] = std::min(rollout.least[At(r.model)], rate[At(r.model)]);
  }
}

// Returns the fewest additional GPUs per class. Begins with enough for every start before any stop, then reduces each
// class in turn.
std::vector<int> MissingGpus(const RolloutProblem& problem, const std::vector<double>& floor) {
  std::vector<int> more(problem.gpus.size());
  for (const RolloutReplicas& r : problem.replicas) more[At(r.gpu_class)] += std::max(0, r.to - r.from) * r.gpus;
  for (int& of_class : more) {
    int low = -1, high = of_class;  // low: not enough
    while (high - low > 1) {
      of_class = low + (high - low) / 2;
      if (Search(problem, floor, more).Run() == RolloutStatus::kFound) high = of_class;
      else low = of_class;
    }
    of_class = high;
  }
  return more;
}

double ShareOf(const RolloutProblem& problem, const std::vector<double>& floor) {
  int low = 0, high = 100;  // %; high: too much
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    std::vector<double> less = floor;
    for (double& rate : less) rate *= middle / 100.0;
    if (Search(problem, less, std::vector<int>(problem.gpus.size())).Run() == RolloutStatus::kFound) low = middle;
    else high = middle;
  }
  return low / 100.0;
}

}  // namespace

absl::Status RolloutProblem::Validate() const {
  Faults faults;
  const auto expect = [&faults](bool fine, std::string_view what, std::string_view wish) {
    if (!fine) faults.Add(fmt::format("{}: {}", what, wish));
  };
  const auto finite = [](double x) { return std::isfinite(x) && x >= 0; };
  std::vector<std::int64_t> before(gpus.size()), after(gpus.size());
  for (const RolloutReplicas& r : replicas) {
    const bool known = r.gpu_class >= 0 && At(r.gpu_class) < gpus.size();
    expect(r.model >= 0 && At(r.model) < needed.size(), r.name, "the model is unknown");
    expect(known, r.name, "the class of GPUs is unknown");
    expect(r.gpus >= 1 && r.gpus <= 1 << 20, r.name, "gpus must be 1 to 1048576");
    expect(r.from >= 0 && r.to >= 0 && r.from <= 1 << 20 && r.to <= 1 << 20, r.name,
           "from and to must be 0 to 1048576");
    expect(finite(r.rate), r.name, "the rate must not be negative");
    expect(finite(r.start_s) && finite(r.stop_s), r.name, "times must not be negative");
    if (!known) continue;
    before[At(r.gpu_class)] += std::int64_t{r.from} * r.gpus;
    after[At(r.gpu_class)] += std::int64_t{r.to} * r.gpus;
  }
  for (std::size_t k = 0; k < gpus.size(); ++k) {
    expect(gpus[k] >= 0 && gpus[k] <= 1 << 20, fmt::format("class {}", k), "gpus must be 0 to 1048576");
    expect(before[k] <= gpus[k], fmt::format("class {}", k), fmt::format("running replicas take {} GPUs", before[k]));
    expect(after[k] <= gpus[k], fmt::format("class {}", k), fmt::format("planned replicas take {} GPUs", after[k]));
  }
  for (std::size_t i = 0; i < needed.size(); ++i) {
    expect(finite(needed[i]), fmt::format("model {}", i), "the needed rate must not be negative");
  }
  expect(most_states >= 1, "most_states", "must be at least 1");
  return faults.ToStatus();
}

absl::StatusOr<Rollout> PlanRollout(const RolloutProblem& problem) {
  if (absl::Status status = problem.Validate(); !status.ok()) return status;
  Rollout rollout;
  const std::vector<double> before = RatesOf(problem, &RolloutReplicas::from);
  const std::vector<double> after = RatesOf(problem, &RolloutReplicas::to);
  for (std::size_t i = 0; i < problem.needed.size(); ++i) {
    rollout.floor.push_back(std::min({problem.needed[i], before[i], after[i]}));
  }
  Search search(problem, rollout.floor, std::vector<int>(problem.gpus.size()));
  rollout.status = search.Run();
  if (rollout.status == RolloutStatus::kFound) {
    Unroll(problem, search.path(), rollout);
    return rollout;
  }
  rollout.missing_gpus = MissingGpus(problem, rollout.floor);
  rollout.share = ShareOf(problem, rollout.floor);
  return rollout;
}

}  // namespace takt
