// HexGen-Flow (Peng et al., 2025): text-to-SQL workflows under deadlines on unequal GPUs.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lab/hexgen/claims.h"
#include "lab/scenario.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace takt::tool {

namespace {

using Cluster = HexgenCluster;
using Load = HexgenLoad;

StudyParts<HexgenStudy> PartsOf(HexgenStudy& study, const HexgenPlan& plan) {
  StudyParts parts(study);
  parts.Begin("systems");
  for (const Cluster cluster : kHexgenClusters) {
    for (const Load load : kHexgenTraces) {
      for (const double rate : plan.rates) {
        for (const HexgenSystem& s : hexgen::Main(plan, cluster, load, rate)) parts.Add({cluster, load, rate, s});
      }
    }
  }
  parts.Begin("alpha");
  for (const Cluster cluster : {Cluster::kHetero1, Cluster::kHetero2}) {
    for (const Load load : kHexgenTraces) {
      for (const double alpha : plan.alphas) {
        parts.Add({cluster, load, plan.rate, hexgen::Labelled(hexgen::WbPq(alpha), fmt::format("alpha {:g}", alpha))});
      }
    }
  }
  parts.Begin("orders");
  for (const double rate : plan.rates) {
    for (const HexgenSystem& s : hexgen::Orders()) parts.Add({Cluster::kHetero2, Load::kTrace1, rate, s});
  }
  parts.Begin("placements");
  for (const double rate : {0.1, plan.rate}) {
    for (const HexgenSystem& s : hexgen::Placements()) parts.Add({Cluster::kHetero2, Load::kTrace1, rate, s});
  }
  parts.Begin("knowledge");
  for (const HexgenSystem& s : hexgen::Knowledge()) parts.Add({Cluster::kHetero2, Load::kTrace1, plan.rate, s});
  parts.Begin("deadlines");
  for (const double scale : {2.0, 5.0, 10.0}) {
    for (const HexgenSystem& s : {hexgen::Qlm(), hexgen::WbPq(0)}) {
      parts.Add({Cluster::kHetero2, Load::kTrace1, plan.rate,
                 hexgen::Labelled(s, fmt::format("{}, {:g} x", s.label, scale)), scale});
    }
  }
  parts.Begin("two users");
  for (const Load load : kHexgenTraces) {
    for (const double rate : plan.published) {
      const double alpha = plan.AlphaOf(Cluster::kHetero2, load, rate);
      for (const HexgenSystem& s : {hexgen::Vllm(), hexgen::Vtc(), hexgen::Qlm(), hexgen::WbPq(alpha)}) {
        parts.Add({Cluster::kHetero2, load, rate, s, 5, true});
      }
    }
  }
  parts.Begin("changing load");
  for (const double alpha : plan.alphas) {
    parts.Add({Cluster::kHetero2, Load::kChanging, plan.changing_peak,
               hexgen::Labelled(hexgen::WbPq(alpha), fmt::format("alpha {:g}", alpha))});
  }
  parts.Add({Cluster::kHetero2, Load::kChanging, plan.changing_peak, hexgen::Tuner()});
  return parts;
}

// ---- tables -----------------------------------------------------------------------------------------------------

ScenarioRow RowOf(const HexgenStudy& study, const StudyPart& part, const HexgenCell& cell, const std::string& label) {
  const HexgenSetup& s = cell.setup;
  ScenarioRow row = {{"part", part.name},
                     {"cluster", std::string(Name(s.cluster))},
                     {"load", study.NameOf(s.load)},
                     {"rate_qps", s.rate},
                     {"system", label},
                     {"placement", s.system.placement},
                     {"policy", s.system.policy},
                     {"budget", std::string(!s.system.budget                         ? "none"
                                            : *s.system.budget == BudgetRule::kShare ? "share"
                                                                                     : "whole")},
                     {"estimates", s.system.estimates.ToString()},
                     {"deadline_scale", s.slo_scale},
                     {"seeds", static_cast<std::int64_t>(cell.seeds.size())}};
  for (const auto& f : kHexgenFigures) {
    row.emplace_back(f.key, cell.Mean(f.member));
    row.emplace_back(fmt::format("{}_sd", f.key), cell.Deviation(f.member));
  }
  if (s.two_users) AddMeans(row, cell, kHexgenUserFigures);
  if (s.system.tuner) {
    row.emplace_back("alpha", cell.Mean(&HexgenFigures::alpha));
    row.emplace_back("searches", cell.Mean(&HexgenFigures::searches));
  }
  return row;
}

std::string WithSpread(const HexgenCell* cell, HexgenFigure figure) {
  if (cell == nullptr) return "-";
  return fmt::format("{} +- {}", Short(cell->Mean(figure)), Short(cell->Deviation(figure)));
}

std::string WithInterval(const HexgenCell* ours, const HexgenCell* other, HexgenFigure figure) {
  if (ours == nullptr || other == nullptr) return "-";
  const Reduction r = ReductionOf(*ours, *other, figure);
  return fmt::format("{:.0f} ({:.0f} to {:.0f})", r.mean, r.low, r.high);
}

// A line per trace and rate; a column per system.
Table SystemTable(const HexgenStudy& study, const HexgenPlan& plan, Cluster cluster, HexgenFigure figure) {
  std::vector<Table::Column> columns = {{"", "load", false}, {"", "queries/s"}, {"", "alpha"}};
  for (const HexgenSystem& s : hexgen::Main(plan, cluster, Load::kTrace1, 0)) columns.push_back({"", s.label});
  Table table(std::move(columns));
  for (const Load load : kHexgenTraces) {
    table.BeginSection();
    for (const double rate : plan.rates) {
      table.BeginRow();
      table.Text(study.NameOf(load));
      table.Text(fmt::format("{:g}", rate));
      table.Text(fmt::format("{:g}", plan.AlphaOf(cluster, load, rate)));
      for (const HexgenSystem& s : hexgen::Main(plan, cluster, load, rate)) {
        table.Text(WithSpread(study.Find({cluster, load, rate, s}), figure));
      }
    }
  }
  return table;
}

Table ReductionTable(const HexgenStudy& study, const HexgenPlan& plan, HexgenFigure figure) {
  std::vector<Table::Column> columns = {{"", "cluster", false}, {"", "load", false}, {"", "queries/s"}};
  for (const HexgenSystem& s : hexgen::Main(plan, Cluster::kHomo, Load::kTrace1, 0)) {
    if (s.label != kHexgenFlow) columns.push_back({"HexGen-Flow below, % (95 % interval)", s.label});
  }
  Table table(std::move(columns));
  for (const Cluster cluster : kHexgenClusters) {
    table.BeginSection();
    for (const Load load : kHexgenTraces) {
      for (const double rate : plan.rates) {
        table.BeginRow();
        table.Text(std::string(Name(cluster)));
        table.Text(study.NameOf(load));
        table.Text(fmt::format("{:g}", rate));
        const std::vector<HexgenSystem> systems = hexgen::Main(plan, cluster, load, rate);
        const HexgenCell* ours = study.Find({cluster, load, rate, systems.back()});
        for (std::size_t i = 0; i + 1 < systems.size(); ++i) {
          table.Text(WithInterval(ours, study.Find({cluster, load, rate, systems[i]}), figure));
        }
      }
    }
  }
  return table;
}

// A line per cell.
Table CellTable(const HexgenStudy& study, const StudyPart& part) {
  Table table =
      TableOf({{"", "cluster", false}, {"", "load", false}, {"", "queries/s"}, {"", "system", false}}, kHexgenFigures);
  const HexgenSetup* before = nullptr;
  for (std::size_t i = 0; i < part.cells.size(); ++i) {
    const HexgenCell& cell = study[part.cells[i]];
    if (!cell.complete()) continue;
    const HexgenSetup& s = cell.setup;
    if (before == nullptr || before->rate != s.rate || before->cluster != s.cluster || before->load != s.load) {
      table.BeginSection();
    }
    before = &s;
    table.BeginRow();
    table.Text(std::string(Name(s.cluster)));
    table.Text(study.NameOf(s.load));
    table.Text(fmt::format("{:g}", s.rate));
    table.Text(part.labels[i]);
    FillCells(kHexgenFigures, [&](HexgenFigure figure) { table.Text(WithSpread(&cell, figure)); });
  }
  return table;
}

Table UserTable(const HexgenStudy& study, const StudyPart& part) {
  std::vector<Figure<HexgenFigures>> figures(std::begin(kHexgenUserFigures), std::end(kHexgenUserFigures));
  figures.push_back(FigureOf(kHexgenFigures, &HexgenFigures::in_time));
  Table table = TableOf({{"", "load", false}, {"", "queries/s"}, {"", "system", false}}, figures);
  for (std::size_t i = 0; i < part.cells.size(); ++i) {
    const HexgenCell& cell = study[part.cells[i]];
    if (!cell.complete()) continue;
    if (i % 4 == 0) table.BeginSection();
    table.BeginRow();
    table.Text(study.NameOf(cell.setup.load));
    table.Text(fmt::format("{:g}", cell.setup.rate));
    table.Text(part.labels[i]);
    FillCells(figures, [&](HexgenFigure figure) { table.Text(WithSpread(&cell, figure)); });
  }
  return table;
}

// As the paper's Table 2: the share of each stage in an instance's calls. Also, the share of each instance in a stage's
// calls.
Table StageTable(const HexgenStudy& study, const HexgenPlan& plan) {
  std::vector<Table::Column> columns = {{"", "stage"}, {"", "dispatcher", false}};
  const char* names[] = {"I1 A100", "I2 A100", "I3 A6000", "I4 L40"};
  for (const char* group : {"stages of an instance's calls, %", "instances of a stage's calls, %"}) {
    for (const char* name : names) columns.push_back({group, name});
  }
  Table table(std::move(columns));
  const double alpha = plan.AlphaOf(Cluster::kHetero2, Load::kTrace3, plan.rate);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    table.BeginSection();
    for (const auto& [name, system] : {std::pair{std::string("RR"), hexgen::RrPq()},
                                       std::pair{fmt::format("WB, alpha {:g}", alpha), hexgen::WbPq(alpha)},
                                       std::pair{std::string("WB, alpha 0.4"), hexgen::WbPq(0.4)}}) {
      const HexgenCell* cell = study.Find({Cluster::kHetero2, Load::kTrace3, plan.rate, system});
      if (cell == nullptr) continue;
      std::array<double, kHexgenInstances> of_instance = {}, calls = {};
      double of_stage = 0;
      for (const HexgenFigures& f : cell->seeds) {
        for (std::size_t i = 0; i < kHexgenInstances; ++i) {
          for (std::size_t s = 0; s < 4; ++s) of_instance[i] += f.calls[s][i];
          calls[i] += f.calls[stage][i];
          of_stage += f.calls[stage][i];
        }
      }
      table.BeginRow();
      table.Text(fmt::format("{}", stage + 1));
      table.Text(name);
      for (std::size_t i = 0; i < kHexgenInstances; ++i) {
        table.Text(of_instance[i] > 0 ? fmt::format("{:.1f}", 100 * calls[i] / of_instance[i]) : "-");
      }
      for (std::size_t i = 0; i < kHexgenInstances; ++i) {
        table.Text(of_stage > 0 ? fmt::format("{:.1f}", 100 * calls[i] / of_stage) : "-");
      }
    }
  }
  return table;
}

Table TunedTable(const HexgenStudy& study, const HexgenPlan& plan) {
  Table table({{"", "cluster", false}, {"", "load", false}, {"", "queries/s"}, {"", "alpha"}, {"", "why", false}});
  for (const HexgenStudy::Tuned& t : plan.tuned) {
    table.BeginRow();
    table.Text(std::string(Name(t.cluster)));
    table.Text(study.NameOf(t.load));
    table.Text(fmt::format("{:g}", t.rate));
    table.Text(fmt::format("{:g}", t.choice.alpha));
    table.Text(t.choice.why);
  }
  return table;
}

Table DecisionTable(const HexgenCell& cell) {
  Table table({{"", "at [s]"}, {"", "the tuner's observations and choices in the first run", false}});
  for (const auto& [time, text] : cell.seeds.front().decisions) {
    table.BeginRow();
    table.Text(fmt::format("{:.0f}", time));
    table.Text(text);
  }
  return table;
}

// ---- plots ---------------------------------------------------------------------------------------------------------

ScenarioPlots AttainmentPlots(const HexgenStudy& study, const HexgenPlan& plan) {
  ScenarioPlots group{"Queries that end within a multiple of their time alone", {}};
  for (const Cluster cluster : kHexgenClusters) {
    for (const Load load : kHexgenTraces) {
      for (const double rate : {0.1, 0.5, 1.0}) {
        Plot plot{.title = fmt::format("{}, {}, {:g}/s", Name(cluster), study.NameOf(load), rate),
                  .x_label = "SLO scale",
                  .y_label = "attained [%]",
                  .x_scale = Scale::kAuto,
                  .y_most = 100,
                  .lines = {}};
        const std::vector<HexgenSystem> systems = hexgen::Main(plan, cluster, load, rate);
        for (std::size_t i = 0; i < systems.size(); ++i) {
          const HexgenCell* cell = study.Find({cluster, load, rate, systems[i]});
          if (cell == nullptr) continue;
          PlotLine line{systems[i].label, i, {}};
          for (std::size_t s = 0; s < kHexgenScales.size(); ++s) {
            Moments attained;
            for (const HexgenFigures& f : cell->seeds) attained.Add(f.attained[s]);
            line.points.push_back({kHexgenScales[s], attained.mean()});
          }
          plot.lines.push_back(std::move(line));
        }
        group.plots.push_back(std::move(plot));
      }
    }
  }
  return group;
}

ScenarioPlots AlphaPlots(const HexgenStudy& study, const HexgenPlan& plan) {
  ScenarioPlots group{"P95 against alpha", {}};
  const auto plot_of = [&](Cluster cluster, Load load, double rate, const std::string& title) {
    Plot plot{.title = title, .x_label = "alpha", .y_label = "P95 [s]", .marks = true, .lines = {}};
    plot.lines.push_back(LineOf("fixed alpha", 6, &HexgenFigures::p95, plan.alphas,
                                [&](double alpha) { return study.Find({cluster, load, rate, hexgen::WbPq(alpha)}); }));
    const HexgenCell* tuner = study.Find({cluster, load, rate, hexgen::Tuner()});
    if (tuner != nullptr) {
      const double p95 = tuner->Mean(&HexgenFigures::p95);
      plot.lines.push_back({"tuner", 8, {{0, p95}, {1, p95}}});
    }
    group.plots.push_back(std::move(plot));
  };
  for (const Cluster cluster : {Cluster::kHetero1, Cluster::kHetero2}) {
    for (const Load load : kHexgenTraces) {
      plot_of(cluster, load, plan.rate, fmt::format("{}, {}, {:g}/s", Name(cluster), study.NameOf(load), plan.rate));
    }
  }
  plot_of(Cluster::kHetero2, Load::kChanging, plan.changing_peak, "Hetero-2, changing load");
  return group;
}

ScenarioPlots OrderPlots(const HexgenStudy& study, const HexgenPlan& plan) {
  ScenarioPlots group{"Orders under workload balance, alpha 0 (Hetero-2, Trace 1)", {}};
  for (const auto& figure : Only(kHexgenFigures, {&HexgenFigures::p95, &HexgenFigures::scale, &HexgenFigures::mean,
                                                  &HexgenFigures::in_time})) {
    Plot plot{.title = figure.Text(),
              .x_label = "queries per second",
              .y_label = figure.Text(),
              .x_scale = Scale::kAuto,
              .marks = true,
              .lines = {}};
    const std::vector<HexgenSystem> orders = hexgen::Orders();
    for (std::size_t i = 0; i < orders.size(); ++i) {
      plot.lines.push_back(LineOf(orders[i].label, 10 + i, figure.member, plan.rates, [&](double rate) {
        return study.Find({Cluster::kHetero2, Load::kTrace1, rate, orders[i]});
      }));
    }
    group.plots.push_back(std::move(plot));
  }
  return group;
}

std::vector<Condition> ConditionsOf(const HexgenStudy& study) {
  const auto ids = [&](Cluster c) {
    std::string text;
    for (const Profile& p : study.engines(c)) text += (text.empty() ? "" : ", ") + p.id;
    return text;
  };
  std::vector<std::string> traces;
  for (const Load load : kHexgenTraces) {
    const Workload& trace = study.trace(load);
    traces.push_back(fmt::format("{}: {} of {}", study.NameOf(load), trace.workflows.size(),
                                 Counted(std::ssize(trace.calls), "call")));
  }
  return {
      {"Workload",
       fmt::format("text-to-SQL queries, {}; Poisson arrivals as the authors draw them, seeds {} to {}; "
                   "Trace 3 is {}; no data for Trace 4",
                   fmt::join(traces, ", "), study.seed_range().first - 1, study.seed_range().first + study.seeds() - 2,
                   study.rebuilt() ? "REBUILT from traces 1 and 2, not the authors'" : "the authors'")},
      {"Clusters", fmt::format("Hetero-1: {}; Hetero-2: {}; Homo: {}. A6000 and L40 are {}", ids(Cluster::kHetero1),
                               ids(Cluster::kHetero2), ids(Cluster::kHomo),
                               study.as_measured() ? "the A100, 1.66 and 1.56 times as slow as the authors measured"
                                                   : "derived, not measured")},
      {"Systems",
       "vLLM: round robin, fcfs; VTC: round robin, fair_share, a query a user; QLM: round robin, "
       "slo_groups; RR+PQ: round robin, urgency; WB: workload_balance with the alpha that a search on "
       "other arrivals found, with fcfs, and with urgency (HexGen-Flow)"},
      {"Known",
       "output lengths as learnt so far by stage and prompt length (lengths); the rest of a query as learnt from ended "
       "queries"},
      {"Deadlines", "5 times a query's time alone on the fastest instances (chosen)"},
      {"Runs", fmt::format("{} paired seeds; {} served to the end", study.seeds(),
                           study.minutes() > 0 ? fmt::format("queries of the first {:g} minutes are", study.minutes())
                                               : "all queries are")}};
}

absl::StatusOr<ScenarioReport> RunHexgen(const StudySettings& settings, ProgressBar& bar) {
  std::vector<std::string> files;
  for (const char* name : {"trace1.jsonl", "trace2.jsonl", "trace3.jsonl"}) {
    const absl::StatusOr<std::string> file = FindData(settings.data, "text2sql", name);
    if (file.ok()) files.push_back(*file);
    else if (files.size() < 2) return file.status();
  }
  absl::StatusOr<HexgenStudy> study =
      HexgenStudy::Create(files, settings.Seeds(20, 50), settings.regime == Regime::kPaper);
  if (!study.ok()) return study.status();
  study->set_minutes(settings.minutes);

  HexgenPlan plan;
  for (const Cluster cluster : kHexgenClusters) {
    for (const Load load : kHexgenTraces) {
      for (const double rate : plan.rates) plan.tuned.push_back({cluster, load, rate, {}});
    }
  }
  if (absl::Status s = study->Tune(plan.tuned, settings.threads, bar); !s.ok()) return s;
  const StudyParts parts = PartsOf(*study, plan);
  if (absl::Status s = study->Run(settings.threads, bar); !s.ok()) return s;

  ScenarioReport report;
  report.title = "HexGen-Flow: text-to-SQL workflows under deadlines on unequal GPUs";
  report.conditions = ConditionsOf(*study);
  report.seeds = study->seeds();
  report.interrupted = Interrupted();
  parts.ForEach([&](const StudyPart& part, const HexgenCell& cell, const std::string& label) {
    report.rows.push_back(RowOf(*study, part, cell, label));
  });
  for (const Cluster cluster : kHexgenClusters) {
    for (const auto& figure : Only(kHexgenFigures, {&HexgenFigures::scale, &HexgenFigures::p95,
                                                    &HexgenFigures::p95_middle, &HexgenFigures::throughput})) {
      const bool all = figure.member == &HexgenFigures::p95;
      report.tables.push_back({fmt::format("{}: {}{}, mean +- standard deviation over seeds", Name(cluster),
                                           figure.Text(), all ? ", all queries" : ""),
                               SystemTable(*study, plan, cluster, figure.member)});
    }
  }
  report.tables.push_back({"SLO scale at 95 %, all queries", ReductionTable(*study, plan, &HexgenFigures::scale)});
  report.tables.push_back({"P95, middle half", ReductionTable(*study, plan, &HexgenFigures::p95_middle)});
  report.tables.push_back({"The alpha that a search finds", TunedTable(*study, plan)});
  for (const StudyPart& part : parts.parts()) {
    if (part.name == "systems") continue;
    report.tables.push_back(
        {part.Heading(), part.name == "two users" ? UserTable(*study, part) : CellTable(*study, part)});
  }
  report.tables.push_back(
      {fmt::format("Shares of stages and instances (Hetero-2, {}, 0.5/s)", study->NameOf(Load::kTrace3)),
       StageTable(*study, plan)});
  const HexgenCell* tuner = study->Find({Cluster::kHetero2, Load::kChanging, plan.changing_peak, hexgen::Tuner()});
  if (tuner != nullptr) report.tables.push_back({"The tuner under a changing load", DecisionTable(*tuner)});
  report.plots = {AttainmentPlots(*study, plan), AlphaPlots(*study, plan), OrderPlots(*study, plan)};
  report.claims = HexgenClaims(*study, plan);
  report.findings = HexgenFindings(*study, plan);
  return report;
}

}  // namespace

Scenario HexgenFlowScenario() {
  return {.name = "hexgen-flow",
          .text = "text-to-SQL workflows under deadlines on unequal GPUs: vLLM, VTC, QLM and HexGen-Flow",
          .run = RunHexgen,
          .has_regimes = true};
}

}  // namespace takt::tool
