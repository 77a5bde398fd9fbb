// The default order on workloads for which it was not made: unseen traffic, bursts, no predictions, tenants that cheat.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lab/claim.h"
#include "lab/figure.h"
#include "lab/scenario.h"
#include "lab/strangers/inputs.h"
#include "lab/report/heat_map.h"
#include "tool/run/runner.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "takt/pause/registry.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/sim/replay.h"
#include "takt/workload/transform.h"

namespace takt::tool {
namespace {

constexpr std::size_t kStrangerInputs = std::size(kStrangers), kStrangerLies = std::size(kLieNames);
constexpr Blocks kStrangerHostBlocks{12'500};  // bytes of host memory for swapped KV (chosen)

struct StrangerSystem {
  std::string label, policy;
  bool asks = true;  // uses estimates

  friend bool operator==(const StrangerSystem& a, const StrangerSystem& b) { return a.policy == b.policy; }
};
const StrangerSystem kStrangerOurs = {"default", "room_to_pass"};
const StrangerSystem kStrangerFcfs = {"fcfs", "fcfs", false},
                     kStrangerByWorkflow = {"workflow_fcfs", "workflow_fcfs", false};
const StrangerSystem kStrangerFactor = {"tail factor 1.1", "room_to_pass(tail_factor=1.1)"},
                     kStrangerFactor2 = {"tail factor 1.2", "room_to_pass(tail_factor=1.2)"},
                     kStrangerFactor4 = {"tail factor 1.4", "room_to_pass(tail_factor=1.4)"};
const StrangerSystem kStrangerMean = {"footprint", "footprint"};
const StrangerSystem kStrangerUniBoost = {"uniboost", "uniboost"};

std::vector<StrangerSystem> StrangerRivals() {
  return {kStrangerFcfs,
          kStrangerByWorkflow,
          kStrangerUniBoost,
          {"sagesched", "sagesched"},
          {"memory_integral", "memory_integral"}};
}

struct StrangerSetup {
  std::size_t input = 0;  // index in kStrangers; cheating workloads follow
  double load = 1;
  StrangerSystem system = {};
  EstimateSpec estimates = {};

  friend bool operator==(const StrangerSetup&, const StrangerSetup&) = default;
};

// Latencies of workflows.
struct StrangerFigures {
  double mean = 0, p95 = 0, p99 = 0, slowdown_max = 0, ttft = 0, ttft_p99 = 0;
  double liar_p95 = 0, polite_p95 = 0;  // by tenant, if one cheats
};
using StrangerFigure = double StrangerFigures::*;
using StrangerCell = Cell<StrangerSetup, StrangerFigures>;
constexpr Figure<StrangerFigures> kStrangerFigures[] = {
    {"latency_mean_s", &StrangerFigures::mean, "mean", "", "", "mean", Best::kSmallest},
    {"latency_p95_s", &StrangerFigures::p95, "p95", "", "", "p95", Best::kSmallest},
    {"latency_p99_s", &StrangerFigures::p99, "p99", "", "", "p99", Best::kSmallest},
    {"slowdown_max", &StrangerFigures::slowdown_max, "max slowdown", "", "", "max slowdown", Best::kSmallest},
    {"ttft_mean_s", &StrangerFigures::ttft, "mean TTFT", "", "", "mean TTFT", Best::kSmallest},
    {"ttft_p99_s", &StrangerFigures::ttft_p99, "p99 TTFT", "", "", "p99 TTFT", Best::kSmallest},
    {"liar_p95_s", &StrangerFigures::liar_p95},
    {"polite_p95_s", &StrangerFigures::polite_p95}};

struct StrangerPlan {
  std::vector<double> loads = {0.8, 0.95, 1.1};
  std::vector<double> more_loads = {0.6, 1.3};  // --full; no claim uses it
  double lie_load = 0.95;
  EstimateSpec none = {EstimateKind::kNone, 0};
  std::vector<EstimateSpec> told = {
      {EstimateKind::kClassMean, 0, true}, {EstimateKind::kForest, 0}, {EstimateKind::kCalibrated, 0.7}};  // additional
  double share = 1;  // in the calls of an ordinary run
};

class StrangerStudy : public Study<StrangerSetup, StrangerFigures> {
 public:
  StrangerStudy(const std::string& data, double share, SeedRange seeds) : Study(seeds), inputs_(data), share_(share) {
    for (std::size_t i = 0; i < kStrangerInputs; ++i) {
      has_[i] = inputs_.Has(kStrangers[i]);
      if (!has_[i]) missing_.emplace_back(kStrangers[i].data);
    }
    std::ranges::sort(missing_);
    missing_.erase(std::unique(missing_.begin(), missing_.end()), missing_.end());
  }

  bool has(std::size_t input) const { return has_[input < kStrangerInputs ? input : 0]; }
  const std::vector<std::string>& missing() const { return missing_; }

  void AddRun(const StrangerSetup& setup) {
    if (has(setup.input)) Add(Reduced(setup));
  }
  const StrangerCell* FindRun(const StrangerSetup& setup) const { return Find(Reduced(setup)); }

  // Ratio to the better of the two orders by arrival, on average.
  std::optional<Interval> OverBetter(const StrangerSetup& ours, StrangerFigure figure) const {
    StrangerSetup better = ours, other = ours;
    better.system = kStrangerFcfs, other.system = kStrangerByWorkflow;
    const StrangerCell *a = FindRun(better), *b = FindRun(other);
    if (a == nullptr || b == nullptr) return std::nullopt;
    if (b->Mean(figure) < a->Mean(figure)) std::swap(better, other);
    return RatioOf(ours, better, figure);
  }

  // Ratio of our figure to the other's.
  std::optional<Interval> RatioOf(const StrangerSetup& ours, const StrangerSetup& other, StrangerFigure figure) const {
    return Ratio(Reduced(ours), Reduced(other), figure);
  }

  absl::Status Run(int threads, ProgressBar& bar) {
    std::array<bool, kStrangerInputs + kStrangerLies> wanted = {};
    for (std::size_t c = 0; c < size(); ++c) wanted[(*this)[c].setup.input] = true;
    std::vector<std::pair<std::size_t, std::size_t>> all;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      grounds_[i].resize(static_cast<std::size_t>(seeds()));
      for (std::size_t n = 0; n < grounds_[i].size(); ++n) all.emplace_back(i, n);
    }
    std::vector<absl::Status> faults(all.size());
    RunEach(all.size(), threads, "making workloads", bar, [&](std::size_t i, const RunProgress&) {
      const auto [input, n] = all[i];
      absl::StatusOr<Ground> ground = MakeGround(input, seed_range().At(n));
      faults[i] = ground.status();
      if (ground.ok()) grounds_[input][n] = *std::move(ground);
    });
    for (const absl::Status& fault : faults) {
      if (!fault.ok() && !Interrupted()) return fault;
    }
    if (Interrupted()) return absl::OkStatus();
    return RunCells(threads, "replaying", bar,
                    [this](const StrangerSetup& setup, std::uint64_t seed, const RunProgress& progress) {
                      return RunOne(setup, seed, progress);
                    });
  }

 private:
  struct Ground {
    Workload workload;
    IsolatedLatencies alone;
    double capacity_rps = 0;
  };

  // A system that uses no estimates runs once; a closed loop has no load.
  static StrangerSetup Reduced(StrangerSetup setup) {
    const bool tools = setup.input < kStrangerInputs && kStrangers[setup.input].name == "tools";
    if (!setup.system.asks && !tools) setup.estimates = {};
    if (setup.input < kStrangerInputs && kStrangers[setup.input].in_flight > 0) setup.load = 1;
    return setup;
  }

  static const Stranger& StrangerOf(std::size_t input) { return kStrangers[input < kStrangerInputs ? input : 0]; }

  static ReplayOptions OptionsOf(const StrangerSetup& setup, std::uint64_t seed) {
    const Stranger& stranger = StrangerOf(setup.input);
    ReplayOptions options;
    options.profile = *FindProfile(stranger.profile);
    options.pause = *MakePauseFactory("least_waste");
    if (!setup.system.policy.empty()) options.policy = *MakePolicyFactory(setup.system.policy);
    options.estimates = setup.estimates;
    options.seed = seed;
    options.instances = stranger.instances;
    if (stranger.in_flight > 0) options.instances = 2;
    options.placement = *MakePlacement("least_loaded");
    options.engine.limits = {.tokens = {stranger.step_tokens}, .max_seqs = 256};
    options.scheduler.cpu_blocks = kStrangerHostBlocks;
    options.scheduler.prefix_cache = stranger.prefix_cache;
    return options;
  }

  absl::StatusOr<Ground> MakeGround(std::size_t input, std::uint64_t seed) const {
    absl::StatusOr<Workload> made = input < kStrangerInputs
                                        ? inputs_.Make(kStrangers[input], share_, seed)
                                        : inputs_.MakeLie(static_cast<Lie>(input - kStrangerInputs), share_, seed);
    if (!made.ok()) return made.status();
    const ReplayOptions options = OptionsOf({.input = input}, seed);
    Ground ground{.workload = *std::move(made), .alone = {}};
    ground.alone = MeasureIsolated(ground.workload, options);
    const absl::StatusOr<double> capacity = MeasureSaturation(ground.workload, options);
    if (!capacity.ok()) return capacity.status();
    ground.capacity_rps = *capacity;
    return ground;
  }

  absl::StatusOr<std::optional<StrangerFigures>> RunOne(const StrangerSetup& setup, std::uint64_t seed,
                                                        const RunProgress& progress) const {
    const Ground& ground = grounds_[setup.input][seed_range().IndexOf(seed)];
    if (ground.workload.workflows.empty()) return std::nullopt;
    ReplayOptions options = OptionsOf(setup, seed);
    options.cluster.progress = progress;
    options.cluster.closed_loop = StrangerOf(setup.input).in_flight;
    if (options.cluster.closed_loop == 0) {
      options.cluster.rate_scale = RateScaleForLoad(ground.workload, setup.load, ground.capacity_rps);
    }
    const bool predicts = setup.input == kStrangerInputs + static_cast<std::size_t>(Lie::kPredictTenth);
    const bool early = setup.input == kStrangerInputs + static_cast<std::size_t>(Lie::kEarly);
    const Workload other = predicts ? Predicted(ground.workload, options)
                           : early  ? OpenedEarly(ground.workload, options)
                                    : Workload{};
    const Workload& workload = predicts || early ? other : ground.workload;
    const absl::StatusOr<ReplayResult> result = Replay(workload, options);
    if (!result.ok()) {
      return absl::Status(result.status().code(),
                          fmt::format("{}, {:g}, {}, seed {}: {}", NameOf(setup.input), setup.load, setup.system.policy,
                                      seed, std::string(result.status().message())));
    }
    if (result->stopped) return std::nullopt;
    const Metrics& m = result->metrics;
    StrangerFigures f{.mean = m.workflow.mean,
                      .p95 = m.workflow.p95,
                      .p99 = m.workflow.p99,
                      .slowdown_max = 0,
                      .ttft = m.ttft.mean,
                      .ttft_p99 = m.ttft.p99};
    std::array<std::vector<double>, 2> took;  // polite, cheating: a job ends with the last of its pieces
    for (std::size_t i = 0; i < result->workflows.size(); ++i) {
      const WorkflowRecord& w = result->workflows[i];
      if (w.outcome != Outcome::kCompleted) continue;
      const bool lies = workload.workflows[i].tenant == kLiar;
      // A job begins with its call, whenever its workflow was opened.
      const double seconds = ToSeconds(w.end - w.arrival - (lies ? DelayOf(workload, i) : Duration{0}));
      if (!early) {
        f.slowdown_max = std::max(f.slowdown_max, seconds / std::max(ToSeconds(ground.alone.workflows[i]), 1e-9));
      }
      std::vector<double>& all = took[lies ? 1 : 0];
      const bool piece = lies && i > 0 && !all.empty() && workload.workflows[i - 1].tenant == kLiar &&
                         workload.workflows[i - 1].arrival == workload.workflows[i].arrival;
      if (piece) all.back() = std::max(all.back(), seconds);
      else all.push_back(seconds);
    }
    if (setup.input < kStrangerInputs) return f;
    f.polite_p95 = Summary::Of(took[0]).p95, f.liar_p95 = Summary::Of(took[1]).p95;
    took[0].insert(took[0].end(), took[1].begin(), took[1].end());
    const Summary all = Summary::Of(took[0]);
    f.mean = all.mean, f.p95 = all.p95, f.p99 = all.p99;
    return f;
  }

  static Duration DelayOf(const Workload& workload, std::size_t workflow) {
    return workload.calls[workload.workflows[workflow].first_call].delay;
  }

  // One tenant opens each workflow ten minutes before its call. The call arrives at its usual time.
  static Workload OpenedEarly(const Workload& from, ReplayOptions& options) {
    constexpr Duration kEarlier = std::chrono::minutes(10);
    Workload workload = from;
    for (WorkloadWorkflow& w : workload.workflows) {
      w.arrival = TimePoint(FromSeconds(ToSeconds(w.arrival) / options.cluster.rate_scale));
      if (w.tenant == kLiar) workload.calls[w.first_call].delay = kEarlier;
      else w.arrival += kEarlier;
    }
    options.cluster.rate_scale = 1;
    std::ranges::stable_sort(workload.workflows, {}, &WorkloadWorkflow::arrival);
    const Duration first = workload.workflows.front().arrival.time_since_epoch();
    for (WorkloadWorkflow& w : workload.workflows) w.arrival -= first;
    return Tidied(workload);
  }

  // All tenants report their output lengths; one of them reports a tenth.
  static Workload Predicted(const Workload& from, ReplayOptions& options) {
    Workload workload = from;
    workload.models = {options.profile.model};
    auto forecasts = std::make_shared<Forecasts>();
    workload.model_tokens.resize(workload.calls.size());
    forecasts->output.resize(workload.calls.size());
    for (const WorkloadWorkflow& w : workload.workflows) {
      for (std::uint32_t c = w.first_call; c < w.first_call + w.calls; ++c) {
        const double output = workload.calls[c].output_tokens;
        workload.model_tokens[c] = workload.calls[c].output_tokens;
        forecasts->output[c] = Estimate::Exact(w.tenant == kLiar ? output / 10 : output);
      }
    }
    forecasts->left = forecasts->output;
    options.forecasts = std::move(forecasts);
    return workload;
  }

 public:
  static std::string NameOf(std::size_t input) {
    return input < kStrangerInputs ? std::string(kStrangers[input].name)
                                   : fmt::format("one of ten {}", kLieNames[input - kStrangerInputs]);
  }

 private:
  StrangerInputs inputs_;
  double share_;
  std::array<bool, kStrangerInputs> has_ = {};
  std::vector<std::string> missing_;
  std::array<std::vector<Ground>, kStrangerInputs + kStrangerLies> grounds_;  // by seed
};

// ---- runs ------------------------------------------------------------------------------------------------------

EstimateSpec LieEstimates(Lie lie) {
  return lie == Lie::kPredictTenth ? EstimateSpec{EstimateKind::kOracle, 0} : EstimateSpec{};
}
std::size_t InputOf(Lie lie) { return kStrangerInputs + static_cast<std::size_t>(lie); }

void AddStrangerRuns(StrangerStudy& study, const StrangerPlan& plan, bool full) {
  std::vector<double> loads = plan.loads;
  if (full) loads.insert(loads.end(), plan.more_loads.begin(), plan.more_loads.end());
  for (std::size_t i = 0; i < kStrangerInputs; ++i) {
    for (const double load : loads) {
      std::vector<StrangerSystem> systems = StrangerRivals();
      for (const StrangerSystem& ours :
           {kStrangerOurs, kStrangerFactor, kStrangerFactor2, kStrangerFactor4, kStrangerMean}) {
        systems.push_back(ours);
      }
      for (const StrangerSystem& system : systems) study.AddRun({i, load, system, plan.none});
      for (const EstimateSpec& estimates : plan.told) {
        if (!full && load != plan.loads.back()) continue;
        for (const StrangerSystem& system : {kStrangerFcfs, kStrangerByWorkflow, kStrangerUniBoost, kStrangerOurs}) {
          study.AddRun({i, load, system, estimates});
        }
      }
    }
  }
  for (std::size_t l = 0; l < kStrangerLies; ++l) {
    for (const StrangerSystem& system : {kStrangerOurs, kStrangerFcfs}) {
      study.AddRun({kStrangerInputs + l, plan.lie_load, system, LieEstimates(static_cast<Lie>(l))});
      study.AddRun({InputOf(Lie::kNone), plan.lie_load, system, LieEstimates(static_cast<Lie>(l))});
    }
  }
}

// ---- claims --------------------------------------------------------------------------------------------------------

class StrangerClaims : Claims {
 public:
  StrangerClaims(const StrangerStudy& study, const StrangerPlan& plan) : study_(study), plan_(plan) {}

  std::vector<ScenarioClaim> All() {
    for (std::size_t i = 0; i < kStrangerInputs; ++i) {
      Against(i, kStrangerOurs, "mean", &StrangerFigures::mean, 1.0);
      Against(i, kStrangerOurs, "p95", &StrangerFigures::p95, 1.05);
      Against(i, kStrangerOurs, "p99", &StrangerFigures::p99, 1.05);
      Against(i, kStrangerOurs, "max slowdown", &StrangerFigures::slowdown_max, 1.05);
      Against(i, kStrangerOurs, "mean TTFT", &StrangerFigures::ttft, 1.05);
      Against(i, kStrangerFactor, "p99", &StrangerFigures::p99, 1.1);
    }
    for (std::size_t i = 0; i < kStrangerInputs; ++i) Gains(i);
    for (std::size_t i = 0; i < kStrangerInputs; ++i) BestMean(i);
    Dominated();
    for (const Lie lie : {Lie::kSplit, Lie::kPad, Lie::kEarly, Lie::kPredictTenth}) Gain(lie);
    return Take();
  }

 private:
  static std::string Where(std::size_t i) {
    return fmt::format("{} ({})", kStrangers[i].name, kStrangers[i].found ? "found on" : "judged on");
  }
  std::vector<double> LoadsOf(std::size_t i) const {
    return kStrangers[i].in_flight > 0 ? std::vector{1.0} : plan_.loads;
  }
  std::string Why(std::size_t i) const { return study_.has(i) ? kNotRun : "no data"; }

  // Without estimates of lengths. Shows the load at which the claim comes nearest to failing.
  void Against(std::size_t i, const StrangerSystem& system, const char* name, StrangerFigure figure, double most) {
    const std::string claim =
        fmt::format("{}: {} of {} over the better of fcfs and workflow_fcfs", Where(i), name, system.label);
    std::optional<Interval> worst;
    std::vector<std::string> by_load;
    for (const double load : LoadsOf(i)) {
      const std::optional<Interval> r = study_.OverBetter({i, load, system, plan_.none}, figure);
      if (!r) return Lacking(claim, {{}, most}, "x", Why(i));
      by_load.push_back(fmt::format("{:g}: {:.3f} [{:.3f}, {:.3f}]", load, r->mean, r->low, r->high));
      if (!worst || r->high > worst->high) worst = *r;
    }
    Add(claim, *worst, {{}, most}, "x", worst->high <= most, fmt::format("by rho: {}", fmt::join(by_load, ", ")),
        worst->high);
  }

  void Gains(std::size_t i) {
    const double load = LoadsOf(i).back();
    const std::string claim = fmt::format(
        "{}: mean of the default over the better of fcfs and workflow_fcfs, no estimates, rho {:g}", Where(i), load);
    const std::optional<Interval> r = study_.OverBetter({i, load, kStrangerOurs, plan_.none}, &StrangerFigures::mean);
    if (!r) return Lacking(claim, {{}, 0.85}, "x", Why(i));
    Add(claim, *r, {{}, 0.85}, "x", r->high <= 0.85, fmt::format("[{:.3f}, {:.3f}]", r->low, r->high), r->high);
  }

  void BestMean(std::size_t i) {
    const double load = LoadsOf(i).back();
    const std::string claim = fmt::format("{}: mean of footprint over the best other's, rho {:g}", Where(i), load);
    std::optional<Interval> worst;
    std::string whose;
    std::vector<StrangerSystem> others = StrangerRivals();
    others.push_back(kStrangerOurs);
    for (const StrangerSystem& other : others) {
      const std::optional<Interval> r =
          study_.RatioOf({i, load, kStrangerMean, plan_.none}, {i, load, other, plan_.none}, &StrangerFigures::mean);
      if (!r) return Lacking(claim, {{}, 1.02}, "x", Why(i));
      if (!worst || r->high > worst->high) worst = *r, whose = other.label;
    }
    Add(claim, *worst, {{}, 1.02}, "x", worst->high <= 1.02, fmt::format("nearest comes {}", whose), worst->high);
  }

  // Cells in which one rival is better in mean, p95 and p99 at once.
  void Dominated() {
    int cells = 0, dominated = 0;
    std::vector<std::string> where;
    for (std::size_t i = 0; i < kStrangerInputs; ++i) {
      for (const double load : LoadsOf(i)) {
        const StrangerSetup ours = {i, load, kStrangerOurs, plan_.none};
        const StrangerCell* cell = study_.FindRun(ours);
        if (cell == nullptr) continue;
        ++cells;
        for (const StrangerSystem& rival : StrangerRivals()) {
          StrangerSetup theirs = ours;
          theirs.system = rival;
          const StrangerCell* other = study_.FindRun(theirs);
          const auto better = [&](StrangerFigure figure) {
            return other->Mean(figure) < cell->Mean(figure) * (1 - 1e-3);
          };
          if (other == nullptr || !better(&StrangerFigures::mean) || !better(&StrangerFigures::p95) ||
              !better(&StrangerFigures::p99)) {
            continue;
          }
          ++dominated;
          where.push_back(fmt::format("{} at {:g} by {}", kStrangers[i].name, load, rival.label));
          break;
        }
      }
    }
    AtMost("cells in which a rival is better in mean, p95 and p99 at once",
           cells > 0 ? std::optional(100.0 * dominated / cells) : std::nullopt, 5, "%",
           cells > 0 ? fmt::format("{} of {}: {}", dominated, cells, fmt::join(where, ", ")) : kNotRun);
  }

  void Gain(Lie lie) {
    const StrangerSetup lies = {InputOf(lie), plan_.lie_load, kStrangerOurs, LieEstimates(lie)};
    StrangerSetup honest = lies;
    honest.input = InputOf(Lie::kNone);
    const auto claim = [&](const char* whose, StrangerFigure figure, const Claimed& claimed, bool at_least) {
      const std::string name =
          fmt::format("one of ten {}: p95 of {} over its p95 without", kLieNames[static_cast<std::size_t>(lie)], whose);
      const std::optional<Interval> r = study_.RatioOf(lies, honest, figure);
      if (!r) return Lacking(name, claimed, "x", Why(0));
      const bool holds = at_least ? r->low >= *claimed.low : r->high <= *claimed.high;
      Add(name, *r, claimed, "x", holds, fmt::format("[{:.3f}, {:.3f}], rho {:g}", r->low, r->high, plan_.lie_load),
          at_least ? r->low : r->high);
    };
    claim("the liar", &StrangerFigures::liar_p95, Over(0.95), true);
    claim("the others", &StrangerFigures::polite_p95, {{}, 1.10}, false);
  }

  const StrangerStudy& study_;
  const StrangerPlan& plan_;
};

// ---- tables ----------------------------------------------------------------------------------------------------

ScenarioRow StrangerRowOf(const StrangerCell& cell) {
  const StrangerSetup& s = cell.setup;
  const bool lie = s.input >= kStrangerInputs;
  ScenarioRow row = {{"part", std::string(lie ? "lies" : "runs")},
                     {"workload", StrangerStudy::NameOf(s.input)},
                     {"half", std::string(lie                         ? "judged"
                                          : kStrangers[s.input].found ? "found"
                                                                      : "judged")},
                     {"rho", s.load},
                     {"system", s.system.label},
                     {"policy", s.system.policy},
                     {"estimates", s.estimates.ToString()},
                     {"seeds", static_cast<std::int64_t>(cell.seeds.size())}};
  AddMeans(row, cell, kStrangerFigures);
  return row;
}

// Our figure over each rival's, in every cell.
ScenarioFigure StrangerMapOf(const StrangerStudy& study, const StrangerPlan& plan,
                             const Figure<StrangerFigures>& shown) {
  HeatMap map;
  for (std::size_t i = 0; i < kStrangerInputs; ++i) {
    if (!study.has(i)) continue;
    HeatGroup& group = map.groups.emplace_back(HeatGroup{std::string(kStrangers[i].name), {}});
    for (const double load : plan.loads) group.columns.push_back(fmt::format("{:g}", load));
  }
  for (const StrangerSystem& rival : StrangerRivals()) {
    map.rows.push_back(rival.label);
    std::vector<HeatCell>& row = map.cells.emplace_back();
    for (std::size_t i = 0; i < kStrangerInputs; ++i) {
      if (!study.has(i)) continue;
      for (const double load : plan.loads) {
        HeatCell& cell = row.emplace_back();
        const auto r = study.RatioOf({i, load, kStrangerOurs, plan.none}, {i, load, rival, plan.none}, shown.member);
        if (!r) continue;
        cell.ratio = r->mean;
        cell.certain = r->high < 1 || r->low > 1;
        cell.tip =
            fmt::format("{}, rho {:g}: {:.3f} [{:.3f}, {:.3f}]", kStrangers[i].name, load, r->mean, r->low, r->high);
      }
    }
  }
  return {fmt::format("{}: the default over each rival, no estimates", shown.label),
          "Blue: the default is lower, orange: it loses; bold: beyond chance (95 %); columns: rho.", HeatMapSvg(map)};
}

// mean/p95/p99 of each system over fcfs.
Table OverFcfs(const StrangerStudy& study, const StrangerPlan& plan, double load) {
  std::vector<Table::Column> columns = {{"", "workload", false}, {"", "half", false}};
  std::vector<StrangerSystem> systems = {kStrangerOurs, kStrangerFactor,     kStrangerFactor2, kStrangerFactor4,
                                         kStrangerMean, kStrangerByWorkflow, kStrangerUniBoost};
  for (const StrangerSystem& system : systems) columns.push_back({"nothing told", system.label});
  for (const EstimateSpec& told : plan.told) columns.push_back({told.ToString(), "default"});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < kStrangerInputs; ++i) {
    if (!study.has(i)) continue;
    table.BeginRow();
    table.Text(std::string(kStrangers[i].name));
    table.Text(kStrangers[i].found ? "found" : "judged");
    const auto cell = [&](const StrangerSystem& system, const EstimateSpec& estimates) {
      std::vector<std::string> parts;
      for (const StrangerFigure figure : {&StrangerFigures::mean, &StrangerFigures::p95, &StrangerFigures::p99}) {
        const auto r = study.RatioOf({i, load, system, estimates}, {i, load, kStrangerFcfs, estimates}, figure);
        parts.push_back(r ? fmt::format("{:.2f}", r->mean) : "-");
      }
      table.Text(fmt::format("{}", fmt::join(parts, "/")));
    };
    for (const StrangerSystem& system : systems) cell(system, plan.none);
    for (const EstimateSpec& told : plan.told) cell(kStrangerOurs, told);
  }
  return table;
}

// For each order, over all cells without estimates: cells whose p95 or p99 exceeds the better order by arrival by more
// than 5 %, and the geometric mean of mean latencies. The last row takes the best order of each cell that keeps 5 %.
Table Scoreboard(const StrangerStudy& study, const StrangerPlan& plan) {
  std::vector<StrangerSystem> systems = StrangerRivals();
  for (const StrangerSystem& s : {kStrangerOurs, kStrangerFactor, kStrangerFactor2, kStrangerFactor4, kStrangerMean}) {
    systems.push_back(s);
  }
  Table table({{"", "order", false},
               {"", "cells", true},
               {"p95 or p99", "above 1.05", true},
               {"mean", "over the better", true}});
  std::vector<double> log_mean(systems.size());
  std::vector<int> broken(systems.size());
  double log_best = 0;
  int cells = 0;
  for (std::size_t i = 0; i < kStrangerInputs; ++i) {
    for (const double load : kStrangers[i].in_flight > 0 ? std::vector{1.0} : plan.loads) {
      double best = 1;
      std::vector<std::array<double, 3>> over;
      for (const StrangerSystem& system : systems) {
        std::array<double, 3> of{};
        for (std::size_t f = 0; f < of.size(); ++f) {
          const StrangerFigure figures[] = {&StrangerFigures::mean, &StrangerFigures::p95, &StrangerFigures::p99};
          const auto r = study.OverBetter({i, load, system, plan.none}, figures[f]);
          of[f] = r ? r->mean : 0;
        }
        over.push_back(of);
      }
      if (std::ranges::any_of(over, [](const auto& of) { return of[0] <= 0; })) continue;
      ++cells;
      for (std::size_t s = 0; s < systems.size(); ++s) {
        const bool kept = std::max(over[s][1], over[s][2]) <= 1.05;
        broken[s] += kept ? 0 : 1;
        log_mean[s] += std::log(over[s][0]);
        if (kept) best = std::min(best, over[s][0]);
      }
      log_best += std::log(best);
    }
  }
  const auto row = [&](const std::string& label, int above, double log_sum) {
    table.BeginRow();
    table.Text(label), table.Text(fmt::format("{}", cells)), table.Text(fmt::format("{}", above));
    table.Text(cells > 0 ? fmt::format("{:.3f}", std::exp(log_sum / cells)) : "-");
  };
  for (std::size_t s = 0; s < systems.size(); ++s) row(systems[s].label, broken[s], log_mean[s]);
  row("best of each cell", 0, log_best);
  return table;
}

absl::StatusOr<ScenarioReport> RunStrangers(const StudySettings& settings, ProgressBar& bar) {
  StrangerPlan plan;
  constexpr double kOrdinaryMinutes = 3;  // --minutes is a share of this length
  if (settings.minutes > 0) plan.share = settings.minutes / kOrdinaryMinutes;
  StrangerStudy study(settings.data, plan.share, settings.Seeds(4, 12));
  AddStrangerRuns(study, plan, settings.full);
  if (absl::Status run = study.Run(settings.threads, bar); !run.ok()) return run;

  ScenarioReport report;
  report.title = "The default among strangers";
  std::vector<std::string> found, judged;
  for (const Stranger& s : kStrangers) (s.found ? found : judged).emplace_back(s.name);
  report.conditions = {
      {"Engine", "llama-3.1-8b on one h100, steps of 512 tokens, 256 requests, unless the workload's name differs"},
      {"Found on", fmt::format("{}", fmt::join(found, ", "))},
      {"Judged on", fmt::format("{}", fmt::join(judged, ", "))},
      {"Load",
       "rho: share of the largest rate that FCFS serves of the same calls, measured for each seed; closed loop: 900 "
       "workflows in flight on two instances"},
      {"Known",
       "none by default; forest: learns from ended requests; calibrated: a posterior fitted on the whole workload"},
      {"Runs", fmt::format("{} paired seeds from {} on, {:g} of ordinary length; 95 % intervals", study.seeds(),
                           study.seed_range().first, plan.share)}};
  if (!study.missing().empty()) {
    report.conditions.push_back({"Left out", fmt::format("missing data: {}", fmt::join(study.missing(), ", "))});
  }
  report.seeds = study.seeds();
  report.interrupted = Interrupted();
  report.claims_heading = "Claims for unseen workloads";
  report.claimed_by = "target";
  for (std::size_t c = 0; c < study.size(); ++c) {
    if (study[c].complete()) report.rows.push_back(StrangerRowOf(study[c]));
  }
  for (const auto& shown : kStrangerFigures) {
    if (*shown.column != '\0') report.figures.push_back(StrangerMapOf(study, plan, shown));
  }
  for (const double load : plan.loads) {
    report.tables.push_back(
        {fmt::format("Over fcfs at rho {:g}: mean/p95/p99 of workflows", load), OverFcfs(study, plan, load)});
  }
  report.tables.push_back({"All cells, no estimates", Scoreboard(study, plan)});
  report.claims = StrangerClaims(study, plan).All();
  return report;
}

}  // namespace

Scenario StrangersScenario() {
  return {"strangers", "the default order on unseen workloads: traffic, no predictions, bursts, cheating tenants",
          RunStrangers, true};
}

}  // namespace takt::tool
