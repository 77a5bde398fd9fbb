// Measures STJF with a starvation counter (the same in Chimera, LTR and LAMPS). Reports how long a request may be
// passed over, how long a promotion lasts, and the load at which the order becomes first come, first served.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tool/run/load_workload.h"
#include "lab/scenario.h"
#include "lab/study.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "takt/base/spec.h"
#include "takt/policy/registry.h"
#include "takt/sim/replay.h"
#include "takt/workload/generate.h"

namespace takt::tool {
namespace {

constexpr std::int64_t kNoThreshold = kForever;  // STJF alone
constexpr std::int64_t kFcfs = 0;                               // no STJF
constexpr std::string_view kProfile = "aic/llama-3.1-8b/a100/bf16/tp1";
constexpr std::int64_t kSample = 3000;  // workflows used to measure saturation
// Shares of STJF's gain over FCFS in the mean: below these the gain is halved, or gone.
constexpr double kHalf = 0.5, kGone = 0.1;

struct Plan {
  double minutes = 30;  // minutes of arrivals at full load
  std::vector<double> loads = {0.6, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.3};
  std::vector<std::int64_t> thresholds = {25, 50, 100, 200, 400, 800, 1600};
  std::vector<std::int64_t> quanta = {1, 3, 10, 30, 100, kForever};
  std::vector<std::int64_t> quantum_thresholds = {100, 400};
  std::vector<double> quantum_loads = {1, 1.1};
};

struct Setup {
  std::size_t workload = 0;
  double load = 1;
  std::int64_t threshold = kFcfs, quantum = 10;
  bool preemptive = false;  // ranks preempt too: a promotion's length has no effect otherwise

  friend bool operator==(const Setup&, const Setup&) = default;
};

// Figures of one run.
struct Figures {
  double latency = 0, latency_p99 = 0;  // s, of workflows
  double queue = 0;                     // s, mean time from a call's arrival to its first step
  double promoted = 0;                  // promotions per 100 calls
  double step_ms = 0;                   // mean
  double preempted = 0;                 // calls, %
};
using AgingCell = Cell<Setup, Figures>;
using AgingFigure = double Figures::*;
using AgingStudy = Study<Setup, Figures>;

struct Ground {
  std::string name, text;
  std::vector<Workload> seeds;
  double saturation = 0;  // calls per second
};

std::string PolicyOf(const Setup& s) {
  if (s.threshold == kFcfs) return "fcfs";
  if (s.threshold == kNoThreshold) return "stjf";
  return fmt::format("aged(stjf,threshold={},quantum={})", s.threshold, OptionToText(s.quantum));
}

std::string Label(std::int64_t threshold) {
  return threshold == kFcfs ? "FCFS" : threshold == kNoThreshold ? "never" : fmt::format("S = {}", threshold);
}

ReplayOptions EngineOptions(const Profile& profile) {
  ReplayOptions options;
  options.profile = profile;
  options.estimates = {EstimateKind::kOracle, 0};
  options.engine.limits = kStepLimits;
  return options;
}

// `from`: a trace of single calls; null: the generator of this spec.
absl::StatusOr<Ground> Prepare(const std::string& name, const std::string& spec, const Workload* from,
                               const Profile& profile, double minutes, SeedRange seeds) {
  const auto draw = [&](std::int64_t workflows, std::uint64_t seed) {
    return from != nullptr ? Draw(*from, workflows, Arrivals{}, seed)
                           : GenerateWorkload(fmt::format("{},workflows={},rate=1,seed={}", spec, workflows, seed));
  };
  Ground ground{.name = name, .text = spec, .seeds = {}};
  const absl::StatusOr<Workload> sample = draw(kSample, 1000);
  if (!sample.ok()) return sample.status();
  const absl::StatusOr<double> saturation = MeasureSaturation(*sample, EngineOptions(profile));
  if (!saturation.ok()) return saturation.status();
  ground.saturation = *saturation;
  const double calls = static_cast<double>(sample->calls.size()) / static_cast<double>(sample->workflows.size());
  const auto workflows = static_cast<std::int64_t>(std::max(20.0, std::round(*saturation / calls * minutes * 60)));
  for (std::size_t s = 0; s < static_cast<std::size_t>(seeds.count); ++s) {
    absl::StatusOr<Workload> workload = draw(workflows, seeds.At(s));
    if (!workload.ok()) return workload.status();
    ground.seeds.push_back(*std::move(workload));
  }
  return ground;
}

Figures FiguresOf(const ReplayResult& result) {
  const Metrics& m = result.metrics;
  const auto calls = static_cast<double>(result.requests.size());
  Figures f{.latency = m.workflow.mean,
            .latency_p99 = m.workflow.p99,
            .queue = m.queue.mean,
            .promoted = 100 * static_cast<double>(result.stats.promoted) / calls};
  double begins = 0, ends = 0;
  for (const RequestRecord& r : result.requests) {
    begins = std::min(begins, ToSeconds(r.arrival));
    ends = std::max(ends, ToSeconds(r.end));
    f.preempted += r.preemptions > 0 ? 100 / calls : 0;
  }
  f.step_ms = 1e3 * (ends - begins) / static_cast<double>(std::max<std::int64_t>(result.steps, 1));
  return f;
}

// Share of STJF's saving in mean latency over FCFS that is left; empty if STJF saves less than 1 %.
std::optional<double> GainKept(const AgingStudy& study, const Setup& setup) {
  const auto of = [&](std::int64_t threshold) {
    return study.Find({setup.workload, setup.load, threshold, 10, setup.preemptive});
  };
  const AgingCell *fcfs = of(kFcfs), *stjf = of(kNoThreshold), *aged = study.Find(setup);
  if (fcfs == nullptr || stjf == nullptr || aged == nullptr) return std::nullopt;
  const double all = fcfs->Mean(&Figures::latency) - stjf->Mean(&Figures::latency);
  if (all < 0.01 * fcfs->Mean(&Figures::latency)) return std::nullopt;
  return (fcfs->Mean(&Figures::latency) - aged->Mean(&Figures::latency)) / all;
}

// The least load from which, up to the largest load, less than `share` of the gain is left. Empty: no such load.
std::optional<double> LostFrom(const AgingStudy& study, const Plan& plan, std::size_t workload, std::int64_t threshold,
                               double share) {
  std::optional<double> from;
  for (auto load = plan.loads.rbegin(); load != plan.loads.rend(); ++load) {
    const std::optional<double> kept = GainKept(study, {workload, *load, threshold});
    if (!kept || *kept >= share) break;
    from = *load;
  }
  return from;
}

ScenarioRow RowOf(const std::vector<Ground>& grounds, const AgingStudy& study, const AgingCell& cell) {
  const Setup& s = cell.setup;
  ScenarioRow row = {{"workload", grounds[s.workload].name},
                     {"policy", PolicyOf(s)},
                     {"load", s.load},
                     {"threshold", Label(s.threshold)},
                     {"quantum", OptionToText(s.quantum)},
                     {"preemptive", std::string(s.preemptive ? "yes" : "no")},
                     {"seeds", static_cast<std::int64_t>(cell.seeds.size())},
                     {"workflows", std::ssize(grounds[s.workload].seeds.front().workflows)}};
  const std::pair<const char*, AgingFigure> figures[] = {
      {"latency_mean_s", &Figures::latency}, {"latency_p99_s", &Figures::latency_p99},
      {"queue_mean_s", &Figures::queue},     {"promoted_per_100", &Figures::promoted},
      {"step_mean_ms", &Figures::step_ms},   {"preempted_pct", &Figures::preempted}};
  for (const auto& [key, figure] : figures) row.emplace_back(key, cell.Mean(figure));
  row.emplace_back("latency_sd_s", cell.Deviation(&Figures::latency));
  if (const std::optional<double> kept = GainKept(study, s)) row.emplace_back("gain_kept", *kept);
  return row;
}

std::vector<std::int64_t> Orders(const Plan& plan) {
  std::vector<std::int64_t> orders = {kFcfs};
  orders.insert(orders.end(), plan.thresholds.begin(), plan.thresholds.end());
  orders.push_back(kNoThreshold);
  return orders;
}

Table ThresholdTable(const AgingStudy& study, const Plan& plan, std::size_t workload) {
  Table table({{"", "load"},
               {"", "promoted after", false},
               {"latency [s]", "mean", true, Best::kSmallest},
               {"latency [s]", "p99", true, Best::kSmallest},
               {"", "gain kept %"},
               {"", "promotions per 100 calls"},
               {"wait of a call [s]", "mean"},
               {"wait of a call [s]", "S steps"}});
  for (const double load : plan.loads) {
    table.BeginSection();
    for (const std::int64_t threshold : Orders(plan)) {
      const AgingCell* c = study.Find({workload, load, threshold});
      if (c == nullptr) continue;
      const std::optional<double> kept = GainKept(study, c->setup);
      const bool counts = threshold != kFcfs && threshold != kNoThreshold;
      table.BeginRow();
      table.Text(fmt::format("{:g}", load));
      table.Text(Label(threshold));
      table.Number(c->Mean(&Figures::latency));
      table.Number(c->Mean(&Figures::latency_p99));
      table.Number(kept ? 100 * *kept : Table::kNoNumber);
      table.Number(c->Mean(&Figures::promoted));
      table.Number(c->Mean(&Figures::queue));
      table.Number(counts ? 1e-3 * static_cast<double>(threshold) * c->Mean(&Figures::step_ms) : Table::kNoNumber);
    }
  }
  return table;
}

Table QuantumTable(const std::vector<Ground>& grounds, const AgingStudy& study, const Plan& plan) {
  Table table({{"", "workload", false},
               {"", "load"},
               {"", "S"},
               {"", "Q"},
               {"latency [s]", "mean", true, Best::kSmallest},
               {"latency [s]", "p99", true, Best::kSmallest},
               {"", "gain kept %"},
               {"", "promotions per 100 calls"},
               {"", "preempted %"}});
  for (std::size_t w = 0; w < grounds.size(); ++w) {
    for (const double load : plan.quantum_loads) {
      for (const std::int64_t threshold : plan.quantum_thresholds) {
        table.BeginSection();
        for (const std::int64_t quantum : plan.quanta) {
          const AgingCell* c = study.Find({w, load, threshold, quantum, true});
          if (c == nullptr) continue;
          const std::optional<double> kept = GainKept(study, c->setup);
          table.BeginRow();
          table.Text(grounds[w].name);
          table.Text(fmt::format("{:g}", load));
          table.Text(std::to_string(threshold));
          table.Text(OptionToText(quantum));
          table.Number(c->Mean(&Figures::latency));
          table.Number(c->Mean(&Figures::latency_p99));
          table.Number(kept ? 100 * *kept : Table::kNoNumber);
          table.Number(c->Mean(&Figures::promoted));
          table.Number(c->Mean(&Figures::preempted));
        }
      }
    }
  }
  return table;
}

Table LossTable(const std::vector<Ground>& grounds, const AgingStudy& study, const Plan& plan) {
  std::vector<Table::Column> columns = {{"", "workload", false}, {"", "of the gain is left", false}};
  for (const std::int64_t threshold : plan.thresholds)
    columns.push_back({"from load, with S =", std::to_string(threshold)});
  Table table(std::move(columns));
  for (std::size_t w = 0; w < grounds.size(); ++w) {
    table.BeginSection();
    for (const auto& [share, text] : {std::pair{kHalf, "less than half"}, {kGone, "less than a tenth"}}) {
      table.BeginRow();
      table.Text(grounds[w].name);
      table.Text(text);
      for (const std::int64_t threshold : plan.thresholds) {
        const std::optional<double> from = LostFrom(study, plan, w, threshold, share);
        table.Text(from ? fmt::format("{:g}", *from) : "-");
      }
    }
  }
  return table;
}

std::vector<ScenarioPlots> PlotsOf(const std::vector<Ground>& grounds, const AgingStudy& study, const Plan& plan) {
  std::vector<ScenarioPlots> groups;
  const std::vector<std::int64_t> orders = Orders(plan);
  for (std::size_t w = 0; w < grounds.size(); ++w) {
    ScenarioPlots& group = groups.emplace_back(ScenarioPlots{grounds[w].name + ": thresholds", {}});
    const auto add = [&](const std::string& name, Scale scale, auto value) {
      Plot plot{.title = name,
                .x_label = "load, share of what the engine serves",
                .y_label = name,
                .x_scale = Scale::kFit,
                .y_scale = scale,
                .marks = true,
                .lines = {}};
      for (std::size_t i = 0; i < orders.size(); ++i) {
        PlotLine line{Label(orders[i]), i, {}};
        for (const double load : plan.loads) {
          const AgingCell* c = study.Find({w, load, orders[i]});
          if (c == nullptr) continue;
          if (const std::optional<double> y = value(*c)) line.points.push_back({load, *y});
        }
        plot.lines.push_back(std::move(line));
      }
      group.plots.push_back(std::move(plot));
    };
    add("mean latency [s]", Scale::kAuto, [](const AgingCell& c) { return std::optional(c.Mean(&Figures::latency)); });
    add("p99 latency [s]", Scale::kAuto,
        [](const AgingCell& c) { return std::optional(c.Mean(&Figures::latency_p99)); });
    add("promotions per 100 calls", Scale::kLinear,
        [](const AgingCell& c) { return std::optional(c.Mean(&Figures::promoted)); });
    add("% of STJF's gain kept", Scale::kLinear, [&](const AgingCell& c) -> std::optional<double> {
      const std::optional<double> kept = GainKept(study, c.setup);
      return kept ? std::optional(100 * std::clamp(*kept, 0.0, 1.0)) : std::nullopt;
    });
  }
  return groups;
}

std::vector<std::string> FindingsOf(const std::vector<Ground>& grounds, const AgingStudy& study, const Plan& plan) {
  std::vector<std::string> findings;
  for (std::size_t w = 0; w < grounds.size(); ++w) {
    std::vector<std::string> parts;
    for (const std::int64_t threshold : plan.thresholds) {
      const std::optional<double> half = LostFrom(study, plan, w, threshold, kHalf),
                                  gone = LostFrom(study, plan, w, threshold, kGone);
      if (half)
        parts.push_back(fmt::format("S = {}: {:g}{}", threshold, *half, gone ? fmt::format(", gone {:g}", *gone) : ""));
    }
    findings.push_back(fmt::format(
        "{}: {}", grounds[w].name,
        parts.empty() ? std::string("no load makes a threshold cost half of STJF's gain.")
                      : fmt::format("half of STJF's gain is lost from load on: {}.", fmt::join(parts, "; "))));
  }
  return findings;
}

absl::StatusOr<ScenarioReport> RunAging(const StudySettings& settings, ProgressBar& bar) {
  const absl::StatusOr<std::string> file = FindData(settings.data, "traces", "azure_llm_2023_conv.csv.gz");
  if (!file.ok()) return file.status();
  WorkloadSource from;
  from.file = *file;
  const absl::StatusOr<Workload> trace = LoadWorkload(from);
  if (!trace.ok()) return trace.status();
  const absl::StatusOr<Profile> profile = FindProfile(kProfile);
  if (!profile.ok()) return profile.status();

  Plan plan;
  if (settings.minutes > 0) plan.minutes = settings.minutes;
  AgingStudy study(settings.Seeds(3, 10));
  std::vector<Ground> grounds;
  for (const auto& [name, spec] : {std::pair{"apps", "gen:apps"}, {"math", "gen:math"}, {"conversations", ""}}) {
    const bool is_trace = *spec == '\0';
    absl::StatusOr<Ground> ground =
        Prepare(name, spec, is_trace ? &*trace : nullptr, *profile, plan.minutes, study.seed_range());
    if (!ground.ok()) return ground.status();
    if (is_trace) ground->text = file->substr(file->rfind('/') + 1) + ", drawn with replacement";
    grounds.push_back(*std::move(ground));
  }
  for (std::size_t w = 0; w < grounds.size(); ++w) {
    for (const double load : plan.loads) {
      for (const std::int64_t threshold : Orders(plan)) study.Add({w, load, threshold});
    }
    for (const double load : plan.quantum_loads) {
      for (const std::int64_t threshold : {kFcfs, kNoThreshold}) study.Add({w, load, threshold, 10, true});
      for (const std::int64_t threshold : plan.quantum_thresholds) {
        for (const std::int64_t quantum : plan.quanta) study.Add({w, load, threshold, quantum, true});
      }
    }
  }
  const absl::Status run = study.RunCells(settings.threads, "replaying", bar,
                                          [&](const Setup& setup, std::uint64_t seed,
                                              const RunProgress& progress) -> absl::StatusOr<std::optional<Figures>> {
                                            const Ground& ground = grounds[setup.workload];
                                            const Workload& workload = ground.seeds[study.seed_range().IndexOf(seed)];
                                            ReplayOptions options = EngineOptions(*profile);
                                            options.policy = *MakePolicyFactory(PolicyOf(setup));
                                            if (setup.preemptive) options.scheduler.preempt = PreemptMode::kByRank;
                                            options.seed = seed;
                                            options.cluster.rate_scale =
                                                RateScaleForLoad(workload, setup.load, ground.saturation);
                                            options.cluster.progress = progress;
                                            const absl::StatusOr<ReplayResult> result = Replay(workload, options);
                                            if (!result.ok()) return result.status();
                                            if (result->stopped) return std::nullopt;
                                            return FiguresOf(*result);
                                          });
  if (!run.ok()) return run;

  ScenarioReport report;
  report.title = "Aging: how long the shortest requests may go first";
  report.seeds = study.seeds();
  report.interrupted = Interrupted();
  std::vector<std::string> texts, rates;
  for (const Ground& g : grounds) {
    texts.push_back(fmt::format("{}: {}", g.name, g.text));
    rates.push_back(fmt::format("{} {:.1f}", g.name, g.saturation));
  }
  report.conditions = {{"Workloads", fmt::format("{}; Poisson arrivals", fmt::join(texts, "; "))},
                       {"Engine", fmt::format("{}; a step: 2,048 tokens, 256 requests", kProfile)},
                       {"Saturation", fmt::format("calls a second: {}; load 1 is this rate", fmt::join(rates, ", "))},
                       {"Orders",
                        "stjf; aged(stjf) with threshold S and quantum Q (10 steps by default); fcfs. Ranks preempt in "
                        "the table of quanta only"},
                       {"Known", "exact lengths"},
                       {"Runs", fmt::format("{} paired seeds; arrivals at each load are the number of workflows served "
                                            "in {:g} minutes, and all are served to the end",
                                            study.seeds(), plan.minutes)}};
  for (std::size_t c = 0; c < study.size(); ++c) {
    if (study[c].complete()) report.rows.push_back(RowOf(grounds, study, study[c]));
  }
  report.tables.push_back({"Load from which STJF's gain over FCFS is lost", LossTable(grounds, study, plan)});
  for (std::size_t w = 0; w < grounds.size(); ++w) {
    report.tables.push_back({grounds[w].name + ": thresholds", ThresholdTable(study, plan, w)});
  }
  report.tables.push_back({"Quanta, if ranks preempt", QuantumTable(grounds, study, plan)});
  report.plots = PlotsOf(grounds, study, plan);
  report.findings = FindingsOf(grounds, study, plan);
  return report;
}

}  // namespace

Scenario AgingScenario() {
  return {"aging",
          "shortest total job first with a starvation counter: the load from which it becomes first come, first served",
          RunAging};
}

}  // namespace takt::tool
