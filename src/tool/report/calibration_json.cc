#include <string>

#include "tool/report/calibration_report.h"
#include "tool/run/output.h"
#include "tool/report/json_writer.h"
#include "fmt/format.h"
#include "sim/profiles_table.h"
#include "takt/version.h"

namespace takt::tool {
namespace {

void WriteNumbers(JsonWriter& json, std::string_view key, std::initializer_list<double> numbers) {
  json.Key(key).BeginArray();
  for (const double number : numbers) json.Value(number);
  json.EndArray();
}

// Writes a cost model in the format of docs/reference/engine_profiles.md.
void WriteCost(JsonWriter& json, const CostModel& c) {
  json.Field("layers", c.layers).Field("hidden", c.hidden);
  WriteNumbers(json, "lin", {c.gemm.offset_ms, c.gemm.floor_ms, c.gemm.slope_ms, c.gemm.sharpness});
  WriteNumbers(json, "ap", {c.prefill.constant_ms, c.prefill.per_token_ms, c.prefill.per_context_ms});
  WriteNumbers(json, "ad", {c.decode.constant_ms, c.decode.per_token_ms, c.decode.per_context_ms});
  WriteNumbers(json, "head", {c.head.offset_ms, c.head.floor_ms, c.head.slope_ms, c.head.sharpness});
}

void WriteError(JsonWriter& json, std::string_view key, const FitError& error) {
  json.Key(key).BeginObject();
  json.Field("steps", error.steps).Field("outliers", error.outliers).Field("mean_abs_pct", error.mean_abs_pct);
  json.Field("p95_abs_pct", error.p95_abs_pct).Field("bias_pct", error.bias_pct).EndObject();
}

}  // namespace

std::string ProfileFile(const CalibrationRun& run) {
  const CalibrationSetup& setup = run.setup;
  const CostFit& fit = run.found.fit();
  const std::vector<std::string_view> parts = internal::SplitId(setup.id);
  const std::int32_t tp = internal::NumberAfter("tp", parts.back());
  JsonWriter json;
  json.BeginObject().Key("profiles").BeginArray().BeginObject();
  json.Field("id", setup.id).Field("model", parts[1]).Field("gpu", parts[2]).Field("dtype", parts[3]);
  json.Field("source", fmt::format("takt calibrate, {} of {}", Counted(fit.all.steps, "step"), InputName(setup.log)));
  json.Key("derived_from").BeginObject().Field("log", setup.log).Field("steps", fit.all.steps);
  json.Field("outliers", fit.all.outliers).Field("form", Name(fit.form)).Field("plan_time", !setup.no_plan_time);
  json.Field("holdout", setup.holdout).Field("holdout_mean_abs_pct", fit.holdout.mean_abs_pct);
  json.Field("takt", TAKT_VERSION).EndObject();
  json.Field("tp", tp);
  WriteCost(json, fit.cost);
  if (run.found.front_end_ms > 0) WriteNumbers(json, "front_end", {run.found.front_end_ms, 0});
  if (tp > 1) json.Field("allreduce", "allreduce/none");  // the times of steps include it
  if (setup.weight_bytes > 0) json.Field("weight_bytes", setup.weight_bytes);
  if (setup.kv_bytes_per_token > 0) json.Field("kv_bytes_per_token", setup.kv_bytes_per_token);
  if (setup.kv_tokens > 0) {
    json.Key("kv_capacity_tokens").BeginObject().Field("pp1", setup.kv_tokens).EndObject();
  }
  json.Key("fit").BeginObject();
  const auto write = [&](std::string_view key, StepKind kind) {
    const FitError& error = fit.parts[static_cast<std::size_t>(kind)];
    if (error.steps > error.outliers) json.Key(key).BeginObject().Field("mape", error.mean_abs_pct).EndObject();
  };
  write("iter_decode", StepKind::kDecode);
  write("iter_prefill", StepKind::kPrefill);
  json.EndObject().EndObject().EndArray();
  if (tp > 1) {
    json.Key("net").BeginObject().Key("allreduce/none").BeginObject();
    WriteNumbers(json, "bytes", {1});
    WriteNumbers(json, "ms", {0});
    json.EndObject().EndObject();
  }
  return json.EndObject().Take() + "\n";
}

std::string CalibrationJson(const CalibrationRun& run) {
  const EngineCalibration& found = run.found;
  JsonWriter json;
  json.BeginObject().Field("takt", TAKT_VERSION).Field("log", run.setup.log).Field("id", run.setup.id);
  json.Field("holdout", run.setup.holdout).Field("plan_time", !run.setup.no_plan_time);
  json.Field("chosen", Name(found.chosen)).Field("front_end_ms", found.front_end_ms).Key("covered").BeginArray();
  for (const Covered& covered : found.covered) {
    json.BeginObject().Field("what", covered.what).Field("steps", covered.steps).Field("least", covered.least);
    json.Field("median", covered.median).Field("most", covered.most).EndObject();
  }
  json.EndArray().Key("forms").BeginArray();
  for (const CostFit& fit : found.fits) {
    json.BeginObject().Field("form", Name(fit.form)).Key("coefficients_ms").BeginObject();
    WriteCost(json, fit.cost);
    json.EndObject();
    WriteError(json, "train", fit.train);
    WriteError(json, "holdout", fit.holdout);
    WriteError(json, "all", fit.all);
    constexpr const char* kKeys[] = {"prefill_only", "decode_only", "mixed"};
    for (std::size_t kind = 0; kind < fit.parts.size(); ++kind) WriteError(json, kKeys[kind], fit.parts[kind]);
    json.Field("measured_s", fit.measured_s).Field("predicted_s", fit.predicted_s).EndObject();
  }
  json.EndArray().Key("warnings").BeginArray();
  for (const std::string& warning : found.warnings) json.Value(warning);
  return json.EndArray().EndObject().Take() + "\n";
}

}  // namespace takt::tool
