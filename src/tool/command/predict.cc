#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "tool/command/call_log.h"
#include "tool/command/commands.h"
#include "tool/run/exit_code.h"
#include "tool/report/json_writer.h"
#include "tool/run/load_workload.h"
#include "tool/run/output.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

struct PredictArguments {
  std::string model, log;
  std::string output = "-";
  std::string format = "csv";
  bool skip_bad_lines = false;
};

constexpr std::string_view kPredict = "predict";
constexpr std::array<const char*, Estimate::kLevels.size()> kQuantiles = {"q10", "q25", "q50", "q75", "q90"};

std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// The optional columns.
struct Extra {
  bool solved = false, before_tool = false;
};

std::string CsvLine(std::int64_t line, std::string_view workflow, const CallForecast& predicted, const Extra& extra) {
  std::string text = fmt::format("{},{}", line, CsvField(workflow));
  const Estimate& e = predicted.tokens_left;
  text += e.known() ? fmt::format(",{}", static_cast<float>(e.mean)) : ",";
  for (const float q : e.quantiles) text += e.known() ? fmt::format(",{}", q) : ",";
  if (extra.solved) text += predicted.solved >= 0 ? fmt::format(",{}", static_cast<float>(predicted.solved)) : ",";
  const double before = predicted.before_tool.Quantile(0.5);
  if (extra.before_tool) text += before >= 0 ? fmt::format(",{}", static_cast<float>(before)) : ",";
  return text + "\n";
}

std::string JsonLine(std::int64_t line, std::string_view workflow, const CallForecast& predicted, const Extra& extra) {
  JsonWriter json(0);
  json.BeginObject().Field("line", line);
  if (!workflow.empty()) json.Field("workflow", workflow);
  const Estimate& e = predicted.tokens_left;
  if (e.known()) json.Field("mean", e.mean);
  for (std::size_t l = 0; l < Estimate::kLevels.size() && e.known(); ++l)
    json.Field(kQuantiles[l], static_cast<double>(e.quantiles[l]));
  if (extra.solved && predicted.solved >= 0) json.Field("solved", predicted.solved);
  else if (extra.solved) json.Key("solved").Null();
  if (predicted.before_tool.known()) json.Field("before_tool", predicted.before_tool.Quantile(0.5));
  else if (extra.before_tool) json.Key("before_tool").Null();
  return json.EndObject().Take() + "\n";
}

int RunPredict(const PredictArguments& arguments) {
  const NamedPath inputs[] = {{"MODEL", arguments.model}, {"LOG", arguments.log}};
  const NamedPath output{"--output", arguments.output};
  if (absl::Status usage = CheckPaths(inputs, std::span(&output, 1)); !usage.ok())
    return Complain(kPredict, usage, kUsage);
  absl::StatusOr<OutputFile> out = OutputFile::Open(arguments.output);
  if (!out.ok()) return Complain(kPredict, out.status(), kFailed);
  const absl::StatusOr<std::string> bytes = ReadFile(arguments.model);
  if (!bytes.ok()) return Complain(kPredict, bytes.status(), kFailed);
  const auto predictor = CallPredictor::Load(*bytes);
  if (!predictor.ok()) {
    const std::string named =
        fmt::format("{}: {}", InputName(arguments.model), std::string(predictor.status().message()));
    return Complain(kPredict, absl::InvalidArgumentError(named), kFailed);
  }
  CallLogReport report;
  const absl::StatusOr<CallLog> log =
      ReadCallLog(arguments.log, {.outputs = false, .skip_bad_lines = arguments.skip_bad_lines}, report);
  if (!log.ok()) return Complain(kPredict, log.status(), kFailed);
  NoteBadLines(InputName(arguments.log), report.bad_lines, report.bad_line_messages);

  CatchInterrupts();
  const bool csv = arguments.format == "csv";
  const Extra extra{(*predictor)->confidence() != nullptr, (*predictor)->before_tool() != nullptr};
  if (csv) {
    out->Write(fmt::format("line,workflow,mean,{}{}{}\n", fmt::join(kQuantiles, ","), extra.solved ? ",solved" : "",
                           extra.before_tool ? ",before_tool" : ""));
  }
  CallPredictor::Scratch scratch;
  constexpr std::size_t kAtOnce = 1024;
  std::vector<CallDescription> calls;
  std::vector<CallForecast> predicted(kAtOnce);
  std::int64_t unknown = 0;
  for (std::size_t from = 0; from < log->calls.size(); from += kAtOnce) {
    if (Interrupted()) return Complain(kPredict, absl::CancelledError("interrupted"), kInterrupted);
    const std::size_t n = std::min(kAtOnce, log->calls.size() - from);
    calls.clear();
    for (std::size_t i = 0; i < n; ++i) calls.push_back(log->calls[from + i].call);
    (*predictor)->Predict(calls, std::span(predicted).first(n), scratch);
    for (std::size_t i = 0; i < n; ++i) {
      unknown += predicted[i].tokens_left.known() ? 0 : 1;
      out->Write((csv ? CsvLine : JsonLine)(log->lines[from + i], log->workflows[from + i], predicted[i], extra));
    }
  }
  const absl::Status written = out->Close();
  if (unknown > 0) {
    Note(fmt::format("{}: {} of {} calls have no prediction, because their model is not in {}",
                     InputName(arguments.log), unknown, log->calls.size(), InputName(arguments.model)));
  }
  return written.ok() ? kDone : Complain(kPredict, written, kFailed);
}

}  // namespace

void AddPredict(CLI::App& tool, Chosen& chosen) {
  const auto [predict, asked] = AddCommand(
      tool, chosen, "predict", "predict the remaining tokens of workflows by a predictor from 'takt train'", RunPredict,
      "The log has the format of takt train; output_tokens is optional. Each line holds the mean and quantiles of the "
      "tokens\n"
      "that a call and all later calls of its workflow will generate. They are empty for an unknown model. If the\n"
      "log of takt train had before_tool_tokens, before_tool is the median of the tokens before the next tool call.\n\n"
      "Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.");
  Group files(predict, "Options");
  files.Add("model", asked.model, "MODEL", "read the output of takt train --out, or - for standard input").Required();
  files.Add("log", asked.log, "FILE", "read calls: JSON lines or CSV, plain or gzip; - for standard input").Required();
  files.AddFlag("--skip-bad-lines", asked.skip_bad_lines, "count and skip invalid lines");
  files.Add("--output", asked.output, "FILE", "write to FILE, or - for standard output");
  files.Add("--format", asked.format, "NAME", "write csv or jsonl", OneOf({"csv", "jsonl"}));
}

}  // namespace takt::tool
