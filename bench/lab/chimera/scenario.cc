// Chimera (2026): agentic workflows on models of unlike sizes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lab/chimera/assignment.h"
#include "lab/chimera/claims.h"
#include "lab/fit.h"
#include "lab/scenario.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "lab/chimera/frontier.h"
#include "takt/numeric/summary.h"
#include "takt/placement/confidence_slack.h"
#include "takt/placement/gain_slack.h"

namespace takt::tool {

namespace {

// Figures of a deployment, in sections of its table: systems at one rate.
struct ServingSection {
  double rate = 0;
  std::vector<ChimeraSystem> systems = {};
};
using ServingSections = std::vector<ServingSection> (*)(const ChimeraPlan&, std::size_t deployment);

std::vector<ServingSection> SectionsOfPaper(const ChimeraPlan& plan, std::size_t at) {
  std::vector<ServingSection> sections;
  for (const double rate : plan.AllRates()) {
    sections.push_back({rate, chimera::Rivals()});
    for (const auto kind : chimera::Kinds(at)) {
      for (const double tau : plan.taus) sections.back().systems.push_back(kind(tau));
    }
  }
  return sections;
}

std::vector<ServingSection> SectionsOfSlacks(const ChimeraPlan& plan, std::size_t) {
  std::vector<ServingSection> sections;
  for (const double rate : plan.rates) {
    sections.push_back({rate});
    for (const double tau : plan.slacks) sections.back().systems.push_back(chimera::Chimera(tau));
  }
  return sections;
}

// One of the compared routers, at each of its values.
struct ChimeraRouter {
  chimera::ByTau kind;
  std::vector<double> values;
  std::string label;
};
std::vector<ChimeraRouter> RoutersOf(const ChimeraPlan& plan) {
  return {{&chimera::ByGain, plan.taus, std::string(GainSlack::kName)},
          {&chimera::ByLatency, plan.per_s, "gain_slack, by latency"},
          {&chimera::ByLatencyOracle, plan.per_s, "gain_slack, by latency, exact lengths"},
          {&chimera::Assigned, plan.prices, chimera::Assigned(0).label},
          {&chimera::AssignedByTruth, plan.truth_prices, chimera::AssignedByTruth(0).label}};
}

// Figures of the frontier.
std::vector<ServingSection> SectionsOfFrontier(const ChimeraPlan& plan, std::size_t) {
  std::vector<ChimeraRouter> routers = RoutersOf(plan);
  routers.insert(routers.begin(), {&chimera::Chimera, plan.taus, ""});
  std::vector<ServingSection> sections;
  for (const ChimeraRouter& router : routers) {
    sections.push_back({plan.rates.front()});
    for (const double value : router.values) sections.back().systems.push_back(router.kind(value));
  }
  return sections;
}

void AddServing(const ChimeraPlan& plan, ServingSections sections, ChimeraStudy& study) {
  for (const ChimeraDataset d : kDatasets) {
    for (std::size_t at = 0; at < kFirstAlone; ++at) {
      for (const ServingSection& section : sections(plan, at)) {
        for (const ChimeraSystem& system : section.systems) study.Add({d, at, section.rate, system});
      }
    }
  }
}

void AddRuns(ChimeraStudy& study, const ChimeraPlan& plan) {
  AddServing(plan, &SectionsOfPaper, study);
  AddServing(plan, &SectionsOfSlacks, study);
  for (const ChimeraDataset d : kDatasets) {
    for (std::size_t at = kFirstAlone; at < kDeployments; ++at) {
      for (const double load : plan.loads) {
        for (const ChimeraSystem& order : chimera::Orders()) study.Add({d, at, load, order});
      }
    }
  }
  for (const ChimeraFitted& fitted : plan.fit) {
    for (const double rate : plan.rates) {
      for (const ChimeraSystem& system : {chimera::Vllm(), chimera::Mlfq(), chimera::Ltr()}) {
        study.Add({ChimeraDataset::kApps, kQwen7, rate, system, 0, fitted});
      }
    }
  }
  for (const std::size_t at : {kQwen7, kQwen14}) {
    const auto add = [&](const ChimeraSystem& system, double gap = 0) {
      study.Add({ChimeraDataset::kApps, at, plan.rate, system, gap});
    };
    for (const double weight : plan.weights) add(chimera::Weighted(plan.tau, weight));
    for (const int threshold : plan.thresholds) add(chimera::Guarded(plan.tau, threshold));
    for (const double gap : plan.gaps) add(chimera::Chimera(plan.tau), gap);
  }
}

// The baselines' figures on APPS with 1.5B + 7B (section 4.3).
Fit FitOf(const ChimeraStudy& study, const ChimeraPlan& plan) {
  constexpr double kLatencies[] = {82.6, 81.0, 107.8}, kScores[] = {22.7, 23.5, 20.6};
  Fit fit{.parameter = "sequences, easier by, engines of the 7B, host ms", .figures = {}, .tried = {}};
  for (std::size_t i = 0; i < plan.rates.size(); ++i) {
    fit.figures.emplace_back(fmt::format("vLLM at {:g}/s [ms per token]", plan.rates[i]), kLatencies[i]);
    fit.figures.emplace_back(fmt::format("vLLM at {:g}/s [score %]", plan.rates[i]), kScores[i]);
  }
  fit.figures.emplace_back("MLFQ faster than vLLM by", 2.4);
  fit.figures.emplace_back("LTR faster than vLLM by", 2.6);
  for (const ChimeraFitted& fitted : plan.fit) {
    Fit::Tried tried{fmt::format("{}, {:g}, {}, {:g}", fitted.seqs, fitted.easier, fitted.largest, fitted.overhead_ms),
                     {},
                     fitted == ChimeraPlan::kPaperFitted ? "taken in regime paper"
                     : fitted == ChimeraPlan::kUnfitted  ? "regime takt"
                                                         : ""};
    Moments mlfq, ltr;
    for (const double rate : plan.rates) {
      const auto cell = [&](const ChimeraSystem& system) {
        return study.Find({ChimeraDataset::kApps, kQwen7, rate, system, 0, fitted});
      };
      const ChimeraCell *c = cell(chimera::Vllm()), *m = cell(chimera::Mlfq()), *l = cell(chimera::Ltr());
      if (c == nullptr || m == nullptr || l == nullptr) continue;
      const double latency = c->Mean(&ChimeraFigures::per_token);
      tried.ours.push_back(latency);
      tried.ours.push_back(c->Mean(&ChimeraFigures::score));
      mlfq.Add(latency / m->Mean(&ChimeraFigures::per_token));
      ltr.Add(latency / l->Mean(&ChimeraFigures::per_token));
    }
    tried.ours.push_back(mlfq.mean());
    tried.ours.push_back(ltr.mean());
    if (tried.ours.size() < fit.figures.size()) tried.ours.clear();
    fit.tried.push_back(std::move(tried));
  }
  return fit;
}

constexpr std::pair<const char*, ChimeraFigure> kChimeraFigures[] = {
    {"ms_per_token", &ChimeraFigures::per_token},
    {"ms_per_token_of_each", &ChimeraFigures::each_per_token},
    {"workflow_latency_mean_s", &ChimeraFigures::latency},
    {"workflow_latency_p95_s", &ChimeraFigures::p95},
    {"score_pct", &ChimeraFigures::score},
    {"queue_mean_s", &ChimeraFigures::queue},
    {"strongest_pct", &ChimeraFigures::strongest},
    {"drained_s", &ChimeraFigures::drained},
    {"in_flight_tokens", &ChimeraFigures::in_flight},
    {"in_flight_written_tokens", &ChimeraFigures::written},
    {"between_stages_tokens", &ChimeraFigures::between},
};

ScenarioRow RowOf(const ChimeraCell& cell, const ChimeraFitted& fitted) {
  const ChimeraSetup& s = cell.setup;
  const bool alone = s.deployment >= kFirstAlone;
  const char* const lengths = s.system.lengths == LengthsBy::kNobody   ? "none"
                              : s.system.lengths == LengthsBy::kForest ? "forest"
                                                                       : "oracle";
  const char* const router = s.system.router == RouterBy::kNobody    ? "none"
                             : s.system.router == RouterBy::kTrained ? "trained"
                             : s.system.router == RouterBy::kMean    ? "mean"
                                                                     : "oracle";
  ScenarioRow row = {{"part", std::string(alone ? "queue" : "serving")},
                     {"dataset", std::string(Name(s.dataset))},
                     {"models", std::string(Deployments()[s.deployment].name)},
                     {alone ? "load" : "rate_workflows", s.rate},
                     {"system", s.system.label},
                     {"policy", s.system.policy},
                     {"lengths", std::string(lengths)},
                     {"router", std::string(router)},
                     {"placement", std::string(s.system.router == RouterBy::kNobody ? "least_loaded"
                                               : s.system.assigned                  ? AssignedToModels::kName
                                               : s.system.gain                      ? GainSlack::kName
                                                                                    : ConfidenceSlack::kName)},
                     {"tau", s.system.tau},
                     {"price", s.system.value()},
                     {"gap_s", s.gap_s},
                     {"max_seqs", static_cast<std::int64_t>(fitted.seqs)},
                     {"tests_easier", fitted.easier},
                     {"seeds", static_cast<std::int64_t>(cell.seeds.size())}};
  for (const auto& [key, figure] : kChimeraFigures) row.emplace_back(key, cell.Mean(figure));
  row.emplace_back("ms_per_token_sd", cell.Deviation(&ChimeraFigures::per_token));
  row.emplace_back("score_sd", cell.Deviation(&ChimeraFigures::score));
  return row;
}

ScenarioRow RowOf(const ChimeraPrediction& p) {
  return {{"part", std::string("prediction")},
          {"dataset", std::string(Name(p.dataset))},
          {"model", p.model},
          {"tau_distance", p.forest},
          {"tau_distance_all_calls", p.forest_all},
          {"tau_distance_best", p.best},
          {"tau_distance_input", p.input},
          {"tau_distance_fcfs", p.fcfs},
          {"solved", p.solved},
          {"average_precision", p.average_precision},
          {"calibration_error", p.calibration}};
}

Table PredictionTable(const std::vector<ChimeraPrediction>& predictions) {
  Table table({{"", "dataset", false},
               {"", "model", false},
               {"tau distance", "forest"},
               {"tau distance", "all calls"},
               {"tau distance", "best possible"},
               {"tau distance", "prompt length"},
               {"tau distance", "arrival"},
               {"router", "solved"},
               {"router", "AP"},
               {"router", "calibration"}});
  for (const ChimeraPrediction& p : predictions) {
    table.BeginRow();
    table.Text(std::string(Name(p.dataset)));
    table.Text(p.model);
    for (const double x :
         {p.forest, p.forest_all, p.best, p.input, p.fcfs, p.solved, p.average_precision, p.calibration}) {
      table.Text(fmt::format("{:.3f}", x));
    }
  }
  return table;
}

void AddServingTables(const ChimeraStudy& study, const ChimeraPlan& plan, ServingSections sections,
                      std::vector<ScenarioTable>& tables) {
  for (const ChimeraDataset d : kDatasets) {
    for (std::size_t at = 0; at < kFirstAlone; ++at) {
      Table table({{"", "rate"},
                   {"", "system", false},
                   {"", "tau"},
                   {"", "score %", true, Best::kLargest},
                   {"ms per token", "mean", true, Best::kSmallest},
                   {"ms per token", "of each"},
                   {"latency [s]", "mean", true, Best::kSmallest},
                   {"latency [s]", "P95", true, Best::kSmallest},
                   {"", "queue [s]"},
                   {"", "strongest %"}});
      for (const ServingSection& section : sections(plan, at)) {
        table.BeginSection();
        for (const ChimeraSystem& system : section.systems) {
          const ChimeraCell* c = study.Find({d, at, section.rate, system});
          if (c == nullptr) continue;
          table.BeginRow();
          table.Text(fmt::format("{:g}", section.rate));
          table.Text(system.label);
          table.Text(system.router == RouterBy::kNobody ? "" : fmt::format("{:g}", system.value()));
          for (const ChimeraFigure figure :
               {&ChimeraFigures::score, &ChimeraFigures::per_token, &ChimeraFigures::each_per_token,
                &ChimeraFigures::latency, &ChimeraFigures::p95, &ChimeraFigures::queue, &ChimeraFigures::strongest}) {
            table.Number(c->Mean(figure));
          }
        }
      }
      tables.push_back({fmt::format("{}, {}", Name(d), Deployments()[at].name), std::move(table)});
    }
  }
}

// A router's score above confidence_slack at equal latency: the area between the two frontiers over their common
// latencies, divided by that range's width, seed by seed.
struct ChimeraGap {
  ChimeraDataset dataset;
  std::size_t deployment = 0;
  double rate = 0;
  std::string of;  // the router
  // At equal ms per token, and at equal mean latency of a workflow; and the ranges, means over the seeds.
  struct Area {
    Interval points = {std::nan(""), std::nan(""), std::nan("")};
    double from = std::nan(""), to = std::nan("");
    std::size_t seeds = 0;  // with a range that both reach
  };
  Area per_token, latency;
};

std::vector<ChimeraGap> GapsOf(const ChimeraStudy& study, const ChimeraPlan& plan) {
  std::vector<ChimeraGap> gaps;
  for (const ChimeraDataset d : kDatasets) {
    for (std::size_t at = 0; at < kFirstAlone; ++at) {
      for (const double rate : plan.AllRates()) {
        const auto points = [&](const ChimeraRouter& router, ChimeraFigure cost, std::size_t seed) {
          std::vector<TradeOff> all;
          for (const double value : router.values) {
            const ChimeraCell* c = study.Find({d, at, rate, router.kind(value)});
            if (c != nullptr) all.push_back({c->seeds[seed].*cost, c->seeds[seed].score});
          }
          return all;
        };
        const ChimeraRouter paper{&chimera::Chimera, plan.taus, ""};
        const auto add = [&](const std::string& label, auto ours) {
          const auto area = [&](ChimeraFigure cost) {
            Moments gap, from, to;
            for (std::size_t seed = 0; seed < static_cast<std::size_t>(study.seeds()); ++seed) {
              const auto g = GapBetween(ours(cost, seed), points(paper, cost, seed));
              if (g) gap.Add(g->mean), from.Add(g->from), to.Add(g->to);
            }
            if (gap.count() == 0) return ChimeraGap::Area{};
            return ChimeraGap::Area{IntervalOf(gap), from.mean(), to.mean(), static_cast<std::size_t>(gap.count())};
          };
          const ChimeraGap gap{d, at, rate, label, area(&ChimeraFigures::per_token), area(&ChimeraFigures::latency)};
          if (gap.per_token.seeds > 0) gaps.push_back(gap);
        };
        for (const ChimeraRouter& router : RoutersOf(plan)) {
          add(router.label, [&](ChimeraFigure cost, std::size_t seed) { return points(router, cost, seed); });
        }
        // Each workflow on the model of its highest score, at any latency: the upper bound for routers with the same
        // knowledge.
        if (const ChimeraCell* c = study.Find({d, at, rate, chimera::Assigned(0)})) {
          add("highest score, at any latency", [&](ChimeraFigure cost, std::size_t seed) {
            const std::vector<TradeOff> theirs = FrontierOf(points(paper, cost, seed));
            const double score = c->seeds[seed].score;
            return std::vector<TradeOff>{{0, score}, {theirs.back().cost, score}};
          });
        }
      }
    }
  }
  return gaps;
}

ScenarioRow RowOf(const ChimeraGap& g) {
  return {{"part", std::string("frontier")},
          {"dataset", std::string(Name(g.dataset))},
          {"models", std::string(Deployments()[g.deployment].name)},
          {"rate_workflows", g.rate},
          {"router", g.of},
          {"points_at_equal_latency", g.per_token.points.mean},
          {"points_low", g.per_token.points.low},
          {"points_high", g.per_token.points.high},
          {"from_ms_per_token", g.per_token.from},
          {"to_ms_per_token", g.per_token.to},
          {"seeds", static_cast<std::int64_t>(g.per_token.seeds)},
          {"points_at_equal_mean_latency", g.latency.points.mean},
          {"from_mean_latency_s", g.latency.from},
          {"to_mean_latency_s", g.latency.to}};
}

Table GapTable(const std::vector<ChimeraGap>& gaps) {
  Table table({{"", "dataset", false},
               {"", "models", false},
               {"", "rate"},
               {"", "router", false},
               {"points at equal latency", "mean"},
               {"points at equal latency", "95 % from"},
               {"points at equal latency", "to"},
               {"ms per token", "from"},
               {"ms per token", "to"},
               {"", "seeds"},
               {"points at equal mean latency", "mean"}});
  for (const ChimeraGap& g : gaps) {
    table.BeginRow();
    table.Text(std::string(Name(g.dataset)));
    table.Text(Deployments()[g.deployment].name);
    table.Text(fmt::format("{:g}", g.rate));
    table.Text(g.of);
    const ChimeraGap::Area& area = g.per_token;
    for (const double x : {area.points.mean, area.points.low, area.points.high}) table.Text(fmt::format("{:+.1f}", x));
    table.Number(area.from);
    table.Number(area.to);
    table.Text(fmt::format("{}", area.seeds));
    table.Text(g.latency.seeds > 0 ? fmt::format("{:+.1f}", g.latency.points.mean) : "-");
  }
  return table;
}

Table QueueTable(const ChimeraStudy& study, const ChimeraPlan& plan, ChimeraDataset d) {
  std::vector<Table::Column> columns = {{"", "model", false}, {"", "load"}, {"", "workflows/s"}};
  for (const ChimeraSystem& order : chimera::Orders()) {
    columns.push_back({"mean wait of a call [s]", order.label, true, Best::kSmallest});
  }
  Table table(columns);
  for (std::size_t at = kFirstAlone; at < kDeployments; ++at) {
    table.BeginSection();
    for (const double load : plan.loads) {
      table.BeginRow();
      table.Text(Deployments()[at].name);
      table.Text(fmt::format("{:g}", load));
      table.Text(fmt::format("{:.1f}", load * study.capacity(d, at)));
      for (const ChimeraSystem& order : chimera::Orders()) {
        const ChimeraCell* c = study.Find({d, at, load, order});
        if (c != nullptr) table.Number(c->Mean(&ChimeraFigures::queue));
        else table.Text("-");
      }
    }
  }
  return table;
}

// One parameter varied at one point, for both deployments.
Table SweepTable(const ChimeraStudy& study, const ChimeraPlan& plan, const char* what,
                 const std::vector<std::pair<std::string, std::pair<ChimeraSystem, double>>>& values) {
  Table table({{"", "models", false},
               {"", what},
               {"", "score %"},
               {"", "ms per token", true, Best::kSmallest},
               {"latency [s]", "mean"},
               {"latency [s]", "P95"},
               {"predicted tokens", "in flight"},
               {"predicted tokens", "of them written"},
               {"predicted tokens", "between calls"}});
  for (const std::size_t at : {kQwen7, kQwen14}) {
    table.BeginSection();
    for (const auto& [name, run] : values) {
      const ChimeraCell* c = study.Find({ChimeraDataset::kApps, at, plan.rate, run.first, run.second});
      if (c == nullptr) continue;
      table.BeginRow();
      table.Text(Deployments()[at].name);
      table.Text(name);
      for (const ChimeraFigure figure :
           {&ChimeraFigures::score, &ChimeraFigures::per_token, &ChimeraFigures::latency, &ChimeraFigures::p95,
            &ChimeraFigures::in_flight, &ChimeraFigures::written, &ChimeraFigures::between}) {
        table.Number(c->Mean(figure));
      }
    }
  }
  return table;
}

std::vector<ScenarioTable> TablesOf(const ChimeraStudy& study, const ChimeraPlan& plan) {
  std::vector<ScenarioTable> tables = {
      {"Predictions at arrival, and the router's", PredictionTable(study.predictions())}};
  AddServingTables(study, plan, &SectionsOfPaper, tables);
  tables.push_back({"Above confidence_slack, by the area between the frontiers", GapTable(GapsOf(study, plan))});
  for (const ChimeraDataset d : kDatasets) {
    tables.push_back({fmt::format("{}: one model alone", Name(d)), QueueTable(study, plan, d)});
  }
  std::vector<std::pair<std::string, std::pair<ChimeraSystem, double>>> values;
  for (const double w : plan.weights) values.push_back({fmt::format("{:g}", w), {chimera::Weighted(plan.tau, w), 0}});
  const std::string place = fmt::format("APPS, {:g} workflows a second, tau {:g}", plan.rate, plan.tau);
  tables.push_back({place + ": key = output + w x prompt", SweepTable(study, plan, "w", values)});
  values.clear();
  for (const double g : plan.gaps) values.push_back({fmt::format("{:g} s", g), {chimera::Chimera(plan.tau), g}});
  tables.push_back({place + ": time between two calls of a workflow", SweepTable(study, plan, "gap", values)});
  values = {{"none", {chimera::Chimera(plan.tau), 0}}};
  for (const int s : plan.thresholds) values.push_back({fmt::format("{}", s), {chimera::Guarded(plan.tau, s), 0}});
  tables.push_back({place + ": guard against starvation, plans (quantum 10)", SweepTable(study, plan, "S", values)});
  return tables;
}

// The frontier: to the right and down is better.
std::vector<ScenarioPlots> PlotsOf(const ChimeraStudy& study, const ChimeraPlan& plan) {
  std::vector<ScenarioPlots> groups;
  for (const ChimeraDataset d : kDatasets) {
    for (std::size_t at = 0; at < kFirstAlone; ++at) {
      ScenarioPlots group{fmt::format("{}, {}", Name(d), Deployments()[at].name), {}};
      for (const double rate : plan.AllRates()) {
        Plot plot{.title = fmt::format("{:g} workflows a second", rate),
                  .x_label = "score [% solved]",
                  .y_label = "ms per token",
                  .x_scale = Scale::kFit,
                  .y_scale = Scale::kAuto,
                  .marks = true,
                  .lines = {}};
        const auto point = [&](const ChimeraSystem& system, PlotLine& line) {
          const ChimeraCell* c = study.Find({d, at, rate, system});
          if (c != nullptr) {
            line.points.push_back({c->Mean(&ChimeraFigures::score), c->Mean(&ChimeraFigures::per_token)});
          }
        };
        std::size_t style = 0;
        for (const ChimeraSystem& rival : chimera::Rivals()) {
          plot.lines.push_back({rival.label, style++, {}});
          point(rival, plot.lines.back());
        }
        for (const auto kind : chimera::Kinds(at)) {
          plot.lines.push_back({kind(0).label, style++, {}});
          for (const double tau : plan.taus) point(kind(tau), plot.lines.back());
          std::ranges::sort(plot.lines.back().points, {}, &PlotPoint::x);
        }
        group.plots.push_back(std::move(plot));
      }
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

std::vector<Condition> ConditionsOf(const ChimeraStudy& study, double minutes) {
  std::vector<std::string> capacity;
  for (const ChimeraDataset d : kDatasets) {
    std::vector<std::string> of;
    for (std::size_t at = 0; at < kDeployments; ++at) {
      of.push_back(fmt::format("{} {:.1f}", Deployments()[at].name, study.capacity(d, at)));
    }
    capacity.push_back(fmt::format("{}: {}", Name(d), fmt::join(of, ", ")));
  }
  const std::string runs = minutes > 0 ? fmt::format("{:g} minutes of arrivals", minutes)
                                       : fmt::format("{} workflows", ChimeraStudy::kWorkflows);
  return {
      {"Workload", "gen:apps and gen:math; lengths and success of each model reconstructed from the paper's figures"},
      {"Engines", fmt::format("one A6000 a model, derived profiles (bf16); a step: 2,048 tokens, {} requests ({})",
                              study.fitted().seqs, study.published() ? "fitted to the paper's baselines" : "chosen")},
      {"Capacity", fmt::format("workflows a second, evenly spread over the models: {}", fmt::join(capacity, "; "))},
      {"Score",
       study.published()
           ? fmt::format("APPS: mean share of the tests that the last answer passes, each test easier by a logit of "
                         "{:g} than the problem (fitted); MATH: share solved",
                         study.fitted().easier)
           : "share of workflows whose last answer solves them"},
      {"Systems",
       fmt::format(
           "vLLM: fcfs, least loaded; MLFQ: mlfq, levels displace, by {}; LTR: shortest predicted call first; "
           "Chimera: stjf, confidence_slack (delta_s 0.05), no guard against starvation; by gain: the same with "
           "gain_slack",
           study.published() ? "swapping" : "recompute")},
      {"Known", fmt::format("forests and router: trained on {} workflows of another seed, each on every model; inputs: "
                            "the prompt's counts, kind and stage, and earlier outputs",
                            ChimeraStudy::kTraining)},
      {"Runs", fmt::format("{} paired seeds; {}, all served to the end", study.seeds(), runs)}};
}

// Only the paper's highest rate.
absl::StatusOr<ScenarioReport> RunChimeraFrontier(const StudySettings& settings, ProgressBar& bar) {
  ChimeraPlan plan;
  plan.rates = {plan.rates.back()};
  plan.beyond.clear();
  ChimeraStudy study(settings.minutes, settings.Seeds(3, 10),
                     settings.regime == Regime::kPaper ? ChimeraPlan::kPaperFitted : ChimeraPlan::kUnfitted,
                     settings.regime == Regime::kPaper);
  AddServing(plan, &SectionsOfFrontier, study);
  if (absl::Status run = study.Run(settings.threads, bar); !run.ok()) return run;

  ScenarioReport report;
  report.title = "Chimera's frontier: the best a router can reach at equal latency";
  report.seeds = study.seeds();
  report.interrupted = Interrupted();
  report.conditions = ConditionsOf(study, settings.minutes);
  const std::vector<ChimeraGap> gaps = GapsOf(study, plan);
  report.tables.push_back({"Points above confidence_slack at equal latency", GapTable(gaps)});
  AddServingTables(study, plan, &SectionsOfFrontier, report.tables);
  for (const ChimeraGap& g : gaps) report.rows.push_back(RowOf(g));
  for (std::size_t c = 0; c < study.size(); ++c) {
    if (study[c].complete()) report.rows.push_back(RowOf(study[c], study.fitted()));
  }
  return report;
}

absl::StatusOr<ScenarioReport> RunChimera(const StudySettings& settings, ProgressBar& bar) {
  const ChimeraPlan plan;
  ChimeraStudy study(settings.minutes, settings.Seeds(3, 10),
                     settings.regime == Regime::kPaper ? ChimeraPlan::kPaperFitted : ChimeraPlan::kUnfitted,
                     settings.regime == Regime::kPaper);
  AddRuns(study, plan);
  if (absl::Status run = study.Run(settings.threads, bar); !run.ok()) return run;

  ScenarioReport report;
  report.title = "Chimera: workflows on models of unlike sizes";
  report.seeds = study.seeds();
  report.interrupted = Interrupted();
  report.conditions = ConditionsOf(study, settings.minutes);
  for (std::size_t c = 0; c < study.size(); ++c) {
    if (study[c].complete() && !study[c].setup.fitted) report.rows.push_back(RowOf(study[c], study.fitted()));
  }
  for (const ChimeraPrediction& p : study.predictions()) report.rows.push_back(RowOf(p));
  for (const ChimeraGap& g : GapsOf(study, plan)) report.rows.push_back(RowOf(g));
  const Fit fit = FitOf(study, plan);
  report.tables = TablesOf(study, plan);
  report.tables.insert(report.tables.begin(), FitTable(fit));
  for (ScenarioRow& row : FitRows(fit)) report.rows.push_back(std::move(row));
  report.plots = PlotsOf(study, plan);
  report.claims = ChimeraClaims(study, plan);
  report.findings = ChimeraFindings(study, plan);
  return report;
}

}  // namespace

Scenario ChimeraFrontierScenario() {
  return {.name = "chimera-frontier",
          .text = "how far a router can exceed Chimera's at equal latency, and how far takt's does",
          .run = RunChimeraFrontier,
          .has_regimes = true};
}

Scenario ChimeraScenario() {
  return {.name = "chimera",
          .text = "agentic workflows on models of unlike sizes: vLLM, MLFQ, LTR and Chimera, latency against score",
          .run = RunChimera,
          .has_regimes = true};
}

}  // namespace takt::tool
