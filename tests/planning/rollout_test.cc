// Changes of plans, step by step. Capacity stays above the need, or the answer names the shortage.
#include "takt/planning/rollout.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "catch.h"
#include "fmt/format.h"
#include "scale.h"
#include "takt/base/random.h"

namespace takt {
namespace {

std::size_t At(int i) { return static_cast<std::size_t>(i); }

// Walks the steps. GPUs are held from the beginning of a start to the end of a stop. Requests are served from the end
// of a start to the beginning of a stop.
void CheckSteps(const RolloutProblem& problem, const Rollout& rollout) {
  std::vector<int> used(problem.gpus.size());
  std::vector<double> rate(problem.needed.size());
  std::vector<int> runs;
  for (const RolloutReplicas& r : problem.replicas) {
    used[At(r.gpu_class)] += r.from * r.gpus;
    rate[At(r.model)] += r.from * r.rate;
    runs.push_back(r.from);
  }
  std::vector<double> least = rate;
  double clock = 0;
  for (const RolloutStep& step : rollout.steps) {
    const RolloutReplicas& r = problem.replicas[At(step.replicas)];
    CHECK(step.begin_s == clock);
    CHECK(step.end_s == clock + (step.start ? r.start_s : r.stop_s));
    clock = step.end_s;
    runs[At(step.replicas)] += step.start ? 1 : -1;
    if (step.start) {
      used[At(r.gpu_class)] += r.gpus;
      CHECK(used[At(r.gpu_class)] <= problem.gpus[At(r.gpu_class)]);
      rate[At(r.model)] += r.rate;
    } else {
      rate[At(r.model)] -= r.rate;
      used[At(r.gpu_class)] -= r.gpus;
    }
    for (std::size_t i = 0; i < rate.size(); ++i) {
      least[i] = std::min(least[i], rate[i]);
      CHECK(rate[i] >= rollout.floor[i] - 1e-6);
    }
  }
  CHECK(rollout.seconds == clock);
  int changes = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    CHECK(runs[i] == problem.replicas[i].to);
    changes += std::abs(problem.replicas[i].to - problem.replicas[i].from);
  }
  CHECK(std::cmp_equal(rollout.steps.size(), changes));  // none is touched twice
  for (std::size_t i = 0; i < least.size(); ++i) CHECK(rollout.least[i] == Approx(least[i]).margin(1e-9));
}

// Returns true if any order exists.
bool Possible(const RolloutProblem& problem, const std::vector<double>& floor) {
  std::map<std::vector<int>, bool> known;
  const std::function<bool(const std::vector<int>&)> reach = [&](const std::vector<int>& runs) -> bool {
    std::vector<int> used(problem.gpus.size());
    std::vector<double> rate(problem.needed.size());
    bool done = true;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const RolloutReplicas& r = problem.replicas[i];
      used[At(r.gpu_class)] += runs[i] * r.gpus;
      rate[At(r.model)] += runs[i] * r.rate;
      done = done && runs[i] == r.to;
    }
    for (std::size_t k = 0; k < used.size(); ++k) {
      if (used[k] > problem.gpus[k]) return false;
    }
    for (std::size_t i = 0; i < rate.size(); ++i) {
      if (rate[i] < floor[i] - 1e-6) return false;
    }
    if (done) return true;
    if (const auto at = known.find(runs); at != known.end()) return at->second;
    bool can = false;
    for (std::size_t i = 0; i < runs.size() && !can; ++i) {
      const RolloutReplicas& r = problem.replicas[i];
      if (runs[i] == r.to) continue;
      std::vector<int> next = runs;
      next[i] += r.to > r.from ? 1 : -1;
      can = reach(next);
    }
    return known[runs] = can;
  };
  std::vector<int> runs;
  for (const RolloutReplicas& r : problem.replicas) runs.push_back(r.from);
  return reach(runs);
}

RolloutProblem RandomProblem(Random& random, int most, int spare) {
  RolloutProblem problem;
  const std::size_t models = 1 + random.Below(3);
  const std::size_t classes = 1 + random.Below(2);
  std::vector<int> before(classes), after(classes);
  const std::size_t kinds = 2 + random.Below(5);
  std::vector<double> rates(models), to_rates(models);
  for (std::size_t i = 0; i < kinds; ++i) {
    RolloutReplicas r{.name = fmt::format("r{}", i), .model = static_cast<int>(random.Below(models))};
    r.gpu_class = static_cast<int>(random.Below(classes));
    r.gpus = 1 << random.Below(4);
    r.rate = r.gpus * (0.5 + random.Uniform());
    r.from = static_cast<int>(random.Below(static_cast<std::uint64_t>(most)));
    r.to = static_cast<int>(random.Below(static_cast<std::uint64_t>(most)));
    r.start_s = 2 + 18 * random.Uniform();
    r.stop_s = random.Uniform();
    before[At(r.gpu_class)] += r.from * r.gpus;
    after[At(r.gpu_class)] += r.to * r.gpus;
    rates[At(r.model)] += r.from * r.rate;
    to_rates[At(r.model)] += r.to * r.rate;
    problem.replicas.push_back(r);
  }
  for (std::size_t k = 0; k < classes; ++k) {
    problem.gpus.push_back(std::max(before[k], after[k]) + static_cast<int>(random.Below(At(spare))));
  }
  for (std::size_t i = 0; i < models; ++i) {
    problem.needed.push_back(std::min(rates[i], to_rates[i]) * (0.3 + 0.8 * random.Uniform()));
  }
  return problem;
}

TEST_CASE("a full cluster stops small replicas to start a large one") {
  // 8 GPUs: 8 replicas of one GPU are replaced by one of four GPUs. Six of the small replicas must be up at any time.
  RolloutProblem problem{.replicas = {{.name = "tp1", .gpus = 1, .rate = 1, .from = 8, .to = 4},
                                      {.name = "tp4", .gpus = 4, .rate = 5, .from = 0, .to = 1}},
                         .gpus = {8},
                         .needed = {4}};
  const auto rollout = PlanRollout(problem);
  REQUIRE(rollout.ok());
  REQUIRE(rollout->status == RolloutStatus::kFound);
  CHECK(rollout->steps ==
        std::vector<RolloutStep>{
            {0, false, 0, 0}, {0, false, 0, 0}, {0, false, 0, 0}, {0, false, 0, 0}, {1, true, 0, 20}});
  CHECK(rollout->least == std::vector<double>{4});
  CheckSteps(problem, *rollout);

  problem.needed = {6};
  const auto blocked = PlanRollout(problem);
  REQUIRE(blocked.ok());
  CHECK(blocked->status == RolloutStatus::kImpossible);
  CHECK(blocked->steps.empty());
  CHECK(blocked->missing_gpus == std::vector<int>{2});
  CHECK(blocked->share == Approx(0.66));  // 4 of 6
  problem.gpus = {10};
  CHECK(PlanRollout(problem)->status == RolloutStatus::kFound);
}

TEST_CASE("a model makes room for another, in steps if needed") {
  // Model 0 must hand 4 GPUs to model 1, which must first replace its large replica by a smaller one.
  const RolloutProblem problem{.replicas = {{.name = "a4", .model = 0, .gpus = 4, .rate = 4, .from = 2, .to = 1},
                                            {.name = "b4", .model = 1, .gpus = 4, .rate = 4, .from = 1, .to = 0},
                                            {.name = "b8", .model = 1, .gpus = 8, .rate = 9, .from = 0, .to = 1}},
                               .gpus = {12},
                               .needed = {4, 4}};
  const auto rollout = PlanRollout(problem);
  REQUIRE(rollout.ok());
  CHECK(rollout->status == RolloutStatus::kImpossible);  // 8 GPUs are free only after b4 has stopped
  CHECK(rollout->missing_gpus == std::vector<int>{4});
}

TEST_CASE("small changes agree with every order") {
  Random random(21);
  int found = 0;
  const std::int64_t cases = Scaled(2'000);
  for (std::int64_t i = 0; i < cases; ++i) {
    CAPTURE(i);
    RolloutProblem problem = RandomProblem(random, 4, 6);
    const auto rollout = PlanRollout(problem);
    REQUIRE(rollout.ok());
    const bool possible = Possible(problem, rollout->floor);
    REQUIRE(rollout->status == (possible ? RolloutStatus::kFound : RolloutStatus::kImpossible));
    if (possible) {
      ++found;
      CheckSteps(problem, *rollout);
      continue;
    }
    // The reported shortage is sufficient and minimal.
    const std::vector<int> gpus = problem.gpus;
    for (std::size_t k = 0; k < gpus.size(); ++k) problem.gpus[k] = gpus[k] + rollout->missing_gpus[k];
    CHECK(Possible(problem, rollout->floor));
    for (std::size_t k = 0; k < gpus.size(); ++k) {
      if (rollout->missing_gpus[k] == 0) continue;
      --problem.gpus[k];
      CHECK_FALSE(Possible(problem, rollout->floor));
      ++problem.gpus[k];
    }
    problem.gpus = gpus;
    const auto scaled = [&](double share) {
      std::vector<double> floor = rollout->floor;
      for (double& rate : floor) rate *= share;
      return Possible(problem, floor);
    };
    CHECK(scaled(rollout->share));
    CHECK_FALSE(scaled(rollout->share + 0.01));
  }
  CHECK(found > cases / 3);
  CHECK(found < cases);
}

TEST_CASE("large changes succeed as far as the search goes") {
  Random random(22);
  int found = 0;
  for (std::int64_t i = 0; i < Scaled(100); ++i) {
    CAPTURE(i);
    RolloutProblem problem = RandomProblem(random, 40, 30);
    problem.most_states = 2'000;
    const auto rollout = PlanRollout(problem);
    REQUIRE(rollout.ok());
    if (rollout->status != RolloutStatus::kFound) {
      for (std::size_t k = 0; k < problem.gpus.size(); ++k) problem.gpus[k] += rollout->missing_gpus[k];
      CHECK(PlanRollout(problem)->status == RolloutStatus::kFound);
      continue;
    }
    ++found;
    CheckSteps(problem, *rollout);
  }
  CHECK(found > Scaled(100) / 2);
}

TEST_CASE("a need beyond both plans prevents any change") {
  const RolloutProblem problem{
      .replicas = {{.name = "r", .gpus = 1, .rate = 2, .from = 3, .to = 4}}, .gpus = {4}, .needed = {100}};
  const auto rollout = PlanRollout(problem);
  REQUIRE(rollout.ok());
  CHECK(rollout->status == RolloutStatus::kFound);
  CHECK(rollout->floor == std::vector<double>{6});
  // No steps are needed.
  const auto same =
      PlanRollout({.replicas = {{.name = "r", .rate = 2, .from = 3, .to = 3}}, .gpus = {3}, .needed = {6}});
  REQUIRE(same.ok());
  CHECK(same->status == RolloutStatus::kFound);
  CHECK(same->steps.empty());
  CHECK(PlanRollout({})->status == RolloutStatus::kFound);
}

TEST_CASE("an invalid problem is refused with all its faults") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const RolloutProblem problem{.replicas = {{.name = "a", .model = 1, .gpus = 0, .rate = nan, .start_s = -1},
                                            {.name = "b", .gpu_class = 2, .from = -1},
                                            {.name = "c", .gpus = 4, .from = 2, .to = 3}},
                               .gpus = {7},
                               .needed = {nan},
                               .most_states = 0};
  const std::string faults(problem.Validate().message());
  for (const char* part : {"a: the model is unknown", "a: gpus", "a: the rate", "a: times",
                           "b: the class of GPUs is unknown", "b: from and to", "running replicas take 8 GPUs",
                           "planned replicas take 12 GPUs", "model 0: the needed rate", "most_states"}) {
    CAPTURE(part, faults);
    CHECK(faults.find(part) != std::string::npos);
  }
  CHECK(PlanRollout(problem).status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace takt
