#include "lab/cascadia/fluctuation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "fmt/format.h"
#include "takt/base/random.h"
#include "takt/numeric/quantile.h"
#include "takt/systems/cascadia.h"
#include "takt/workload/cascadia.h"

namespace takt::tool {
namespace {

constexpr double kQuality = 80;
constexpr double kMinutes[] = {8, 16, 10};  // of traces 1, 2, 3
constexpr std::int32_t kRows = 100;          // all-model requests that a new plan waits for

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

systems::CascadiaOptions OptionsOf(const Stream& stream, std::int32_t gpus) {
  systems::CascadiaOptions options{.models = stream.models, .gpus = gpus, .goal = {.quality_floor = kQuality}};
  options.plan.simulated = 0;
  options.plan_requests = kRows;
  return options;
}

// Operates a system: answers requests at once, starts each replica in 2 to 20 s (appendix G), and keeps the timeline.
class Operator {
 public:
  static absl::StatusOr<Operator> Create(const Stream& stream, std::int32_t gpus) {
    absl::StatusOr<systems::Cascadia> cascadia =
        systems::Cascadia::Create(OptionsOf(stream, gpus), stream.samples[0], stream.rates[0]);
    if (!cascadia.ok()) return cascadia.status();
    return Operator(stream, gpus, *std::move(cascadia));
  }

  // Changes to a plan. At time 0 its replicas serve at once.
  absl::Status Change(CascadePlan plan, double now, std::string why) {
    RunUntil(now);
    absl::StatusOr<systems::CascadiaResult> change =
        systems::Cascadia::ChangeTo(std::move(plan), OptionsOf(*stream_, gpus_), cascadia_.replicas());
    if (!change.ok()) return change.status();
    Apply(*std::move(change), now, std::move(why));
    return absl::OkStatus();
  }

  // Lets the system see all arrivals, and follow its own plans. A plan takes a second.
  absl::Status Watch() {
    constexpr double kPlanning = 1;  // s
    std::optional<systems::CascadiaResult> planned;
    double due = kInf;
    for (arrival_ = 0; arrival_ < stream_->arrivals.size(); ++arrival_) {
      const double now = stream_->arrivals[arrival_].time;
      if (due <= now) {
        RunUntil(due);
        Apply(*std::exchange(planned, {}), std::exchange(due, kInf), Why());
      }
      RunUntil(now);
      cascadia_.OnArrived({.id = {arrival_ + 1}, .prompt_tokens = {SampleOf(arrival_).prompt}}, At(now));
      Follow(now);
      while (cascadia_.HasWork(At(now))) {
        const systems::CascadiaWork work = cascadia_.TakeWork(At(now));
        absl::StatusOr<systems::CascadiaResult> result = systems::Cascadia::Do(work);
        if (!result.ok() && !absl::IsFailedPrecondition(result.status())) return result.status();
        if (!result.ok()) {
          cascadia_.GiveUp();
        } else if (work.monitor) {
          cascadia_.Apply(*std::move(result), At(now));
        } else {
          planned = *std::move(result), due = now + kPlanning;
        }
      }
    }
    return absl::OkStatus();
  }

  Timeline Take() {
    RunUntil(kInf);
    return std::move(timeline_);
  }

 private:
  using Action = systems::CascadiaAction;
  struct Opening {
    double time = 0;
    InstanceId replica;
  };

  Operator(const Stream& stream, std::int32_t gpus, systems::Cascadia cascadia)
      : stream_(&stream), gpus_(gpus), cascadia_(std::move(cascadia)) {
    timeline_.replicas.resize(stream.models.size());
  }

  static TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }
  const CascadeSample& SampleOf(std::size_t arrival) const {
    const Arrival& a = stream_->arrivals[arrival];
    return stream_->samples[static_cast<std::size_t>(a.segment)][a.sample];
  }
  std::string Why() const {
    std::string why;
    for (const DriftSign& sign : cascadia_.last_drift().signs) {
      if (why.find(Name(sign.feature)) != std::string::npos) continue;
      why += fmt::format("{}{}", why.empty() ? "" : ", ", Name(sign.feature));
    }
    return why;
  }

  void Apply(systems::CascadiaResult result, double now, std::string why) {
    if (now > 0) timeline_.changes.push_back({now, now, std::move(why)});
    cascadia_.Apply(std::move(result), At(now));
    Follow(now);
  }

  void RunUntil(double time) {
    while (!openings_.empty() && openings_.front().time <= time) {
      const Opening opening = openings_.front();
      openings_.erase(openings_.begin());
      cascadia_.OnReplicaUp(opening.replica, At(opening.time));
      Follow(opening.time);
    }
  }

  void Follow(double now) {
    for (bool more = true; more;) {
      const std::span<const Action> next = cascadia_.Next(At(now));
      const std::vector<Action> actions(next.begin(), next.end());
      for (const Action& a : actions) Do(a, now);
      more = !actions.empty();
    }
    if (cascadia_.changing() || cascadia_.plan().models.empty()) return;
    if (timeline_.routings.size() > timeline_.changes.size()) return;
    timeline_.routings.push_back({now, cascadia_.plan().thresholds});
    if (!timeline_.changes.empty()) timeline_.changes.back().done_s = now;
  }

  void Do(const Action& a, double now) {
    const auto model = static_cast<std::size_t>(a.model);
    const std::size_t request = a.request.value - 1;
    switch (a.kind) {
      case Action::kServe: cascadia_.OnAnswered(a.request, a.model, {SampleOf(request).outputs[model]}, At(now)); break;
      case Action::kJudge: cascadia_.OnJudged(a.request, a.model, SampleOf(request).scores[model], At(now)); break;
      case Action::kStart: {
        const double open = now > 0 ? now + 2 + 18 * random_.Uniform() : 0;
        const auto at = std::ranges::find(cascadia_.replicas(), a.instance, &systems::CascadiaReplica::id);
        places_[a.instance] = timeline_.replicas[model].size();
        timeline_.replicas[model].push_back({a.shape, at->rate, open, kInf});
        openings_.push_back({open, a.instance});
        break;
      }
      case Action::kStop:
        timeline_.replicas[model][places_[a.instance]].close = now;
        cascadia_.OnReplicaDown(a.instance, At(now));
        break;
      default: break;
    }
  }

  const Stream* stream_;
  std::int32_t gpus_;
  systems::Cascadia cascadia_;
  Timeline timeline_;
  std::vector<Opening> openings_;  // of replicas that start, by time
  std::map<InstanceId, std::size_t> places_;  // of replicas in their model's windows
  Random random_{11};
  std::size_t arrival_ = 0;
};

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

// Returns the timeline of a plan that stays.
absl::StatusOr<Timeline> Keep(const Stream& stream, std::int32_t gpus, CascadePlan plan) {
  absl::StatusOr<Operator> system = Operator::Create(stream, gpus);
  if (!system.ok()) return system.status();
  if (absl::Status status = system->Change(std::move(plan), 0, ""); !status.ok()) return status;
  return system->Take();
}

}  // namespace

absl::StatusOr<std::vector<CascadiaFluctuation>> Fluctuate(CascadiaCascade cascade, const CascadiaSettings& settings,
                                                           const RunProgress& progress) {
  absl::StatusOr<std::vector<ServedModel>> models = CascadiaModels(cascade, settings.engine);
  if (!models.ok()) return models.status();
  Stream stream;
  stream.models = *std::move(models);
  const double scale = settings.minutes / 10;
  std::vector<CascadePlanner> planners;
  double begin = 0;
  for (int segment = 0; segment < 3; ++segment) {
    stream.samples.push_back(
        DrawCascadia(segment + 1, stream.models.size(), kProfiled, settings.seed, settings.harder).sample);
    absl::StatusOr<CascadePlanner> planner = PlannerOf(ProblemOf(stream, stream.samples.back(), 1, settings.gpus));
    if (!planner.ok()) return planner.status();
    const double rate = settings.load * planner->SustainableRate(kQuality);
    stream.rates[static_cast<std::size_t>(segment)] = rate;
    const double length = kMinutes[segment] * 60 * scale;
    const std::vector<CascadeArrival> own =
        DrawCascadeArrivals(kProfiled, rate, static_cast<std::int64_t>(rate * length * 2),
                            28 + 3 * settings.seed + static_cast<std::uint64_t>(segment));
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

  absl::StatusOr<Operator> replanned = Operator::Create(stream, settings.gpus);
  if (!replanned.ok()) return replanned.status();
  if (absl::Status status = replanned->Change(*first, 0, ""); !status.ok()) return status;
  if (absl::Status status = replanned->Watch(); !status.ok()) return status;
  add(stream, replanned->Take(), "takt");
  if (!progress(0.6)) return absl::CancelledError("stopped");

  const absl::StatusOr<Timeline> kept = Keep(stream, settings.gpus, *first);
  if (!kept.ok()) return kept.status();
  add(stream, *kept, "takt, its first plan");

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
  absl::StatusOr<Operator> switched = Operator::Create(fixed, settings.gpus);
  if (!switched.ok()) return switched.status();
  double now = 0;
  for (std::size_t segment = 0; segment < 3 && most > 0; ++segment) {
    const double range = std::min(std::ceil(stream.rates[segment] / (most / 10)), 10.0) * (most / 10) * (1 - 1e-6);
    const absl::StatusOr<CascadePlan> plan = serve->Plan({.quality_floor = kQuality}, range);
    if (!plan.ok()) return plan.status();
    if (absl::Status status = switched->Change(*plan, segment == 0 ? 0 : now + 60, "rate"); !status.ok()) return status;
    now += kMinutes[segment] * 60 * scale;
  }
  if (most > 0) add(fixed, switched->Take(), "CascadeServe");
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
    const absl::StatusOr<Timeline> timeline = Keep(alone, settings.gpus, *plan);
    if (!timeline.ok()) return timeline.status();
    add(alone, *timeline, "stand-alone");
    break;
  }
  return results;
}

}  // namespace takt::tool
