// Cascadia (Jiang et al.): planning a cascade, on requests reconstructed from its tables.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/cascadia/claims.h"
#include "lab/scenario.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

std::string PlanOf(const CascadiaResult& r) {
  std::string text;
  for (std::size_t m = 0; m < r.plan.models.size(); ++m) {
    text += fmt::format("{}{}", m == 0 ? "" : " | ", m < r.replicas.size() ? r.replicas[m] : "");
  }
  return text;
}

std::string Joined(const std::vector<double>& values) {
  std::string text;
  for (const double v : values) text += fmt::format("{}{:g}", text.empty() ? "" : "/", v);
  return text;
}

// ---- rows and tables ------------------------------------------------------------------------------------------------

ScenarioRow RowOf(const CascadiaCase& c, std::size_t system, std::uint64_t seed) {
  const CascadiaResult& r = c.systems[system];
  ScenarioRow row = {{"part", std::string("systems")},
                     {"seed", static_cast<std::int64_t>(seed)},
                     {"cascade", std::string(Name(c.cascade))},
                     {"trace", static_cast<std::int64_t>(c.trace)},
                     {"quality_floor", c.quality},
                     {"load", c.load},
                     {"rate_rps", c.rate},
                     {"system", std::string(kCascadiaSystemNames[system])},
                     {"feasible", static_cast<std::int64_t>(r.feasible() ? 1 : 0)},
                     {"sustains_rps", r.sustains}};
  if (!r.why.empty()) row.emplace_back("why", r.why);
  if (!r.measured()) return row;
  if (r.bound) row.emplace_back("bound", static_cast<std::int64_t>(1));
  row.emplace_back("p95_path_s", r.e2e);
  row.emplace_back("p95_slowest_s", r.slowest);
  row.emplace_back("p95_tables_s", r.plan.latency);
  row.emplace_back("quality", r.quality);
  row.emplace_back("thresholds", Joined(r.plan.thresholds));
  row.emplace_back("replicas", PlanOf(r));
  for (std::size_t m = 0; m < r.plan.models.size(); ++m) {
    row.emplace_back(fmt::format("gpus_{}", m + 1), static_cast<std::int64_t>(r.plan.models[m].gpus));
    row.emplace_back(fmt::format("share_{}", m + 1), r.plan.models[m].share);
  }
  return row;
}

// One line per case: mean over the seeds of `figure` of each system. `cases`: by seed.
Table SystemTable(const std::vector<std::vector<const CascadiaCase*>>& cases, const char* group,
                  const std::function<double(const CascadiaCase&, const CascadiaResult&)>& figure, Best best,
                  bool bounds) {
  std::vector<Table::Column> columns = {
      {"", "cascade", false}, {"", "trace"}, {"", "quality"}, {"", "load"}, {"", "rate"}};
  for (const std::string_view name : kCascadiaSystemNames) columns.push_back({group, std::string(name), true, best});
  Table table(std::move(columns));
  const CascadiaCase* before = nullptr;
  for (std::size_t i = 0; i < cases.front().size(); ++i) {
    const CascadiaCase* c = cases.front()[i];
    const auto mean = [&](auto of) {
      Moments all;
      for (const std::vector<const CascadiaCase*>& seed : cases) {
        const double value = i < seed.size() ? of(*seed[i]) : Table::kNoNumber;
        if (!std::isnan(value)) all.Add(value);
      }
      return all.count() > 0 ? all.mean() : Table::kNoNumber;
    };
    if (before == nullptr || before->cascade != c->cascade || before->trace != c->trace) table.BeginSection();
    before = c;
    table.BeginRow();
    table.Text(std::string(Name(c->cascade)));
    table.Text(std::to_string(c->trace));
    table.Text(fmt::format("{:g}", c->quality));
    table.Text(fmt::format("{:g}", c->load));
    table.Text(fmt::format("{:.1f}", mean([](const CascadiaCase& x) { return x.rate; })));
    for (std::size_t s = 0; s < kCascadiaSystems; ++s) {
      const double value = mean([&](const CascadiaCase& x) { return figure(x, x.systems[s]); });
      const bool bound = bounds && c->systems[s].bound;
      table.Text(std::isnan(value) ? std::string("-") : fmt::format("{}{:.1f}", bound ? "> " : "", value));
    }
  }
  return table;
}

struct PaperPlan {
  int trace;
  double quality;
  const char *thresholds, *shares, *gpus, *parallelism;
};

// Tables 2 and 3.
constexpr PaperPlan kPaperPlans[] = {
    {1, 90, "99/91", "100/94/50", "4/8/20", "(DP=4) | (DP=2,TP=4) | (TP=4,PP=3), (TP=8)"},
    {1, 85, "74/64", "100/62/21", "4/12/16", "(DP=2,TP=2) | (DP=6,TP=2) | (DP=2,TP=8)"},
    {1, 80, "69/25", "100/54/11", "6/14/12", "(DP=6) | (DP=5,TP=2), (TP=4) | (TP=4,PP=3)"},
    {2, 80, "61/18", "100/31/3", "8/16/8", "(DP=6), (TP=2) | (DP=8,TP=2) | (TP=8)"},
    {3, 80, "32/0", "100/23/0", "18/14/0", "(DP=10), (DP=4,TP=2) | (DP=2,TP=4), (DP=3,TP=2) | -"},
    {3, 70, "10/0", "100/5/0", "24/8/0", "(DP=16), (DP=4,TP=2) | (DP=4,TP=2) | -"}};

Table PlanTable(const CascadiaFindings& all) {
  Table table({{"", "trace"},
               {"", "quality"},
               {"", "load"},
               {"", "who", false},
               {"", "thresholds", false},
               {"", "share %", false},
               {"", "GPUs", false},
               {"", "replicas", false}});
  for (const PaperPlan& p : kPaperPlans) {
    table.BeginSection();
    table.BeginRow();
    table.Text(std::to_string(p.trace));
    table.Text(fmt::format("{:g}", p.quality));
    table.Text("?");
    for (const char* text : {"paper", p.thresholds, p.shares, p.gpus, p.parallelism}) table.Text(text);
    for (const CascadiaCase* c : all.Cases([&](const CascadiaCase& x) {
           return x.cascade == CascadiaCascade::kDeepSeek && x.trace == p.trace && x.quality == p.quality &&
                  x.load <= kCascadiaLoad;
         })) {
      const CascadiaResult& r = c->of(CascadiaSystem::kTakt);
      table.BeginRow();
      table.Text(std::to_string(p.trace));
      table.Text(fmt::format("{:g}", p.quality));
      table.Text(fmt::format("{:g}", c->load));
      table.Text("takt");
      if (!r.feasible()) {
        for (const char* text : {"no plan", "", "", ""}) table.Text(text);
        continue;
      }
      std::string shares, gpus;
      for (const ModelPlan& m : r.plan.models) {
        shares += fmt::format("{}{:.0f}", shares.empty() ? "" : "/", 100 * m.share);
        gpus += fmt::format("{}{}", gpus.empty() ? "" : "/", m.gpus);
      }
      table.Text(Joined(r.plan.thresholds));
      table.Text(shares);
      table.Text(gpus);
      table.Text(PlanOf(r));
    }
  }
  return table;
}

Table OptimalityTable(const CascadiaFindings& all) {
  Table table({{"", "cascade", false},
               {"", "trace"},
               {"", "quality"},
               {"p95 by tables [s]", "takt"},
               {"p95 by tables [s]", "exhaustive"},
               {"p95 by tables [s]", "alternation"},
               {"", "alternation's gap %"},
               {"J, penalty 100 s", "takt"},
               {"J, penalty 100 s", "alternation"},
               {"", "plans looked at"}});
  for (const CascadiaStudy& s : all.studies) {
    table.BeginSection();
    for (const CascadiaOptimality& o : s.optimality()) {
      table.BeginRow();
      table.Text(std::string(Name(o.cascade)));
      table.Text(std::to_string(o.trace));
      table.Text(fmt::format("{:g}", o.quality));
      for (const double v : {o.takt, o.exhaustive, o.alternation}) table.Text(fmt::format("{:.2f}", v));
      table.Text(o.alternation > 0 ? fmt::format("{:.1f}", 100 * (o.alternation / o.takt - 1)) : "-");
      for (const double v : {o.takt_soft, o.alternation_soft}) table.Text(fmt::format("{:.2f}", v));
      table.Text(Grouped(o.plans));
    }
  }
  return table;
}

Table JudgeTable(const CascadiaFindings& all) {
  Table table({{"", "judge", false},
               {"", "scores off by %"},
               {"", "to the large model %"},
               {"p95 [s]", "by tables"},
               {"p95 [s]", "path"},
               {"", "quality by GPT-4o"}});
  for (const CascadiaJudge& j : all.judges) {
    table.BeginRow();
    table.Text(j.name);
    table.Text(fmt::format("{:.1f}", j.deviation));
    table.Text(j.why.empty() ? fmt::format("{:.1f}", 100 * j.share) : "no plan");
    for (const double v : {j.slowest, j.p95, j.quality}) table.Text(j.why.empty() ? fmt::format("{:.1f}", v) : "-");
  }
  return table;
}

Table FluctuationTable(const CascadiaFindings& all) {
  Table table({{"", "cascade", false},
               {"", "system", false},
               {"", "p95 [s]"},
               {"p95 [s] of trace", "1"},
               {"p95 [s] of trace", "2"},
               {"p95 [s] of trace", "3"},
               {"quality of trace", "1 "},
               {"quality of trace", "2 "},
               {"quality of trace", "3 "},
               {"", "served 1/s"},
               {"", "new plans [s]: noticed, all in place, by", false}});
  for (const std::vector<CascadiaFluctuation>& cascade : all.fluctuations) {
    table.BeginSection();
    for (const CascadiaFluctuation& f : cascade) {
      table.BeginRow();
      table.Text(std::string(Name(f.cascade)));
      table.Text(f.system);
      table.Text(fmt::format("{:.1f}", f.p95));
      for (const double v : f.segment_p95) table.Text(fmt::format("{:.1f}", v));
      for (const double v : f.segment_quality) table.Text(fmt::format("{:.1f}", v));
      table.Text(fmt::format("{:.1f}", f.throughput));
      std::string changes;
      for (const CascadiaChange& c : f.changes) {
        changes += fmt::format("{}{:.0f}, {:.0f}, {}", changes.empty() ? "" : "; ", c.noticed_s, c.done_s, c.why);
      }
      table.Text(changes.empty() ? "-" : changes);
    }
  }
  return table;
}

// ---- plots ----------------------------------------------------------------------------------------------------------

std::vector<ScenarioPlots> PlotsOf(const CascadiaFindings& all) {
  ScenarioPlots quality{"p95 along the path against quality, at 0.4 of what takt sustains at quality 80", {}};
  ScenarioPlots load{"p95 along the path against load, at quality 80", {}};
  ScenarioPlots frontier{"The frontier of latency and quality at load 0.7, by the tables", {}};
  ScenarioPlots fluctuating{"p95 by minute of arrival, traces 1 -> 2 -> 3", {}};
  for (const CascadiaStudy& s : all.studies) {
    if (s.cases().empty()) continue;
    const CascadiaCase& any = s.cases().front();
    const std::string title = fmt::format("{}, trace {}", Name(any.cascade), any.trace);
    Plot by_quality, by_load;
    by_quality.title = by_load.title = title;
    by_quality.x_label = "quality floor";
    by_load.x_label = "requests per second";
    by_quality.y_label = by_load.y_label = "p95 [s]";
    by_quality.x_scale = by_load.x_scale = Scale::kFit;
    by_quality.y_scale = by_load.y_scale = Scale::kAuto;
    by_quality.marks = by_load.marks = true;
    for (std::size_t i = 0; i < kCascadiaSystems; ++i) {
      PlotLine q{std::string(kCascadiaSystemNames[i]), i, {}}, l = q;
      for (const CascadiaCase& c : s.cases()) {
        if (!c.systems[i].feasible()) continue;
        if (c.load == 0.4) q.points.push_back({c.quality, c.systems[i].e2e});
        if (c.quality == 80) l.points.push_back({c.rate, c.systems[i].e2e});
      }
      by_quality.lines.push_back(std::move(q));
      by_load.lines.push_back(std::move(l));
    }
    quality.plots.push_back(std::move(by_quality));
    load.plots.push_back(std::move(by_load));
    Plot plot;
    plot.title = title;
    plot.x_label = "quality";
    plot.y_label = "p95 of the slowest model [s]";
    plot.x_scale = Scale::kFit;
    plot.y_scale = Scale::kAuto;
    PlotLine line{"takt", 0, {}};
    for (const FrontierPoint& p : s.frontier()) line.points.push_back({p.quality, p.latency});
    std::reverse(line.points.begin(), line.points.end());
    plot.lines.push_back(std::move(line));
    frontier.plots.push_back(std::move(plot));
  }
  for (const std::vector<CascadiaFluctuation>& cascade : all.fluctuations) {
    Plot plot;
    plot.title = cascade.empty() ? "" : std::string(Name(cascade.front().cascade));
    plot.x_label = "minute";
    plot.y_label = "p95 [s]";
    plot.y_scale = Scale::kAuto;
    for (std::size_t i = 0; i < cascade.size(); ++i) {
      const std::size_t style = i == 0 ? 0 : i == 1 ? 9 : cascade[i].system == "CascadeServe" ? 5 : 7;
      PlotLine line{cascade[i].system, style, {}};
      for (std::size_t m = 0; m < cascade[i].minute_p95.size(); ++m) {
        line.points.push_back({static_cast<double>(m) + 0.5, cascade[i].minute_p95[m]});
      }
      plot.lines.push_back(std::move(line));
    }
    fluctuating.plots.push_back(std::move(plot));
  }
  std::vector<ScenarioPlots> groups;
  for (ScenarioPlots* group : {&quality, &load, &frontier, &fluctuating}) {
    if (!group->plots.empty()) groups.push_back(std::move(*group));
  }
  return groups;
}

// The load, fitted to SLO scales of baselines. Latencies at the largest rate that a baseline serves count as they are.
Fit LoadFit(const CascadiaFindings& all) {
  struct Baseline {
    CascadiaCascade cascade;
    int trace;
    double quality;
    CascadiaSystem system;
    double paper;
  };
  constexpr Baseline kBaselines[] = {
      {CascadiaCascade::kLlama, 1, 80, CascadiaSystem::kStandAlone, 8.2},  // Appendix M
      {CascadiaCascade::kLlama, 1, 80, CascadiaSystem::kRouteLlm, 5.8},  // Appendix I
      {CascadiaCascade::kLlama, 2, 80, CascadiaSystem::kRouteLlm, 3.6},  // Appendix I
      {CascadiaCascade::kDeepSeek, 1, 90, CascadiaSystem::kCascadeServe, 17.3},  // section 4.2
      {CascadiaCascade::kDeepSeek, 3, 85, CascadiaSystem::kStandAlone, 11.88}};  // section 4.2
  Fit fit{.parameter = "the load", .figures = {}, .tried = {}};
  for (const Baseline& b : kBaselines) {
    fit.figures.emplace_back(fmt::format("{}, trace {}, quality {:g}: {}", Name(b.cascade), b.trace, b.quality,
                                         kCascadiaSystemNames[static_cast<std::size_t>(b.system)]),
                             b.paper);
  }
  for (const double load : {0.4, 0.7}) {
    Fit::Tried tried{fmt::format("{:g}", load), {}, load == all.settings.load ? "taken" : "regime takt"};
    for (const Baseline& b : kBaselines) {
      for (const CascadiaCase* c : all.Cases([&](const CascadiaCase& x) {
             return x.cascade == b.cascade && x.trace == b.trace && x.quality == b.quality && x.load == load;
           })) {
        if (c->of(b.system).measured()) tried.ours.push_back(c->of(b.system).e2e / c->alone_s);
      }
    }
    if (tried.ours.size() == fit.figures.size()) fit.tried.push_back(std::move(tried));
  }
  return fit;
}

std::vector<std::string> Sentences(const CascadiaFindings& all) {
  std::vector<std::string> text = {
      "Plans are compared by the p95 of requests along their path, judges included. 'takt' minimises the p95 of the "
      "slowest model, as the paper does; 'takt, path' the p95 along the path. A dash: no plan serves the rate at the "
      "quality."};
  if (all.simulated) {
    const CascadiaSimulated& s = *all.simulated;
    text.push_back(fmt::format(
        "Beyond the table, {} GPUs, Llama, trace 1, quality 80, {:.2f} requests/s: all {} plans (threshold, split, "
        "replicas) simulated. Slowest model: takt {:.2f} s, best {:.2f} s (gap {:.1f} %); along the path: takt {:.2f} "
        "s, "
        "takt, path {:.2f} s, best {:.2f} s (gaps {:.1f} and {:.1f} %).",
        s.gpus, s.rate, Grouped(s.plans), s.takt_slowest, s.best_slowest, 100 * (s.takt_slowest / s.best_slowest - 1),
        s.takt_e2e, s.path_e2e, s.best_e2e, 100 * (s.takt_e2e / s.best_e2e - 1), 100 * (s.path_e2e / s.best_e2e - 1)));
  }
  return text;
}

absl::StatusOr<ScenarioReport> RunCascadia(const StudySettings& settings, ProgressBar& bar) {
  const SeedRange drawn = settings.Seeds(3, 10);
  std::vector<CascadiaFindings> seeds(static_cast<std::size_t>(drawn.count));
  std::vector<std::function<absl::Status(const RunProgress&)>> work;
  for (std::size_t seed = 0; seed < seeds.size(); ++seed) {
    CascadiaFindings& one = seeds[seed];
    one.settings.full = settings.full;
    one.settings.seed = drawn.At(seed);
    one.settings.published = settings.regime == Regime::kPaper;
    if (settings.minutes > 0) one.settings.minutes = settings.minutes;
    if (one.settings.published) {
      one.settings.engine = kPaperEngine;
      one.settings.harder = kHarder;
      one.settings.load = kPaperLoad;
    }
    for (const CascadiaCascade cascade : kCascadiaCascades) {
      for (int trace = 1; trace <= 3; ++trace) one.studies.emplace_back(cascade, trace, one.settings);
    }
    one.fluctuations.resize(std::size(kCascadiaCascades));

    // Studies run first because they take longest.
    for (CascadiaStudy& study : one.studies) work.push_back([&study](const RunProgress& p) { return study.Run(p); });
    work.push_back([&settings, &one](const RunProgress& p) -> absl::Status {
      constexpr std::int32_t kFew = 8, kFewer = 6;
      absl::StatusOr<CascadiaSimulated> found = SimulateAllPlans(settings.full ? kFew : kFewer, 2000, one.settings, p);
      if (found.ok()) one.simulated = *std::move(found);
      return absl::IsCancelled(found.status()) ? absl::OkStatus() : found.status();
    });
    for (std::size_t c = 0; c < one.fluctuations.size(); ++c) {
      work.push_back([&one, c](const RunProgress& p) -> absl::Status {
        absl::StatusOr<std::vector<CascadiaFluctuation>> found = Fluctuate(kCascadiaCascades[c], one.settings, p);
        if (found.ok()) one.fluctuations[c] = *std::move(found);
        return absl::IsCancelled(found.status()) ? absl::OkStatus() : found.status();
      });
    }
    work.push_back([&one](const RunProgress& p) -> absl::Status {
      absl::StatusOr<std::vector<CascadiaJudge>> found = CompareJudges(one.settings, p);
      if (found.ok()) one.judges = *std::move(found);
      return found.status();
    });
    work.push_back([&one](const RunProgress&) -> absl::Status {
      absl::StatusOr<CascadiaPrefix> prefix = ComparePrefixCaching(one.settings);
      if (!prefix.ok()) return prefix.status();
      absl::StatusOr<double> error = CascadiaTable1Error(one.settings.engine);
      if (!error.ok()) return error.status();
      one.prefix = *prefix;
      one.table1_error = *error;
      return absl::OkStatus();
    });
    if (seed > 0 || !one.settings.published) continue;
    work.push_back([&one](const RunProgress& p) -> absl::Status {
      absl::StatusOr<CascadiaFit> found = FitCascadia(one.settings, p);
      if (found.ok()) one.fit = *std::move(found);
      return absl::IsCancelled(found.status()) ? absl::OkStatus() : found.status();
    });
  }
  const CascadiaFindings& all = seeds.front();  // shown in plots and in tables of plans
  std::vector<absl::Status> faults(work.size());
  RunEach(work.size(), settings.threads, "cascadia", bar,
          [&](std::size_t i, const RunProgress& progress) { faults[i] = work[i](progress); });
  for (const absl::Status& fault : faults) {
    if (!fault.ok()) return fault;
  }

  ScenarioReport report;
  report.title = "Cascadia: GPUs, replicas and thresholds of a cascade, takt and its rivals";
  report.seeds = drawn.count;
  report.interrupted = Interrupted();
  std::string sustains;
  for (const CascadiaStudy& s : all.studies) {
    if (!s.cases().empty()) {
      sustains += fmt::format("{}{} trace {} {:.1f}", sustains.empty() ? "" : ", ", Name(s.cases()[0].cascade),
                              s.cases()[0].trace, s.sustains());
    }
  }
  report.conditions = {
      {"Requests",
       fmt::format("scores and lengths reconstructed from the paper's Table 2 (bench/lab/cascadia/README.md), 2,000 "
                   "profiled; correlation of difficulty and length {:g}",
                   all.settings.harder)},
      {"Cluster",
       fmt::format("32 H100; llama-3.1-8b -> llama-3.1-70b (bf16), and the same -> deepseek-671b (4 bit, derived, not "
                   "measured, {:g} times slower); {} requests at once in a replica",
                   all.settings.engine.large_pace, all.settings.engine.max_seqs)},
      {"Load", fmt::format("shares of what takt sustains at quality 80 [requests/s]: {}", sustains)},
      {"Rivals", all.settings.published
                     ? "as published: CascadeServe has profiled all traces together, with one shape per model; the "
                       "even split and uniform parallelism keep takt's thresholds; stand-alone is the paper's model; "
                       "'> ': no plan serves the rate, and the latency is that at its largest rate"
                     : "with takt's knowledge: thresholds and replicas are the best for each"},
      {"Runs",
       fmt::format(
           "{:g} minutes of arrivals, at most 200,000 requests; the first quarter does not count. {} seeds draw "
           "requests and arrivals. Plots and tables of plans show the first seed",
           all.settings.minutes, drawn.count)}};
  report.findings = Sentences(all);
  std::vector<std::vector<const CascadiaCase*>> everything, at_main;
  for (const CascadiaFindings& one : seeds) {
    everything.push_back(one.Cases([](const CascadiaCase&) { return true; }));
    at_main.push_back(one.Cases([](const CascadiaCase& c) { return c.load == kCascadiaLoad; }));
  }
  report.tables = {
      {"p95 along the path [s]",
       SystemTable(
           everything, "p95 [s]",
           [](const CascadiaCase&, const CascadiaResult& r) { return r.measured() ? r.e2e : Table::kNoNumber; },
           Best::kNone, true)},
      {"Largest rate sustained at the quality [requests/s]",
       SystemTable(
           at_main, "requests/s",
           [](const CascadiaCase&, const CascadiaResult& r) { return r.sustains > 0 ? r.sustains : Table::kNoNumber; },
           Best::kNone, false)},
      {"Plans of the DeepSeek cascade next to the paper's Tables 2 and 3", PlanTable(all)},
      {"Optimality on one table, load 0.7", OptimalityTable(all)},
      {"Judges (Appendices K and N): Llama, trace 1, quality 80", JudgeTable(all)},
      {fmt::format("A workload that changes: quality 80, load {:g} of each trace", all.settings.load),
       FluctuationTable(all)}};
  if (all.fit) {
    report.findings.push_back(
        fmt::format("A lone request of Llama, trace 1, takes {:.2f} and {:.2f} s (Appendix H: 3.05 and 7.35 s); no fit "
                    "uses this.",
                    all.fit->alone_s[0], all.fit->alone_s[1]));
    for (const Fit& fit : {LoadFit(all), all.fit->max_seqs}) {
      report.tables.insert(report.tables.begin(), FitTable(fit));
      for (ScenarioRow& row : FitRows(fit)) report.rows.push_back(std::move(row));
    }
  }
  report.plots = PlotsOf(all);
  for (std::size_t seed = 0; seed < seeds.size(); ++seed) {
    for (const CascadiaCase* c : everything[seed]) {
      for (std::size_t i = 0; i < kCascadiaSystems; ++i) report.rows.push_back(RowOf(*c, i, drawn.At(seed)));
    }
  }
  for (const CascadiaStudy& s : all.studies) {
    for (const CascadiaOptimality& o : s.optimality()) {
      report.rows.push_back({{"part", std::string("optimality")},
                             {"cascade", std::string(Name(o.cascade))},
                             {"trace", static_cast<std::int64_t>(o.trace)},
                             {"quality_floor", o.quality},
                             {"takt_s", o.takt},
                             {"exhaustive_s", o.exhaustive},
                             {"alternation_s", o.alternation},
                             {"takt_soft", o.takt_soft},
                             {"alternation_soft", o.alternation_soft},
                             {"plans", o.plans}});
    }
  }
  for (const CascadiaJudge& j : all.judges) {
    report.rows.push_back({{"part", std::string("judges")},
                           {"judge", j.name},
                           {"deviation_pct", j.deviation},
                           {"share_large", j.share},
                           {"p95_tables_s", j.slowest},
                           {"p95_path_s", j.p95},
                           {"quality", j.quality}});
  }
  for (const std::vector<CascadiaFluctuation>& cascade : all.fluctuations) {
    for (const CascadiaFluctuation& f : cascade) {
      ScenarioRow row = {{"part", std::string("fluctuating")},
                         {"cascade", std::string(Name(f.cascade))},
                         {"system", f.system},
                         {"p95_path_s", f.p95},
                         {"served_rps", f.throughput},
                         {"new_plans", static_cast<std::int64_t>(f.changes.size())}};
      for (std::size_t s = 0; s < 3; ++s) {
        row.emplace_back(fmt::format("p95_path_{}_s", s + 1), f.segment_p95[s]);
        row.emplace_back(fmt::format("quality_{}", s + 1), f.segment_quality[s]);
        row.emplace_back(fmt::format("rate_{}_rps", s + 1), f.segment_rate[s]);
      }
      report.rows.push_back(std::move(row));
    }
  }
  report.claims = CascadiaClaims(seeds);
  // Wall-clock time differs from run to run.
  if (settings.no_wall) {
    std::erase_if(report.claims, [](const ScenarioClaim& c) { return c.unit == "s"; });
  }
  return report;
}

}  // namespace

Scenario CascadiaScenario() {
  return {.name = "cascadia",
          .text = "cascades of models: GPUs, replicas and thresholds, against six rivals",
          .run = RunCascadia,
          .has_regimes = true};
}

}  // namespace takt::tool
