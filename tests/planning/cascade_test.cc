#include "takt/planning/cascade.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "catch.h"
#include "planning/cascade_problems.h"
#include "scale.h"
#include "takt/base/random.h"

namespace takt {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_CASE("the penalty equals the paper's worked example") {
  CHECK(QualityPenalised(11.0, 0.88, 0.90, 0.95, 0.75, 100) == Approx(21.0));
  CHECK(QualityPenalised(11.4, 0.91, 0.90, 0.95, 0.75, 100) == Approx(11.4));
  CHECK(QualityPenalised(12.2, 0.93, 0.90, 0.95, 0.75, 100) == Approx(12.2));
  CHECK(QualityPenalised(5, 0.9, 0.9, 0.9, 0.9, kInf) == 5);
  CHECK(QualityPenalised(5, 0.8, 0.9, 0.9, 0.9, kInf) == kInf);
  // Appendix C
  CHECK(LatencyPenalised(0.9, 10, 12, 5, 15, 100) == -0.9);
  CHECK(LatencyPenalised(0.9, 13, 12, 5, 15, 100) == Approx(-0.9 + 10));
  CHECK(LatencyPenalised(0.9, 13, 12, 5, 15, kInf) == kInf);
}

TEST_CASE("quality is the mean score of accepted answers") {
  CascadeProblem problem = TwoModels();
  problem.sample = {
      {100, {10, 10}, {20, 90}}, {100, {10, 10}, {60, 80}}, {100, {10, 10}, {80, 70}}, {100, {10, 10}, {100, 95}}};
  CascadeOptions options = Quick();
  options.grid = {0, 50, 55, 80, 100, 101};
  const CascadePlanner planner = MustCreate(problem, options);
  CHECK(planner.nadir() == 65);
  CHECK(planner.utopia() == 83.75);
  REQUIRE(planner.routings() == 5);  // 50 and 55 escalate the same request
  const double quality[] = {65, 82.5, 87.5, 85, 83.75};
  const double thresholds[] = {0, 50, 80, 100, 101};
  for (std::size_t r = 0; r < 5; ++r) {
    CHECK(planner.thresholds(r) == std::vector<double>{thresholds[r]});
    CHECK(planner.quality(r) == Approx(quality[r]));
    CHECK(planner.shares(r)[0] == 1);
    CHECK(planner.shares(r)[1] == Approx(0.25 * static_cast<double>(r)));
  }
  CHECK(planner.best_quality() == 87.5);
}

// All thresholds, all allocations.
double Exhaustive(const CascadePlanner& planner, double rate,
                  const std::function<double(double latency, double quality)>& objective) {
  double best = kInf;
  for (std::size_t r = 0; r < planner.routings(); ++r) {
    const LatencyTable table = planner.table().Latencies(planner.RatesOf(r, rate));
    const std::function<double(std::size_t, std::int32_t)> least = [&](std::size_t m, std::int32_t left) {
      if (m == table.models()) return 0.0;
      double latency = kInf;
      for (std::int32_t f = 0; f <= left; ++f)
        latency = std::min(latency, std::max(table.at(m, f), least(m + 1, left - f)));
      return latency;
    };
    if (const double latency = least(0, table.gpus()); latency < kInf) {
      best = std::min(best, objective(latency, planner.quality(r)));
    }
  }
  return best;
}

TEST_CASE("a one-table plan is optimal, and the paper's alternation is no better") {
  int above = 0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    CascadeProblem problem = TwoModels(12);
    problem.models.insert(problem.models.begin() + 1, Llama("8b"));
    problem.sample = Sample(3, 200, seed);
    CascadeOptions options = Quick();
    options.grid = {0, 30, 50, 60, 70, 75, 80, 85, 90, 101};
    options.simulated = 0;
    const CascadePlanner planner = MustCreate(problem, options);
    for (const double load : {0.1, 0.6, 0.95}) {
      for (const double floor : {65.0, 75.0, 80.0}) {
        const double rate = load * planner.SustainableRate(floor);
        for (const double penalty : {100.0, kInf}) {
          const CascadeGoal goal{.quality_floor = floor, .penalty = penalty};
          const auto plan = planner.Plan(goal, rate);
          const double best = Exhaustive(planner, rate, [&](double l, double q) {
            return QualityPenalised(l, q, floor, planner.utopia(), planner.nadir(), penalty);
          });
          INFO("seed " << seed << ", rate " << rate << ", floor " << floor << ": " << plan.status());
          REQUIRE(plan.ok() == (best < kInf));
          if (!plan.ok()) continue;
          CHECK(plan->objective == best);
          CHECK(plan->gpus <= 12);
          if (penalty == kInf) CHECK(plan->quality >= floor);
          MinMaxDp dp;
          std::vector<std::int32_t> gpus(3);
          const auto rates = [&] {
            for (std::size_t r = 0; r < planner.routings(); ++r) {
              if (planner.thresholds(r) == plan->thresholds) return planner.RatesOf(r, rate);
            }
            return std::vector<double>{};
          }();
          CHECK(dp.Solve(planner.table().Latencies(rates), gpus) == plan->latency);
          const auto alternation = planner.Alternate(goal, rate);
          if (!alternation.ok()) continue;
          CHECK(alternation->objective >= plan->objective);
          CHECK(alternation->rounds >= 5);
          above += alternation->objective > plan->objective ? 1 : 0;
        }
      }
    }
    const CascadeGoal budget{.kind = CascadeGoal::Kind::kLatencyBudget, .latency_budget = 15};
    const auto plan = planner.Plan(budget, 2);
    const double best = Exhaustive(planner, 2, [&](double l, double q) { return l <= 15 ? -q : kInf; });
    REQUIRE(plan.ok() == (best < kInf));
    if (plan.ok()) {
      CHECK(-plan->quality == best);
      CHECK(plan->latency <= 15);
    }
  }
  CHECK(above > 0);  // otherwise the comparison shows nothing
}

TEST_CASE("a simulated plan keeps the promises of its tables") {
  CascadeOptions options = Quick();
  options.rates = {};
  options.simulated = std::max<std::int64_t>(Scaled(8000), 3000);
  const CascadePlanner planner = MustCreate(TwoModels(), options);
  for (const double floor : {62.0, 70.0, 74.0}) {
    const auto plan = planner.Plan({.quality_floor = floor});
    INFO("floor " << floor << ": " << plan.status());
    REQUIRE(plan.ok());
    INFO("promised " << plan->latency << " s, simulated " << plan->simulated_latency);
    CHECK(plan->simulated_latency < 1.1 * plan->latency);
    CHECK(plan->simulated_latency > 0.7 * plan->latency);
    CHECK(plan->simulated_quality == Approx(plan->quality).epsilon(0.02));
    // An escalated request waits for both models, so no request is faster than the first model.
    CHECK(plan->simulated_e2e >= plan->models[0].simulated_p95);
    double gpus = 0;
    for (const ModelPlan& m : plan->models) {
      std::int32_t own = 0;
      for (const ReplicaCount& r : m.replicas) {
        own += r.count *
               planner.problem().models[static_cast<std::size_t>(&m - plan->models.data())].shapes[r.shape].cost.gpus();
      }
      CHECK(own <= m.gpus);
      gpus += m.gpus;
    }
    CHECK(gpus <= 16);
  }
}

TEST_CASE("the common path becomes faster at the slowest model's cost") {
  CascadeOptions options = Quick();
  options.simulated = 4000;
  const CascadePlanner planner = MustCreate(TwoModels(16), options);
  int faster = 0;
  for (const double load : {0.3, 0.6, 0.9}) {
    for (const double floor : {65.0, 72.0}) {
      const double rate = load * planner.SustainableRate(floor);
      const auto slowest = planner.Plan({.quality_floor = floor}, rate);
      const auto path = planner.Plan({.quality_floor = floor, .end_to_end = true}, rate);
      REQUIRE((slowest.ok() && path.ok()));
      INFO("load " << load << ", floor " << floor << ": " << slowest->simulated_e2e << " and " << path->simulated_e2e);
      CHECK(path->simulated_e2e <= 1.05 * slowest->simulated_e2e);
      CHECK(path->quality >= floor);
      CHECK(path->latency >= slowest->latency);
      faster += path->simulated_e2e < 0.97 * slowest->simulated_e2e ? 1 : 0;
    }
  }
  CHECK(faster > 0);
  CHECK(!planner.Plan({.kind = CascadeGoal::Kind::kLatencyBudget, .latency_budget = 9, .end_to_end = true}).ok());
}

TEST_CASE("the mix that is fastest in simulation is chosen") {
  CascadeOptions options = Quick();
  const CascadePlanner checked = MustCreate(TwoModels(16), options);
  options.simulated = 0;
  const CascadePlanner unchecked = MustCreate(TwoModels(16), options);
  const double rate = 0.93 * checked.SustainableRate(72);
  const auto a = checked.Plan({.quality_floor = 72}, rate), b = unchecked.Plan({.quality_floor = 72}, rate);
  REQUIRE((a.ok() && b.ok()));
  CHECK(a->latency == b->latency);
  CHECK(b->simulated_latency == 0);
  CascadePlan again = *b;
  for (ModelPlan& m : again.models) CHECK_FALSE(m.replaced);
  checked.Simulate(again, rate);
  CHECK(again.simulated_latency == a->simulated_latency);
  for (std::size_t m = 0; m < 2; ++m) CHECK(again.models[m].replicas == a->models[m].replicas);
}

TEST_CASE("a model that no request reaches gets no GPUs") {
  const CascadePlanner planner = MustCreate(TwoModels());
  const auto plan = planner.Plan({.quality_floor = 0});
  REQUIRE(plan.ok());
  CHECK(plan->models[1].gpus == 0);
  CHECK(plan->models[1].replicas.empty());
  CHECK(plan->models[1].share == 0);
  CHECK(plan->models[1].p95 == 0);
  CHECK(plan->models[0].gpus > 0);
  CHECK(plan->simulated_quality == Approx(planner.nadir()).epsilon(0.05));
}

TEST_CASE("a model with longer requests has a higher rate of work") {
  CascadeProblem problem = TwoModels();
  for (CascadeSample& s : problem.sample) s.outputs[1] = s.scores[0] < 60 ? 1000 : 100;
  const CascadePlanner planner = MustCreate(problem);
  for (std::size_t r = 0; r < planner.routings(); ++r) {
    const double share = planner.shares(r)[1];
    if (share > 0.1 && share < 0.5) CHECK(planner.RatesOf(r, 1)[1] > 1.3 * share);
  }
}

TEST_CASE("the frontier holds every routing that no other beats") {
  const CascadePlanner planner = MustCreate(TwoModels());
  const std::vector<FrontierPoint> frontier = planner.Frontier();
  REQUIRE(frontier.size() > 5);
  for (std::size_t i = 1; i < frontier.size(); ++i) {
    CHECK(frontier[i].quality < frontier[i - 1].quality);
    CHECK(frontier[i].latency < frontier[i - 1].latency);
  }
  for (const FrontierPoint& point : frontier) {
    const auto plan = planner.Plan({.quality_floor = point.quality});
    REQUIRE(plan.ok());
    CHECK(plan->latency == point.latency);
    CHECK(plan->quality >= point.quality);
  }
}

TEST_CASE("a sustainable load has a plan, and slightly more has none") {
  const CascadePlanner planner = MustCreate(TwoModels(8));
  for (const double floor : {60.0, 72.0}) {
    const double rate = planner.SustainableRate(floor);
    CHECK(rate > 0);
    CHECK(planner.Plan({.quality_floor = floor}, rate).ok());
    CHECK(!planner.Plan({.quality_floor = floor}, 1.01 * rate).ok());
  }
  CHECK(planner.SustainableRate(60) > planner.SustainableRate(72));
  CHECK(planner.SustainableRate(100) == 0);
}

bool Mentions(const absl::Status& status, const std::string& text) {
  INFO(status);
  return std::string(status.message()).find(text) != std::string::npos;
}

TEST_CASE("without a plan, the message names the shortage") {
  const CascadePlanner planner = MustCreate(TwoModels(4, 1));
  const absl::Status quality = planner.Plan({.quality_floor = 99}).status();
  CHECK(quality.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(Mentions(quality, "quality"));
  CHECK(Mentions(quality, "too little"));
  const absl::Status rate = planner.Plan({.quality_floor = 70}, 1000).status();
  CHECK(Mentions(rate, "GPUs: 4 serve at most"));
  CHECK(Mentions(rate, "expected at least"));
  const absl::Status latency =
      planner.Plan({.kind = CascadeGoal::Kind::kLatencyBudget, .latency_budget = 0.1}).status();
  CHECK(Mentions(latency, "latency: the least p95"));
  CHECK(Mentions(planner.Plan({.quality_floor = std::nan("")}).status(), "quality_floor"));
  CHECK(Mentions(planner.Plan({.kind = CascadeGoal::Kind::kLatencyBudget, .latency_budget = -1}).status(),
                 "latency_budget"));
  CHECK(Mentions(planner.Plan({.penalty = 0}).status(), "penalty"));
  CHECK(!planner.Alternate({.quality_floor = 99}).ok());

  // One GPU holds the small model alone.
  const CascadePlanner one = MustCreate(TwoModels(1, 0.5));
  CHECK(one.Plan({.quality_floor = 50}).ok());
  CHECK(Mentions(one.Plan({.quality_floor = 70}).status(), "GPUs: 1 serve at most 0 of 0.5 requests/s"));
}

TEST_CASE("one model is a cascade, too") {
  CascadeProblem problem = TwoModels();
  problem.models.erase(problem.models.begin());
  problem.sample = Sample(1, 200);
  const CascadePlanner planner = MustCreate(problem);
  CHECK(planner.routings() == 1);
  CHECK(planner.utopia() == planner.nadir());
  const auto plan = planner.Plan({.quality_floor = 50});
  REQUIRE(plan.ok());
  CHECK(plan->thresholds.empty());
  CHECK(plan->models[0].gpus <= 16);
  CHECK(plan->simulated_e2e == plan->simulated_latency);
  CHECK(Mentions(planner.Plan({.quality_floor = 90}).status(), "quality"));
  CHECK(planner.Alternate({.quality_floor = 50}).ok());
}

TEST_CASE("invalid input is refused with all its faults") {
  CascadeProblem problem = TwoModels();
  problem.sample[3].scores[1] = std::nan("");
  problem.sample[5].scores = {1};
  problem.sample[7].outputs[0] = 0;
  problem.rate = -1;
  problem.gpus = 0;
  const absl::Status status = CascadePlanner::Create(problem, Quick()).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  for (const char* part :
       {"sample 4, model 2: score nan", "sample 6", "sample 8, model 1", "rate is -1", "gpus is 0"}) {
    CHECK(Mentions(status, part));
  }
  problem = TwoModels();
  problem.sample.clear();
  CHECK(Mentions(CascadePlanner::Create(problem, Quick()).status(), "sample: empty"));
  problem = TwoModels();
  problem.models.clear();
  CHECK(Mentions(CascadePlanner::Create(problem, Quick()).status(), "models: empty; expected at least one"));

  CascadeOptions options = Quick();
  options.grid = {0, 50, 40};
  CHECK(
      Mentions(CascadePlanner::Create(TwoModels(), options).status(), "40 comes after 50; expected ascending values"));
  options.grid = {0, std::nan("")};
  CHECK(Mentions(CascadePlanner::Create(TwoModels(), options).status(), "not a number"));
  options.grid = {};
  options.grids = {{1}, {2}};
  CHECK(Mentions(CascadePlanner::Create(TwoModels(), options).status(), "2 grids for a cascade of 2 models"));

  problem = TwoModels();
  problem.models[1].shapes = {*FindProfile("aic/llama-3.1-70b/h100/bf16/tp1")};
  CHECK(Mentions(CascadePlanner::Create(problem, Quick()).status(), "no shape of a replica has room"));

  const auto never = [](double) { return false; };
  CHECK(CascadePlanner::Create(TwoModels(), Quick(), SerialFor, never).status().code() == absl::StatusCode::kCancelled);
}

TEST_CASE("progress rises until the end") {
  double last = -1;
  const auto progress = [&](double done) {
    CHECK(done >= last);
    last = done;
    return true;
  };
  REQUIRE(CascadePlanner::Create(TwoModels(), Quick(), SerialFor, progress).ok());
  CHECK(last == 1);
}

}  // namespace
}  // namespace takt
