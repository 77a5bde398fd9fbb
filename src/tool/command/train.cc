#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tool/command/call_log.h"
#include "tool/command/commands.h"
#include "tool/run/exit_code.h"
#include "tool/run/host_threads.h"
#include "tool/report/html_page.h"
#include "tool/report/html_text.h"
#include "tool/report/json_writer.h"
#include "tool/run/load_workload.h"
#include "tool/run/output.h"
#include "tool/run/shown_text.h"
#include "tool/report/plot.h"
#include "tool/run/progress_bar.h"
#include "tool/report/table.h"
#include "tool/run/terminal.h"
#include "tool/command/write_reports.h"
#include "fmt/format.h"
#include "takt/numeric/correlation.h"
#include "takt/version.h"

namespace takt::tool {
namespace {

struct TrainArguments {
  std::string log;
  std::string out, json, html;
  double holdout = 0.2;
  int trees = 100, min_leaf = 10;
  std::uint64_t seed = 1;
  bool skip_bad_lines = false;
  bool quiet = false;
  int threads = 0;  // 0: one per core
};

constexpr const char* kTrainExamples =
    R"(Each line of the log is a call: {"workflow": "w7", "stage": "coder", "model": "8b", "prompt_tokens": 812,
"output_tokens": 344, "text": "...", "solved": true}, or CSV with a header of these names. Only output_tokens must be
there. Lines of one workflow are sorted by the start of their calls. docs/howto/prediction.md lists all fields.

Examples
  takt train calls.jsonl --out calls.model --html calls.html
  takt predict calls.model next.jsonl

Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.)";

constexpr std::string_view kTrain = "train";
using Workflows = std::vector<std::vector<LoggedCall>>;

// Error of predictions for one model's calls, or for all calls.
struct Check {
  std::string model;
  std::int64_t calls = 0;
  double forest_tau = 0, prompt_tau = 0, stage_tau = 0;  // Kendall distance to the order by remaining tokens
  double pinball = 0;                                    // mean over calls and levels [tokens]
  std::array<double, Estimate::kLevels.size()> coverage =
      {};  // share of calls at or below the quantile; an equal call counts half
  double calibration_error = 0;
  double predicted_mean = 0, true_mean = 0;
};

// Error of the predicted tokens before a tool call, over held-out calls.
struct ToolCheck {
  std::int64_t calls = 0;
  double error = 0, within_5 = 0, within_15 = 0;  // mean absolute error [tokens]; shares within 5 and 15 tokens
};

struct Training {
  const TrainArguments& arguments;
  std::int64_t calls = 0, workflows = 0, learnt = 0;
  std::shared_ptr<const CallPredictor> predictor = {};
  std::vector<Check> checks = {};  // all calls first; empty if none were held out
  ToolCheck tool_check = {};
};

// A held-out call.
struct Held {
  std::string_view model;
  double truth = 0, prompt = 0, stage = 0;
  Estimate predicted = {};
};

void ForLeft(const std::vector<LoggedCall>& workflow, auto&& f) {
  double left = 0;
  for (std::size_t i = workflow.size(); i-- > 0;) {
    left += std::max(workflow[i].output_tokens.value, 0);
    f(workflow[i].call, left);
  }
}

// Predicts held-out calls by the forest, by the mean of their stage, and by their prompt. Cancelled if `progress`
// returned false.
absl::StatusOr<std::vector<Held>> Asked(const CallPredictor& predictor, const Workflows& learnt,
                                        const Workflows& held_out, const Progress& progress) {
  using Stage = std::array<std::string_view, 3>;
  struct Mean {
    double sum = 0, count = 0;
  };
  std::map<Stage, Mean> stages;
  Mean all;
  for (const auto& workflow : learnt) {
    ForLeft(workflow, [&](const CallDescription& call, double left) {
      for (Mean* mean : {&stages[{call.model, call.kind, call.stage}], &all}) mean->sum += left, ++mean->count;
    });
  }
  std::vector<Held> held;
  std::vector<CallDescription> calls;
  for (const auto& workflow : held_out) {
    ForLeft(workflow, [&](const CallDescription& call, double left) {
      const auto at = stages.find({call.model, call.kind, call.stage});
      const Mean& mean = at == stages.end() ? all : at->second;
      held.push_back({call.model, left, static_cast<double>(call.prompt_tokens.value), mean.sum / mean.count});
      calls.push_back(call);
    });
  }
  CallPredictor::Scratch scratch;
  constexpr std::size_t kAtOnce = 1024;
  std::array<CallForecast, kAtOnce> predicted;
  for (std::size_t from = 0; from < held.size(); from += kAtOnce) {
    if (!progress(static_cast<double>(from) / static_cast<double>(held.size()))) {
      return absl::CancelledError("the check was stopped");
    }
    const auto some = std::span<const CallDescription>(calls).subspan(from, std::min(kAtOnce, held.size() - from));
    predictor.Predict(some, std::span(predicted).first(some.size()), scratch);
    for (std::size_t i = 0; i < some.size(); ++i) held[from + i].predicted = predicted[i].tokens_left;
  }
  return held;
}

// Checks held-out calls that made a tool call. LAMPS reports the same figures for its predictor.
ToolCheck CheckToolCalls(const CallPredictor& predictor, const Workflows& held_out) {
  ToolCheck check;
  CallPredictor::Scratch scratch;
  for (const auto& workflow : held_out) {
    for (const LoggedCall& logged : workflow) {
      if (logged.before_tool.value < 0) continue;
      CallForecast predicted;
      predictor.Predict(std::span(&logged.call, 1), std::span(&predicted, 1), scratch);
      if (!predicted.before_tool.known()) continue;
      const double error = std::abs(predicted.before_tool.Quantile(0.5) - logged.before_tool.value);
      ++check.calls;
      check.error += error;
      check.within_5 += error <= 5;
      check.within_15 += error <= 15;
    }
  }
  for (double* sum : {&check.error, &check.within_5, &check.within_15})
    *sum /= std::max(1.0, static_cast<double>(check.calls));
  return check;
}

// Returns the check of calls whose models are known.
Check CheckOf(std::string model, std::span<const Held> held) {
  Check check{.model = std::move(model)};
  std::vector<double> truth, forest, prompt, stage;
  for (const Held& h : held) {
    truth.push_back(h.truth);
    forest.push_back(h.predicted.Quantile(0.5));
    prompt.push_back(h.prompt);
    stage.push_back(h.stage);
    check.predicted_mean += h.predicted.mean;
    check.true_mean += h.truth;
    for (std::size_t l = 0; l < Estimate::kLevels.size(); ++l) {
      const double level = Estimate::kLevels[l];
      const double off = h.truth - static_cast<double>(h.predicted.quantiles[l]);
      check.pinball += std::max(level * off, (level - 1) * off) / static_cast<double>(Estimate::kLevels.size());
      check.coverage[l] += off < 0 ? 1 : off > 0 ? 0 : 0.5;
    }
  }
  check.calls = static_cast<std::int64_t>(truth.size());
  if (truth.empty()) return check;
  const auto n = static_cast<double>(truth.size());
  for (double* sum : {&check.predicted_mean, &check.true_mean, &check.pinball}) *sum /= n;
  for (std::size_t l = 0; l < Estimate::kLevels.size(); ++l) {
    check.coverage[l] /= n;
    check.calibration_error +=
        std::abs(check.coverage[l] - Estimate::kLevels[l]) / static_cast<double>(Estimate::kLevels.size());
  }
  check.forest_tau = CountPairs(truth, forest).distance();
  check.prompt_tau = CountPairs(truth, prompt).distance();
  check.stage_tau = CountPairs(truth, stage).distance();
  return check;
}

// Returns the check of all calls, then one per model.
std::vector<Check> ChecksOf(std::span<const std::string> models, std::vector<Held> held) {
  std::erase_if(held, [](const Held& h) { return !h.predicted.known(); });
  std::vector<Check> checks = {CheckOf("", held)};
  std::ranges::stable_sort(held, {}, &Held::model);
  for (const std::string& model : models) {
    const auto own = std::ranges::equal_range(held, std::string_view(model), {}, &Held::model);
    if (!model.empty()) checks.push_back(CheckOf(model, own));
  }
  return checks;
}

// Returns the ranking nearest to the true one. Ties go to the forest.
struct Order {
  std::string_view name;  // name of the column in the table and in JSON
  double tau = 0;
};

Order BestOrder(const Check& check) {
  return std::min(
      {Order{"forest", check.forest_tau}, Order{"stage", check.stage_tau}, Order{"prompt", check.prompt_tau}},
      [](const Order& a, const Order& b) { return a.tau < b.tau; });
}

std::string Shown(std::string_view model) { return model.empty() ? "(no name)" : std::string(model); }

std::string TrainingText(const Training& run, bool colour) {
  const CallPredictor& predictor = *run.predictor;
  std::string text = fmt::format("{}: {} of {}, {}; trained on {}{}.\n", ShownName(InputName(run.arguments.log)),
                                 Counted(run.calls, "call"), Counted(run.workflows, "workflow"),
                                 Counted(static_cast<std::int64_t>(predictor.models().size()), "model"),
                                 Counted(run.learnt, "call"), predictor.sketch() == nullptr ? "" : " and their texts");
  for (const std::string& model : predictor.models()) {
    const ForestReport& r = *predictor.ReportOf(model);
    text += fmt::format(
        "  {}: {} used, {} leaves; on out-of-bag workflows: Kendall's distance {:.3f}, quantiles off "
        "by {:.1f} %\n",
        ShownName(Shown(model)), Counted(r.rows, "call"), Grouped(r.leaves), r.tau_distance, 100 * r.calibration_error);
  }
  if (run.checks.empty()) {
    text += "\nNo calls were held out.\n";
  } else {
    text += fmt::format(
        "\nErrors on {} held out of training. Order by: distance (Kendall) to the order by true remaining tokens;\n"
        "0.5 is random. Quantiles: share of calls at or below the quantile. Off: mean error of this share.\n\n",
        Counted(run.checks[0].calls, "call"));
    std::vector<Table::Column> columns = {
        {"", "model", false},  {"", "calls"},          {"Order by", "forest", true, Best::kSmallest},
        {"Order by", "stage"}, {"Order by", "prompt"}, {"Tokens", "pinball loss"},
        {"Tokens", "mean"},    {"Tokens", "predicted"}};
    for (const double level : Estimate::kLevels)
      columns.push_back({"Quantiles [%]", fmt::format("{:.0f}", 100 * level)});
    columns.push_back({"Quantiles [%]", "off"});
    Table table(std::move(columns));
    for (const Check& c : run.checks) {
      if (&c <= run.checks.data() + 1) table.BeginSection();  // all, then per model
      table.BeginRow();
      table.Text(&c == run.checks.data() ? "all" : Shown(c.model));
      table.Text(Grouped(c.calls));
      for (const double tau : {c.forest_tau, c.stage_tau, c.prompt_tau}) table.Number(tau);
      table.Text(Short(c.pinball));
      table.Text(Short(c.true_mean));
      table.Text(Short(c.predicted_mean));
      for (const double share : c.coverage) table.Text(fmt::format("{:.1f}", 100 * share));
      table.Text(fmt::format("{:.1f}", 100 * c.calibration_error));
    }
    text += table.ToString(colour);
    for (const Check& c : run.checks) {
      const Order best = BestOrder(c);
      if (best.tau >= c.forest_tau || (&c > run.checks.data() && run.checks.size() == 2)) continue;
      text += fmt::format("\n{} alone ranks these calls{} better than the forest: distance {:.3f}, forest {:.3f}.\n",
                          best.name == "stage" ? "The mean of a call's stage" : "The length of the prompt",
                          &c == run.checks.data() ? "" : fmt::format(" of {}", Shown(c.model)), best.tau, c.forest_tau);
    }
  }
  if (const ToolCheck& c = run.tool_check; c.calls > 0) {
    text += fmt::format(
        "\nPredicted tokens before a tool call: mean error {1:.1f} tokens over {0} held out, {2:.1f} % within 5 "
        "tokens, "
        "{3:.1f} % within 15.\n",
        Counted(c.calls, "call"), c.error, 100 * c.within_5, 100 * c.within_15);
  }
  if (const Confidence* confidence = predictor.confidence()) {
    text += "\nProbability that a model solves its task (cross-validation):\n\n";
    Table table({{"", "model", false},
                 {"", "calls"},
                 {"", "solved [%]"},
                 {"", "average precision"},
                 {"", "cross entropy"},
                 {"", "off [%]"}});
    for (std::size_t m = 0; m < predictor.models().size(); ++m) {
      const ConfidenceReport& r = confidence->report()[m];
      table.BeginRow();
      table.Text(Shown(predictor.models()[m]));
      if (r.rows == 0) {
        table.Text("untried");
        for (int blank = 0; blank < 4; ++blank) table.Text("");
        continue;
      }
      table.Text(Grouped(r.rows));
      table.Text(fmt::format("{:.1f}", 100 * r.solved));
      table.Text(fmt::format("{:.3f}", r.average_precision));
      table.Text(fmt::format("{:.3f}", r.cross_entropy));
      table.Text(fmt::format("{:.1f}", 100 * r.calibration_error));
    }
    text += table.ToString(colour) +
            fmt::format("\nMean average precision: {:.3f}\n", confidence->mean_average_precision());
  }
  return text;
}

std::string Json(const Training& run) {
  const CallPredictor& predictor = *run.predictor;
  JsonWriter json;
  json.BeginObject().Field("takt", TAKT_VERSION).Field("log", run.arguments.log);
  json.Field("calls", run.calls).Field("workflows", run.workflows).Field("learnt_calls", run.learnt);
  json.Field("texts", predictor.sketch() != nullptr).Key("forests").BeginArray();
  for (const std::string& model : predictor.models()) {
    const ForestReport& r = *predictor.ReportOf(model);
    json.BeginObject().Field("model", model).Field("calls", r.rows).Field("leaves", r.leaves);
    json.Field("tau_distance", r.tau_distance).Field("calibration_error", r.calibration_error).EndObject();
  }
  json.EndArray().Key("held_out").BeginArray();
  for (const Check& c : run.checks) {
    json.BeginObject();
    if (&c != run.checks.data()) json.Field("model", c.model);
    json.Field("calls", c.calls).Field("tau_distance", c.forest_tau).Field("tau_distance_of_stage", c.stage_tau);
    json.Field("tau_distance_of_prompt", c.prompt_tau)
        .Field("best_order", BestOrder(c).name)
        .Field("pinball_loss", c.pinball);
    json.Field("mean", c.true_mean).Field("predicted_mean", c.predicted_mean);
    json.Field("calibration_error", c.calibration_error).Key("reliability").BeginArray();
    for (std::size_t l = 0; l < Estimate::kLevels.size(); ++l) {
      json.BeginObject().Field("level", Estimate::kLevels[l]).Field("share", c.coverage[l]).EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray();
  if (const ToolCheck& c = run.tool_check; c.calls > 0) {
    json.Key("before_tool").BeginObject().Field("calls", c.calls).Field("mean_absolute_error", c.error);
    json.Field("within_5", c.within_5).Field("within_15", c.within_15).EndObject();
  }
  if (const Confidence* confidence = predictor.confidence()) {
    json.Field("mean_average_precision", confidence->mean_average_precision()).Key("solved").BeginArray();
    for (std::size_t m = 0; m < predictor.models().size(); ++m) {
      const ConfidenceReport& r = confidence->report()[m];
      json.BeginObject().Field("model", predictor.models()[m]).Field("calls", r.rows);
      const double untried = std::numeric_limits<double>::quiet_NaN();  // null
      for (const auto& [key, figure] : {std::pair{"share", r.solved},
                                        {"average_precision", r.average_precision},
                                        {"cross_entropy", r.cross_entropy},
                                        {"calibration_error", r.calibration_error}}) {
        json.Field(key, r.rows > 0 ? figure : untried);
      }
      json.Key("reliability").BeginArray();
      for (const ReliabilityBin& bin : r.reliability) {
        json.BeginObject().Field("count", bin.count).Field("score", bin.score).Field("share", bin.share).EndObject();
      }
      json.EndArray().EndObject();
    }
    json.EndArray();
  }
  return json.EndObject().Take() + "\n";
}

// Predicted against observed. A perfect prediction is a point on the diagonal.
std::string ReliabilityFigure(const char* title, const char* x, const char* y, std::vector<PlotLine> lines) {
  lines.push_back({.name = "perfect", .style = kLineStyles - 1, .points = {{0, 0}, {1, 1}}});
  return ToFigure({.title = title, .x_label = x, .y_label = y, .y_most = 1, .marks = true, .lines = std::move(lines)});
}

std::string Html(const Training& run) {
  std::string html = fmt::format("<h1>Model trained on {}</h1>\n<pre>{}</pre>\n",
                                 HtmlText(InputName(run.arguments.log)), HtmlText(TrainingText(run, false)));
  html += "<div class=legend>";
  if (!run.checks.empty()) html += LegendButton(0, "all");
  for (std::size_t m = 0; m < run.predictor->models().size() && m < kLineStyles - 2; ++m) {
    html += LegendButton(m + 1, Shown(run.predictor->models()[m]));
  }
  html += "</div>\n<div class=plots>\n";
  std::vector<PlotLine> quantiles, scores;
  for (std::size_t i = 0; i < run.checks.size() && i < kLineStyles - 1; ++i) {
    const Check& c = run.checks[i];
    if (c.calls == 0 || (i > 0 && run.checks.size() == 2)) continue;
    PlotLine& line =
        quantiles.emplace_back(PlotLine{.name = i == 0 ? "all" : Shown(c.model), .style = i, .points = {}});
    for (std::size_t l = 0; l < Estimate::kLevels.size(); ++l)
      line.points.push_back({Estimate::kLevels[l], c.coverage[l]});
  }
  if (!quantiles.empty()) {
    html += ReliabilityFigure("Remaining tokens: reliability of quantiles", "predicted quantile",
                              "share of calls below it", std::move(quantiles));
  }
  const Confidence* confidence = run.predictor->confidence();
  for (std::size_t m = 0; confidence != nullptr && m < confidence->report().size() && m < kLineStyles - 2; ++m) {
    PlotLine& line =
        scores.emplace_back(PlotLine{.name = Shown(run.predictor->models()[m]), .style = m + 1, .points = {}});
    for (const ReliabilityBin& bin : confidence->report()[m].reliability) {
      constexpr std::int64_t kEnough = 20;  // minimum calls for a meaningful share
      if (bin.count >= kEnough) line.points.push_back({bin.score, bin.share});
    }
    if (line.points.empty()) scores.pop_back();
  }
  if (!scores.empty()) {
    html += ReliabilityFigure("Solved: reliability of confidence", "predicted probability", "share that was solved",
                              std::move(scores));
  }
  return HtmlPage("takt train", html + "</div>\n");
}

constexpr ReportOf<TrainArguments, Training> kTrainReports[] = {
    {"--out", &TrainArguments::out, [](const Training& run) { return run.predictor->Save(); }},
    {"--json", &TrainArguments::json, Json},
    {"--html", &TrainArguments::html, Html}};

int RunTrain(const TrainArguments& arguments) {
  const NamedPath named{"LOG", arguments.log};
  if (absl::Status usage = CheckPaths(std::span(&named, 1), PathsOf(arguments, kTrainReports)); !usage.ok()) {
    return Complain(kTrain, usage, kUsage);
  }
  absl::StatusOr<std::vector<OutputFile>> files = OpenReports(arguments, kTrainReports);
  if (!files.ok()) return Complain(kTrain, files.status(), kFailed);
  CallLogReport report;
  const absl::StatusOr<CallLog> log = ReadCallLog(arguments.log, {.skip_bad_lines = arguments.skip_bad_lines}, report);
  if (!log.ok()) return Complain(kTrain, log.status(), kFailed);
  NoteBadLines(InputName(arguments.log), report.bad_lines, report.bad_line_messages);

  // Held-out calls are spread evenly over the log, so that the order of its lines does not matter.
  Training run{arguments};
  Workflows learnt, held_out;
  double due = 0.5;
  for (std::vector<LoggedCall>& workflow : log->ByWorkflow()) {
    run.calls += static_cast<std::int64_t>(workflow.size());
    ++run.workflows;
    due += arguments.holdout;
    (due >= 1 ? held_out : learnt).push_back(std::move(workflow));
    if (due >= 1) due -= 1;
  }
  for (const auto& workflow : learnt) run.learnt += static_cast<std::int64_t>(workflow.size());

  CallPredictorOptions options;
  options.lengths.seed = options.lengths.forest.seed = options.sketch.seed = arguments.seed;
  options.lengths.forest.trees = arguments.trees;
  options.lengths.forest.min_leaf = arguments.min_leaf;
  CatchInterrupts();
  ProgressBar bar(!arguments.quiet);
  const auto shown_as = [&bar](const char* what) {
    return [&bar, what](double done) {
      bar.Show(done, what);
      return !Interrupted();
    };
  };
  const auto fail = [&bar](const absl::Status& status) {
    bar.Clear();
    return Complain(kTrain, status, absl::IsCancelled(status) ? kInterrupted : kFailed);
  };
  auto predictor = CallPredictor::Train(learnt, options, OnThreads(arguments.threads), shown_as("learning"));
  if (!predictor.ok()) return fail(predictor.status());
  run.predictor = *std::move(predictor);
  if (!held_out.empty()) {
    absl::StatusOr<std::vector<Held>> held = Asked(*run.predictor, learnt, held_out, shown_as("checking"));
    if (!held.ok()) return fail(held.status());
    run.checks = ChecksOf(run.predictor->models(), *std::move(held));
    if (run.predictor->before_tool() != nullptr) run.tool_check = CheckToolCalls(*run.predictor, held_out);
  }
  if (Interrupted()) return fail(absl::CancelledError("interrupted"));
  bar.Clear();
  const absl::Status written = WriteReports(run, arguments, kTrainReports, *files, arguments.quiet, TrainingText);
  return written.ok() ? kDone : Complain(kTrain, written, kFailed);
}

}  // namespace

void AddTrain(CLI::App& tool, Chosen& chosen) {
  const auto [train, to] = AddCommand(
      tool, chosen, "train", "learn to predict a workflow's remaining tokens from a log of calls, and report the error",
      RunTrain, kTrainExamples);
  Group log(train, "Log");
  log.Add("log", to.log, "FILE", "read ended calls: JSON lines or CSV, plain or gzip; - for standard input").Required();
  log.AddFlag("--skip-bad-lines", to.skip_bad_lines, "count and skip invalid lines");
  Group forest(train, "Forest");
  forest.Add("--holdout", to.holdout, "SHARE",
             "exclude this share of the workflows from training and predict it to measure the error", Share(0.5));
  forest.Add("--trees", to.trees, "N", "grow N trees for each model", Whole(1, 10'000));
  forest.Add("--min-leaf", to.min_leaf, "N", "keep at least N calls in each leaf of a tree", Whole(1));
  forest.Add("--seed", to.seed, "N", "use this seed for the random draws that grow the trees");
  forest.Add("-j,--threads", to.threads, "N", "use N threads [one per core]; results do not change", Whole(1, 1024));
  Group output(train, "Output (a file, or - for standard output)");
  output.Add("--out", to.out, "FILE", "write the model, for takt predict and CallPredictor::Load");
  output.Add("--html", to.html, "FILE", "write a self-contained page with reliability plots");
  output.Add("--json", to.json, "FILE", "write all figures");
  output.AddFlag("-q,--quiet", to.quiet, "print no table and no progress");
}

}  // namespace takt::tool
