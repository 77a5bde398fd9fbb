#include "tool/report/json_writer.h"
#include "tool/report/metric_fields.h"
#include "tool/report/reports.h"
#include "takt/version.h"

namespace takt::tool {
namespace {

void WriteSummary(JsonWriter& json, const Summary& summary) {
  json.BeginObject();
  for (const StatisticField& field : kStatistics) json.Field(field.key, summary.*field.member);
  json.Field("count", summary.count).EndObject();
}

void WriteMetrics(JsonWriter& json, const Metrics& metrics) {
  json.BeginObject();
  for (const SummaryField& field : kSummaries) {
    json.Key(field.key);
    WriteSummary(json, metrics.*field.member);
  }
  for (const ScalarField& field : kScalars) json.Field(field.key, metrics.*field.member);
  if (const std::optional<SessionFigures>& s = metrics.sessions) {
    json.Field("turns", s->turns).Field("sessions", s->sessions);
    json.Field("cached_share", s->cached_share).Field("prefill_excess", s->prefill_excess);
    json.Field("moved_share", s->moved_share).Key("gate_wait_s");
    WriteSummary(json, s->gate_wait);
  }
  if (metrics.cached_share && !metrics.sessions) json.Field("cached_share", *metrics.cached_share);
  if (metrics.score) json.Field("score", *metrics.score);
  if (metrics.regret) json.Field("regret", *metrics.regret);
  for (const CountField& field : kTotals) json.Field(field.key, metrics.*field.member);
  json.EndObject();
}

void WriteErrors(JsonWriter& json, const EstimateErrors& errors) {
  const auto write = [&](const char* key, const CalibrationError& error) {
    json.Key(key).BeginObject().Field("count", error.count).Field("by_octave", error.by_octave);
    json.Field("bias", error.bias).Field("spread", error.spread).EndObject();
  };
  json.BeginObject();
  write("output", errors.output);
  write("left", errors.left);
  write("raw_output", errors.raw_output);
  write("raw_left", errors.raw_left);
  json.EndObject();
}

void WriteRun(JsonWriter& json, const Comparison& comparison, const Run& run) {
  json.BeginObject();
  json.Field("policy", run.settings.policy);
  if (run.settings.system) json.Field("system", run.settings.policy);
  json.Field("estimates", run.settings.estimates.ToString());
  json.Key("load");
  if (run.settings.load) json.Value(*run.settings.load);
  else json.Null();
  json.Field("rate_scale", run.settings.rate_scale);
  for (const CountField& field : kRunCounts) json.Field(field.key, run.metrics.*field.member);
  json.Field("partial", run.stopped);
  json.Key("failures").BeginObject();
  for (std::size_t reason = 0; reason < run.failed.size(); ++reason) {
    if (run.failed[reason] > 0) json.Field(Name(static_cast<FailReason>(reason)), run.failed[reason]);
  }
  json.EndObject();
  json.Key("metrics");
  WriteMetrics(json, run.metrics);
  if (comparison.split != Split::kNothing) {
    json.Field("by", Name(comparison.split)).Key("parts").BeginArray();
    for (const Slice& part : run.parts) {
      json.BeginObject().Field("name", part.name);
      for (const CountField& field : kRunCounts) json.Field(field.key, part.metrics.*field.member);
      json.Key("metrics");
      WriteMetrics(json, part.metrics);
      json.EndObject();
    }
    json.EndArray();
  }
  json.Key("estimate_errors");
  WriteErrors(json, run.errors);
  json.Field("steps", run.steps);
  if (!run.measured.empty()) {
    json.Key("measured").BeginObject();
    for (const auto& [name, figure] : run.measured) json.Field(name, figure);
    json.EndObject();
  }
  json.Key("stats").BeginObject();
#define TAKT_WRITE_STAT(name, text) json.Field(#name, run.stats.name);
  TAKT_STATS(TAKT_WRITE_STAT)
#undef TAKT_WRITE_STAT
  json.EndObject();
  json.EndObject();
}

void WriteConditions(JsonWriter& json, const Comparison& comparison) {
  const ReplaySetup& setup = comparison.setup;
  json.Key("workload").BeginObject();
  json.Field("source", comparison.source);
  json.Field("name", comparison.workload.name);
  json.Field("workflows", comparison.workload.workflows.size());
  json.Field("requests", comparison.workload.calls.size());
  json.Field("offered_rps", OfferedRps(comparison.workload));
  json.EndObject();
  json.Key("engine").BeginObject();
  json.Field("profile", comparison.profile.id);
  json.Field("derived", comparison.profile.derived);
  json.Field("instances", setup.instances);
  if (!comparison.engines.empty()) {
    json.Key("engines").BeginArray();
    comparison.ForEachEngine([&](const Profile& profile, std::int32_t count) {
      json.BeginObject().Field("profile", profile.id).Field("count", count);
      json.Field("kv_tokens", comparison.KvOf(profile)).EndObject();
    });
    json.EndArray();
  }
  if (setup.prefill_instances > 0) {
    json.Field("prefill_instances", setup.prefill_instances);
    json.Field("kv_link_gb_s", setup.kv_link_gb_s).Field("deflect_tokens", setup.deflect_tokens);
  }
  if (setup.front_end_ms > 0 || setup.front_end_token_us > 0) {
    json.Field("front_end_ms", setup.front_end_ms).Field("front_end_token_us", setup.front_end_token_us);
  }
  json.Field("placement", setup.placement);
  if (!setup.retention.empty()) json.Field("retention", setup.retention).Field("gate", setup.gate);
  json.Field("token_budget", setup.token_budget);
  json.Field("max_seqs", setup.max_seqs);
  json.Field("kv_tokens", comparison.KvOf(comparison.profile));
  if (setup.host_kv_tokens > 0) json.Field("host_kv_tokens", setup.host_kv_tokens);
  if (setup.adapter_slots > 0) json.Field("adapter_slots", setup.adapter_slots);
  if (setup.adapter_load_ms > 0) json.Field("adapter_load_ms", setup.adapter_load_ms);
  json.Field("prefix_cache", setup.prefix_cache);
  json.Key("options").BeginArray();
  for (const std::string& option : setup.options) json.Value(option);
  json.EndArray().EndObject();
  if (comparison.saturation_rps > 0) json.Field("saturation_rps", comparison.saturation_rps);
  if (setup.closed_loop > 0) json.Field("closed_loop", setup.closed_loop);
  if (setup.session_rate > 0) json.Field("session_rate", setup.session_rate);
  if (setup.horizon > 0) json.Field("horizon_s", setup.horizon).Field("warm_up", setup.warm_up);
  if (setup.think_cap) json.Field("think_cap_s", *setup.think_cap);
  if (setup.expected_gaps > 0) json.Field("expected_gaps", setup.expected_gaps);
  json.Key("slo").BeginObject();
  json.Field("ttft_s", setup.slo_ttft).Field("tpot_s", setup.slo_tpot).EndObject();
  json.Field("seed", comparison.seed);
}

void WriteWall(JsonWriter& json, const Comparison& comparison) {
  double requests = 0, run_s = 0;
  json.Key("wall").BeginObject().Field("total_s", comparison.wall_s);
  json.Key("run_s").BeginArray();
  for (const Run& run : comparison.runs) {
    if (!run.ended) continue;
    json.Value(run.wall_s);
    run_s += run.wall_s;
    requests += static_cast<double>(run.metrics.requests - run.metrics.pending);
  }
  json.EndArray();
  json.Field("requests_per_s_and_thread", run_s > 0 ? requests / run_s : 0).EndObject();
}

}  // namespace

std::string JsonReport(const Comparison& comparison) {
  JsonWriter json;
  json.BeginObject();
  json.Field("takt", TAKT_VERSION);
  WriteConditions(json, comparison);
  json.Field("partial", comparison.interrupted);
  json.Key("warnings").BeginArray();
  for (const std::string& warning : comparison.warnings) json.Value(warning);
  json.EndArray();
  json.Key("runs").BeginArray();
  for (const Run& run : comparison.runs) {
    if (run.ended) WriteRun(json, comparison, run);
  }
  json.EndArray();
  if (comparison.tells_wall) WriteWall(json, comparison);
  json.EndObject();
  return json.Take() + "\n";
}

}  // namespace takt::tool
