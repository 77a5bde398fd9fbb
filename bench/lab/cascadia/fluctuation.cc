#include "lab/cascadia/fluctuation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "takt/base/random.h"
#include "takt/numeric/quantile.h"
#include "takt/planning/drift.h"
#include "takt/planning/rollout.h"
#include "takt/workload/cascadia.h"

namespace takt::tool {
namespace {

constexpr double kQuality = 80, kLoad = 0.7;
constexpr double kMinutes[] = {8, 16, 10};  // of traces 1, 2, 3
constexpr double kShare = 0.05;             // of the requests, answered by all models
constexpr std::size_t kRows = 100;          // all-model requests that a new plan waits for

struct Arrival {
  double time = 0;
  int segment = 0;
  std::uint32_t sample = 0;
};

// A replica, and the time from which it accepts requests.
struct Window {
  std::size_t shape = 0;
  double rate = 0;
  double open = 0, close = kInf;
};

struct Routing {
  double from = 0;
  std::vector<double> thresholds;
};

// The serving replicas over time.
struct Timeline {
  std::vector<std::vector<Window>> replicas;  // by model
  std::vector<Routing> routings;              // by time
  std::vector<CascadiaChange> changes;
};

// Inputs shared by all systems of a run.
struct Stream {
  std::vector<ServedModel> models;
  std::vector<std::vector<CascadeSample>> samples;  // by segment
  std::vector<Arrival> arrivals;
  std::array<double, 3> rates = {};
  double judge_s = 0.27;
  double end = 0;
};

CascadeProblem ProblemOf(const Stream& stream, std::vector<CascadeSample> sample, double rate, std::int32_t gpus) {
  CascadeProblem problem;
  problem.models = stream.models;
  problem.sample = std::move(sample);
  problem.rate = rate;
  problem.gpus = gpus;
  return problem;
}

absl::StatusOr<CascadePlanner> PlannerOf(CascadeProblem problem) {
  CascadeOptions options;
  options.simulated = 0;
  return CascadePlanner::Create(std::move(problem), options);
}

void Begin(Timeline& timeline, const CascadePlan& plan) {
  for (const ModelPlan& m : plan.models) {
    std::vector<Window>& own = timeline.replicas.emplace_back();
    for (const ReplicaCount& r : m.replicas) {
      for (std::int32_t i = 0; i < r.count; ++i) own.push_back({r.shape, r.rate, 0, kInf});
    }
  }
  timeline.routings.push_back({0, plan.thresholds});
}

// Starts the plan's replicas, one change after another. The plan's thresholds take effect once all replicas are ready.
absl::Status Change(Timeline& timeline, const Stream& stream, const CascadePlan& plan, double now, std::string why,
                    Random& random) {
  struct Kind {
    std::size_t model, shape;
    double rate;
  };
  std::vector<Kind> kinds;
  RolloutProblem problem;
  problem.gpus = {0};
  for (std::size_t m = 0; m < plan.models.size(); ++m) {
    double before = 0, after = 0;
    std::vector<Window>& own = timeline.replicas[m];
    for (std::size_t s = 0; s < stream.models[m].shapes.size(); ++s) {
      RolloutReplicas kind;
      double rate = 0;
      for (const Window& w : own) {
        if (w.shape == s && w.close == kInf) ++kind.from, rate = w.rate;
      }
      for (const ReplicaCount& r : plan.models[m].replicas) {
        if (r.shape == s) kind.to = r.count, rate = r.rate;
      }
      if (kind.from == 0 && kind.to == 0) continue;
      kind.name = stream.models[m].shapes[s].id;
      kind.model = static_cast<int>(m);
      kind.gpus = stream.models[m].shapes[s].cost.gpus();
      kind.rate = rate;
      kind.start_s = 2 + 18 * random.Uniform();
      problem.gpus[0] += kind.from * kind.gpus;
      before += kind.from * rate, after += kind.to * rate;
      kinds.push_back({m, s, rate});
      problem.replicas.push_back(std::move(kind));
    }
    problem.needed.push_back(std::min(before, after));  // in any shapes
  }
  std::int32_t wanted = 0;
  for (const RolloutReplicas& r : problem.replicas) wanted += r.to * r.gpus;
  problem.gpus[0] = std::max(problem.gpus[0], wanted);
  absl::StatusOr<Rollout> rollout = PlanRollout(problem);
  // Without spare GPUs, the search decides which replicas keep serving.
  if (rollout.ok() && rollout->status != RolloutStatus::kFound) {
    for (double& n : problem.needed) n *= std::max(rollout->share - 0.01, 0.0);
    rollout = PlanRollout(problem);
  }
  if (!rollout.ok()) return rollout.status();
  if (rollout->status != RolloutStatus::kFound) return absl::InternalError("no order of changes has been found");
  for (const RolloutStep& step : rollout->steps) {
    const Kind& kind = kinds[static_cast<std::size_t>(step.replicas)];
    std::vector<Window>& own = timeline.replicas[kind.model];
    if (step.start) {
      own.push_back({kind.shape, kind.rate, now + step.end_s, kInf});
      continue;
    }
    const auto it = std::find_if(own.begin(), own.end(), [&](const Window& w) {
      return w.shape == kind.shape && w.close == kInf && w.open <= now + step.begin_s;
    });
    if (it != own.end()) it->close = now + step.begin_s;
  }
  timeline.routings.push_back({now + rollout->seconds, plan.thresholds});
  timeline.changes.push_back({now, now + rollout->seconds, std::move(why)});
  return absl::OkStatus();
}

const std::vector<double>& ThresholdsAt(const Timeline& timeline, double time) {
  std::size_t i = timeline.routings.size() - 1;
  while (i > 0 && timeline.routings[i].from > time) --i;
  return timeline.routings[i].thresholds;
}

CascadiaFluctuation Serve(const Stream& stream, const Timeline& timeline, std::string name) {
  struct Visit {
    double time;
    std::uint32_t request;
  };
  std::vector<Visit> visits, next;
  for (std::uint32_t i = 0; i < stream.arrivals.size(); ++i) visits.push_back({stream.arrivals[i].time, i});
  std::vector<double> ends(stream.arrivals.size()), scores(stream.arrivals.size());
  for (std::size_t m = 0; m < stream.models.size(); ++m) {
    const std::vector<Window>& replicas = timeline.replicas[m];
    std::vector<double> credit(replicas.size());
    std::vector<std::vector<FastRequest>> requests(replicas.size());
    std::vector<std::vector<std::uint32_t>> of(replicas.size());
    for (const Visit& v : visits) {
      const Arrival& a = stream.arrivals[v.request];
      const CascadeSample& s = stream.samples[static_cast<std::size_t>(a.segment)][a.sample];
      // Smooth weighted round robin over the open replicas; if none is open, the next one to open.
      std::size_t chosen = replicas.size();
      double sum = 0;
      for (std::size_t k = 0; k < replicas.size(); ++k) {
        if (v.time < replicas[k].open || v.time >= replicas[k].close) continue;
        const double weight = std::max(replicas[k].rate, 1e-9);
        sum += weight;
        credit[k] += weight;
        if (chosen == replicas.size() || credit[k] > credit[chosen]) chosen = k;
      }
      double time = v.time;
      if (chosen < replicas.size()) {
        credit[chosen] -= sum;
      } else {
        double soonest = kInf;
        for (std::size_t k = 0; k < replicas.size(); ++k) {
          if (replicas[k].open >= v.time && replicas[k].open < soonest) soonest = replicas[k].open, chosen = k;
        }
        if (chosen == replicas.size()) {
          ends[v.request] = kInf;
          continue;
        }
        time = soonest;
      }
      requests[chosen].push_back({time, s.prompt, s.outputs[m]});
      of[chosen].push_back(v.request);
    }
    next.clear();
    for (std::size_t k = 0; k < replicas.size(); ++k) {
      // Requests that waited for a replica enter when it opens.
      std::vector<std::size_t> order(requests[k].size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return requests[k][a].arrival < requests[k][b].arrival; });
      std::vector<FastRequest> sorted;
      for (const std::size_t i : order) sorted.push_back(requests[k][i]);
      const Profile& profile = stream.models[m].shapes[replicas[k].shape];
      const PreparedCostModel cost(profile.cost, stream.models[m].token_budget, stream.models[m].max_seqs);
      std::vector<FastRecord> records(sorted.size());
      FastPath(cost, {.token_budget = stream.models[m].token_budget,
                      .max_seqs = stream.models[m].max_seqs,
                      .kv_tokens = profile.kv_capacity_tokens})
          .Run(sorted, records);
      for (std::size_t i = 0; i < order.size(); ++i) {
        const std::uint32_t r = of[k][order[i]];
        const Arrival& a = stream.arrivals[r];
        const double score = stream.samples[static_cast<std::size_t>(a.segment)][a.sample].scores[m];
        const bool judged = m + 1 < stream.models.size();
        const double end = records[i].end + (judged ? stream.judge_s : 0);
        if (judged && score < ThresholdsAt(timeline, records[i].end)[m] && end < kInf &&
            !timeline.replicas[m + 1].empty()) {
          next.push_back({end, r});
        } else {
          ends[r] = end;
          scores[r] = score;
        }
      }
    }
    std::sort(next.begin(), next.end(), [](const Visit& a, const Visit& b) {
      return a.time != b.time ? a.time < b.time : a.request < b.request;
    });
    visits.swap(next);
  }

  CascadiaFluctuation result;
  result.system = std::move(name);
  result.changes = timeline.changes;
  result.segment_rate = stream.rates;
  std::vector<double> all;
  std::array<std::vector<double>, 3> by_segment;
  std::vector<std::vector<double>> by_minute(static_cast<std::size_t>(stream.end / 60) + 1);
  double last = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const Arrival& a = stream.arrivals[i];
    const double latency = ends[i] - a.time;
    all.push_back(latency);
    by_segment[static_cast<std::size_t>(a.segment)].push_back(latency);
    result.segment_quality[static_cast<std::size_t>(a.segment)] += scores[i];
    by_minute[static_cast<std::size_t>(a.time / 60)].push_back(latency);
    last = std::max(last, ends[i]);
  }
  for (std::size_t s = 0; s < 3; ++s) {
    result.segment_quality[s] /= static_cast<double>(by_segment[s].size());
    result.segment_p95[s] = Quantile(by_segment[s], 0.95);
  }
  for (std::vector<double>& minute : by_minute) {
    if (!minute.empty()) result.minute_p95.push_back(Quantile(minute, 0.95));
  }
  result.p95 = Quantile(all, 0.95);
  result.throughput = static_cast<double>(ends.size()) / last;
  return result;
}

// Detects differences between the stream and the plan's workload. Windows have 50 requests every 5 minutes. Scores come
// from the 5 % of requests that all models answer.
absl::Status Replan(const Stream& stream, std::int32_t gpus, const std::vector<CascadeSample>& reference,
                    Timeline& timeline) {
  const DriftOptions options;
  Random random(11);
  const std::size_t models = stream.models.size();
  const auto profiled = [](std::size_t i) {
    return static_cast<double>(Mix64(i) >> 11) * 0x1p-53 < kShare;  // drawn per request, and therefore reproducible
  };
  WorkloadSample first;
  first.scores.resize(models);
  for (std::size_t i = 0; i < static_cast<std::size_t>(options.reference_requests); ++i) {
    const CascadeSample& s = reference[i];
    first.gaps.push_back(random.Exponential() / stream.rates[0]);
    first.prompts.push_back(s.prompt);
    first.outputs.push_back(s.outputs[0]);
    for (std::size_t m = 0; m < models; ++m) first.scores[m].push_back(s.scores[m]);
  }
  DriftMonitor monitor(options, first);
  const double period = ToSeconds(options.period);
  std::size_t at = 0;
  for (double begin = 0; begin < stream.end; begin += period) {
    while (at < stream.arrivals.size() && stream.arrivals[at].time < begin) ++at;
    WorkloadSample window;
    window.scores.resize(models);
    std::size_t i = at;
    double closed = begin;
    for (; i < stream.arrivals.size() && window.requests() < options.requests; ++i) {
      const Arrival& a = stream.arrivals[i];
      const CascadeSample& s = stream.samples[static_cast<std::size_t>(a.segment)][a.sample];
      if (window.requests() > 0) window.gaps.push_back(a.time - stream.arrivals[i - 1].time);
      window.prompts.push_back(s.prompt);
      window.outputs.push_back(s.outputs[0]);
      closed = a.time;
    }
    // Scores are gathered continuously; a window counts the scores since the previous one.
    std::size_t from = at;
    while (from > 0 && stream.arrivals[from - 1].time >= begin - period) --from;
    for (std::size_t k = from; k < i; ++k) {
      const Arrival& a = stream.arrivals[k];
      if (!profiled(k)) continue;
      const CascadeSample& s = stream.samples[static_cast<std::size_t>(a.segment)][a.sample];
      for (std::size_t m = 0; m < models; ++m) window.scores[m].push_back(s.scores[m]);
    }
    const DriftReport report = monitor.Add(window);
    if (!report.drifted) continue;

    std::vector<CascadeSample> rows;
    double ready = closed;
    for (std::size_t k = at; k < stream.arrivals.size() && rows.size() < kRows; ++k) {
      if (!profiled(k)) continue;
      const Arrival& a = stream.arrivals[k];
      rows.push_back(stream.samples[static_cast<std::size_t>(a.segment)][a.sample]);
      ready = std::max(ready, a.time);
    }
    if (rows.size() < kRows) break;
    const double rate = report.recent.rate();
    const absl::StatusOr<CascadePlanner> planner = PlannerOf(ProblemOf(stream, rows, rate, gpus));
    if (!planner.ok()) return planner.status();
    const absl::StatusOr<CascadePlan> plan = planner->Plan({.quality_floor = kQuality});
    monitor.Rebase(report.recent);
    if (!plan.ok()) continue;
    constexpr double kPlanning = 1;  // s
    std::string why;
    for (const DriftSign& sign : report.signs) {
      if (why.find(Name(sign.feature)) == std::string::npos) {
        why += fmt::format("{}{}", why.empty() ? "" : ", ", Name(sign.feature));
      }
    }
    if (absl::Status status = Change(timeline, stream, *plan, ready + kPlanning, why, random); !status.ok())
      return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<CascadiaFluctuation>> Fluctuate(CascadiaCascade cascade, const CascadiaSettings& settings,
                                                           const RunProgress& progress) {
  absl::StatusOr<std::vector<ServedModel>> models = CascadiaModels(cascade);
  if (!models.ok()) return models.status();
  Stream stream;
  stream.models = *std::move(models);
  const double scale = settings.minutes / 10;
  std::vector<CascadePlanner> planners;
  double begin = 0;
  for (int segment = 0; segment < 3; ++segment) {
    stream.samples.push_back(DrawCascadia(segment + 1, stream.models.size(), kProfiled, 1).sample);
    absl::StatusOr<CascadePlanner> planner = PlannerOf(ProblemOf(stream, stream.samples.back(), 1, settings.gpus));
    if (!planner.ok()) return planner.status();
    const double rate = kLoad * planner->SustainableRate(kQuality);
    stream.rates[static_cast<std::size_t>(segment)] = rate;
    const double length = kMinutes[segment] * 60 * scale;
    const std::vector<CascadeArrival> own = DrawCascadeArrivals(
        kProfiled, rate, static_cast<std::int64_t>(rate * length * 2), static_cast<std::uint64_t>(31 + segment));
    for (const CascadeArrival& a : own) {
      if (a.time >= length) break;
      stream.arrivals.push_back({begin + a.time, segment, a.sample});
    }
    begin += length;
    planners.push_back(*std::move(planner));
    if (!progress(0.1 * (segment + 1))) return absl::CancelledError("stopped");
  }
  stream.end = begin;

  const absl::StatusOr<CascadePlan> first = planners[0].Plan({.quality_floor = kQuality}, stream.rates[0]);
  if (!first.ok()) return first.status();
  std::vector<CascadiaFluctuation> results;
  const auto add = [&](const Stream& served, const Timeline& timeline, const char* name) {
    results.push_back(Serve(served, timeline, name));
    results.back().cascade = cascade;
  };

  Timeline replanned;
  Begin(replanned, *first);
  if (absl::Status status = Replan(stream, settings.gpus, stream.samples[0], replanned); !status.ok()) return status;
  add(stream, replanned, "takt");
  if (!progress(0.6)) return absl::CancelledError("stopped");

  Timeline kept;
  Begin(kept, *first);
  add(stream, kept, "takt, its first plan");

  // CascadeServe: thresholds and replicas of each range of load, from trace 1 and average lengths. It selects another
  // range one minute after the load has changed.
  Stream fixed = stream;
  for (ServedModel& m : fixed.models) {
    const std::int32_t tp = m.name == "llama-3.1-8b" ? 1 : m.name == "llama-3.1-70b" ? 4 : 8;
    std::erase_if(m.shapes, [tp](const Profile& p) { return p.cost.tp != tp || p.cost.pp != 1; });
  }
  const absl::StatusOr<CascadePlanner> serve =
      PlannerOf(ProblemOf(fixed, WithMeanLengths(stream.samples[0]), 1, settings.gpus));
  if (!serve.ok()) return serve.status();
  const double most = serve->SustainableRate(kQuality);
  Timeline switched;
  Random random(12);
  double now = 0;
  for (std::size_t segment = 0; segment < 3 && most > 0; ++segment) {
    const double range = std::min(std::ceil(stream.rates[segment] / (most / 10)), 10.0) * (most / 10) * (1 - 1e-6);
    const absl::StatusOr<CascadePlan> plan = serve->Plan({.quality_floor = kQuality}, range);
    if (!plan.ok()) return plan.status();
    if (segment == 0) {
      Begin(switched, *plan);
    } else if (absl::Status status = Change(switched, fixed, *plan, now + 60, "rate", random); !status.ok()) {
      return status;
    }
    now += kMinutes[segment] * 60 * scale;
  }
  if (most > 0) add(fixed, switched, "CascadeServe");
  if (!progress(0.8)) return absl::CancelledError("stopped");

  // The smallest model that reaches the quality alone.
  for (std::size_t m = 0; m < stream.models.size(); ++m) {
    Stream alone = stream;
    alone.models = {stream.models[m]};
    double quality = 0;
    for (std::vector<CascadeSample>& sample : alone.samples) {
      for (CascadeSample& s : sample) s = {s.prompt, {s.outputs[m]}, {s.scores[m]}};
    }
    for (const CascadeSample& s : alone.samples[0]) quality += s.scores[0] / static_cast<double>(kProfiled);
    if (quality < kQuality) continue;
    const absl::StatusOr<CascadePlanner> planner = PlannerOf(ProblemOf(alone, alone.samples[0], 1, settings.gpus));
    if (!planner.ok()) return planner.status();
    const double rate = std::min(stream.rates[0], planner->SustainableRate(kQuality));
    const absl::StatusOr<CascadePlan> plan = planner->Plan({.quality_floor = kQuality}, rate * (1 - 1e-6));
    if (!plan.ok()) return plan.status();
    Timeline timeline;
    Begin(timeline, *plan);
    add(alone, timeline, "stand-alone");
    break;
  }
  return results;
}

}  // namespace takt::tool
