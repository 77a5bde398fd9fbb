#include "lab/cascadia/study.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <utility>

#include "tool/plan/plan_report.h"
#include "fmt/format.h"
#include "lab/cascadia/cascade_rivals.h"
#include "lab/cascadia/engine_fit.h"
#include "takt/sim/profiles.h"
#include "takt/workload/cascadia.h"

namespace takt::tool {

// All planners of one cascade and trace.
struct CascadiaPlanners {
  std::optional<CascadePlanner> uniform, mean_lengths;
  std::optional<CascadePlanner> pooled;              // requests of all traces, with their average length
  std::vector<CascadePlanner> alone;                 // by model
  std::vector<std::vector<CascadePlanner>> chunked;  // by model, then size of chunk
  std::vector<double> router;                        // learned scores, by sampled request
};

namespace {

constexpr std::int32_t kChunks[] = {256, 512, 1024, 4096};

ServedModel Restricted(ServedModel model, const std::function<bool(const Profile&)>& keep) {
  std::erase_if(model.shapes, [&](const Profile& p) { return !keep(p); });
  return model;
}

std::vector<CascadeSample> OnlyModel(const std::vector<CascadeSample>& sample, std::size_t model) {
  std::vector<CascadeSample> own;
  for (const CascadeSample& s : sample) own.push_back({s.prompt, {s.outputs[model]}, {s.scores[model]}});
  return own;
}

std::vector<std::vector<ReplicaCount>> ReplicasOf(const CascadePlan& plan) {
  std::vector<std::vector<ReplicaCount>> replicas;
  for (const ModelPlan& m : plan.models) replicas.push_back(m.replicas);
  return replicas;
}

std::vector<std::string> Texts(const CascadeProblem& problem, const CascadePlan& plan) {
  std::vector<std::string> texts;
  for (std::size_t m = 0; m < plan.models.size(); ++m) {
    texts.push_back(plan.models[m].replicas.empty() ? "-" : ReplicasText(problem.models[m], plan.models[m]));
  }
  return texts;
}

// Serves the arrivals by a plan of the problem, whose sample is the true one.
void Simulate(const CascadeProblem& problem, const std::vector<CascadeArrival>& arrivals, CascadiaResult& result) {
  result.replicas = Texts(problem, result.plan);
  const CascadeRun run = SimulateCascade(problem, result.plan.thresholds, ReplicasOf(result.plan), arrivals);
  result.e2e = run.p95;
  for (const MixRun& m : run.models) result.slowest = std::max(result.slowest, m.p95);
  result.quality = run.mean_quality;
}

CascadiaResult ResultOf(RivalPlan rival) {
  CascadiaResult result;
  if (rival.plan.ok()) result.plan = *std::move(rival.plan);
  else result.why = std::string(rival.plan.status().message());
  result.sustains = rival.sustains;
  return result;
}

CascadiaResult Planned(const CascadePlanner& planner, double quality, double rate, bool path = false) {
  return ResultOf(
      {planner.Plan({.quality_floor = quality, .end_to_end = path}, rate), planner.SustainableRate(quality)});
}

// RouteLLM's requests never meet a judge: its plan is simulated with its router's decisions.
CascadiaResult Routed(const CascadePlanner& planner, std::span<const double> router, double quality, double rate,
                      const std::vector<CascadeArrival>& arrivals) {
  const RoutedPlan routed = PlanRouteLlm(planner, router, quality, rate);
  CascadiaResult result = ResultOf(routed);
  if (!result.why.empty()) return result;
  result.replicas = Texts(planner.problem(), result.plan);
  const CascadeRun run = SimulateRouted(planner.problem(), routed, router, arrivals);
  for (const double q : run.quality) result.quality += q / static_cast<double>(arrivals.size());
  result.e2e = run.p95;
  result.slowest = std::max(run.models[0].p95, run.models[1].p95);
  return result;
}

// The planner's routing with these thresholds.
std::optional<std::size_t> RoutingOf(const CascadePlanner& planner, const std::vector<double>& thresholds) {
  for (std::size_t r = 0; r < planner.routings(); ++r) {
    if (planner.thresholds(r) == thresholds) return r;
  }
  return std::nullopt;
}

double QualityOf(const std::vector<CascadeSample>& sample, const std::vector<double>& thresholds) {
  double sum = 0;
  for (const CascadeSample& s : sample) {
    std::size_t m = 0;
    while (m < thresholds.size() && s.scores[m] < thresholds[m]) ++m;
    sum += s.scores[m];
  }
  return sum / static_cast<double>(sample.size());
}

// CascadeServe profiled on the requests of all traces together, so that it does not know this trace's lengths or
// difficulty. It plans for the least quality at which these requests reach theirs.
RivalPlan PlanPooledCascadeServe(const CascadePlanner& pooled, const CascadePlanner& truth, double quality,
                                 double rate) {
  constexpr int kSteps = 64;
  const double low = pooled.nadir(), high = pooled.best_quality();
  const auto at = [&](int step) {
    return PlanCascadeServe(pooled, truth, low + (high - low) * step / kSteps - 1e-9, rate);
  };
  const auto reaches = [&](const RivalPlan& p) {
    return p.plan.ok() && QualityOf(truth.problem().sample, p.plan->thresholds) >= quality;
  };
  int least = 0, most = kSteps;  // it reaches the quality from some point in between on, or never
  while (least < most) {
    const int middle = (least + most) / 2;
    if (reaches(at(middle))) most = middle;
    else least = middle + 1;
  }
  RivalPlan plan = at(most);
  if (!reaches(plan)) return {absl::FailedPreconditionError("its profiled plans do not reach the quality here"), 0};
  return plan;
}

std::int64_t RequestsOf(const CascadiaSettings& settings, double rate) {
  return static_cast<std::int64_t>(std::clamp(rate * settings.minutes * 60, 1000.0, 200'000.0));
}

CascadeProblem ProblemOf(std::vector<ServedModel> models, std::vector<CascadeSample> sample, std::int32_t gpus) {
  CascadeProblem problem;
  problem.models = std::move(models);
  problem.sample = std::move(sample);
  problem.gpus = gpus;
  return problem;
}

// All splits for all routings of the quality, on the tables.
CascadiaOptimality Exhaustive(const CascadePlanner& planner, double quality, double rate) {
  CascadiaOptimality result;
  double best = kInf;
  const std::int32_t n = planner.table().gpus();
  for (std::size_t r = 0; r < planner.routings(); ++r) {
    if (planner.quality(r) < quality) continue;
    const LatencyTable table = planner.table().Latencies(planner.RatesOf(r, rate));
    const auto descend = [&](const auto& self, std::size_t m, std::int32_t left, double slowest) -> void {
      if (m + 1 == table.models()) {
        ++result.plans;
        best = std::min(best, std::max(slowest, table.at(m, left)));
        return;
      }
      for (std::int32_t f = 0; f <= left; ++f) self(self, m + 1, left - f, std::max(slowest, table.at(m, f)));
    };
    descend(descend, 0, n, 0);
  }
  result.exhaustive = best < kInf ? best : 0;
  return result;
}

}  // namespace

absl::StatusOr<CascadePlanner> CascadiaStudy::Planner(std::vector<ServedModel> models,
                                                      std::vector<CascadeSample> sample) const {
  return CascadePlanner::Create(ProblemOf(std::move(models), std::move(sample), settings_.gpus), {});
}

void CascadiaStudy::Judge(CascadiaCase& c, const CascadePlanner& takt, const CascadiaPlanners& planners) const {
  const std::vector<CascadeSample>& sample = takt.problem().sample;
  const auto draw = [&](double rate) {
    return DrawCascadeArrivals(sample.size(), rate, RequestsOf(settings_, rate), 1000 + settings_.seed);
  };
  const std::vector<CascadeArrival> arrivals = draw(c.rate);
  const auto of = [&](CascadiaSystem s) -> CascadiaResult& { return c.systems[static_cast<std::size_t>(s)]; };
  const auto simulate = [&](CascadiaResult& result, const CascadeProblem& problem) {
    if (result.why.empty()) Simulate(problem, arrivals, result);
  };

  of(CascadiaSystem::kTakt) = Planned(takt, c.quality, c.rate);
  simulate(of(CascadiaSystem::kTakt), takt.problem());

  of(CascadiaSystem::kTaktPath) = Planned(takt, c.quality, c.rate, true);
  simulate(of(CascadiaSystem::kTaktPath), takt.problem());

  of(CascadiaSystem::kAlternation) = ResultOf({takt.Alternate({.quality_floor = c.quality}, c.rate), 0});
  simulate(of(CascadiaSystem::kAlternation), takt.problem());

  // plan(rate) returns a CascadiaResult. Without a plan for the rate, reports the latency at the largest rate it
  // serves.
  const auto rival = [&](CascadiaSystem system, const CascadeProblem& problem, const auto& plan) {
    constexpr double kNearly = 0.95;  // share of the largest rate at which its queue is still short
    CascadiaResult& result = of(system);
    result = plan(c.rate);
    if (settings_.published && result.sustains > 0 && (result.sustains < c.rate || !result.why.empty())) {
      const double most = std::min(c.rate, kNearly * result.sustains);
      CascadiaResult least = plan(most);
      if (least.why.empty()) {
        Simulate(problem, draw(most), least);
        least.why = fmt::format("it serves {:.1f} requests a second", result.sustains);
        least.bound = true;
        result = std::move(least);
        return;
      }
    }
    simulate(result, problem);
  };

  // As published, both are takt without one of its parts, and therefore keep takt's thresholds.
  const CascadiaResult& path = of(CascadiaSystem::kTaktPath);
  const std::optional<std::size_t> routing =
      settings_.published && path.feasible() ? RoutingOf(takt, path.plan.thresholds) : std::nullopt;
  rival(CascadiaSystem::kUniformGpus, takt.problem(),
        [&](double rate) { return ResultOf(PlanEvenSplit(takt, c.quality, rate, routing)); });
  const std::optional<std::size_t> same = routing ? RoutingOf(*planners.uniform, path.plan.thresholds) : std::nullopt;
  rival(CascadiaSystem::kUniformParallelism, planners.uniform->problem(), [&](double rate) {
    return same ? ResultOf(PlanRouting(*planners.uniform, *same, rate)) : Planned(*planners.uniform, c.quality, rate);
  });

  const CascadePlanner& profiled = settings_.published ? *planners.pooled : *planners.mean_lengths;
  rival(CascadiaSystem::kCascadeServe, ProblemOf(profiled.problem().models, sample, settings_.gpus), [&](double rate) {
    return ResultOf(settings_.published ? PlanPooledCascadeServe(profiled, takt, c.quality, rate)
                                        : PlanCascadeServe(profiled, takt, c.quality, rate));
  });

  if (takt.problem().models.size() == 2) {
    of(CascadiaSystem::kRouteLlm) = Routed(takt, planners.router, c.quality, c.rate, arrivals);
  } else {
    of(CascadiaSystem::kRouteLlm).why = "it chooses between two models";
  }

  CascadiaResult& alone = of(CascadiaSystem::kStandAlone);
  CascadiaResult& chunked = of(CascadiaSystem::kSarathi);
  alone.why = chunked.why = "no model reaches the quality by itself";
  for (std::size_t m = 0; m < planners.alone.size(); ++m) {
    // The paper: 671B for 85 and more, else 70B, even if it misses the quality.
    const std::size_t published = cascade_ == CascadiaCascade::kDeepSeek && c.quality >= 85 ? 2 : 1;
    if (settings_.published ? m != published : planners.alone[m].nadir() < c.quality) continue;
    const double quality = settings_.published ? 0 : c.quality;
    rival(CascadiaSystem::kStandAlone, planners.alone[m].problem(),
          [&](double rate) { return Planned(planners.alone[m], quality, rate); });
    // The chunk size with the least latency; the candidates include the size that all others use.
    chunked = alone;
    for (const CascadePlanner& planner : planners.chunked[m]) {
      CascadiaResult tried = Planned(planner, quality, c.rate);
      simulate(tried, planner.problem());
      const double sustains = std::max(tried.sustains, chunked.sustains);
      if (tried.feasible() && (!chunked.feasible() || tried.e2e < chunked.e2e)) chunked = tried;
      chunked.sustains = sustains;
    }
    break;
  }
}

absl::Status CascadiaStudy::Run(const RunProgress& progress) {
  absl::StatusOr<std::vector<ServedModel>> models = CascadiaModels(cascade_, settings_.engine);
  if (!models.ok()) return models.status();
  const std::uint64_t seed = settings_.seed;
  const CascadiaDraw draw = DrawCascadia(trace_, models->size(), kProfiled, seed, settings_.harder);

  const auto begin = std::chrono::steady_clock::now();
  const absl::StatusOr<CascadePlanner> takt = Planner(*models, draw.sample);
  if (!takt.ok()) return takt.status();
  planning_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  sustains_ = takt->SustainableRate(80);
  for (std::size_t m = 0; m < models->size(); ++m) {
    double least = kInf, most = 0, tp2 = 0, tp4 = 0;
    for (const ShapeRates& s : takt->rates()[m].shapes) {
      if (s.gpus > 8) continue;
      const double per_gpu = s.curve.saturation() / s.gpus;
      least = std::min(least, per_gpu), most = std::max(most, per_gpu);
      const CostModel& cost = (*models)[m].shapes[s.shape].cost;
      if (cost.pp == 1 && cost.tp == 2) tp2 = per_gpu;
      if (cost.pp == 1 && cost.tp == 4) tp4 = per_gpu;
    }
    if (most > 0) parallelism_gain_ = std::max(parallelism_gain_, most / least);
    if (m == 1 && tp4 > 0) middle_tp2_ = tp2 / tp4;
  }
  if (cascade_ == CascadiaCascade::kDeepSeek && trace_ == 1) {
    constexpr std::int32_t kMany = 80;
    const auto from = std::chrono::steady_clock::now();
    const absl::StatusOr<CascadePlanner> many = CascadePlanner::Create(ProblemOf(*models, draw.sample, kMany), {});
    if (!many.ok()) return many.status();
    const absl::StatusOr<CascadePlan> plan = many->Plan({.quality_floor = 80}, sustains_);
    if (!plan.ok()) return plan.status();
    planning_80_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  }
  if (!progress(0.1)) return absl::OkStatus();

  CascadiaPlanners planners;
  planners.router = draw.router;
  std::vector<ServedModel> uniform, fixed;
  for (const ServedModel& m : *models) {
    uniform.push_back(Restricted(m, [](const Profile& p) { return p.cost.tp == 8 && p.cost.pp == 1; }));
    const std::int32_t tp = m.name == "llama-3.1-8b" ? 1 : m.name == "llama-3.1-70b" ? 4 : 8;
    fixed.push_back(Restricted(m, [tp](const Profile& p) { return p.cost.tp == tp && p.cost.pp == 1; }));
  }
  const auto emplace = [](absl::StatusOr<CascadePlanner> planner, auto keep) -> absl::Status {
    if (planner.ok()) keep(*std::move(planner));
    return planner.status();
  };
  absl::Status status =
      emplace(Planner(uniform, draw.sample), [&](CascadePlanner p) { planners.uniform = std::move(p); });
  status.Update(emplace(Planner(fixed, WithMeanLengths(draw.sample)),
                        [&](CascadePlanner p) { planners.mean_lengths = std::move(p); }));
  if (settings_.published) {
    std::vector<CascadeSample> pooled;
    for (int trace = 1; trace <= kCascadiaTraces; ++trace) {
      const CascadiaDraw its = DrawCascadia(trace, models->size(), kProfiled / kCascadiaTraces, seed, settings_.harder);
      pooled.insert(pooled.end(), its.sample.begin(), its.sample.end());
    }
    status.Update(emplace(Planner(fixed, WithMeanLengths(std::move(pooled))),
                          [&](CascadePlanner p) { planners.pooled = std::move(p); }));
  }
  for (std::size_t m = 0; m < models->size() && status.ok(); ++m) {
    const std::vector<CascadeSample> own = OnlyModel(draw.sample, m);
    status.Update(
        emplace(Planner({(*models)[m]}, own), [&](CascadePlanner p) { planners.alone.push_back(std::move(p)); }));
    planners.chunked.emplace_back();
    for (const std::int32_t chunk : kChunks) {
      ServedModel model = (*models)[m];
      model.token_budget = chunk;
      status.Update(
          emplace(Planner({model}, own), [&](CascadePlanner p) { planners.chunked[m].push_back(std::move(p)); }));
      if (!progress(0.1 + 0.4 * static_cast<double>(m) / static_cast<double>(models->size()))) return absl::OkStatus();
    }
  }
  if (!status.ok()) return status;

  double alone_s = 0;
  for (const double s : CascadiaAlone(*models, draw.sample)) alone_s += s / static_cast<double>(models->size());
  std::vector<CascadiaCase> wanted;
  for (const double quality : settings_.qualities) {
    for (const double load : settings_.loads) {
      if (load > 0.7 && quality != 80) continue;
      CascadiaCase& c = wanted.emplace_back();
      c.cascade = cascade_;
      c.trace = trace_;
      c.quality = quality;
      c.load = load;
      c.rate = load * sustains_;
      c.alone_s = alone_s;
    }
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Judge(wanted[i], *takt, planners);
    cases_.push_back(wanted[i]);
    if (!progress(0.5 + 0.4 * static_cast<double>(i + 1) / static_cast<double>(wanted.size()))) return absl::OkStatus();
  }
  for (const CascadiaCase& c : cases_) {
    if (c.load != 0.7 || !c.of(CascadiaSystem::kTakt).why.empty()) continue;
    CascadiaOptimality o = Exhaustive(*takt, c.quality, c.rate);
    o.cascade = cascade_;
    o.trace = trace_;
    o.quality = c.quality;
    o.gpus = settings_.gpus;
    o.takt = c.of(CascadiaSystem::kTakt).plan.latency;
    const absl::StatusOr<CascadePlan> hard = takt->Alternate({.quality_floor = c.quality}, c.rate);
    o.alternation = hard.ok() ? hard->latency : 0;
    const CascadeGoal soft{.quality_floor = c.quality, .penalty = 100};
    const absl::StatusOr<CascadePlan> joint = takt->Plan(soft, c.rate), turns = takt->Alternate(soft, c.rate);
    o.takt_soft = joint.ok() ? joint->objective : 0;
    o.alternation_soft = turns.ok() ? turns->objective : 0;
    optimality_.push_back(o);
    if (!progress(0.95)) return absl::OkStatus();
  }
  frontier_ = takt->Frontier(0.7 * sustains_);
  return absl::OkStatus();
}

// ---- beyond the tables ----------------------------------------------------------------------------------------------

absl::StatusOr<CascadiaSimulated> SimulateAllPlans(std::int32_t gpus, std::int64_t requests,
                                                   const CascadiaSettings& settings, const RunProgress& progress) {
  constexpr double kFloor = 80;
  absl::StatusOr<std::vector<ServedModel>> models = CascadiaModels(CascadiaCascade::kLlama, settings.engine);
  if (!models.ok()) return models.status();
  const CascadiaDraw draw = DrawCascadia(1, 2, kProfiled, settings.seed, settings.harder);
  const absl::StatusOr<CascadePlanner> planner = CascadePlanner::Create(ProblemOf(*models, draw.sample, gpus), {});
  if (!planner.ok()) return planner.status();
  CascadiaSimulated result;
  result.gpus = gpus;
  result.rate = 0.7 * planner->SustainableRate(kFloor);
  const absl::StatusOr<CascadePlan> plan = planner->Plan({.quality_floor = kFloor}, result.rate);
  if (!plan.ok()) return plan.status();
  const CascadeProblem& problem = planner->problem();
  const std::vector<CascadeArrival> arrivals =
      DrawCascadeArrivals(problem.sample.size(), result.rate, requests, 76 + settings.seed);

  // All multisets of shapes with exactly f GPUs. Requests are divided in proportion to each shape's capacity at the
  // mix's latency.
  const auto mixes = [&](std::size_t m, std::int32_t f, double rate) {
    std::vector<std::vector<ReplicaCount>> all;
    std::vector<ReplicaCount> mix;
    const std::vector<ShapeRates>& shapes = planner->rates()[m].shapes;
    const auto descend = [&](const auto& self, std::size_t s, std::int32_t left) -> void {
      if (left == 0) {
        std::vector<ReplicaCount> one = mix;
        const double latency = planner->table().MixLatency(m, one, rate);
        for (ReplicaCount& r : one) {
          for (const ShapeRates& shape : shapes) {
            if (shape.shape == r.shape) {
              r.rate = latency < kInf ? shape.curve.LargestRate(latency) : shape.curve.saturation();
            }
          }
        }
        all.push_back(std::move(one));
        return;
      }
      if (s == shapes.size()) return;
      self(self, s + 1, left);
      for (std::int32_t n = 1; n * shapes[s].gpus <= left; ++n) {
        mix.push_back({shapes[s].shape, n, 0});
        self(self, s + 1, left - n * shapes[s].gpus);
        mix.pop_back();
      }
    };
    descend(descend, 0, f);
    return all;
  };
  const auto text = [&](double threshold, const std::vector<std::vector<ReplicaCount>>& replicas) {
    std::string all;
    for (std::size_t m = 0; m < 2; ++m) {
      ModelPlan own;
      own.replicas = replicas[m];
      all += (m == 0 ? "" : fmt::format(" | below {:g}: ", threshold)) +
             (own.replicas.empty() ? std::string("-") : ReplicasText(problem.models[m], own));
    }
    return all;
  };

  const CascadeRun ours = SimulateCascade(problem, plan->thresholds, ReplicasOf(*plan), arrivals);
  result.takt_slowest = std::max(ours.models[0].p95, ours.models[1].p95);
  result.takt_e2e = ours.p95;
  const absl::StatusOr<CascadePlan> path = planner->Plan({.quality_floor = kFloor, .end_to_end = true}, result.rate);
  if (!path.ok()) return path.status();
  result.path_e2e = SimulateCascade(problem, path->thresholds, ReplicasOf(*path), arrivals).p95;
  result.takt_plan = text(plan->thresholds[0], ReplicasOf(*plan));
  result.best_slowest = result.best_e2e = kInf;
  std::vector<std::size_t> routings;
  for (std::size_t r = 0; r < planner->routings(); ++r) {
    if (planner->quality(r) >= kFloor) routings.push_back(r);
  }
  for (std::size_t k = 0; k < routings.size(); ++k) {
    const std::size_t r = routings[k];
    const std::vector<double> rates = planner->RatesOf(r, result.rate);
    const std::vector<double> thresholds = planner->thresholds(r);
    for (std::int32_t f = 1; f <= gpus; ++f) {
      const std::vector<std::vector<ReplicaCount>> small = mixes(0, f, rates[0]);
      const std::vector<std::vector<ReplicaCount>> large = mixes(1, gpus - f, rates[1]);
      for (const std::vector<ReplicaCount>& a : small) {
        for (const std::vector<ReplicaCount>& b : large) {
          if (b.empty() != (rates[1] == 0)) continue;
          const std::vector<std::vector<ReplicaCount>> both = {a, b};
          const CascadeRun run = SimulateCascade(problem, thresholds, both, arrivals);
          const double slowest = std::max(run.models[0].p95, run.models[1].p95);
          ++result.plans;
          if (slowest < result.best_slowest)
            result.best_slowest = slowest, result.best_plan = text(thresholds[0], both);
          result.best_e2e = std::min(result.best_e2e, run.p95);
        }
      }
    }
    if (!progress(static_cast<double>(k + 1) / static_cast<double>(routings.size()))) {
      return absl::CancelledError("stopped");
    }
  }
  return result;
}

// ---- prefix caching
// ---------------------------------------------------------------------------------------------------

absl::StatusOr<CascadiaPrefix> ComparePrefixCaching(const CascadiaSettings& settings) {
  absl::StatusOr<std::vector<ServedModel>> models = CascadiaModels(CascadiaCascade::kLlama, settings.engine);
  if (!models.ok()) return models.status();
  const CascadiaDraw draw = DrawCascadia(1, 2, kProfiled, settings.seed, settings.harder);
  double rate = 0;
  const auto lower = [&](std::vector<ServedModel> served,
                         const std::vector<CascadeSample>& sample) -> absl::StatusOr<double> {
    CascadeProblem problem = ProblemOf(std::move(served), sample, settings.gpus);
    const absl::StatusOr<CascadePlanner> planner = CascadePlanner::Create(problem, {});
    if (!planner.ok()) return planner.status();
    const double quality = problem.models.size() > 1 ? 80 : 0;
    rate = rate > 0 ? std::min(rate, 0.95 * planner->SustainableRate(quality))
                    : settings.load * planner->SustainableRate(quality);
    const absl::StatusOr<CascadePlan> plan = planner->Plan({.quality_floor = quality}, rate);
    if (!plan.ok()) return plan.status();
    const std::vector<CascadeArrival> arrivals =
        DrawCascadeArrivals(sample.size(), rate, RequestsOf(settings, rate), 1000 + settings.seed);
    const double without = SimulateCascade(problem, plan->thresholds, ReplicasOf(*plan), arrivals).p95;
    for (ServedModel& m : problem.models) m.prefix_hit_rate = 1;
    return 100 * (1 - SimulateCascade(problem, plan->thresholds, ReplicasOf(*plan), arrivals).p95 / without);
  };
  const absl::StatusOr<double> takt = lower(*models, draw.sample);
  if (!takt.ok()) return takt.status();
  const absl::StatusOr<double> alone = lower({models->back()}, OnlyModel(draw.sample, 1));
  if (!alone.ok()) return alone.status();
  return CascadiaPrefix{*takt, *alone};
}

// ---- judges ---------------------------------------------------------------------------------------------------------

absl::StatusOr<std::vector<CascadiaJudge>> CompareJudges(const CascadiaSettings& settings,
                                                         const RunProgress& progress) {
  constexpr double kFloor = 80, kNoise = 8;  // points; the paper reports "higher variance" without a figure: chosen
  absl::StatusOr<std::vector<ServedModel>> models = CascadiaModels(CascadiaCascade::kLlama, settings.engine);
  if (!models.ok()) return models.status();
  const CascadiaDraw draw = DrawCascadia(1, 2, kProfiled, settings.seed, settings.harder);
  struct Variant {
    const char* name;
    std::vector<CascadeSample> sample;
    double judge_s;
  };
  const Variant variants[] = {
      {"GPT-4o", draw.sample, 0.27},
      {"GPT-4o-mini: 9.4 % lower, noise 8 points", Rejudged(draw.sample, -.094, kNoise, 5), 0.27},
      {"Llama-3.1-70B: 8.6 % lower, noise 8 points", Rejudged(draw.sample, -.086, kNoise, 6), 0.27},
      {"learned: rank correlation 0.5", RejudgedByLearned(draw.sample, 0.5, 7), 0.0},
      {"learned, perfect (oracle)", draw.sample, 0.0}};
  std::vector<CascadiaJudge> judges;
  double rate = 0;
  for (const Variant& v : variants) {
    CascadeProblem seen = ProblemOf(*models, v.sample, settings.gpus);
    seen.judge_s = v.judge_s;
    const absl::StatusOr<CascadePlanner> planner = CascadePlanner::Create(seen, {});
    if (!planner.ok()) return planner.status();
    if (judges.empty()) rate = settings.load * planner->SustainableRate(kFloor);
    CascadiaJudge& judge = judges.emplace_back();
    judge.name = v.name;
    double ours = 0, first = 0;
    for (std::size_t i = 0; i < v.sample.size(); ++i) {
      for (std::size_t m = 0; m < 2; ++m) ours += v.sample[i].scores[m], first += draw.sample[i].scores[m];
    }
    judge.deviation = 100 * (ours / first - 1);
    const absl::StatusOr<CascadePlan> plan = planner->Plan({.quality_floor = kFloor}, rate);
    if (!plan.ok()) {
      judge.why = std::string(plan.status().message());
      continue;
    }
    judge.share = plan->models[1].share;
    judge.slowest = plan->latency;
    const std::vector<CascadeArrival> arrivals =
        DrawCascadeArrivals(v.sample.size(), rate, RequestsOf(settings, rate), 1000 + settings.seed);
    judge.p95 = SimulateCascade(seen, plan->thresholds, ReplicasOf(*plan), arrivals).p95;
    for (const CascadeArrival& a : arrivals) {
      const bool accepted = v.sample[a.sample].scores[0] >= plan->thresholds[0];
      judge.quality += draw.sample[a.sample].scores[accepted ? 0 : 1] / static_cast<double>(arrivals.size());
    }
    if (!progress(static_cast<double>(judges.size()) / static_cast<double>(std::size(variants)))) break;
  }
  return judges;
}

}  // namespace takt::tool
