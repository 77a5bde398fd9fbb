// Kairos (2025): agents of several applications that share a model on four GPUs.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lab/report/graph_figure.h"
#include "lab/fit.h"
#include "lab/kairos/claims.h"
#include "lab/scenario.h"
#include "tool/run/load_workload.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace takt::tool {

namespace {

std::vector<std::pair<KairosModel, std::size_t>> Grounds() {
  std::vector<std::pair<KairosModel, std::size_t>> grounds;
  for (std::size_t s = 0; s <= kMix; ++s) grounds.emplace_back(KairosModel::k8B, s);
  grounds.emplace_back(KairosModel::k13B, kMix);
  return grounds;
}

KairosSetup FitSetup(const KairosPlan& plan, std::int64_t kv_tokens) {
  return {KairosModel::k8B, kMix, kairos::Parrot(), 0, plan.fit_calls_per_s, kv_tokens};
}

// Section 2.2.3: 18.4 % of the requests are preempted under round robin at 8 requests a second.
Fit FitOf(const KairosStudy& study, const KairosPlan& plan) {
  Fit fit{.parameter = "tokens of each KV cache",
          .figures = {{fmt::format("calls preempted under round robin at {:g}/s [%]", plan.fit_calls_per_s), 18.4}},
          .tried = {}};
  for (const std::int64_t kv_tokens : plan.fit) {
    Fit::Tried& tried =
        fit.tried.emplace_back(Fit::Tried{fmt::format("{}", study.KvTokensOf(KairosModel::k8B, kv_tokens)),
                                          {},
                                          kv_tokens == KairosPlan::kPaperKvTokens ? "taken in regime paper"
                                          : kv_tokens == KairosPlan::kWhole       ? "regime takt: the profile's"
                                                                                  : ""});
    const KairosCell* c = study.Find(FitSetup(plan, kv_tokens));
    if (c != nullptr) tried.ours.push_back(std::max(c->Mean(&KairosFigures::preempted), 0.01));
  }
  return fit;
}

KairosSetup AccuracySetup(const KairosPlan& plan, std::size_t scenario, double spread = 0) {
  return {KairosModel::k8B, scenario, kairos::Parrot(), plan.accuracy_load, 0, 0, spread};
}

// Section 7.4: Ayo orders 75.9 % of the pairs correctly, mean of the scenarios. The first seed is used.
absl::StatusOr<Fit> SpreadFitOf(KairosStudy& study, const KairosPlan& plan) {
  Fit fit{.parameter = "factor on the sigmas of all outputs",
          .figures = {{"pairs that Ayo orders correctly [%]", 75.9}},
          .tried = {}};
  for (const double spread : plan.spreads) {
    Fit::Tried& tried = fit.tried.emplace_back(Fit::Tried{fmt::format("{:g}", spread),
                                                          {},
                                                          spread == KairosPlan::kPaperSpread ? "taken in regime paper"
                                                          : spread == KairosPlan::kChosenSpread ? "regime takt"
                                                                                                : ""});
    Moments ayo;
    for (std::size_t s = 0; s <= kMix && !Interrupted(); ++s) {
      const KairosSetup setup = AccuracySetup(plan, s, spread);
      if (absl::Status prepared = study.Prepare(setup); !prepared.ok()) return prepared;
      AgentLearner learner;
      const absl::StatusOr<KairosAccuracy> a = MeasureAccuracy(study, setup, study.seed_range().At(0), learner);
      if (!a.ok()) return a.status();
      ayo.Add(a->depth);
    }
    if (ayo.count() == kMix + 1) tried.ours.push_back(ayo.mean());
  }
  return fit;
}

ScenarioRow RowOf(const KairosStudy& study, const KairosCell& cell) {
  const KairosSetup& s = cell.setup;
  ScenarioRow row = {{"part", std::string("loads")},
                     {"model", std::string(Name(s.model))},
                     {"profile", std::string(ProfileOf(s.model))},
                     {"scenario", std::string(kKairosScenarios[s.scenario])},
                     {"system", s.system.label},
                     {"policy", s.system.policy},
                     {"placement", s.system.placement},
                     {"load", s.load},
                     {"seeds", static_cast<std::int64_t>(cell.seeds.size())},
                     {"workflows", std::ssize(study.ground(s.model, s.scenario).workloads.front().workflows)}};
  AddMeans(row, cell, kKairosFigures);
  row.emplace_back("token_latency_sd_ms", cell.Deviation(&KairosFigures::mean));
  return row;
}

ScenarioRow RowOf(const KairosAccuracy& a) {
  return {{"part", std::string("accuracy")},
          {"scenario", std::string(kKairosScenarios[a.scenario])},
          {"requests", a.requests},
          {"classical_pct", a.classical},
          {"smacof_pct", a.smacof},
          {"mean_pct", a.mean},
          {"median_pct", a.median},
          {"ayo_pct", a.depth},
          {"fcfs_pct", a.fcfs},
          {"best_pct", a.best},
          {"order", fmt::format("{}", fmt::join(a.order, " < "))},
          {"best_order", fmt::format("{}", fmt::join(a.best_order, " < "))}};
}

Table LoadTable(const KairosStudy& study, const KairosPlan& plan, KairosModel model, std::size_t scenario) {
  Table table = TableOf({{"", "load"}, {"", "system", false}}, kKairosFigures);
  for (const double load : plan.LoadsOf(scenario)) {
    table.BeginSection();
    for (const KairosSystem& system : kairos::Of(scenario)) {
      const KairosCell* c = study.Find({model, scenario, system, load});
      if (c == nullptr) continue;
      table.BeginRow();
      table.Text(fmt::format("{:g}", load));
      table.Text(system.label);
      FillCells(kKairosFigures, [&](auto figure) { table.Number(c->Mean(figure)); });
    }
  }
  return table;
}

Table AccuracyTable(const std::vector<KairosAccuracy>& accuracies) {
  Table table({{"", "scenario", false},
               {"ordered rightly [%]", "classical"},
               {"ordered rightly [%]", "SMACOF"},
               {"ordered rightly [%]", "mean"},
               {"ordered rightly [%]", "median"},
               {"ordered rightly [%]", "Ayo"},
               {"ordered rightly [%]", "FCFS"},
               {"ordered rightly [%]", "best fixed order"},
               {"", "order (classical)", false},
               {"", "best order", false}});
  for (const KairosAccuracy& a : accuracies) {
    table.BeginRow();
    table.Text(std::string(kKairosScenarios[a.scenario]));
    for (const double x : {a.classical, a.smacof, a.mean, a.median, a.depth, a.fcfs, a.best}) {
      table.Text(fmt::format("{:.2f}", x));
    }
    table.Text(fmt::format("{}", fmt::join(a.order, " < ")));
    table.Text(a.best_order == a.order ? "the same" : fmt::format("{}", fmt::join(a.best_order, " < ")));
  }
  return table;
}

std::vector<ScenarioPlots> PlotsOf(const KairosStudy& study, const KairosPlan& plan) {
  std::vector<ScenarioPlots> groups;
  const std::vector<KairosSystem> systems = kairos::OfMix();
  for (const KairosModel model : {KairosModel::k8B, KairosModel::k13B}) {
    ScenarioPlots group{fmt::format("{}, all applications", Name(model)), {}};
    for (const auto& figure : Only(kKairosFigures, {&KairosFigures::mean, &KairosFigures::p99, &KairosFigures::queued,
                                                    &KairosFigures::preempted})) {
      Plot plot{.title = figure.Text(),
                .x_label = "load, share of capacity",
                .y_label = figure.Text(),
                .x_scale = Scale::kFit,
                .y_scale = Scale::kAuto,
                .marks = true,
                .lines = {}};
      for (std::size_t i = 0; i < systems.size(); ++i) {
        plot.lines.push_back(LineOf(systems[i].label, i, figure.member, plan.mix_loads,
                                    [&](double load) { return study.Find({model, kMix, systems[i], load}); }));
      }
      group.plots.push_back(std::move(plot));
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<Condition> ConditionsOf(const std::string& file, const KairosStudy& study, const KairosPlan& plan) {
  std::vector<std::string> capacity;
  for (const auto& [model, scenario] : Grounds()) {
    if (scenario % 3 != 0) continue;
    capacity.push_back(fmt::format("{} {} {:.1f}", Name(model), kKairosScenarios[scenario],
                                   study.ground(model, scenario).workflows_per_s));
  }
  const bool fitted = study.KvTokensOf(KairosModel::k8B) == KairosPlan::kPaperKvTokens;
  return {
      {"Workload",
       fmt::format("gen:kairos, medians as chosen, sigmas times {:g} ({}); arrivals: windows of {}, stretched",
                   study.spread(), fitted ? "fitted to Ayo's accuracy" : "chosen", file.substr(file.rfind('/') + 1))},
      {"Engines", fmt::format("four of {}, {} tokens of KV each ({}), and four of {}, {} (its profile's); a step: "
                              "2,048 tokens, 256 requests (chosen)",
                              ProfileOf(KairosModel::k8B), study.KvTokensOf(KairosModel::k8B),
                              fitted ? "fitted to the paper's preemptions" : "its profile's",
                              ProfileOf(KairosModel::k13B), study.KvTokensOf(KairosModel::k13B))},
      {"Capacity", fmt::format("workflows a second: {}", fmt::join(capacity, ", "))},
      {"Systems",
       "Parrot: fcfs, round robin; Ayo: fewest stages left, round robin; Kairos: agents in the learnt order, "
       "instances by time slots, at the decode rate of a run with all workflows at once. Oracle: fewest true tokens "
       "left, by time slots"},
      {"Known",
       "Kairos: identifiers of ended calls, from an empty start in every run, with a new table each second. Ayo: "
       "the applications' graphs. Others: nothing"},
      {"Runs",
       fmt::format("{} paired seeds; as many workflows as can be served in {:g} minutes, arriving at each load, "
                   "then all are served to the end",
                   study.seeds(), plan.minutes)}};
}

absl::StatusOr<ScenarioReport> RunKairos(const StudySettings& settings, ProgressBar& bar) {
  const absl::StatusOr<std::string> file = FindData(settings.data, "traces", "azure_llm_2023_conv.csv.gz");
  if (!file.ok()) return file.status();
  WorkloadSource from;
  from.file = *file;
  const absl::StatusOr<Workload> trace = LoadWorkload(from);
  if (!trace.ok()) return trace.status();

  KairosPlan plan;
  if (settings.minutes > 0) plan.minutes = settings.minutes;
  const bool fitted = settings.regime == Regime::kPaper;
  KairosStudy study(*trace, plan.minutes, settings.Seeds(3, 10),
                    fitted ? KairosPlan::kPaperKvTokens : KairosPlan::kWhole,
                    fitted ? KairosPlan::kPaperSpread : KairosPlan::kChosenSpread);
  for (const auto& [model, scenario] : Grounds()) {
    for (const double load : plan.LoadsOf(scenario)) {
      for (const KairosSystem& system : kairos::Of(scenario)) study.Add({model, scenario, system, load});
    }
  }
  for (const std::int64_t kv_tokens : plan.fit) study.Add(FitSetup(plan, kv_tokens));
  if (absl::Status run = study.Run(settings.threads, bar); !run.ok()) return run;

  ScenarioReport report;
  report.title = "Kairos: agents that share a model";
  report.seeds = study.seeds();
  report.interrupted = Interrupted();
  std::vector<std::vector<KairosAccuracy>> by_seed(static_cast<std::size_t>(study.seeds()));
  const std::vector<KairosAccuracy>& accuracies = by_seed.front();
  for (std::size_t i = 0; i < by_seed.size() * (kMix + 1) && !Interrupted(); ++i) {
    const std::size_t seed = i / (kMix + 1), s = i % (kMix + 1);
    AgentLearner learner;
    absl::StatusOr<KairosAccuracy> a =
        MeasureAccuracy(study, AccuracySetup(plan, s), study.seed_range().At(seed), learner);
    if (!a.ok()) return a.status();
    by_seed[seed].push_back(*std::move(a));
    if (s < kMix || seed > 0) continue;
    const Workload& workload = study.ground(KairosModel::k8B, s).workloads.front();
    report.figures.push_back(
        {"The call graph that was learnt",
         "Learnt from identifiers: calls, mean execution time, mean remaining time of the workflow without queues. "
         "Edges: the share of the caller's calls that led there. Dashed: feedback.",
         GraphSvg(learner.graph(), [&](AgentId agent) { return workload.names[agent.value]; })});
  }
  report.conditions = ConditionsOf(*file, study, plan);
  for (std::size_t c = 0; c < study.size(); ++c) {
    if (study[c].complete() && study[c].setup.calls_per_s == 0) report.rows.push_back(RowOf(study, study[c]));
  }
  const Fit fit = FitOf(study, plan);
  const absl::StatusOr<Fit> spread = SpreadFitOf(study, plan);
  if (!spread.ok()) return spread.status();
  for (const Fit& f : {fit, *spread}) {
    report.tables.push_back(FitTable(f));
    for (ScenarioRow& row : FitRows(f)) report.rows.push_back(std::move(row));
  }
  for (const KairosAccuracy& a : accuracies) report.rows.push_back(RowOf(a));
  report.tables.push_back(
      {"Pairs of requests of different agents, ordered as their remaining time", AccuracyTable(accuracies)});
  for (const auto& [model, scenario] : Grounds()) {
    report.tables.push_back(
        {fmt::format("{}, {}", Name(model), kKairosScenarios[scenario]), LoadTable(study, plan, model, scenario)});
  }
  report.plots = PlotsOf(study, plan);
  report.claims = KairosClaims(study, plan, by_seed);
  report.findings = KairosFindings(study, plan, accuracies);
  return report;
}

}  // namespace

Scenario KairosScenario() {
  return {.name = "kairos",
          .text = "agents that share a model: Parrot, Ayo and Kairos, from no queue to deep overload",
          .run = RunKairos,
          .has_regimes = true};
}

}  // namespace takt::tool
