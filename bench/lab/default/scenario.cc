// The default order against every rival, each on the workload of its publication.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "lab/default/claims.h"
#include "lab/figure.h"
#include "lab/scenario.h"
#include "lab/report/heat_map.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace takt::tool {

namespace {

// ---- runs --------------------------------------------------------------------------------------------------------

void AddRuns(DefaultStudy& study, const DefaultPlan& plan, bool full) {
  for (const Served s : kDefaultServed) {
    const std::vector<DefaultSystem> homes = RivalsAt(s);
    for (const double load : plan.loads) {
      for (const EstimateSpec& estimates : plan.estimates) {
        for (const DefaultSystem& system : AllSystems()) {
          if (system == defaults::BlindToDeadlines() && !UnderDeadlines(s) && s != Served::kMix) continue;
          const bool at_home = system == defaults::Ours() || std::ranges::count(homes, system) > 0;
          const bool against = system == defaults::Mean() || system == defaults::WorkflowFcfs();
          const bool usual = estimates == plan.usual;
          const bool knowledge = load == plan.load && (at_home || against);
          const bool means = estimates == plan.class_means && at_home;
          const bool regret = estimates.kind == EstimateKind::kOracle && system == defaults::Mean();
          if (full || usual || knowledge || means || regret) study.AddRun({s, load, system, estimates});
        }
      }
    }
  }
}

// ---- tables ------------------------------------------------------------------------------------------------------

using Shown = Figure<DefaultFigures>;
constexpr Shown Latency(const char* key, DefaultFigure member, const char* name) {
  return {key, member, name, "", "", name, Best::kSmallest};
}
constexpr Shown kDefaultFigures[] = {
    Latency("latency_mean_s", &DefaultFigures::mean, "mean"),
    Latency("latency_p50_s", &DefaultFigures::p50, "p50"),
    Latency("latency_p95_s", &DefaultFigures::p95, "p95"),
    Latency("latency_p99_s", &DefaultFigures::p99, "p99"),
    Latency("latency_max_s", &DefaultFigures::max, "max"),
    Latency("ttft_mean_s", &DefaultFigures::ttft, "mean TTFT"),
    Latency("ttft_p99_s", &DefaultFigures::ttft_p99, "p99 TTFT"),
    Latency("slowdown_max", &DefaultFigures::slowdown_max, "max slowdown"),
    Latency("slo_scale_95", &DefaultFigures::scale, "SLO scale"),
    {"in_time_pct", &DefaultFigures::in_time, "within 5x %", "", "", "within 5x %", Best::kLargest}};

// Mean latency over that of the order by exact footprints, less one, in %.
double RegretOf(const DefaultStudy& study, const DefaultSetup& setup) {
  DefaultSetup exact = setup;
  exact.system = defaults::Mean();
  exact.estimates = {EstimateKind::kOracle, 0};
  const std::optional<Reduction> r = study.Compare(setup, exact, &DefaultFigures::mean);
  return r ? -r->mean : Table::kNoNumber;
}

ScenarioRow RowOf(const DefaultStudy& study, const DefaultCell& cell) {
  const DefaultSetup& s = cell.setup;
  ScenarioRow row = {{"part", std::string("runs")},
                     {"workload", std::string(Name(s.served))},
                     {"rho", s.load},
                     {"system", s.system.label},
                     {"policy", s.system.policy},
                     {"estimates", s.estimates.ToString()},
                     {"seeds", static_cast<std::int64_t>(cell.seeds.size())}};
  AddMeans(row, cell, kDefaultFigures);
  row.emplace_back("latency_sd_s", cell.Deviation(&DefaultFigures::mean));
  row.emplace_back("kv_mean", cell.Mean(&DefaultFigures::kv));
  row.emplace_back("preemptions", cell.Mean(&DefaultFigures::preempted));
  const double regret = RegretOf(study, s);
  if (!std::isnan(regret)) row.emplace_back("regret_pct", regret);
  return row;
}

std::string CellText(const std::optional<Reduction>& r) { return r ? fmt::format("{:.2f}", 1 - r->mean / 100) : "-"; }

std::vector<Served> Shown10(const DefaultStudy& study) {
  std::vector<Served> all;
  for (const Served s : kDefaultServed) {
    if (study.has(s)) all.push_back(s);
  }
  return all;
}

// Each order over workflow_fcfs: mean/p99.
Table OverFcfsTable(const DefaultStudy& study, const DefaultPlan& plan) {
  std::vector<Table::Column> columns = {{"", "order", false}};
  for (const Served s : Shown10(study)) columns.push_back({"", std::string(Name(s))});
  Table table(std::move(columns));
  const auto over = [&](Served s, const DefaultSystem& system, DefaultFigure figure) {
    return study.Compare({s, plan.load, system, plan.usual}, {s, plan.load, defaults::WorkflowFcfs(), plan.usual},
                         figure);
  };
  for (const DefaultSystem& system : AllSystems()) {
    table.BeginRow();
    table.Text(system.label);
    for (const Served s : Shown10(study)) {
      table.Text(CellText(over(s, system, &DefaultFigures::mean)) + "/" +
                 CellText(over(s, system, &DefaultFigures::p99)));
    }
  }
  return table;
}

// The default over the home's first rival, by knowledge: mean/p99.
Table KnowledgeTable(const DefaultStudy& study, const DefaultPlan& plan) {
  std::vector<Table::Column> columns = {{"", "known", false}};
  for (const Served s : Shown10(study)) {
    columns.push_back({std::string(Name(s)), "workflow_fcfs"});
    columns.push_back({std::string(Name(s)), RivalsAt(s).front().label + (s == Served::kMix ? " " : "")});
  }
  Table table(std::move(columns));
  for (const EstimateSpec& estimates : plan.estimates) {
    table.BeginRow();
    table.Text(estimates.ToString());
    for (const Served s : Shown10(study)) {
      for (const DefaultSystem& other : {defaults::WorkflowFcfs(), RivalsAt(s).front()}) {
        const auto over = [&](DefaultFigure figure) {
          return CellText(
              study.Compare({s, plan.load, defaults::Ours(), estimates}, {s, plan.load, other, estimates}, figure));
        };
        table.Text(over(&DefaultFigures::mean) + "/" + over(&DefaultFigures::p99));
      }
    }
  }
  return table;
}

// All figures of all orders on one workload.
Table FiguresTable(const DefaultStudy& study, const DefaultPlan& plan, Served s) {
  std::vector<Table::Column> columns = {{"", "rho"}, {"", "order", false}};
  for (const Shown& shown : kDefaultFigures) columns.push_back({"", shown.column, true, shown.best});
  columns.push_back({"", "regret %", true, Best::kSmallest});
  Table table(std::move(columns));
  for (const double load : plan.loads) {
    table.BeginSection();
    for (const DefaultSystem& system : AllSystems()) {
      const DefaultSetup setup = {s, load, system, plan.usual};
      const DefaultCell* cell = study.FindRun(setup);
      if (cell == nullptr) continue;
      table.BeginRow();
      table.Text(fmt::format("{:g}", load));
      table.Text(system.label);
      for (const Shown& shown : kDefaultFigures) table.Number(cell->Mean(shown.member));
      table.Number(RegretOf(study, setup));
    }
  }
  return table;
}

// ---- heat maps -----------------------------------------------------------------------------------------------------

ScenarioFigure HeatMapOf(const DefaultStudy& study, const DefaultPlan& plan, const Shown& shown) {
  HeatMap map;
  const std::vector<DefaultSystem> rivals = defaults::Rivals();
  int cells = 0, losses = 0, gains = 0;
  for (const Served s : Shown10(study)) {
    HeatGroup& group = map.groups.emplace_back(HeatGroup{std::string(Name(s)), {}});
    for (const double load : plan.loads) group.columns.push_back(fmt::format("{:g}", load));
  }
  for (const DefaultSystem& rival : rivals) {
    map.rows.push_back(rival.label);
    std::vector<HeatCell>& row = map.cells.emplace_back();
    for (const Served s : Shown10(study)) {
      const std::vector<DefaultSystem> homes = RivalsAt(s);
      for (const double load : plan.loads) {
        HeatCell& cell = row.emplace_back();
        const DefaultSetup ours = {s, load, defaults::Ours(), plan.usual}, theirs = {s, load, rival, plan.usual};
        const std::optional<Reduction> r = study.Compare(ours, theirs, shown.member);
        if (!r) continue;
        cell.ratio = 1 - r->mean / 100;
        cell.certain = r->low > 0 || r->high < 0;
        cell.framed = std::ranges::count(homes, rival) > 0;
        cell.tip = fmt::format("{}, rho {:g}, {} of the default over {}: {:.3f} [{:.3f}, {:.3f}]; {} against {}",
                               Name(s), load, shown.label, rival.label, cell.ratio, 1 - r->high / 100, 1 - r->low / 100,
                               Short(study.FindRun(ours)->Mean(shown.member)),
                               Short(study.FindRun(theirs)->Mean(shown.member)));
        ++cells;
        losses += r->high < 0;
        gains += r->low > 0;
      }
    }
  }
  return {fmt::format("{}: the default over each rival", shown.label),
          fmt::format(
              "{}, {}. Blue: the default is lower, orange: it loses; bold: beyond chance (95 %); framed: the "
              "rival's home; columns: rho. In {} cells, the default wins {} and loses {} beyond chance. A pointer on a "
              "cell shows the interval and both figures.",
              shown.label, plan.usual.ToString(), cells, gains, losses),
          HeatMapSvg(map)};
}

std::vector<Condition> ConditionsOf(const DefaultStudy& study, const DefaultPlan& plan) {
  std::vector<std::string> sizes, estimates;
  for (const Served s : Shown10(study)) {
    const DefaultStudy::Size size = study.SizeOf(s);
    sizes.push_back(fmt::format("{} {:.0f} workflows of {:.1f} calls, {:.2f}/s", Name(s), size.workflows,
                                size.calls / std::max(1.0, size.workflows),
                                size.capacity_rps * size.workflows / std::max(1.0, size.calls)));
  }
  for (const EstimateSpec& e : plan.estimates) estimates.push_back(e.ToString());
  std::vector<Condition> conditions = {
      {"Engine", fmt::format("one {}; a step: 512 tokens, 256 requests (chosen); KV of the profile; pauses by least "
                             "waste for all orders, 200,000 tokens of host memory (chosen)",
                             kDefaultProfile)},
      {"Workloads", fmt::format("{:g} minutes of arrivals at capacity (text2sql, tools, mix: twice, sharegpt: half of "
                                "that): {}. conv, code: a window of the trace, of which "
                                "two seeds share most. mix: all homes, each with the same share of the GPU",
                                study.minutes(), fmt::join(sizes, "; "))},
      {"Load", "rho: share of the largest rate that FCFS serves of the same calls, measured for each seed"},
      {"Known",
       fmt::format("{} by default; at rho {:g} also {}", plan.usual.ToString(), plan.load, fmt::join(estimates, ", "))},
      {"Deadlines",
       fmt::format("{:g} times the workflow's time alone. All orders get the deadlines of text2sql's workflows. "
                   "urgency, slack and footprint(hopeless_last) need deadlines, so they get one for every workflow",
                   kDefaultSloScale)},
      {"Orders",
       "static keys, no settings per workload, no aging. urgency: equation 5's budgets as published. Latest first: "
       "late workflows count their whole lateness. slack: all remaining time. agent_priority and stage_depth learn "
       "from ended calls"},
      {"Runs", fmt::format("{} paired seeds from {} on: of sizes, arrivals and errors of estimates; 95 % intervals",
                           study.seeds(), study.seed_range().first)}};
  if (!study.missing().empty()) {
    conditions.push_back({"Left out", fmt::format("missing data: {}", fmt::join(study.missing(), ", "))});
  }
  return conditions;
}

std::vector<std::string> FindingsOf(const DefaultStudy& study, const DefaultPlan& plan) {
  std::vector<std::string> findings;
  for (const Served s : Shown10(study)) {
    const auto against = [&](const DefaultSystem& other, DefaultFigure figure) {
      return CellText(
          study.Compare({s, plan.load, defaults::Ours(), plan.usual}, {s, plan.load, other, plan.usual}, figure));
    };
    std::vector<std::string> parts;
    std::vector<DefaultSystem> others = {defaults::WorkflowFcfs()};
    for (const DefaultSystem& rival : RivalsAt(s)) {
      if (!(rival == others.front())) others.push_back(rival);
    }
    for (const DefaultSystem& other : others) {
      parts.push_back(fmt::format("of {} mean {}, p95 {}, p99 {}, max {}, SLO scale {}", other.label,
                                  against(other, &DefaultFigures::mean), against(other, &DefaultFigures::p95),
                                  against(other, &DefaultFigures::p99), against(other, &DefaultFigures::max),
                                  against(other, &DefaultFigures::scale)));
    }
    findings.push_back(fmt::format("{} at rho {:g}, times that {}.", Name(s), plan.load, fmt::join(parts, "; ")));
  }
  return findings;
}

absl::StatusOr<ScenarioReport> RunDefault(const StudySettings& settings, ProgressBar& bar) {
  DefaultPlan plan;
  if (settings.full) plan.minutes = 30;
  if (settings.minutes > 0) plan.minutes = settings.minutes;
  DefaultStudy study(settings.data, plan.minutes, settings.Seeds(12, 12));
  AddRuns(study, plan, settings.full);
  if (absl::Status run = study.Run(settings.threads, bar); !run.ok()) return run;

  ScenarioReport report;
  report.title = "One default against every rival at home";
  report.conditions = ConditionsOf(study, plan);
  report.seeds = study.seeds();
  report.interrupted = Interrupted();
  report.claims_heading = "Claims for the default";
  report.claimed_by = "target";
  for (std::size_t c = 0; c < study.size(); ++c) {
    if (study[c].complete()) report.rows.push_back(RowOf(study, study[c]));
  }
  for (const Shown& shown : kDefaultFigures) {
    const bool mapped = shown.member == &DefaultFigures::mean || shown.member == &DefaultFigures::p95 ||
                        shown.member == &DefaultFigures::p99 || shown.member == &DefaultFigures::max ||
                        shown.member == &DefaultFigures::ttft || shown.member == &DefaultFigures::scale;
    if (mapped) report.figures.push_back(HeatMapOf(study, plan, shown));
  }
  report.tables.push_back(
      {fmt::format("Over workflow_fcfs at rho {:g}, {}: mean/p99", plan.load, plan.usual.ToString()),
       OverFcfsTable(study, plan)});
  report.tables.push_back(
      {fmt::format("The default over others with the same knowledge, rho {:g}: mean/p99", plan.load),
       KnowledgeTable(study, plan)});
  for (const Served s : Shown10(study)) {
    report.tables.push_back({fmt::format("{}, {}: latencies of workflows in s", Name(s), plan.usual.ToString()),
                             FiguresTable(study, plan, s), true});
  }
  report.claims = DefaultClaims(study, plan);
  report.findings = FindingsOf(study, plan);
  return report;
}

}  // namespace

Scenario DefaultScenario() {
  return {"default", "the default order against every rival, each on its own workload, and all of them on one GPU",
          RunDefault, true};
}

}  // namespace takt::tool
