#include "lab/cascadia/cascade_rivals.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "takt/numeric/quantile.h"
#include "takt/planning/allocation.h"

namespace takt {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// Replicas of this many GPUs that serve a model's share of the requests; false if there are too few GPUs.
bool AddModel(const CascadePlanner& planner, double share, double rate, double work, std::int32_t gpus,
              CascadePlan& plan) {
  const std::size_t m = plan.models.size();
  const MixTable& table = planner.table();
  ModelPlan& own = plan.models.emplace_back();
  own.name = planner.problem().models[m].name;
  own.share = share;
  own.rate = rate;
  if (share == 0) return true;
  const std::size_t level = table.LeastLevel(m, gpus, work);
  if (level == table.latencies().size()) return false;
  own.gpus = gpus;
  own.p95 = table.latencies()[level];
  own.replicas = table.Mix(m, level, gpus);
  plan.latency = std::max(plan.latency, own.p95);
  plan.gpus += gpus;
  return true;
}

// A plan of given GPUs for a routing; none if there are too few GPUs.
std::optional<CascadePlan> PlanWith(const CascadePlanner& planner, std::size_t routing, double rate,
                                    const std::vector<std::int32_t>& gpus) {
  const std::vector<double> work = planner.RatesOf(routing, rate);
  CascadePlan plan;
  plan.thresholds = planner.thresholds(routing);
  plan.quality = planner.quality(routing);
  for (std::size_t m = 0; m < gpus.size(); ++m) {
    const double share = planner.shares(routing)[m];
    if (!AddModel(planner, share, share * rate, work[m], gpus[m], plan)) return std::nullopt;
  }
  return plan;
}

// The largest rate of a routing that this many GPUs serve, at any latency on the curves.
double MostOf(const CascadePlanner& planner, std::size_t routing, const std::vector<std::int32_t>& gpus) {
  const std::size_t top = planner.table().latencies().size() - 1;
  const std::vector<double> work = planner.RatesOf(routing, 1);
  double most = kUnbounded;
  for (std::size_t m = 0; m < gpus.size(); ++m) {
    if (work[m] > 0) most = std::min(most, planner.table().Rate(m, top, gpus[m]) / work[m]);
  }
  return most;
}

std::vector<std::int32_t> EvenSplit(std::int32_t gpus, std::size_t models) {
  std::vector<std::int32_t> split;
  const auto n = static_cast<std::int32_t>(models);
  for (std::int32_t m = 0; m < n; ++m) split.push_back(gpus / n + (m >= n - gpus % n ? 1 : 0));
  return split;
}

// The requests that the router sends to each of the two models.
struct RoutedRequests {
  std::vector<FastRequest> requests[2];
  std::vector<std::size_t> model;  // by arrival
};
RoutedRequests Route(const std::vector<CascadeSample>& sample, std::span<const double> router, double threshold,
                     std::span<const CascadeArrival> arrivals) {
  RoutedRequests routed;
  for (const CascadeArrival& a : arrivals) {
    const std::size_t m = router[a.sample] < threshold ? 1 : 0;
    routed.requests[m].push_back({a.time, sample[a.sample].prompt, sample[a.sample].outputs[m]});
    routed.model.push_back(m);
  }
  return routed;
}

}  // namespace

RivalPlan PlanEvenSplit(const CascadePlanner& planner, double quality, double rate,
                        std::optional<std::size_t> routing) {
  const std::vector<std::int32_t> gpus = EvenSplit(planner.table().gpus(), planner.problem().models.size());
  std::optional<CascadePlan> best;
  double sustains = 0;
  for (std::size_t r = 0; r < planner.routings(); ++r) {
    if (routing ? r != *routing : planner.quality(r) < quality) continue;
    sustains = std::max(sustains, MostOf(planner, r, gpus));
    std::optional<CascadePlan> plan = PlanWith(planner, r, rate, gpus);
    if (plan &&
        (!best || plan->latency < best->latency || (plan->latency == best->latency && plan->quality > best->quality))) {
      best = std::move(plan);
    }
  }
  if (!best) {
    return {absl::FailedPreconditionError("an even split does not serve the rate at this quality"), sustains};
  }
  planner.Simulate(*best, rate);  // its replicas are tuned
  return {*std::move(best), sustains};
}

RivalPlan PlanRouting(const CascadePlanner& planner, std::size_t routing, double rate) {
  double sustains = 0;
  std::vector<std::int32_t> gpus(planner.problem().models.size());
  const auto descend = [&](const auto& self, std::size_t m, std::int32_t left) -> void {
    if (m + 1 == gpus.size()) {
      gpus[m] = left;
      sustains = std::max(sustains, MostOf(planner, routing, gpus));
      return;
    }
    for (gpus[m] = 0; gpus[m] <= left; ++gpus[m]) self(self, m + 1, left - gpus[m]);
  };
  descend(descend, 0, planner.table().gpus());
  return {planner.PlanOf(routing, rate), sustains};
}

RivalPlan PlanCascadeServe(const CascadePlanner& means, const CascadePlanner& truth, double quality, double rate) {
  constexpr double kRanges = 10;
  const double most = means.SustainableRate(quality);
  if (!(most > 0)) return {absl::FailedPreconditionError("no plan at this quality"), 0};
  const double range = std::min(std::ceil(rate / (most / kRanges)), kRanges) * (most / kRanges) * (1 - 1e-6);
  RivalPlan rival = {means.Plan({.quality_floor = quality}, range), 0};
  if (!rival.plan.ok()) return rival;
  // Actual requests served by its plan for the highest range.
  const absl::StatusOr<CascadePlan> top = means.Plan({.quality_floor = quality}, most * (1 - 1e-6));
  if (!top.ok()) return rival;
  rival.sustains = kUnbounded;
  const std::vector<CascadeSample>& sample = truth.problem().sample;
  double share = 1;  // of the actual requests that reach the model
  for (std::size_t m = 0; m < top->models.size(); ++m) {
    if (m > 0) {
      std::size_t reach = 0;
      for (const CascadeSample& s : sample) {
        std::size_t at = 0;
        while (at < m && s.scores[at] < top->thresholds[at]) ++at;
        reach += at == m ? 1 : 0;
      }
      share = static_cast<double>(reach) / static_cast<double>(sample.size());
    }
    double serves = 0;
    for (const ReplicaCount& r : top->models[m].replicas) {
      const std::string& id = means.problem().models[m].shapes[r.shape].id;
      for (const ShapeRates& s : truth.rates()[m].shapes) {
        if (truth.problem().models[m].shapes[s.shape].id == id) serves += r.count * s.curve.saturation();
      }
    }
    if (share > 0) rival.sustains = std::min(rival.sustains, serves / share);
  }
  return rival;
}

RoutedPlan PlanRouteLlm(const CascadePlanner& planner, std::span<const double> router, double quality, double rate) {
  const std::vector<CascadeSample>& sample = planner.problem().sample;
  const MixTable& table = planner.table();
  std::vector<double> sorted(router.begin(), router.end());
  std::sort(sorted.begin(), sorted.end());
  std::optional<CascadePlan> best;
  double best_threshold = 0, sustains = 0;
  ThresholdSearch search;
  for (int percent = 0; percent <= 100; ++percent) {
    const double threshold = percent == 100 ? kUnbounded : QuantileOfSorted(sorted, percent / 100.0);
    double got = 0, strong = 0;
    for (std::size_t i = 0; i < sample.size(); ++i) {
      const bool goes_strong = router[i] < threshold;
      got += sample[i].scores[goes_strong ? 1 : 0];
      strong += goes_strong ? 1 : 0;
    }
    const auto n = static_cast<double>(sample.size());
    if (got / n < quality) continue;
    const double share[] = {1 - strong / n, strong / n};
    const std::size_t top = table.latencies().size() - 1;
    for (std::int32_t f = 0; f <= table.gpus(); ++f) {
      double most = kUnbounded;
      if (share[0] > 0) most = std::min(most, table.Rate(0, top, f) / share[0]);
      if (share[1] > 0) most = std::min(most, table.Rate(1, top, table.gpus() - f) / share[1]);
      sustains = std::max(sustains, most);
    }
    const double rates[] = {share[0] * rate, share[1] * rate};
    std::vector<std::int32_t> gpus(2);
    const double latency = search.Solve(table.Latencies(rates), gpus);
    if (!(latency < kUnbounded) || (best && best->latency <= latency)) continue;
    CascadePlan& plan = best.emplace();
    best_threshold = threshold;
    plan.quality = got / n;
    gpus[1] += share[1] > 0 ? table.gpus() - gpus[0] - gpus[1] : 0;
    for (std::size_t m = 0; m < 2; ++m) AddModel(planner, share[m], rates[m], rates[m], gpus[m], plan);
    plan.latency = latency;
  }
  if (!best) {
    return {{absl::FailedPreconditionError("no share of requests for the large model serves the rate at this quality"),
             sustains}};
  }
  for (std::size_t m = 0; m < 2; ++m) {
    ModelPlan& own = best->models[m];
    if (own.gpus == 0) continue;
    std::vector<FastRequest> requests;
    for (const CascadeArrival& a : DrawCascadeArrivals(sample.size(), own.rate, 40'000, 1)) {
      requests.push_back({a.time, sample[a.sample].prompt, sample[a.sample].outputs[m]});
    }
    std::vector<double> ends(requests.size());
    double least = kUnbounded;
    for (std::vector<ReplicaCount>& mix : planner.Mixes(m, own.gpus, own.rate)) {
      const double p95 = SimulateMix(planner.problem().models[m], mix, requests, ends).p95;
      if (p95 < least) least = p95, own.replicas = std::move(mix);
    }
  }
  return {{*std::move(best), sustains}, best_threshold};
}

CascadeRun SimulateRouted(const CascadeProblem& problem, const RoutedPlan& routed, std::span<const double> router,
                          std::span<const CascadeArrival> arrivals) {
  const RoutedRequests all = Route(problem.sample, router, routed.threshold, arrivals);
  CascadeRun run;
  run.latency.resize(arrivals.size());
  std::vector<double> ends[2], counted;
  for (std::size_t m = 0; m < 2; ++m) {
    const std::vector<FastRequest>& own = all.requests[m];
    ends[m].resize(own.size());
    run.models.push_back(SimulateMix(problem.models[m], routed.plan->models[m].replicas, own, ends[m]));
    run.shares.push_back(static_cast<double>(own.size()) / static_cast<double>(arrivals.size()));
    for (std::size_t i = own.size() / 4; i < own.size(); ++i) counted.push_back(ends[m][i] - own[i].arrival);
  }
  std::size_t next[2] = {0, 0};
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const std::size_t m = all.model[i];
    run.latency[i] = ends[m][next[m]++] - arrivals[i].time;
    run.quality.push_back(problem.sample[arrivals[i].sample].scores[m]);
    run.mean_quality += run.quality.back() / static_cast<double>(arrivals.size());
  }
  run.p95 = Quantile(counted, 0.95);
  return run;
}

}  // namespace takt
