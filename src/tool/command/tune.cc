// takt tune: the alpha of workload_balance that would have served a workload best.
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

constexpr std::string_view kName = "tune";

// What is wrong, under the option at fault.
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
  if (const auto made = MakePlacement(arguments.placement); !made.ok()) return Of("--placement", made.status());
  const EnginePace pace;
  if (const auto made = MakePolicy(arguments.policy, {}, &pace); !made.ok()) return Of("--policy", made.status());
  replay.placement = arguments.placement;
  replay.policy = arguments.policy;
  replay.router_policy = "fcfs";
  replay.limits.tokens = {arguments.token_budget};
  replay.limits.max_seqs = arguments.max_seqs;
  replay.rate_scale = arguments.rate_scale;
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
               {"", "chance that it is no worse than the best"}});
  for (const AlphaPoint& p : choice.points) {
    table.BeginRow();
    table.Text(fmt::format("{:g}", p.alpha));
    table.Number(p.mean);
    table.Number(p.deviation);
    table.Number(p.p_worse);
  }
  return fmt::format("{}, {} on {}\n\n{}\nTake alpha {:g}: {}.\n", search.workload.name,
                     Counted(std::ssize(search.workload.workflows), "workflow"),
                     Counted(std::ssize(search.replay.engines), "engine"), table.ToString(colour), choice.alpha,
                     choice.why);
}

std::string Json(const AlphaSearch& search, const AlphaChoice& choice) {
  JsonWriter json;
  json.BeginObject().Field("command", "tune");
  json.Key("workload").BeginObject();
  json.Field("source", search.workload.name).Field("workflows", search.workload.workflows.size());
  json.Field("calls", search.workload.calls.size()).EndObject();
  json.Key("engines").BeginArray();
  for (const Profile& p : search.replay.engines) json.Value(p.id);
  json.EndArray();
  json.Field("placement", search.replay.placement).Field("policy", search.replay.policy);
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

}  // namespace

int RunCommand(const TuneArguments& arguments) {
  CatchInterrupts();
  const NamedPath inputs[] = {{"--workload", arguments.workload.file}, {"--profiles", arguments.profiles}};
  const NamedPath output{"--json", arguments.json};
  if (absl::Status usage = CheckPaths(inputs, std::span(&output, 1)); !usage.ok())
    return Complain(kName, usage, kUsage);
  const absl::StatusOr<AlphaSearch> search = SearchOf(arguments);
  if (!search.ok()) {
    return Complain(kName, search.status(), absl::IsInvalidArgument(search.status()) ? kUsage : kFailed);
  }
  absl::StatusOr<OutputFile> json = OutputFile::Open(arguments.json);
  if (!json.ok()) return Complain(kName, json.status(), kFailed);
  ProgressBar bar(!arguments.quiet);
  const absl::StatusOr<AlphaChoice> choice = SearchAlpha(*search, OnThreads(arguments.threads), [&bar](double done) {
    bar.Show(done, "replaying");
    return !Interrupted();
  });
  bar.Clear();
  if (!choice.ok())
    return Complain(kName, choice.status(), absl::IsCancelled(choice.status()) ? kInterrupted : kFailed);
  json->Write(Json(*search, *choice));
  absl::Status fault = json->Close();
  if (!arguments.quiet) {
    std::FILE* stream = IsStdout(arguments.json) ? stderr : stdout;
    if (std::fputs(Text(*search, *choice, WantsColour(stream)).c_str(), stream) < 0 || std::fflush(stream) != 0) {
      fault.Update(absl::UnavailableError("cannot write the table"));
    }
  }
  return fault.ok() ? kDone : Complain(kName, fault, kFailed);
}

}  // namespace takt::tool
