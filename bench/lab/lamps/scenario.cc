// LAMPS (Shahout et al., 2024): requests that call tools, on the requests of InferCept (Abhyankar et al., 2024).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "lab/fit.h"
#include "lab/lamps/claims.h"
#include "lab/scenario.h"
#include "tool/run/load_workload.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"

namespace takt::tool {

namespace {

// The paper's indirect comparison of its two baselines (section 6.2): it compares both with LAMPS. It has only plots of
// the absolute figures.
struct LampsFitPoint {
  LampsModel model;
  double rate;
  LampsFigure figure;
  const char* name;
  double below_infercept, below_vllm;  // LAMPS', %

  double paper() const { return (1 - below_vllm / 100) / (1 - below_infercept / 100); }
};
constexpr LampsFitPoint kLampsFit[] = {
    {LampsModel::kGptJ, 3, &LampsFigures::ttft, "TTFT, GPT-J at 3/s", 4.61, 22.86},
    {LampsModel::kGptJ, 3, &LampsFigures::latency, "latency, GPT-J at 3/s", -0.78, 14.48},
    {LampsModel::kGptJ, 5, &LampsFigures::ttft, "TTFT, GPT-J at 5/s", 91.27, 95.71},
    {LampsModel::kGptJ, 5, &LampsFigures::latency, "latency, GPT-J at 5/s", 65.51, 90.44},
    {LampsModel::kVicuna, 3, &LampsFigures::ttft, "TTFT, Vicuna at 3/s", 4.78, 18.65},
    {LampsModel::kVicuna, 3, &LampsFigures::latency, "latency, Vicuna at 3/s", 0.24, 15.73}};

// ---- what is run ---------------------------------------------------------------------------------------------------

StudyParts<LampsStudy> PartsOf(LampsStudy& study, const LampsPlan& plan) {
  StudyParts parts(study);
  const LampsModel gptj = LampsModel::kGptJ;
  const LampsCalls multi = LampsCalls::kMulti;
  parts.Begin("rates");
  for (const LampsModel model : kLampsModels) {
    for (const LampsCalls calls : kLampsCalls) {
      for (const double rate : plan.RatesOf(calls)) {
        for (const LampsSystem& system : lamps::Main()) parts.Add({model, calls, system, rate, plan.minutes});
      }
    }
  }
  parts.Begin("fit");
  for (const std::int32_t seqs : plan.fit) {
    for (const LampsFitPoint& p : kLampsFit) {
      for (const LampsSystem& system : {lamps::InferCept(), lamps::Vllm()}) {
        parts.Add({p.model, LampsCalls::kSingle, system, p.rate, plan.minutes, seqs});
      }
    }
  }
  parts.Begin("throughput");
  for (const LampsCalls calls : kLampsCalls) {
    for (const double rate : plan.throughput_rates) {
      for (const LampsSystem& system : {lamps::Vllm(), lamps::InferCept(), lamps::Lamps()}) {
        parts.Add({LampsModel::kVicuna, calls, system, rate, plan.throughput_minutes});
      }
    }
  }
  parts.Begin("ablation");
  for (const LampsModel model : kLampsModels) {
    for (const LampsSystem& system : lamps::Ablation()) parts.Add({model, multi, system, plan.rate, plan.minutes});
  }
  parts.Begin("mispredictions");
  for (const double rate : plan.error_rates) {
    parts.Add({gptj, multi, lamps::Lamps(), rate, plan.minutes});
    for (const double error : plan.errors) {
      parts.Add({gptj, multi, lamps::Lamps({EstimateKind::kGaussian, error}), rate, plan.minutes});
    }
  }
  parts.Begin("starvation threshold");
  for (const int threshold : plan.thresholds)
    parts.Add({gptj, multi, lamps::Guarded(threshold), plan.rate, plan.minutes});
  parts.Add({gptj, multi, lamps::Guarded(0), plan.rate, plan.minutes});
  parts.Begin("refresh interval");
  for (const int refresh : plan.refreshes) parts.Add({gptj, multi, lamps::Refreshed(refresh), plan.rate, plan.minutes});
  return parts;
}

// ---- the report ----------------------------------------------------------------------------------------------------

ScenarioRow RowOf(const LampsStudy& study, const StudyPart& part, const LampsCell& cell, const std::string& label) {
  const LampsSetup& s = cell.setup;
  ScenarioRow row = {{"part", part.name},
                     {"model", std::string(Name(s.model))},
                     {"profile", std::string(ProfileOf(s.model))},
                     {"calls", std::string(Name(s.calls))},
                     {"system", label},
                     {"policy", s.system.policy},
                     {"pause", s.system.pause},
                     {"preempt", std::string(s.system.preemptive ? "by_rank" : "on_memory")},
                     {"estimates", s.system.estimates.ToString()},
                     {"rate_rps", s.rate},
                     {"minutes", s.minutes},
                     {"seeds", static_cast<std::int64_t>(cell.seeds.size())},
                     {"requests", s.requests()}};
  AddMeans(row, cell, kLampsFigures);
  row.emplace_back("throughput_rps", cell.Mean(&LampsFigures::in_time) / (s.minutes * 60));
  row.emplace_back("latency_sd_s", cell.Deviation(&LampsFigures::latency));
  row.emplace_back("ttft_sd_s", cell.Deviation(&LampsFigures::ttft));
  for (const auto& [name, other] : {std::pair{"infercept", lamps::InferCept()}, std::pair{"vllm", lamps::Vllm()}}) {
    const LampsCell* against = study.Find({s.model, s.calls, other, s.rate, s.minutes});
    if (against == nullptr || against == &cell) continue;
    for (const auto& [what, figure] :
         {std::pair{"latency", &LampsFigures::latency}, std::pair{"ttft", &LampsFigures::ttft}}) {
      const Reduction r = ReductionOf(cell, *against, figure);
      row.emplace_back(fmt::format("{}_below_{}_pct", what, name), r.mean);
      row.emplace_back(fmt::format("{}_below_{}_p", what, name), r.p);
    }
  }
  return row;
}

ScenarioRow RowOf(const LampsPredictor& predictor) {
  return {{"part", std::string("predictor")},
          {"estimates", std::string("class-mean")},
          {"tool_calls", predictor.calls},
          {"acc_5_pct", predictor.acc_5},
          {"acc_15_pct", predictor.acc_15},
          {"mae_tokens", predictor.mae},
          {"mae_first_20_bins_tokens", predictor.mae_first_20}};
}

// InferCept over vLLM, single calls of one model.
Fit FitOf(const LampsStudy& study, const LampsPlan& plan, LampsModel model) {
  Fit fit{.parameter = fmt::format("sequences a step, {}", Name(model)), .figures = {}, .tried = {}};
  for (const LampsFitPoint& p : kLampsFit) {
    if (p.model == model) fit.figures.emplace_back(fmt::format("InferCept / vLLM, {}", p.name), p.paper());
  }
  for (const std::int32_t seqs : plan.fit) {
    const bool taken = seqs == LampsPlan::kPaperSeqs[static_cast<std::size_t>(model)];
    const char* note = taken ? "taken in regime paper" : seqs == kStepLimits.max_seqs ? "regime takt" : "";
    Fit::Tried& tried = fit.tried.emplace_back(Fit::Tried{fmt::format("{}", seqs), {}, note});
    for (const LampsFitPoint& p : kLampsFit) {
      if (p.model != model) continue;
      const auto cell = [&](const LampsSystem& system) {
        return study.Find({model, LampsCalls::kSingle, system, p.rate, plan.minutes, seqs});
      };
      const LampsCell *infercept = cell(lamps::InferCept()), *vllm = cell(lamps::Vllm());
      if (infercept != nullptr && vllm != nullptr) {
        tried.ours.push_back(infercept->Mean(p.figure) / vllm->Mean(p.figure));
      }
    }
    if (tried.ours.size() < fit.figures.size()) tried.ours.clear();
  }
  return fit;
}

// Returns a table with a row per rate. It has the figures of each system, and LAMPS relative to InferCept in the first
// two.
Table RateTable(const LampsStudy& study, const LampsPlan& plan, LampsModel model, LampsCalls calls,
                std::initializer_list<LampsFigure> shown, bool compare) {
  const std::vector<LampsSystem> systems = lamps::Main();
  std::vector<Table::Column> columns = {{"", "rate"}};
  for (const auto& figure : Only(kLampsFigures, shown)) {
    for (const LampsSystem& system : systems) columns.push_back({figure.Text(), system.label});
  }
  if (compare) {
    for (const char* name : {"latency %", "p", "TTFT %", "p "}) columns.push_back({"LAMPS below InferCept", name});
  }
  Table table(std::move(columns));
  for (const double rate : plan.RatesOf(calls)) {
    const auto cell = [&](const LampsSystem& system) { return study.Find({model, calls, system, rate, plan.minutes}); };
    table.BeginRow();
    table.Text(fmt::format("{:g}", rate));
    for (const LampsFigure figure : shown) {
      for (const LampsSystem& system : systems) {
        const LampsCell* c = cell(system);
        table.Number(c != nullptr ? c->Mean(figure) : Table::kNoNumber);
      }
    }
    if (!compare) continue;
    for (const LampsFigure figure : {&LampsFigures::latency, &LampsFigures::ttft}) {
      const auto r = study.Compare({model, calls, lamps::Lamps(), rate, plan.minutes},
                                   {model, calls, lamps::InferCept(), rate, plan.minutes}, figure);
      table.Text(!r ? "-" : fmt::format("{:.1f}", std::round(10 * r->mean) / 10 + 0.0));
      table.Text(!r || std::isnan(r->p) ? "-" : r->p < 0.001 ? "<.001" : fmt::format("{:.3f}", r->p));
    }
  }
  return table;
}

// A line per set of conditions.
Table CellTable(const LampsStudy& study, const StudyPart& part) {
  using F = LampsFigures;
  const auto figures = Only(kLampsFigures, {&F::latency, &F::latency_p50, &F::latency_p99, &F::ttft, &F::ttft_p99,
                                            &F::in_time, &F::completed});
  Table table = TableOf(
      {{"", "model", false}, {"", "calls", false}, {"", "rate"}, {"", "system", false}, {"", "estimates", false}},
      figures);
  const LampsSetup* before = nullptr;
  for (std::size_t i = 0; i < part.cells.size(); ++i) {
    const LampsCell& cell = study[part.cells[i]];
    const LampsSetup& s = cell.setup;
    if (!cell.complete()) continue;
    if (before == nullptr || before->rate != s.rate || before->model != s.model || before->calls != s.calls) {
      table.BeginSection();
    }
    before = &s;
    table.BeginRow();
    table.Text(std::string(Name(s.model)));
    table.Text(std::string(Name(s.calls)));
    table.Text(fmt::format("{:g}", s.rate));
    table.Text(part.labels[i]);
    table.Text(s.system.estimates.ToString());
    FillCells(figures, [&](LampsFigure figure) { table.Number(cell.Mean(figure)); });
  }
  return table;
}

// ---- plots ---------------------------------------------------------------------------------------------------------

Plot RatePlot(const LampsStudy& study, const std::vector<LampsSystem>& systems, const std::vector<double>& rates,
              LampsModel model, LampsCalls calls, double minutes, LampsFigure figure, const std::string& name) {
  Plot plot{.title = fmt::format("{}, {}: {}", Name(model), Name(calls), name),
            .x_label = "requests per second",
            .y_label = name,
            .x_scale = Scale::kFit,
            .y_scale = Scale::kAuto,
            .marks = true,
            .lines = {}};
  const std::vector<LampsSystem> all = lamps::Main();
  for (const LampsSystem& system : systems) {
    const auto style = static_cast<std::size_t>(std::find(all.begin(), all.end(), system) - all.begin());
    plot.lines.push_back(LineOf(system.label, style, figure, rates,
                                [&](double rate) { return study.Find({model, calls, system, rate, minutes}); }));
  }
  return plot;
}

std::vector<ScenarioPlots> PlotsOf(const LampsStudy& study, const LampsPlan& plan) {
  using F = LampsFigures;
  const LampsModel gptj = LampsModel::kGptJ;
  const LampsCalls multi = LampsCalls::kMulti;
  std::vector<ScenarioPlots> groups;
  ScenarioPlots& rates = groups.emplace_back(ScenarioPlots{"Latency and time to first token against load", {}});
  for (const LampsModel model : kLampsModels) {
    for (const LampsCalls calls : {LampsCalls::kMulti, LampsCalls::kSingle}) {
      for (const auto& f : Only(kLampsFigures, {&F::latency, &F::latency_p99, &F::ttft, &F::ttft_p99})) {
        rates.plots.push_back(
            RatePlot(study, lamps::Main(), plan.RatesOf(calls), model, calls, plan.minutes, f.member, f.Text()));
      }
    }
  }
  ScenarioPlots& throughput =
      groups.emplace_back(ScenarioPlots{fmt::format("Completions in {:g} minutes", plan.throughput_minutes), {}});
  for (const LampsCalls calls : kLampsCalls) {
    throughput.plots.push_back(RatePlot(study, {lamps::Vllm(), lamps::InferCept(), lamps::Lamps()},
                                        plan.throughput_rates, LampsModel::kVicuna, calls, plan.throughput_minutes,
                                        &F::in_time, "requests completed"));
  }

  ScenarioPlots& errors = groups.emplace_back(ScenarioPlots{"Predictions that are off", {}});
  for (const auto& f : Only(kLampsFigures, {&F::latency_p50, &F::latency, &F::in_time})) {
    Plot plot{.title = fmt::format("GPT-J 6B, multi-call: {}", f.Text()),
              .x_label = "error of predictions [%]",
              .y_label = f.Text(),
              .marks = true,
              .lines = {}};
    for (std::size_t r = 0; r < plan.error_rates.size(); ++r) {
      PlotLine line{fmt::format("{:g}/s", plan.error_rates[r]), 5 + r, {}};
      const auto add = [&](double error, const LampsSystem& system) {
        const LampsCell* c = study.Find({gptj, multi, system, plan.error_rates[r], plan.minutes});
        if (c != nullptr) line.points.push_back({100 * error, c->Mean(f.member)});
      };
      add(0, lamps::Lamps());
      for (const double error : plan.errors) add(error, lamps::Lamps({EstimateKind::kGaussian, error}));
      plot.lines.push_back(std::move(line));
    }
    errors.plots.push_back(std::move(plot));
  }

  const auto sweep = [&](const char* heading, const char* x, const std::vector<int>& values, auto system,
                         std::size_t style) {
    ScenarioPlots& group = groups.emplace_back(ScenarioPlots{heading, {}});
    for (const auto& f : Only(kLampsFigures, {&F::latency, &F::latency_p99, &F::in_time})) {
      Plot plot{.title = fmt::format("GPT-J 6B, multi-call at {:g}/s: {}", plan.rate, f.Text()),
                .x_label = x,
                .y_label = f.Text(),
                .marks = true,
                .lines = {}};
      plot.lines.push_back(LineOf(heading, style, f.member, values, [&](int value) {
        return study.Find({gptj, multi, system(value), plan.rate, plan.minutes});
      }));
      group.plots.push_back(std::move(plot));
    }
  };
  sweep("Starvation threshold", "threshold [iterations]", plan.thresholds, lamps::Guarded, 8);
  sweep("Refresh interval of scores", "interval [iterations], 0: never", plan.refreshes, lamps::Refreshed, 9);
  return groups;
}

std::vector<Condition> ConditionsOf(const std::string& file, const LampsStudy& study, const LampsPlan& plan) {
  const Workload& requests = study.requests(LampsCalls::kMulti);
  return {
      {"Workload", fmt::format("{}: {} with {}, drawn with replacement, Poisson arrivals; single-call: each request up "
                               "to its second call",
                               file.substr(file.rfind('/') + 1), Counted(std::ssize(requests.calls), "request"),
                               Counted(std::ssize(requests.tools), "call"))},
      {"Engines", fmt::format("{} and {}; a step: 2,048 tokens, {} and {} requests ({}); 32,000 tokens of host memory "
                              "for swaps (chosen)",
                              ProfileOf(LampsModel::kGptJ), ProfileOf(LampsModel::kVicuna),
                              study.seqs(LampsModel::kGptJ), study.seqs(LampsModel::kVicuna),
                              study.seqs(LampsModel::kGptJ) == kStepLimits.max_seqs
                                  ? "chosen"
                                  : "fitted to the paper's baselines, by model")},
      {"Systems",
       "vLLM: fcfs, drop; InferCept: fcfs, least waste at the call; no order: fcfs, least waste predicted; "
       "LAMPS: memory integral, threshold 100; LAMPS means: with class means. All in one scheduler"},
      {"Known", "exact lengths and durations, but for LAMPS means; sweeps: normal errors, as in the paper"},
      {"Runs", fmt::format("{} paired seeds; arrivals for {:g} minutes ({:g} for throughput), then all are "
                           "served to the end",
                           study.seeds(), plan.minutes, plan.throughput_minutes)}};
}

absl::StatusOr<ScenarioReport> RunLamps(const StudySettings& settings, ProgressBar& bar) {
  const absl::StatusOr<std::string> file = FindData(settings.data, "tools", "infercept_multi_api.jsonl");
  if (!file.ok()) return file.status();
  WorkloadSource from;
  from.file = *file;
  from.format = "infercept";
  absl::StatusOr<Workload> workload = LoadWorkload(from);
  if (!workload.ok()) return workload.status();

  LampsPlan plan;
  if (settings.full) plan.minutes = plan.throughput_minutes, plan.throughput_rates = plan.rates;
  if (settings.minutes > 0) plan.minutes = plan.throughput_minutes = settings.minutes;
  LampsStudy study(*std::move(workload), settings.Seeds(10, 20),
                   settings.regime == Regime::kPaper ? LampsPlan::kPaperSeqs
                                                     : LampsSeqs{kStepLimits.max_seqs, kStepLimits.max_seqs});
  const StudyParts parts = PartsOf(study, plan);
  if (absl::Status run = study.Run(settings.threads, bar); !run.ok()) return run;

  ScenarioReport report;
  report.title = "LAMPS: requests that call tools";
  report.conditions = ConditionsOf(*file, study, plan);
  report.seeds = study.seeds();
  report.interrupted = Interrupted();
  parts.ForEach([&](const StudyPart& part, const LampsCell& cell, const std::string& label) {
    if (part.name != "fit") report.rows.push_back(RowOf(study, part, cell, label));
  });
  const LampsPredictor predictor = ScorePredictor(study.requests(LampsCalls::kMulti));
  report.rows.push_back(RowOf(predictor));
  for (const LampsModel model : kLampsModels) {
    const Fit fit = FitOf(study, plan, model);
    report.tables.push_back(FitTable(fit));
    for (ScenarioRow& row : FitRows(fit)) report.rows.push_back(std::move(row));
  }
  for (const LampsModel model : kLampsModels) {
    for (const LampsCalls calls : {LampsCalls::kMulti, LampsCalls::kSingle}) {
      const std::string heading = fmt::format("{}, {}, rates in requests per second", Name(model), Name(calls));
      report.tables.push_back({heading + ": means", RateTable(study, plan, model, calls,
                                                              {&LampsFigures::latency, &LampsFigures::ttft}, true)});
      report.tables.push_back(
          {heading + ": tails",
           RateTable(study, plan, model, calls, {&LampsFigures::latency_p99, &LampsFigures::ttft_p99}, false)});
    }
  }
  for (const StudyPart& part : parts.parts()) {
    if (part.name == "rates" || part.name == "fit") continue;
    report.tables.push_back({part.Heading(), CellTable(study, part)});
  }
  report.plots = PlotsOf(study, plan);
  report.claims = LampsClaims(study, plan, predictor);
  report.findings = LampsFindings(study, plan);
  return report;
}

}  // namespace

Scenario LampsScenario() {
  return {.name = "lamps",
          .text = "requests that call tools: vLLM, InferCept and LAMPS at 1 to 10 requests a second",
          .run = RunLamps,
          .has_regimes = true};
}

}  // namespace takt::tool
