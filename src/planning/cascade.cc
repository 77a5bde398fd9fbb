#include "takt/planning/cascade.h"

#include "takt/base/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "takt/base/random.h"
#include "takt/numeric/quantile.h"

namespace takt {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostRoutings = 1'000'000;

template <class... Args>
void Expect(Faults& faults, bool fine, fmt::format_string<Args...> text, Args&&... args) {
  if (!fine) faults.Add(fmt::format(text, std::forward<Args>(args)...));
}

// Returns the thresholds of each model but the last.
std::vector<std::vector<double>> GridsOf(const CascadeOptions& options, std::size_t models) {
  if (!options.grids.empty()) return options.grids;
  std::vector<double> grid = options.grid;
  if (grid.empty()) {
    grid.resize(102);
    std::iota(grid.begin(), grid.end(), 0.0);
  }
  return std::vector<std::vector<double>>(models - 1, grid);
}

absl::Status ValidateGrids(const CascadeOptions& options, std::size_t models) {
  Faults faults;
  const std::vector<std::vector<double>> grids = GridsOf(options, models);
  Expect(faults, grids.size() + 1 == models,
         "grids: {} grids for a cascade of {} models; expected one for each model but the last", grids.size(), models);
  double routings = 1;
  for (std::size_t i = 0; i < grids.size(); ++i) {
    Expect(faults, !grids[i].empty(), "thresholds of model {}: empty; expected at least one", i + 1);
    for (std::size_t k = 0; k < grids[i].size(); ++k) {
      Expect(faults, std::isfinite(grids[i][k]), "thresholds of model {}: {} is not a number", i + 1, grids[i][k]);
      Expect(faults, k == 0 || !(grids[i][k] <= grids[i][k - 1]),
             "thresholds of model {}: {} comes after {}; expected ascending values", i + 1, grids[i][k],
             k == 0 ? 0 : grids[i][k - 1]);
    }
    routings *= static_cast<double>(grids[i].size());
  }
  Expect(faults, routings <= static_cast<double>(kMostRoutings),
         "grid: {:.0f} routings; expected at most {}, so use a coarser grid", routings, kMostRoutings);
  Expect(faults, options.latency_step > 1e-4 && options.latency_step <= 1,
         "latency_step is {}: must be above 1e-4, up to 1", options.latency_step);
  Expect(faults, options.simulated >= 0 && options.simulated <= 100'000'000,
         "simulated is {}: must be 0 to 100 million requests", options.simulated);
  return faults.ToStatus();
}

// Cost of a prompt token and of an output token in a batch of typical size, relative to each other.
struct TokenCost {
  double prompt = 1, output = 1;
};

TokenCost CostOf(const Profile& profile) {
  constexpr std::int64_t kPrompt = 1024, kBatch = 64, kContext = 1024;
  StepLoad prefill;
  prefill.AddPrefill(kPrompt, 0, true);
  const StepLoad decode{.decodes = kBatch, .decode_context = kBatch * kContext, .samples = kBatch};
  return {ToSeconds(profile.cost.StepTime(prefill)) / kPrompt, ToSeconds(profile.cost.StepTime(decode)) / kBatch};
}

double WorkOf(const TokenCost& cost, const CascadeSample& s, std::size_t model, double prefix_hit_rate) {
  const double computed = s.prompt * (1 - std::clamp(prefix_hit_rate, 0.0, 1.0));
  return cost.prompt * computed + cost.output * s.outputs[model];
}

}  // namespace

double QualityPenalised(double latency, double quality, double floor, double utopia, double nadir, double mu) {
  if (quality >= floor) return latency;
  const double range = utopia - nadir > 0 ? utopia - nadir : 1;
  return latency + mu * ((floor - quality) / range);
}

double LatencyPenalised(double quality, double latency, double budget, double least, double most, double nu) {
  if (latency <= budget) return -quality;
  const double range = most - least > 0 ? most - least : 1;
  return -quality + nu * ((latency - budget) / range);
}

absl::Status CascadeProblem::Validate() const {
  Faults faults;
  Expect(faults, !models.empty(), "models: empty; expected at least one");
  Expect(faults, models.size() <= 16, "models: {}; expected at most 16", models.size());
  Expect(faults, !sample.empty(), "sample: empty; expected requests with lengths and scores");
  Expect(faults, rate > 0 && rate <= 1e6, "rate is {}: must be positive, up to 1e6 requests/s", rate);
  Expect(faults, gpus >= 1 && gpus <= 65536, "gpus is {}: must be 1 to 65,536", gpus);
  Expect(faults, judge_s >= 0 && judge_s <= 1e6, "judge_s is {}: must be 0 to 1e6", judge_s);
  Expect(faults, gpu_usd_per_hour >= 0 && gpu_usd_per_hour <= 1e9, "gpu_usd_per_hour is {}: must be 0 to 1e9",
         gpu_usd_per_hour);
  for (std::size_t i = 0; i < models.size(); ++i) {
    const ServedModel& m = models[i];
    Expect(faults, !m.shapes.empty(), "model {} \"{}\": no shapes; expected at least one", i + 1, m.name);
    Expect(faults, m.token_budget >= 1 && m.max_seqs >= 1,
           "model {} \"{}\": token_budget {} and max_seqs {} must be at least 1", i + 1, m.name, m.token_budget,
           m.max_seqs);
    Expect(faults, m.prefix_hit_rate >= 0 && m.prefix_hit_rate <= 1,
           "model {} \"{}\": prefix_hit_rate is {}: must be 0 to 1", i + 1, m.name, m.prefix_hit_rate);
  }
  for (std::size_t r = 0; r < sample.size(); ++r) {
    const CascadeSample& s = sample[r];
    Expect(faults, s.outputs.size() == models.size() && s.scores.size() == models.size(),
           "sample {}: {} outputs and {} scores for {} models", r + 1, s.outputs.size(), s.scores.size(),
           models.size());
    Expect(faults, s.prompt >= 1, "sample {}: prompt of {} tokens", r + 1, s.prompt);
    for (std::size_t i = 0; i < s.outputs.size(); ++i) {
      Expect(faults, s.outputs[i] >= 1, "sample {}, model {}: output of {} tokens", r + 1, i + 1, s.outputs[i]);
    }
    for (std::size_t i = 0; i < s.scores.size(); ++i) {
      Expect(faults, s.scores[i] >= 0 && s.scores[i] <= 100, "sample {}, model {}: score {} is not in 0 to 100", r + 1,
             i + 1, s.scores[i]);
    }
  }
  return faults.ToStatus();
}

// ---- simulation -----------------------------------------------------------------------------------------------------

std::vector<CascadeArrival> DrawCascadeArrivals(std::size_t sample, double rate, std::int64_t requests,
                                                std::uint64_t seed) {
  std::vector<CascadeArrival> arrivals;
  if (sample == 0 || !(rate > 0)) return arrivals;
  Random gaps(seed), order(Mix64(seed) + 1);
  std::vector<std::uint32_t> deck(sample);
  std::iota(deck.begin(), deck.end(), 0u);
  double now = 0;
  for (std::int64_t i = 0; i < requests; ++i) {
    const std::size_t place = static_cast<std::size_t>(i) % sample;
    if (place == 0) {
      for (std::size_t k = sample; k > 1; --k) std::swap(deck[k - 1], deck[order.Below(k)]);
    }
    arrivals.push_back({now, deck[place]});
    now += gaps.Exponential() / rate;
  }
  return arrivals;
}

namespace {

// The requests of a run on their path through the cascade.
class Way {
 public:
  Way(const CascadeProblem& problem, std::span<const double> thresholds, std::span<const CascadeArrival> arrivals)
      : problem_(problem), thresholds_(thresholds), arrivals_(arrivals) {
    run_.latency.resize(arrivals.size());
    run_.quality.resize(arrivals.size());
    for (std::uint32_t i = 0; i < arrivals.size(); ++i) visits_.push_back({arrivals[i].time, i});
    Load();
  }

  // Runs a mix of replicas on the requests that have reached the next model.
  MixRun Try(std::span<const ReplicaCount> replicas, double quantile) {
    ends_.assign(requests_.size(), 0);
    return SimulateMix(problem_.models[model_], replicas, requests_, ends_, quantile);
  }

  // Does the same, then continues with the next model.
  void Pass(std::span<const ReplicaCount> replicas, double quantile) {
    run_.models.push_back(Try(replicas, quantile));
    run_.shares.push_back(
        arrivals_.empty() ? 0 : static_cast<double>(visits_.size()) / static_cast<double>(arrivals_.size()));
    const bool judged = model_ + 1 < problem_.models.size();
    std::vector<Visit> next;
    for (std::size_t i = 0; i < visits_.size(); ++i) {
      const std::uint32_t r = visits_[i].request;
      const double score = problem_.sample[arrivals_[r].sample].scores[model_];
      const double end = ends_[i] + (judged ? problem_.judge_s : 0);
      if (judged && score < thresholds_[model_] && end < kInf) {
        next.push_back({end, r});
      } else {
        run_.latency[r] = end - arrivals_[r].time;
        run_.quality[r] = score;
      }
    }
    std::sort(next.begin(), next.end(), [](const Visit& a, const Visit& b) {
      return a.time != b.time ? a.time < b.time : a.request < b.request;
    });
    visits_.swap(next);
    ++model_;
    if (judged) Load();
  }

  // Call it after the last model.
  CascadeRun Take(double quantile) {
    std::vector<double> counted(run_.latency.begin() + static_cast<std::ptrdiff_t>(arrivals_.size() / 4),
                                run_.latency.end());
    run_.p95 = counted.empty() ? 0 : Quantile(counted, quantile);
    for (const double q : run_.quality) run_.mean_quality += q / static_cast<double>(arrivals_.size());
    return std::move(run_);
  }

 private:
  struct Visit {
    double time;
    std::uint32_t request;
  };

  void Load() {
    requests_.clear();
    for (const Visit& v : visits_) {
      const CascadeSample& s = problem_.sample[arrivals_[v.request].sample];
      requests_.push_back({v.time, s.prompt, s.outputs[model_]});
    }
  }

  const CascadeProblem& problem_;
  std::span<const double> thresholds_;
  std::span<const CascadeArrival> arrivals_;
  std::size_t model_ = 0;
  std::vector<Visit> visits_;
  std::vector<FastRequest> requests_;  // requests of the model
  std::vector<double> ends_;
  CascadeRun run_;
};

}  // namespace

CascadeRun SimulateCascade(const CascadeProblem& problem, std::span<const double> thresholds,
                           std::span<const std::vector<ReplicaCount>> replicas,
                           std::span<const CascadeArrival> arrivals, double quantile) {
  Way way(problem, thresholds, arrivals);
  for (std::size_t m = 0; m < problem.models.size(); ++m) way.Pass(replicas[m], quantile);
  return way.Take(quantile);
}

// ---- routings -------------------------------------------------------------------------------------------------------

absl::StatusOr<CascadePlanner> CascadePlanner::Create(CascadeProblem problem, CascadeOptions options,
                                                      const ParallelFor& parallel, const Progress& progress) {
  if (absl::Status status = problem.Validate(); !status.ok()) return status;
  if (absl::Status status = ValidateGrids(options, problem.models.size()); !status.ok()) return status;
  std::vector<std::vector<RequestLengths>> lengths(problem.models.size());
  for (std::size_t m = 0; m < lengths.size(); ++m) {
    for (const CascadeSample& s : problem.sample) lengths[m].push_back({s.prompt, s.outputs[m]});
  }
  constexpr double kMeasuring = 0.9;  // share of the total progress
  const Progress share = progress ? Progress([&](double done) { return progress(kMeasuring * done); }) : Progress{};
  absl::StatusOr<std::vector<ModelRates>> rates = MeasureRates(problem.models, lengths, options.rates, parallel, share);
  if (!rates.ok()) return rates.status();
  MixTable table(*rates, problem.gpus, options.latency_step);
  CascadePlanner planner(std::move(problem), std::move(options), *std::move(rates), std::move(table));
  planner.Enumerate();
  if (progress && !progress(1)) return absl::CancelledError("planning was stopped");
  return planner;
}

// Enumerates all routings that escalate different requests, with their quality and the work that reaches each model.
void CascadePlanner::Enumerate() {
  const std::size_t models = problem_.models.size();
  const std::vector<CascadeSample>& sample = problem_.sample;
  const auto all = static_cast<double>(sample.size());
  const std::vector<std::vector<double>> grids = GridsOf(options_, models);

  std::vector<std::vector<double>> work(models);
  for (std::size_t m = 0; m < models; ++m) {
    const ServedModel& model = problem_.models[m];
    const TokenCost cost = CostOf(model.shapes[rates_[m].shapes.front().shape]);
    double sum = 0;
    for (const CascadeSample& s : sample) sum += work[m].emplace_back(WorkOf(cost, s, m, model.prefix_hit_rate));
    for (double& w : work[m]) w /= sum;
  }
  for (const CascadeSample& s : sample) {
    utopia_ += s.scores.back() / all;
    nadir_ += s.scores.front() / all;
  }

  std::vector<double> thresholds(models - 1), shares(models), works(models);
  // The requests in `reach` get to model m; `accepted` is the sum of the scores of the others.
  const auto descend = [&](const auto& self, std::size_t m, const std::vector<std::uint32_t>& reach,
                           double accepted) -> void {
    shares[m] = static_cast<double>(reach.size()) / all;
    works[m] = 0;
    for (const std::uint32_t r : reach) works[m] += work[m][r];
    if (m + 1 == models) {
      for (const std::uint32_t r : reach) accepted += sample[r].scores[m];
      thresholds_.insert(thresholds_.end(), thresholds.begin(), thresholds.end());
      quality_.push_back(accepted / all);
      shares_.insert(shares_.end(), shares.begin(), shares.end());
      work_.insert(work_.end(), works.begin(), works.end());
      return;
    }
    std::vector<std::uint32_t> by_score = reach;
    std::sort(by_score.begin(), by_score.end(), [&](std::uint32_t a, std::uint32_t b) {
      return sample[a].scores[m] != sample[b].scores[m] ? sample[a].scores[m] < sample[b].scores[m] : a < b;
    });
    double left = accepted;
    for (const std::uint32_t r : by_score) left += sample[r].scores[m];
    std::vector<std::uint32_t> goes_on;
    bool first = true;
    for (const double h : grids[m]) {
      const std::size_t before = goes_on.size();
      while (goes_on.size() < by_score.size() && sample[by_score[goes_on.size()]].scores[m] < h) {
        left -= sample[by_score[goes_on.size()]].scores[m];
        goes_on.push_back(by_score[goes_on.size()]);
      }
      if (!first && goes_on.size() == before) continue;
      first = false;
      thresholds[m] = h;
      self(self, m + 1, goes_on, left);
    }
  };
  std::vector<std::uint32_t> everyone(sample.size());
  std::iota(everyone.begin(), everyone.end(), 0u);
  descend(descend, 0, everyone, 0);
}

std::vector<double> CascadePlanner::thresholds(std::size_t routing) const {
  const std::size_t width = problem_.models.size() - 1;
  const auto begin = thresholds_.begin() + static_cast<std::ptrdiff_t>(routing * width);
  return {begin, begin + static_cast<std::ptrdiff_t>(width)};
}

std::vector<double> CascadePlanner::RatesOf(std::size_t routing, double rate) const {
  std::vector<double> rates;
  for (const double w : Of(work_, routing)) rates.push_back(w * RateOr(rate));
  return rates;
}

double CascadePlanner::best_quality() const { return *std::max_element(quality_.begin(), quality_.end()); }

// ---- plans ----------------------------------------------------------------------------------------------------------

std::int32_t CascadePlanner::GpusOf(std::size_t routing, std::size_t level, double rate) const {
  std::int64_t sum = 0;
  const std::span<const double> work = Of(work_, routing);
  for (std::size_t m = 0; m < work.size(); ++m) sum += table_.LeastGpus(m, level, work[m] * rate);
  return static_cast<std::int32_t>(std::min<std::int64_t>(sum, std::numeric_limits<std::int32_t>::max()));
}

// Returns the least latency of the routing as a level of the table. Uses the threshold search of allocation.h on all
// models' rows at once.
std::size_t CascadePlanner::LevelOf(std::size_t routing, double rate) const {
  std::size_t low = 0, high = table_.latencies().size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (GpusOf(routing, middle, rate) <= table_.gpus()) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

std::vector<std::size_t> CascadePlanner::Levels(double rate) const {
  std::vector<std::size_t> levels(routings());
  for (std::size_t r = 0; r < routings(); ++r) levels[r] = LevelOf(r, rate);
  return levels;
}

std::vector<std::int32_t> CascadePlanner::Allocate(std::size_t routing, std::size_t level, double rate) const {
  const std::size_t models = problem_.models.size();
  const std::vector<double> rates = RatesOf(routing, rate);
  std::vector<std::int32_t> gpus(models);
  std::int32_t spare = table_.gpus();
  for (std::size_t m = 0; m < models; ++m) spare -= gpus[m] = table_.LeastGpus(m, level, rates[m]);
  // Remaining GPUs go to the slowest model that they make faster, then to the second slowest, and so on.
  std::vector<bool> settled(models);
  for (;;) {
    std::size_t slowest = models;
    for (std::size_t m = 0; m < models; ++m) {
      if (settled[m] || gpus[m] == 0) continue;
      if (slowest == models ||
          table_.LeastLevel(m, gpus[m], rates[m]) > table_.LeastLevel(slowest, gpus[slowest], rates[slowest])) {
        slowest = m;
      }
    }
    if (slowest == models) break;
    const std::size_t now = table_.LeastLevel(slowest, gpus[slowest], rates[slowest]);
    std::int32_t more = 1;
    while (more <= spare && table_.LeastLevel(slowest, gpus[slowest] + more, rates[slowest]) >= now) ++more;
    if (more > spare) {
      settled[slowest] = true;
      continue;
    }
    gpus[slowest] += more;
    spare -= more;
  }
  return gpus;
}

// Each model's GPUs must serve its rate.
CascadePlan CascadePlanner::Build(std::size_t routing, std::span<const std::int32_t> gpus, double rate) const {
  const std::size_t models = problem_.models.size();
  const std::vector<double> rates = RatesOf(routing, rate);
  CascadePlan plan;
  plan.thresholds = thresholds(routing);
  plan.quality = quality_[routing];
  for (std::size_t m = 0; m < models; ++m) {
    ModelPlan& own = plan.models.emplace_back();
    own.name = problem_.models[m].name;
    own.share = shares(routing)[m];
    own.rate = own.share * rate;
    own.gpus = gpus[m];
    if (gpus[m] > 0) {
      const std::size_t reached = table_.LeastLevel(m, gpus[m], rates[m]);
      own.p95 = table_.latencies()[reached];
      own.replicas = table_.Mix(m, reached, gpus[m]);
    }
    plan.latency = std::max(plan.latency, own.p95);
    plan.gpus += gpus[m];
  }
  plan.objective = plan.latency;
  plan.usd_per_hour = problem_.gpus * problem_.gpu_usd_per_hour;
  plan.usd_per_1000 = plan.usd_per_hour / 3600 / rate * 1000;
  return plan;
}

std::vector<std::vector<ReplicaCount>> CascadePlanner::Mixes(std::size_t model, std::int32_t gpus, double rate) const {
  std::vector<std::vector<ReplicaCount>> mixes;
  const auto add = [&](std::vector<ReplicaCount> mix) {
    const double latency = table_.MixLatency(model, mix, rate);
    if (!(latency < kInf)) return;  // a short run would not show the growing queue
    for (ReplicaCount& r : mix) {
      for (const ShapeRates& s : rates_[model].shapes) {
        if (s.shape == r.shape) r.rate = s.curve.LargestRate(latency);
      }
    }
    if (std::find(mixes.begin(), mixes.end(), mix) == mixes.end()) mixes.push_back(std::move(mix));
  };
  const std::size_t least = table_.LeastLevel(model, gpus, rate);
  for (const std::size_t above : {0u, 8u, 32u, 64u}) {
    if (least + above < table_.latencies().size()) add(table_.Mix(model, least + above, gpus));
  }
  for (const ShapeRates& s : rates_[model].shapes) {
    if (s.gpus <= gpus) add({{s.shape, gpus / s.gpus, 0}});
  }
  return mixes;
}

// Runs long enough to show queues: ten times the latency, but at most eight times the requested number.
std::vector<CascadeArrival> CascadePlanner::Arrivals(double rate, double latency) const {
  const auto least = static_cast<double>(options_.simulated);
  const auto requests = static_cast<std::int64_t>(std::clamp(rate * 10 * latency, least, 8 * least));
  return DrawCascadeArrivals(problem_.sample.size(), rate, requests, options_.seed);
}

void CascadePlanner::Simulate(CascadePlan& plan, double rate) const {
  if (options_.simulated == 0) return;
  const double quantile = options_.rates.quantile;
  const std::vector<CascadeArrival> arrivals = Arrivals(rate, plan.latency);
  Way way(problem_, plan.thresholds, arrivals);
  for (std::size_t m = 0; m < plan.models.size(); ++m) {
    ModelPlan& own = plan.models[m];
    if (own.gpus > 0) {
      double least = way.Try(own.replicas, quantile).p95;
      for (std::vector<ReplicaCount>& mix : Mixes(m, own.gpus, own.rate)) {
        const double p95 = way.Try(mix, quantile).p95;
        if (p95 < least) least = p95, own.replicas = std::move(mix), own.replaced = true;
      }
    }
    way.Pass(own.replicas, quantile);
  }
  const CascadeRun run = way.Take(quantile);
  for (std::size_t m = 0; m < plan.models.size(); ++m) {
    plan.models[m].simulated_p95 = run.models[m].p95;
    plan.models[m].utilisation = run.models[m].utilisation;
    plan.simulated_latency = std::max(plan.simulated_latency, run.models[m].p95);
  }
  plan.simulated_e2e = run.p95;
  plan.simulated_quality = run.mean_quality;
}

// Starts from the best routings by the tables that escalate different requests. Moves GPUs between models while the
// path gets faster.
CascadePlan CascadePlanner::FastestPath(std::span<const std::size_t> levels, const CascadeGoal& goal,
                                        double rate) const {
  constexpr std::size_t kRoutings = 12;
  constexpr double kDiffer = 0.03;  // difference in the share that reaches a model
  constexpr std::int64_t kRequests = 3000;
  std::vector<std::size_t> order;
  for (std::size_t r = 0; r < routings(); ++r) {
    if (levels[r] < table_.latencies().size() && quality_[r] >= goal.quality_floor) order.push_back(r);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (levels[a] != levels[b]) return levels[a] < levels[b];
    return quality_[a] != quality_[b] ? quality_[a] > quality_[b] : a < b;
  });
  std::vector<std::size_t> starts;
  for (const std::size_t r : order) {
    if (starts.size() == kRoutings) break;
    const bool known = std::any_of(starts.begin(), starts.end(), [&](std::size_t other) {
      double most = 0;
      for (std::size_t m = 0; m < problem_.models.size(); ++m) {
        most = std::max(most, std::abs(shares(r)[m] - shares(other)[m]));
      }
      return most < kDiffer;
    });
    if (!known) starts.push_back(r);
  }

  double slowest = 0;
  for (const std::size_t r : starts) slowest = std::max(slowest, table_.latencies()[levels[r]]);
  const auto requests = static_cast<std::int64_t>(
      std::clamp(rate * 4 * slowest, static_cast<double>(kRequests), 8.0 * static_cast<double>(kRequests)));
  const std::vector<CascadeArrival> arrivals =
      DrawCascadeArrivals(problem_.sample.size(), rate, requests, options_.seed);
  struct State {
    std::size_t routing = 0;
    std::vector<std::int32_t> gpus;
    double p95 = kInf;
  };
  const auto judge = [&](State& state) {
    const std::vector<double> rates = RatesOf(state.routing, rate);
    for (std::size_t m = 0; m < rates.size(); ++m) {
      if (state.gpus[m] < 0 || !(table_.Latency(m, state.gpus[m], rates[m]) < kInf)) return;
    }
    const CascadePlan plan = Build(state.routing, state.gpus, rate);
    std::vector<std::vector<ReplicaCount>> replicas;
    for (const ModelPlan& m : plan.models) replicas.push_back(m.replicas);
    state.p95 = SimulateCascade(problem_, plan.thresholds, replicas, arrivals, options_.rates.quantile).p95;
  };
  std::vector<State> states;
  for (const std::size_t r : starts) {
    State& state = states.emplace_back(State{r, Allocate(r, levels[r], rate), kInf});
    judge(state);
  }
  std::stable_sort(states.begin(), states.end(), [](const State& a, const State& b) { return a.p95 < b.p95; });
  states.resize(std::min<std::size_t>(states.size(), 2));
  for (State& state : states) {
    for (bool better = true; better;) {
      better = false;
      const State from = state;
      for (std::size_t a = 0; a < from.gpus.size(); ++a) {
        for (std::size_t b = 0; b < from.gpus.size(); ++b) {
          if (a == b || from.gpus[b] == 0) continue;
          for (std::int32_t moved = std::max(1, table_.gpus() / 4); moved > 0; moved /= 2) {
            State next{from.routing, from.gpus, kInf};
            next.gpus[a] -= moved;
            next.gpus[b] += moved;
            judge(next);
            if (next.p95 < 0.995 * state.p95) state = std::move(next), better = true;
          }
        }
      }
    }
  }
  const State& best = states.front().p95 <= states.back().p95 ? states.front() : states.back();
  return Build(best.routing, best.gpus, rate);
}

absl::StatusOr<CascadePlan> CascadePlanner::PlanOf(std::size_t routing, double rate) const {
  rate = RateOr(rate);
  const std::size_t level = LevelOf(routing, rate);
  if (level == table_.latencies().size()) {
    return absl::FailedPreconditionError(
        fmt::format("{} GPUs cannot serve {:.4g} requests/s with this routing", problem_.gpus, rate));
  }
  CascadePlan plan = Build(routing, Allocate(routing, level, rate), rate);
  Simulate(plan, rate);
  return plan;
}

absl::Status CascadeGoal::Validate() const {
  Faults faults;
  const bool floor = kind == Kind::kQualityFloor;
  Expect(faults, !floor || std::isfinite(quality_floor), "quality_floor is {}: must be a number", quality_floor);
  Expect(faults, floor || (latency_budget > 0 && std::isfinite(latency_budget)),
         "latency_budget is {}: must be a positive number of seconds", latency_budget);
  Expect(faults, floor || !end_to_end, "end_to_end: is unsupported with this goal; expected a quality floor");
  Expect(faults, penalty > 0, "penalty is {}: must be positive", penalty);
  return faults.ToStatus();
}

namespace {

// Combines latency and quality into the value of a goal.
class Objective {
 public:
  Objective(const CascadeGoal& goal, const CascadePlanner& planner, std::span<const std::size_t> levels)
      : goal_(goal), utopia_(planner.utopia()), nadir_(planner.nadir()) {
    const std::span<const double> latencies = planner.table().latencies();
    for (const std::size_t level : levels) {
      if (level == latencies.size()) continue;
      least_ = std::min(least_, latencies[level]);
      most_ = std::max(most_, latencies[level]);
    }
  }
  double operator()(double latency, double quality) const {
    if (!(latency < kInf)) return kInf;
    return goal_.kind == CascadeGoal::Kind::kQualityFloor
               ? QualityPenalised(latency, quality, goal_.quality_floor, utopia_, nadir_, goal_.penalty)
               : LatencyPenalised(quality, latency, goal_.latency_budget, least_, most_, goal_.penalty);
  }

 private:
  CascadeGoal goal_;
  double utopia_, nadir_;
  double least_ = kInf, most_ = 0;
};

}  // namespace

absl::StatusOr<CascadePlan> CascadePlanner::Plan(const CascadeGoal& goal, double rate) const {
  if (absl::Status status = goal.Validate(); !status.ok()) return status;
  rate = RateOr(rate);
  const std::vector<std::size_t> levels = Levels(rate);
  const Objective objective(goal, *this, levels);
  const std::span<const double> latencies = table_.latencies();
  std::size_t best = routings();
  double least = kInf;
  // Ties go to the better quality, then the lower latency, then fewer GPUs.
  const auto better = [&](std::size_t r, double value) {
    if (value != least) return value < least;
    if (quality_[r] != quality_[best]) return quality_[r] > quality_[best];
    if (levels[r] != levels[best]) return levels[r] < levels[best];
    return GpusOf(r, levels[r], rate) < GpusOf(best, levels[best], rate);
  };
  for (std::size_t r = 0; r < routings(); ++r) {
    if (levels[r] == latencies.size()) continue;
    const double value = objective(latencies[levels[r]], quality_[r]);
    if (!(value < kInf)) continue;
    if (best == routings() || better(r, value)) best = r, least = value;
  }
  if (best == routings()) return WhyNone(goal, rate);
  CascadePlan plan = Build(best, Allocate(best, levels[best], rate), rate);
  plan.objective = least;
  Simulate(plan, rate);
  if (goal.end_to_end && options_.simulated > 0 && quality_[best] >= goal.quality_floor) {
    CascadePlan path = FastestPath(levels, goal, rate);
    path.objective = objective(path.latency, path.quality);
    Simulate(path, rate);
    if (path.simulated_e2e < plan.simulated_e2e) return path;
  }
  return plan;
}

absl::StatusOr<CascadePlan> CascadePlanner::Alternate(const CascadeGoal& goal, double rate, int stable) const {
  if (absl::Status status = goal.Validate(); !status.ok()) return status;
  rate = RateOr(rate);
  const std::size_t models = problem_.models.size();
  const std::span<const double> latencies = table_.latencies();
  const std::vector<std::size_t> levels = Levels(rate);
  const Objective objective(goal, *this, levels);

  std::size_t routing = routings();
  double nearest = kInf;
  for (std::size_t r = 0; r < routings(); ++r) {
    if (levels[r] == latencies.size()) continue;
    double distance = 0;
    for (std::size_t m = 0; m < models; ++m) distance += std::abs(shares(r)[m] - 1 / static_cast<double>(m + 1));
    if (distance < nearest) nearest = distance, routing = r;
  }
  if (routing == routings()) return WhyNone(goal, rate);

  std::size_t best = routing;
  double least = objective(latencies[levels[routing]], quality_[routing]);
  int rounds = 0;
  std::vector<std::vector<double>> serves(models);  // by level: requests/s that a model's replicas serve
  for (int unchanged = 0; unchanged < stable; ++rounds) {
    const CascadePlan plan = Build(routing, Allocate(routing, levels[routing], rate), rate);
    for (std::size_t m = 0; m < models; ++m) {
      serves[m].assign(latencies.size(), 0);
      for (const ReplicaCount& replica : plan.models[m].replicas) {
        for (const ShapeRates& s : rates_[m].shapes) {
          if (s.shape != replica.shape) continue;
          for (std::size_t l = 0; l < latencies.size(); ++l) {
            serves[m][l] += replica.count * s.curve.LargestRate(latencies[l]);
          }
        }
      }
    }
    double least_now = kInf;
    std::size_t next = routing;
    for (std::size_t r = 0; r < routings(); ++r) {
      std::size_t level = 0;
      for (std::size_t m = 0; m < models && level < latencies.size(); ++m) {
        const double wanted = Of(work_, r)[m] * rate;
        if (!(wanted > 0)) continue;
        const auto at = std::lower_bound(serves[m].begin(), serves[m].end(), wanted);
        level = std::max(level, static_cast<std::size_t>(at - serves[m].begin()));
      }
      if (level == latencies.size()) continue;
      const double value = objective(latencies[level], quality_[r]);
      if (value < least_now) least_now = value, next = r;
    }
    routing = next;
    const double value = objective(latencies[levels[routing]], quality_[routing]);
    ++unchanged;
    if (value < least) least = value, best = routing, unchanged = 0;
  }
  if (!(least < kInf)) {
    return absl::FailedPreconditionError("the alternation found no routing that the goal allows");
  }
  CascadePlan plan = Build(best, Allocate(best, levels[best], rate), rate);
  plan.objective = least;
  plan.rounds = rounds;
  Simulate(plan, rate);
  return plan;
}

std::vector<FrontierPoint> CascadePlanner::Frontier(double rate) const {
  rate = RateOr(rate);
  const std::vector<std::size_t> levels = Levels(rate);
  std::vector<std::size_t> order(routings());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (quality_[a] != quality_[b]) return quality_[a] > quality_[b];
    return levels[a] != levels[b] ? levels[a] < levels[b] : a < b;
  });
  std::vector<FrontierPoint> frontier;
  std::size_t least = table_.latencies().size();
  for (const std::size_t r : order) {
    if (levels[r] >= least) continue;
    least = levels[r];
    FrontierPoint& point = frontier.emplace_back();
    point.quality = quality_[r];
    point.latency = table_.latencies()[least];
    point.thresholds = thresholds(r);
    const std::vector<double> rates = RatesOf(r, rate);
    for (std::size_t m = 0; m < rates.size(); ++m) point.gpus.push_back(table_.LeastGpus(m, least, rates[m]));
  }
  return frontier;
}

double CascadePlanner::SustainableRate(double quality_floor) const {
  if (table_.latencies().empty()) return 0;
  const std::size_t slowest = table_.latencies().size() - 1;
  double best = 0;
  const auto serves = [&](std::size_t r, double rate) { return GpusOf(r, slowest, rate) <= table_.gpus(); };
  for (std::size_t r = 0; r < routings(); ++r) {
    if (!(quality_[r] >= quality_floor)) continue;
    double low = best > 0 ? best * 1.001 : 1e-6;
    if (!serves(r, low)) continue;
    double high = 2 * low;
    while (high < 1e9 && serves(r, high)) low = high, high *= 2;
    while (high > low * 1.001) {
      const double middle = (low + high) / 2;
      (serves(r, middle) ? low : high) = middle;
    }
    best = low;
  }
  return best;
}

// Returns why there is no plan: the violated constraint and the missing amount.
absl::Status CascadePlanner::WhyNone(const CascadeGoal& goal, double rate) const {
  const bool floor = goal.kind == CascadeGoal::Kind::kQualityFloor;
  const double quality = floor ? goal.quality_floor : -kInf;
  if (const double best = best_quality(); floor && best < quality) {
    return absl::FailedPreconditionError(fmt::format(
        "quality: no routing reaches {:.4g}; the best of {} routings has {:.4g}, {:.4g} too little (all requests on "
        "\"{}\": {:.4g})",
        quality, routings(), best, quality - best, problem_.models.back().name, utopia_));
  }
  const double most = SustainableRate(quality);
  const std::string wish = floor ? fmt::format(" at a quality of {:.4g}", quality) : "";
  if (most >= rate) {
    double least = kInf;
    for (const std::size_t level : Levels(rate)) {
      if (level < table_.latencies().size()) least = std::min(least, table_.latencies()[level]);
    }
    return absl::FailedPreconditionError(
        fmt::format("latency: the least p95 of any routing is {:.4g} s, {:.4g} s above the budget of {:.4g} s", least,
                    least - goal.latency_budget, goal.latency_budget));
  }
  // Lower bound for every plan, by the routing with the least demand: one replica of each reached model, and enough
  // GPUs for the work if GPUs were divisible.
  double least = kInf;
  for (std::size_t r = 0; r < routings(); ++r) {
    if (quality_[r] < quality) continue;
    double gpus = 0;
    for (std::size_t m = 0; m < problem_.models.size(); ++m) {
      const double wanted = Of(work_, r)[m] * rate;
      if (!(wanted > 0)) continue;
      double smallest = kInf, per_rate = kInf;
      for (const ShapeRates& s : rates_[m].shapes) {
        smallest = std::min(smallest, static_cast<double>(s.gpus));
        per_rate = std::min(per_rate, s.gpus / s.curve.saturation());
      }
      gpus += std::max(smallest, wanted * per_rate);
    }
    least = std::min(least, gpus);
  }
  return absl::FailedPreconditionError(fmt::format(
      "GPUs: {} serve at most {:.4g} of {:.4g} requests/s{}, {:.4g} requests/s too few; expected at least {:.0f} GPUs",
      problem_.gpus, most, rate, wish, rate - most, std::max(std::ceil(least), problem_.gpus + 1.0)));
}

}  // namespace takt
