// takt tune: finds the alpha of workload_balance that would have served a workload best.
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tool/command/commands.h"
#include "tool/run/exit_code.h"
#include "tool/run/host_threads.h"
#include "tool/report/json_writer.h"
#include "tool/run/load_workload.h"
#include "tool/run/output.h"
#include "tool/run/progress_bar.h"
#include "tool/report/table.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"
#include "takt/placement/registry.h"
#include "takt/planning/alpha_tuner.h"
#include "takt/policy/registry.h"
#include "takt/workload/transform.h"

namespace takt::tool {
namespace {

struct TuneArguments {
  WorkloadSource workload;
  std::vector<std::string> engines;  // profile of each instance
  std::string profiles;  // file with more profiles
  std::string placement = "workload_balance";
  std::string policy = "fcfs";
  std::string estimates = "lengths";
  std::string budget = "none";  // share, whole
  double slo_scale = 0;  // deadlines as multiples of a workflow's time alone; 0: the workload's deadlines
  double rate_scale = 1;
  std::vector<double> alphas = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1};
  std::int32_t seeds = 5;
  double quantile = 0.95;
  std::int32_t token_budget = 2048;
  std::int32_t max_seqs = 256;
  std::string json;
  bool quiet = false;
  int threads = 0;  // 0: one per core
};

constexpr std::string_view kTune = "tune";

// Returns the error with the name of the option at fault.
absl::Status Of(const char* option, const absl::Status& status) {
  return status.ok() ? status
                     : absl::Status(status.code(), fmt::format("{}: {}", option, std::string(status.message())));
}

absl::StatusOr<std::vector<Profile>> Engines(const TuneArguments& arguments) {
  std::vector<Profile> more, engines;
  if (!arguments.profiles.empty()) {
    absl::StatusOr<std::vector<Profile>> read = ReadProfiles(arguments.profiles);
    if (!read.ok()) return Of("--profiles", read.status());
    more = *std::move(read);
  }
  for (const std::string& id : arguments.engines) {
    absl::StatusOr<Profile> profile = FindProfile(id, more);
    if (!profile.ok()) return Of("--engine", profile.status());
    engines.push_back(*std::move(profile));
  }
  return engines;
}

absl::StatusOr<AlphaSearch> SearchOf(const TuneArguments& arguments) {
  AlphaSearch search;
  search.alphas = arguments.alphas;
  search.seeds = arguments.seeds;
  search.quantile = arguments.quantile;
  ReplayOptions& replay = search.replay;
  absl::StatusOr<std::vector<Profile>> engines = Engines(arguments);
  if (!engines.ok()) return engines.status();
  replay.engines = *std::move(engines);
  const absl::StatusOr<EstimateSpec> estimates = EstimateSpec::Parse(arguments.estimates);
  if (!estimates.ok()) return Of("--estimates", estimates.status());
  replay.estimates = *estimates;
  absl::StatusOr<AnyPlacement> placement = MakePlacement(arguments.placement);
  if (!placement.ok()) return Of("--placement", placement.status());
  replay.placement = *std::move(placement);
  replay.router_policy = replay.policy;  // in order of arrival
  absl::StatusOr<PolicyFactory> policy = MakePolicyFactory(arguments.policy);
  if (!policy.ok()) return Of("--policy", policy.status());
  replay.policy = *std::move(policy);
  replay.engine.limits.tokens = {arguments.token_budget};
  replay.engine.limits.max_seqs = arguments.max_seqs;
  replay.cluster.rate_scale = arguments.rate_scale;
  replay.seed = arguments.workload.seed;
  if (arguments.budget != "none") {
    replay.budgets = BudgetOptions{.rule = arguments.budget == "share" ? BudgetRule::kShare : BudgetRule::kWhole};
  }
  if (absl::Status status = replay.Validate(); !status.ok()) return status;
  absl::StatusOr<Workload> workload = LoadWorkload(arguments.workload);
  if (!workload.ok()) return Of("--workload", workload.status());
  search.workload = *std::move(workload);
  if (arguments.slo_scale > 0) {
    const IsolatedLatencies alone = MeasureIsolated(search.workload, replay);
    if (absl::Status s = SetDeadlines(search.workload, alone.workflows, arguments.slo_scale); !s.ok()) return s;
  }
  if (absl::Status status = search.Validate(); !status.ok()) return status;
  return search;
}

std::string Text(const AlphaSearch& search, const AlphaChoice& choice, bool colour) {
  const std::string tail = fmt::format("p{:g} [s]", 100 * search.quantile);
  Table table({{"", "alpha"},
               {tail, "mean", true, Best::kSmallest},
               {tail, "deviation"},
               {"", "chance to be no worse than the best"}});
  for (const AlphaPoint& p : choice.points) {
    table.BeginRow();
    table.Text(fmt::format("{:g}", p.alpha));
    table.Number(p.mean);
    table.Number(p.deviation);
    table.Number(p.p_worse);
  }
  return fmt::format("{}, {} on {}\n\n{}\nUse alpha {:g}: {}.\n", ShownName(search.workload.name),
                     Counted(std::ssize(search.workload.workflows), "workflow"),
                     Counted(std::ssize(search.replay.engines), "engine"), table.ToString(colour), choice.alpha,
                     choice.why);
}

std::string Json(const TuneArguments& arguments, const AlphaSearch& search, const AlphaChoice& choice) {
  JsonWriter json;
  json.BeginObject().Field("command", "tune");
  json.Key("workload").BeginObject();
  json.Field("source", search.workload.name).Field("workflows", search.workload.workflows.size());
  json.Field("calls", search.workload.calls.size()).EndObject();
  json.Key("engines").BeginArray();
  for (const Profile& p : search.replay.engines) json.Value(p.id);
  json.EndArray();
  json.Field("placement", arguments.placement).Field("policy", arguments.policy);
  json.Field("estimates", search.replay.estimates.ToString()).Field("seeds", search.seeds);
  json.Field("quantile", search.quantile);
  json.Field("alpha", choice.alpha).Field("best", choice.best).Field("why", choice.why);
  json.Key("alphas").BeginArray();
  for (const AlphaPoint& p : choice.points) {
    json.BeginObject().Field("alpha", p.alpha).Field("mean_s", p.mean).Field("deviation_s", p.deviation);
    json.Field("p_worse", p.p_worse).EndObject();
  }
  return json.EndArray().EndObject().Take() + "\n";
}

int RunTune(const TuneArguments& arguments) {
  CatchInterrupts();
  const NamedPath inputs[] = {{"--workload", arguments.workload.file}, {"--profiles", arguments.profiles}};
  const NamedPath output{"--json", arguments.json};
  if (absl::Status usage = CheckPaths(inputs, std::span(&output, 1)); !usage.ok())
    return Complain(kTune, usage, kUsage);
  const absl::StatusOr<AlphaSearch> search = SearchOf(arguments);
  if (!search.ok()) {
    return Complain(kTune, search.status(), absl::IsInvalidArgument(search.status()) ? kUsage : kFailed);
  }
  absl::StatusOr<OutputFile> json = OutputFile::Open(arguments.json);
  if (!json.ok()) return Complain(kTune, json.status(), kFailed);
  ProgressBar bar(!arguments.quiet);
  const absl::StatusOr<AlphaChoice> choice = SearchAlpha(*search, OnThreads(arguments.threads), [&bar](double done) {
    bar.Show(done, "replaying");
    return !Interrupted();
  });
  bar.Clear();
  if (!choice.ok())
    return Complain(kTune, choice.status(), absl::IsCancelled(choice.status()) ? kInterrupted : kFailed);
  json->Write(Json(arguments, *search, *choice));
  absl::Status fault = json->Close();
  if (!arguments.quiet) {
    std::FILE* stream = IsStdout(arguments.json) ? stderr : stdout;
    fault.Update(ShowText(stream, Text(*search, *choice, WantsColour(stream))));
  }
  return fault.ok() ? kDone : Complain(kTune, fault, kFailed);
}

}  // namespace

void AddTune(CLI::App& tool, Chosen& chosen) {
  const auto [app, to] = AddCommand(
      tool, chosen, "tune", "find the alpha of workload_balance that would have served a workload best", RunTune,
      "The workload holds the served requests as workflow JSONL (docs/reference/workloads.md). It is replayed "
      "under every alpha and\n"
      "several shuffles of its arrivals. docs/howto/alpha_tuner.md explains the choice.\n\n"
      "Example\n"
      "  takt tune --workload served.jsonl --engine aic/llama-3.1-70b/a100/bf16/tp4 --engine "
      "derived/llama-3.1-70b/a6000/bf16/tp4");
  Group options(app, "Options");
  options.Add("--workload", to.workload.file, "FILE", "read the served requests").Required();
  AddWorkloadSource(options, to.workload);
  options.Add("--engine", to.engines, "ID", "add an instance with this profile; repeat for each instance").Required();
  options.Add("--profiles", to.profiles, "FILE", "read more profiles from a JSON file");
  options.Add("--placement", to.placement, "SPEC", "place by workload_balance or code_ratio; set its other options");
  options.Add("--policy", to.policy, "SPEC", "rank requests on each instance by this policy; see 'takt policies'");
  options.Add("--estimates", to.estimates, "KIND", "estimate output lengths as in takt replay");
  options.Add("--budget", to.budget, "RULE", "give each call no deadline, a share of its workflow's, or the whole")
      .Must(OneOf({"none", "share", "whole"}));
  options.Add("--slo-scale", to.slo_scale, "X",
              "set deadlines to X times a workflow's time on idle engines [the workload's deadlines]", Positive());
  options.Add("--rate-scale", to.rate_scale, "X", "multiply the arrival rate by X", Positive());
  options.Add("--alphas", to.alphas, "A,...", "try these ascending values of alpha", Share(1)).Listed();
  options.Add("--seeds", to.seeds, "N", "run N replays for each alpha", Whole(1, 10'000));
  options.Add("--quantile", to.quantile, "Q", "minimise this quantile of the workflows' latencies", Share(1));
  options.Add("--token-budget", to.token_budget, "N", "limit a step to N tokens", Whole(1));
  options.Add("--max-seqs", to.max_seqs, "N", "limit the running requests to N", Whole(1, 1 << 20));
  options.Add("-j,--threads", to.threads, "N", "run N replays in parallel [one per core]; results do not change",
              Whole(1, 1024));
  Group output(app, "Output (a file, or - for standard output)");
  output.Add("--json", to.json, "FILE", "write the chosen alpha and the results of each");
  output.AddFlag("-q,--quiet", to.quiet, "print no table and no progress bar");
}

}  // namespace takt::tool
