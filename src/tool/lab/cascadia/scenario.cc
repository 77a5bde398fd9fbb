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

#include "tool/lab/cascadia/fluctuation.h"
#include "tool/lab/cascadia/study.h"
#include "tool/lab/claim.h"
#include "tool/lab/scenario.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

constexpr double kMainLoad = 0.7;

// All that was run; what was stopped is missing.
struct Findings {
  CascadiaSettings settings;
  std::vector<CascadiaStudy> studies;  // by cascade and trace
  std::vector<std::vector<CascadiaFluctuation>> fluctuations;  // by cascade
  std::optional<CascadiaSimulated> simulated;
  std::vector<CascadiaJudge> judges;

  std::vector<const CascadiaCase*> Cases(const std::function<bool(const CascadiaCase&)>& which) const {
    std::vector<const CascadiaCase*> cases;
    for (const CascadiaStudy& s : studies) {
      for (const CascadiaCase& c : s.cases()) {
        if (which(c)) cases.push_back(&c);
      }
    }
    return cases;
  }
};

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

ScenarioRow RowOf(const CascadiaCase& c, std::size_t system) {
  const CascadiaResult& r = c.systems[system];
  ScenarioRow row = {{"part", std::string("systems")},
                     {"cascade", std::string(Name(c.cascade))},
                     {"trace", static_cast<std::int64_t>(c.trace)},
                     {"quality_floor", c.quality},
                     {"load", c.load},
                     {"rate_rps", c.rate},
                     {"system", std::string(kCascadiaSystemNames[system])},
                     {"feasible", static_cast<std::int64_t>(r.feasible() ? 1 : 0)},
                     {"sustains_rps", r.sustains}};
  if (!r.feasible()) {
    row.emplace_back("why", r.why);
    return row;
  }
  row.emplace_back("p95_path_s", r.mean_e2e());
  double slowest = 0;
  for (const double s : r.slowest) slowest += s / static_cast<double>(r.slowest.size());
  row.emplace_back("p95_slowest_s", slowest);
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

// A line per case: what `figure` makes of each system.
Table SystemTable(const std::vector<const CascadiaCase*>& cases, const char* group,
                  const std::function<double(const CascadiaCase&, const CascadiaResult&)>& figure, Best best) {
  std::vector<Table::Column> columns = {
      {"", "cascade", false}, {"", "trace"}, {"", "quality"}, {"", "load"}, {"", "rate"}};
  for (const std::string_view name : kCascadiaSystemNames) columns.push_back({group, std::string(name), true, best});
  Table table(std::move(columns));
  const CascadiaCase* before = nullptr;
  for (const CascadiaCase* c : cases) {
    if (before == nullptr || before->cascade != c->cascade || before->trace != c->trace) table.BeginSection();
    before = c;
    table.BeginRow();
    table.Text(std::string(Name(c->cascade)));
    table.Text(std::to_string(c->trace));
    table.Text(fmt::format("{:g}", c->quality));
    table.Text(fmt::format("{:g}", c->load));
    table.Text(fmt::format("{:.1f}", c->rate));
    for (const CascadiaResult& r : c->systems)
      table.Text([&] {
        const double value = figure(*c, r);
        return std::isnan(value) ? std::string("-") : fmt::format("{:.1f}", value);
      }());
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

Table PlanTable(const Findings& all) {
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
                  x.load <= kMainLoad;
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

Table OptimalityTable(const Findings& all) {
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

Table JudgeTable(const Findings& all) {
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

Table FluctuationTable(const Findings& all) {
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

// ---- claims ---------------------------------------------------------------------------------------------------------

struct Ratios {
  std::vector<double> values;

  bool empty() const { return values.empty(); }
  double mean() const {
    double sum = 0;
    for (const double v : values) sum += v;
    return values.empty() ? 0 : sum / static_cast<double>(values.size());
  }
  double most() const { return values.empty() ? 0 : *std::max_element(values.begin(), values.end()); }
  double least() const { return values.empty() ? 0 : *std::min_element(values.begin(), values.end()); }
};

// The rival's p95 along the path over takt's, where both have a plan.
Ratios Latency(const Findings& all, CascadiaSystem rival, CascadiaSystem ours, std::optional<double> load = {}) {
  Ratios ratios;
  for (const CascadiaCase* c : all.Cases([&](const CascadiaCase& x) { return !load || x.load == *load; })) {
    const CascadiaResult &r = c->of(rival), &o = c->of(ours);
    if (r.feasible() && o.feasible()) ratios.values.push_back(r.mean_e2e() / o.mean_e2e());
  }
  return ratios;
}

// What takt sustains over what the rival sustains, at each quality.
Ratios Throughput(const Findings& all, CascadiaSystem rival) {
  Ratios ratios;
  for (const CascadiaCase* c : all.Cases([](const CascadiaCase& x) { return x.load == kMainLoad; })) {
    const double r = c->of(rival).sustains, o = c->of(CascadiaSystem::kTakt).sustains;
    if (r > 0 && o > 0) ratios.values.push_back(o / r);
  }
  return ratios;
}

std::optional<double> MeanOf(const Ratios& r) { return r.empty() ? std::nullopt : std::optional(r.mean()); }
std::optional<double> MostOf(const Ratios& r) { return r.empty() ? std::nullopt : std::optional(r.most()); }

std::vector<ScenarioClaim> ClaimsOf(const Findings& all) {
  Claims claims;
  const CascadiaSystem path = CascadiaSystem::kTaktPath, slowest = CascadiaSystem::kTakt;
  const auto count = [](const Ratios& r) { return fmt::format("{} cases in which both have a plan", r.values.size()); };

  const Ratios alone = Latency(all, CascadiaSystem::kStandAlone, path);
  const Ratios serve = Latency(all, CascadiaSystem::kCascadeServe, path);
  Ratios both = alone;
  both.values.insert(both.values.end(), serve.values.begin(), serve.values.end());
  const std::string latency_note =
      "p95 along the path, takt planning for the path; SLO scales are proportional to it. Rivals share takt's engine, "
      "tuned parallelism and, CascadeServe, its thresholds; the paper's ran on engines of their own. ";
  claims.AtLeast("tighter SLO, mean over both rivals", MeanOf(both), 2.3, "x", latency_note + count(both));
  claims.AtLeast("tighter SLO than stand-alone, mean", MeanOf(alone), 2.8, "x",
                 count(alone) + "; where the load is beyond what stand-alone serves there is no ratio");
  claims.AtLeast("tighter SLO than stand-alone, most", MostOf(alone), 4, "x", count(alone));
  claims.AtLeast("tighter SLO than CascadeServe, mean", MeanOf(serve), 1.7, "x",
                 count(serve) + "; CascadeServe is given the best thresholds and replicas for its load range");
  claims.AtLeast("tighter SLO than CascadeServe, most", MostOf(serve), 2.5, "x", count(serve));
  claims.AtLeast("the same, takt planning for the slowest model",
                 MeanOf(Latency(all, CascadiaSystem::kCascadeServe, slowest)), 1.7, "x", "the paper's own objective");

  const Ratios more_alone = Throughput(all, CascadiaSystem::kStandAlone);
  const Ratios more_serve = Throughput(all, CascadiaSystem::kCascadeServe);
  Ratios more = more_alone;
  more.values.insert(more.values.end(), more_serve.values.begin(), more_serve.values.end());
  claims.AtLeast("throughput, mean over both rivals", MeanOf(more), 2.4, "x",
                 "largest rate at the quality with every replica below saturation");
  claims.AtLeast("throughput over stand-alone, mean", MeanOf(more_alone), 3, "x",
                 "falls as the quality rises: at 90 half of all requests reach the largest model in either");
  claims.AtLeast("throughput over stand-alone, most", MostOf(more_alone), 5, "x", count(more_alone));
  claims.AtLeast(
      "throughput over CascadeServe, mean", MeanOf(more_serve), 1.7, "x",
      "its one shape per model is near the best at saturation, where replicas of few GPUs serve most per GPU");
  claims.AtLeast("throughput over CascadeServe, most", MostOf(more_serve), 3.3, "x", count(more_serve));

  const Ratios chunk = Throughput(all, CascadiaSystem::kSarathi);
  claims.AtLeast("throughput over Sarathi's chunks, mean", MeanOf(chunk), 1.64, "x",
                 "stand-alone with the best of five chunk sizes; all systems here chunk prefills");
  claims.AtLeast("throughput over Sarathi's chunks, most", MostOf(chunk), 1.95, "x", count(chunk));

  const Ratios router = Latency(all, CascadiaSystem::kRouteLlm, path);
  claims.AtLeast("SLO scale below RouteLLM, mean",
                 router.empty() ? std::nullopt : std::optional(100 * (1 - 1 / router.mean())), 21.3, "%",
                 "a request that RouteLLM sends to the large model does not wait for the small one first");
  const Ratios more_router = Throughput(all, CascadiaSystem::kRouteLlm);
  claims.AtLeast("throughput over RouteLLM, mean",
                 more_router.empty() ? std::nullopt : std::optional(100 * (more_router.mean() - 1)), 18.8, "%",
                 "its learned score (rank correlation 0.5) sends more to the large model for the same quality");

  const Ratios shapes = Latency(all, CascadiaSystem::kUniformParallelism, path);
  claims.AtLeast("uniform parallelism is slower, mean", MeanOf(shapes), 1.4, "x",
                 count(shapes) + "; tp 8 everywhere, at the higher loads it has no plan at all");
  claims.AtLeast("uniform parallelism is slower, most", MostOf(shapes), 1.6, "x", count(shapes));
  const Ratios split = Latency(all, CascadiaSystem::kUniformGpus, path);
  claims.AtLeast("an even split of GPUs is slower, mean", MeanOf(split), 1.7, "x",
                 count(split) + "; thresholds and parallelism are tuned for it, at the higher loads it has no plan");
  claims.AtLeast("an even split of GPUs is slower, most", MostOf(split), 2.1, "x", count(split));

  // Optimality and time.
  double most_gap = 0, sum_gap = 0, exhaustive_gap = 0;
  int gaps = 0;
  for (const CascadiaStudy& s : all.studies) {
    for (const CascadiaOptimality& o : s.optimality()) {
      if (o.alternation > 0) {
        const double gap = 100 * (o.alternation / o.takt - 1);
        most_gap = std::max(most_gap, gap), sum_gap += gap, ++gaps;
      }
      exhaustive_gap = std::max(exhaustive_gap, 100 * std::abs(o.takt / o.exhaustive - 1));
    }
  }
  const std::optional<double> mean_gap = gaps > 0 ? std::optional(sum_gap / gaps) : std::nullopt;
  claims.Between(
      "the alternation's gap to the optimum, mean", mean_gap, {2, 6}, "%",
      fmt::format("on one table, hard floor; {:.1f} % at most, zero for two models, where its first step finds "
                  "the optimum",
                  most_gap));
  claims.AtMost("takt's gap to exhaustive search on the table", gaps > 0 ? std::optional(exhaustive_gap) : std::nullopt,
                0, "%", "all thresholds and splits");
  if (all.simulated) {
    claims.AtMost(fmt::format("takt's gap beyond the table, {} GPUs, slowest model", all.simulated->gpus),
                  100 * (all.simulated->takt_slowest / all.simulated->best_slowest - 1), 6, "%",
                  fmt::format("all {} plans simulated: takt {}; best {}", Grouped(all.simulated->plans),
                              all.simulated->takt_plan, all.simulated->best_plan));
  }
  double planning = 0;
  for (const CascadiaStudy& s : all.studies) planning = std::max(planning, s.planning_s());
  claims.AtMost("time to plan for 32 GPUs", planning > 0 ? std::optional(planning) : std::nullopt, 20, "s",
                "tables included, one thread beside others; the paper's 20 s are of 12 cores");

  // Judges.
  if (all.judges.size() == 5 && all.judges[0].why.empty()) {
    const CascadiaJudge& first = all.judges[0];
    const auto relative = [&](const CascadiaJudge& j, double CascadiaJudge::* figure) -> std::optional<double> {
      if (!j.why.empty()) return std::nullopt;
      return 100 * (j.*figure / (first.*figure) - 1);
    };
    const char* why =
        "whose scores are lower at all thresholds needs more of the large model to see 80 on average; how "
        "much depends on the shape of the scores";
    claims.Between("GPT-4o-mini: more to the large model", 100 * (all.judges[1].share - first.share), {0, 11.1},
                   "points", why);
    claims.AtMost("GPT-4o-mini: p95 higher", relative(all.judges[1], &CascadiaJudge::slowest), 6.8, "%", why);
    claims.Between("Llama-70B as judge: more to the large model", 100 * (all.judges[2].share - first.share), {0, 9.4},
                   "points", why);
    claims.AtMost("Llama-70B as judge: p95 higher", relative(all.judges[2], &CascadiaJudge::slowest), 5.5, "%", why);
    claims.AtMost("learned judge: true quality at a floor of 80", all.judges[3].quality, 74, "",
                  "it believes 80; rank correlation 0.5 chosen");
    const std::optional<double> oracle = relative(all.judges[4], &CascadiaJudge::p95);
    claims.AtMost("perfect learned judge: p95 lower", oracle ? std::optional(-*oracle) : std::nullopt, 5, "%",
                  "saves 0.27 s per judged answer");
  }

  // Cost is the inverse of what is sustained, at equal price.
  const auto saving = [](const Ratios& r) {
    return r.empty() ? std::nullopt : std::optional(100 * (1 - 1 / r.mean()));
  };
  claims.AtLeast("cost per request below CascadeServe", saving(more_serve), 20, "%", "32 GPUs at 2.67 USD/h in either");
  claims.AtLeast("cost per request below stand-alone", saving(more_alone), 33, "%", "likewise");

  // Fluctuating.
  const auto fluctuating = [&](std::string_view rival) {
    Ratios ratios;
    for (const std::vector<CascadiaFluctuation>& cascade : all.fluctuations) {
      const auto at = std::find_if(cascade.begin(), cascade.end(), [&](const auto& f) { return f.system == rival; });
      if (at != cascade.end()) ratios.values.push_back(100 * (1 - cascade.front().p95 / at->p95));
    }
    return ratios;
  };
  claims.AtLeast("fluctuating: SLO scale below CascadeServe", MeanOf(fluctuating("CascadeServe")), 34, "%",
                 "p95 of all requests; quality 80, where the paper has 90");
  claims.AtLeast("fluctuating: SLO scale below stand-alone", MeanOf(fluctuating("stand-alone")), 45, "%",
                 "the rates of traces 2 and 3 are beyond what it serves, so that its queue grows to the end");
  return claims.Take();
}

// ---- plots ----------------------------------------------------------------------------------------------------------

std::vector<ScenarioPlots> PlotsOf(const Findings& all) {
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
        if (c.load == 0.4) q.points.push_back({c.quality, c.systems[i].mean_e2e()});
        if (c.quality == 80) l.points.push_back({c.rate, c.systems[i].mean_e2e()});
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

std::vector<std::string> Sentences(const Findings& all) {
  std::vector<std::string> text = {
      "Plans are measured by the p95 along the path of each request, judges included. 'takt' minimises the p95 of the "
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

}  // namespace

absl::StatusOr<ScenarioReport> RunCascadia(const StudySettings& settings, ProgressBar& bar) {
  Findings all;
  all.settings.full = settings.full;
  all.settings.seeds = settings.seeds > 0 ? settings.seeds : settings.full ? 10 : 3;
  if (settings.minutes > 0) all.settings.minutes = settings.minutes;
  for (const CascadiaCascade cascade : kCascadiaCascades) {
    for (int trace = 1; trace <= 3; ++trace) all.studies.emplace_back(cascade, trace, all.settings);
  }
  all.fluctuations.resize(std::size(kCascadiaCascades));

  // Studies first: they take longest.
  std::vector<std::function<absl::Status(const RunProgress&)>> work;
  for (CascadiaStudy& study : all.studies) work.push_back([&study](const RunProgress& p) { return study.Run(p); });
  work.push_back([&](const RunProgress& p) -> absl::Status {
    constexpr std::int32_t kFew = 8, kFewer = 6;
    absl::StatusOr<CascadiaSimulated> found = SimulateAllPlans(settings.full ? kFew : kFewer, 2000, p);
    if (found.ok()) all.simulated = *std::move(found);
    return absl::IsCancelled(found.status()) ? absl::OkStatus() : found.status();
  });
  for (std::size_t c = 0; c < all.fluctuations.size(); ++c) {
    work.push_back([&, c](const RunProgress& p) -> absl::Status {
      absl::StatusOr<std::vector<CascadiaFluctuation>> found = Fluctuate(kCascadiaCascades[c], all.settings, p);
      if (found.ok()) all.fluctuations[c] = *std::move(found);
      return absl::IsCancelled(found.status()) ? absl::OkStatus() : found.status();
    });
  }
  work.push_back([&](const RunProgress& p) -> absl::Status {
    absl::StatusOr<std::vector<CascadiaJudge>> found = CompareJudges(all.settings, p);
    if (found.ok()) all.judges = *std::move(found);
    return found.status();
  });
  std::vector<absl::Status> faults(work.size());
  RunEach(work.size(), settings.threads, "cascadia", bar,
          [&](std::size_t i, const RunProgress& progress) { faults[i] = work[i](progress); });
  for (const absl::Status& fault : faults) {
    if (!fault.ok()) return fault;
  }

  ScenarioReport report;
  report.title = "Cascadia: GPUs, replicas and thresholds of a cascade, takt and its rivals";
  report.seeds = all.settings.seeds;
  report.interrupted = Interrupted();
  std::string sustains;
  for (const CascadiaStudy& s : all.studies) {
    if (!s.cases().empty()) {
      sustains += fmt::format("{}{} trace {} {:.1f}", sustains.empty() ? "" : ", ", Name(s.cases()[0].cascade),
                              s.cases()[0].trace, s.sustains());
    }
  }
  report.conditions = {
      {"Requests", "scores and lengths reconstructed from the paper's Table 2 (docs/scenarios.md), 2,000 profiled"},
      {"Cluster",
       "32 H100; llama-3.1-8b -> llama-3.1-70b (bf16), and the same -> deepseek-671b (4 bit, derived, not "
       "measured)"},
      {"Load", fmt::format("shares of what takt sustains at quality 80 [requests/s]: {}", sustains)},
      {"Runs",
       fmt::format("{:g} minutes of arrivals, at most 200,000 requests, {} seeds; the first quarter does not count",
                   all.settings.minutes, all.settings.seeds)}};
  report.findings = Sentences(all);
  const auto everything = all.Cases([](const CascadiaCase&) { return true; });
  const auto at_main = all.Cases([](const CascadiaCase& c) { return c.load == kMainLoad; });
  report.tables = {
      {"p95 along the path [s]",
       SystemTable(
           everything, "p95 [s]",
           [](const CascadiaCase&, const CascadiaResult& r) { return r.feasible() ? r.mean_e2e() : Table::kNoNumber; },
           Best::kNone)},
      {"What each sustains at the quality [requests/s]",
       SystemTable(
           at_main, "requests/s",
           [](const CascadiaCase&, const CascadiaResult& r) { return r.sustains > 0 ? r.sustains : Table::kNoNumber; },
           Best::kNone)},
      {"Plans of the DeepSeek cascade beside the paper's Tables 2 and 3", PlanTable(all)},
      {"Optimality on one table, load 0.7", OptimalityTable(all)},
      {"Judges (Appendices K and N): Llama, trace 1, quality 80", JudgeTable(all)},
      {"A workload that changes: quality 80, load 0.7 of each trace", FluctuationTable(all)}};
  report.plots = PlotsOf(all);
  for (const CascadiaCase* c : everything) {
    for (std::size_t i = 0; i < kCascadiaSystems; ++i) report.rows.push_back(RowOf(*c, i));
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
  report.claims = ClaimsOf(all);
  // Wall-clock time differs from run to run.
  if (settings.no_wall) {
    std::erase_if(report.claims, [](const ScenarioClaim& c) { return c.unit == "s"; });
  }
  return report;
}

}  // namespace takt::tool
