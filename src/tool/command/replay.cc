#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tool/command/commands.h"
#include "tool/report/comparison.h"
#include "tool/run/exit_code.h"
#include "tool/run/load_workload.h"
#include "tool/run/progress_bar.h"
#include "tool/command/report_files.h"
#include "tool/report/reports.h"
#include "tool/run/runner.h"
#include "tool/command/replay_setup.h"
#include "tool/run/terminal.h"
#include "takt/policy/registry.h"
#include "takt/systems/replay.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

struct ReplayArguments : ReplaySetup, ReportFiles {
  WorkloadSource workload;
  std::vector<std::string> policies, systems;
  std::vector<std::string> estimates;

  std::vector<std::string> profiles;  // "ID" or "ID*COUNT"
  std::string profiles_file;

  std::optional<double> load;
  std::vector<double> sweep;
  bool regret = false;
  std::string by;  // tenant, class, agent or stage; empty: no split

  std::int32_t decode_instances = 0;

  int threads = 0;  // 0: one per core
};

constexpr const char* kReplayExamples = R"(Examples
  Compare first come, first served with shortest first, at five times a trace's rate:
    takt replay --workload azure_llm_2023_conv.csv.gz --rate-scale 5 --policy fcfs --policy sjf
  Compare them at 90 % of the engine's capacity, with predictions off by a factor of about 1.6:
    takt replay --workload azure_llm_2023_conv.csv.gz --load 0.9 --policy fcfs --policy sjf --estimates noise:0.5
  Measure the cost of less accurate estimates:
    takt replay --policy stjf --estimates oracle --estimates calibrated:0.5 --estimates class-mean --estimates none
  Plot latency against load on four engines:
    takt replay --instances 4 --sweep 0.5,0.7,0.9,1.0,1.1 --html report.html
  Pass figures to another program:
    takt replay --json - | jq '.runs[] | {policy, mean: .metrics.e2e_s.mean}'

Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted (finished runs are reported).)";

// ---- settings -----------------------------------------------------------------------------------------------------

// Returns the profile of each instance that a --profile names; one for all of them if it is the only one.
absl::StatusOr<std::vector<Profile>> LoadProfiles(const ReplayArguments& arguments) {
  std::vector<Profile> more, engines;
  if (!arguments.profiles_file.empty()) {
    absl::StatusOr<std::vector<Profile>> read = ReadProfiles(arguments.profiles_file);
    if (!read.ok()) return read.status();
    more = *std::move(read);
  }
  for (const std::string& text : arguments.profiles) {
    const std::size_t star = text.find('*');
    std::int32_t count = 1;
    if (star != std::string::npos) {
      const char* end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data() + star + 1, end, count);
      if (stop != end || error != std::errc() || count < 1 || count > kMostInstances) {
        return absl::InvalidArgumentError(fmt::format(
            "--profile: {} is invalid; expected ID or ID*COUNT, with 1 to {} instances", text, kMostInstances));
      }
    }
    absl::StatusOr<Profile> profile = FindProfile(text.substr(0, star), more);
    if (!profile.ok()) return profile.status();
    engines.insert(engines.end(), static_cast<std::size_t>(count), *profile);
  }
  return engines;
}

// Sets the number of instances to that of several --profile.
absl::Status CountEngines(std::int64_t engines, ReplayArguments& arguments) {
  if (engines == 1) return absl::OkStatus();
  const bool splits = arguments.prefill_instances > 0;
  if (engines <= kMostInstances && arguments.instances == (splits ? engines : 1)) {
    arguments.instances = static_cast<std::int32_t>(engines);
    return absl::OkStatus();
  }
  if (engines <= kMostInstances && arguments.instances == engines) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("--profile: {} engines are invalid; expected {}", engines,
                                                arguments.instances > 1
                                                    ? fmt::format("{}, the number of instances", arguments.instances)
                                                    : fmt::format("at most {}", kMostInstances)));
}

// Returns the options that all runs share. Errors name the option at fault.
absl::StatusOr<ReplayOptions> CommonOptions(ReplayArguments& arguments) {
  absl::StatusOr<std::vector<Profile>> profiles = LoadProfiles(arguments);
  if (!profiles.ok()) return profiles.status();
  if (absl::Status counted = CountEngines(std::ssize(*profiles), arguments); !counted.ok()) return counted;
  absl::StatusOr<ReplayOptions> options =
      ReplayOptionsOf(arguments, *std::move(profiles), arguments.workload.seed, arguments.policies);
  if (!options.ok()) return options.status();
  if (arguments.front_end_ms < 0) arguments.front_end_ms = options->profile.front_end_ms;
  if (arguments.front_end_token_us < 0) arguments.front_end_token_us = options->profile.front_end_token_us;
  return options;
}

std::vector<double> LoadsOf(const ReplayArguments& arguments) {
  if (arguments.sweep.empty()) return arguments.load ? std::vector{*arguments.load} : std::vector<double>{};
  std::vector<double> loads = arguments.sweep;
  for (double& load : loads) load *= arguments.load.value_or(1);
  return loads;
}

// Returns the runs, ordered by load, then policy, then system, then estimates.
absl::StatusOr<std::vector<RunSettings>> RunsOf(const ReplayArguments& arguments, const Comparison& comparison) {
  std::vector<std::pair<std::optional<double>, double>> rates;
  for (const double load : LoadsOf(arguments)) {
    const double scale = RateScaleForLoad(comparison.workload, load, comparison.saturation_rps);
    if (!(scale > 0))
      return absl::InvalidArgumentError("--load: is unsupported for a workload whose requests all arrive at once");
    rates.emplace_back(load, scale);
  }
  if (rates.empty()) rates.emplace_back(std::nullopt, arguments.rate_scale);
  std::vector<RunSettings> runs;
  for (const auto& [load, scale] : rates) {
    const auto add = [&](const std::string& name, bool system) {
      for (const std::string& estimates : arguments.estimates) {
        runs.push_back({name, EstimateSpec::Parse(estimates).value(), load, scale, system});
      }
    };
    for (const std::string& policy : arguments.policies) add(policy, false);
    for (const std::string& system : arguments.systems) add(system, true);
  }
  return runs;
}

// ---- runs ---------------------------------------------------------------------------------------------------------

absl::StatusOr<ReplayOptions> OptionsOf(const ReplayArguments& arguments, const Workload& workload,
                                        const ReplayOptions& common, const RunSettings& settings) {
  ReplayOptions options = common;
  options.estimates = settings.estimates;
  options.cluster.rate_scale = settings.rate_scale;
  if (!settings.system) {
    options.policy = *MakePolicyFactory(settings.policy);
    return options;
  }
  if (absl::Status used = systems::UseSystem(settings.policy, workload, options); !used.ok()) {
    return absl::InvalidArgumentError("--system: " + std::string(used.message()));
  }
  if (options.system.scheduler && arguments.default_retention) {  // a system's scheduler supports neither
    options.retention = nullptr;
    options.gate = nullptr;
  }
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  return options;
}

// Runs all and returns the first error. Runs with an error have not ended.
absl::Status RunRuns(const ReplayArguments& arguments, const ReplayOptions& common, std::string_view what,
                     ProgressBar& bar, Comparison& comparison, std::vector<Run>& runs) {
  std::vector<ReplayTask> tasks;
  for (Run& run : runs) {
    absl::StatusOr<ReplayOptions> options = OptionsOf(arguments, comparison.workload, common, run.settings);
    if (!options.ok()) return options.status();
    const std::string load = comparison.sweeps ? fmt::format("{} ", *run.settings.load) : "";
    tasks.push_back({load + LabelOf(comparison, run), &comparison.workload, *std::move(options)});
    if (arguments.perfetto.empty()) continue;
    run.trace =
        std::make_unique<ScheduleTrace>(comparison.workload, static_cast<std::size_t>(arguments.perfetto_limit));
    tasks.back().options.cluster.on_step = [trace = run.trace.get()](const VirtualStep& step) { trace->OnStep(step); };
  }
  std::vector<absl::Status> faults(runs.size());
  RunAll(tasks, arguments.threads, what, bar, [&](std::size_t i, absl::StatusOr<ReplayResult> result, double wall_s) {
    faults[i] = result.status();
    runs[i].wall_s = wall_s;
    if (result.ok()) Keep(comparison, *std::move(result), !arguments.csv.empty(), runs[i]);
  });
  for (const absl::Status& fault : faults) {
    if (!fault.ok()) return fault;
  }
  return absl::OkStatus();
}

// Measures the capacity of the engines if a load is given.
absl::Status Saturate(const ReplayArguments& arguments, const ReplayOptions& common, ProgressBar& bar,
                      Comparison& comparison) {
  if (LoadsOf(arguments).empty()) return absl::OkStatus();
  ReplayOptions options = common;
  options.cluster.progress = [&bar](double share) {
    bar.Show(share, "measuring the engines' capacity");
    return !Interrupted();
  };
  const absl::StatusOr<double> saturation = MeasureSaturation(comparison.workload, options);
  if (saturation.ok()) comparison.saturation_rps = *saturation;
  return saturation.status();
}

// Compares every run's mean latency with that of the exact-size order at the same load. Adds that order's run if it is
// missing.
absl::Status FindRegret(const ReplayArguments& arguments, const ReplayOptions& common, ProgressBar& bar,
                        Comparison& comparison) {
  std::vector<Run> exact;
  for (const Run& run : comparison.runs) {
    if (!exact.empty() && exact.back().settings.load == run.settings.load) continue;
    exact.emplace_back().settings = {"sjf", {EstimateKind::kOracle}, run.settings.load, run.settings.rate_scale};
  }
  if (absl::Status run = RunRuns(arguments, common, "the exact-size order", bar, comparison, exact); !run.ok())
    return run;
  for (Run& run : comparison.runs) {
    const auto reference = std::find_if(exact.begin(), exact.end(), [&](const Run& e) {
      return e.ended && !e.stopped && e.settings.load == run.settings.load && e.metrics.e2e.mean > 0;
    });
    if (run.ended && reference != exact.end()) run.metrics.regret = run.metrics.e2e.mean / reference->metrics.e2e.mean;
  }
  return absl::OkStatus();
}

void SetDefaults(ReplayArguments& arguments) {
  if (arguments.prefill_instances > 0) arguments.instances = arguments.prefill_instances + arguments.decode_instances;
  if (arguments.profiles.empty()) arguments.profiles = {"aic/llama-3.1-8b/h100/bf16/tp1"};
  if (arguments.policies.empty() && !arguments.systems.empty()) arguments.policies = {"fcfs"};
  if (arguments.policies.empty()) arguments.policies = DefaultPolicies();
  if (arguments.estimates.empty()) arguments.estimates = {"oracle"};
}

absl::Status CheckUsage(const ReplayArguments& arguments) {
  for (const std::string& estimates : arguments.estimates) {
    if (absl::StatusOr<EstimateSpec> spec = EstimateSpec::Parse(estimates); !spec.ok()) {
      return absl::InvalidArgumentError("--estimates: " + std::string(spec.status().message()));
    }
  }
  if ((arguments.prefill_instances > 0) != (arguments.decode_instances > 0)) {
    return absl::InvalidArgumentError("--prefill-instances and --decode-instances: expected both or neither");
  }
  if (absl::Status load = CheckLoad(arguments); !load.ok()) return load;
  const NamedPath inputs[] = {{"--workload", arguments.workload.file}, {"--profiles", arguments.profiles_file}};
  return CheckPaths(inputs, ReportPaths(arguments));
}

int RunReplay(const ReplayArguments& wished) {
  constexpr std::string_view kName = "replay";
  const auto begin = std::chrono::steady_clock::now();
  CatchInterrupts();
  ReplayArguments arguments = wished;
  SetDefaults(arguments);
  if (absl::Status usage = CheckUsage(arguments); !usage.ok()) return Complain(kName, usage, kUsage);
  absl::StatusOr<ReplayOptions> common = CommonOptions(arguments);
  if (!common.ok()) return Complain(kName, common.status(), kUsage);

  Comparison comparison;
  comparison.source = arguments.workload.file;
  comparison.seed = arguments.workload.seed;
  comparison.sweeps = arguments.sweep.size() > 1;
  comparison.several_estimates = arguments.estimates.size() > 1;
  comparison.split = FromName<Split>(arguments.by).value_or(Split::kNothing);
  comparison.tells_wall = !arguments.no_wall;
  comparison.profile = common->profile;
  comparison.engines = common->engines;
  absl::StatusOr<Workload> workload = LoadWorkload(arguments.workload);
  if (!workload.ok()) return Complain(kName, workload.status(), kFailed);
  if (absl::Status drawn = DrawLoad(arguments, arguments.workload.seed, *workload, *common); !drawn.ok()) {
    return Complain(kName, drawn, kUsage);
  }
  comparison.workload = *std::move(workload);
  comparison.setup = arguments;
  for (const std::string& system : arguments.systems) {
    const auto valid = OptionsOf(arguments, comparison.workload, *common, {.policy = system, .system = true});
    if (!valid.ok()) return Complain(kName, valid.status(), kUsage);
  }
  absl::StatusOr<std::vector<OutputFile>> reports = OpenReports(arguments);
  if (!reports.ok()) return Complain(kName, reports.status(), kFailed);

  ProgressBar bar(!arguments.quiet);
  if (absl::Status measured = Saturate(arguments, *common, bar, comparison); !measured.ok()) {
    return Complain(kName, measured, kFailed);
  }
  if (Interrupted()) return Complain(kName, absl::CancelledError("interrupted before the first run"), kInterrupted);
  absl::StatusOr<std::vector<RunSettings>> settings = RunsOf(arguments, comparison);
  if (!settings.ok()) return Complain(kName, settings.status(), kUsage);
  for (RunSettings& s : *settings) comparison.runs.emplace_back().settings = std::move(s);
  comparison.warnings = WarningsOf(comparison);
  bar.Clear();
  const auto warn = [](const std::string& warning) { Note("takt replay: warning: " + warning); };
  std::ranges::for_each(comparison.warnings, warn);
  absl::Status ran = RunRuns(arguments, *common, "replaying", bar, comparison, comparison.runs);
  if (ran.ok() && arguments.regret && !Interrupted()) ran = FindRegret(arguments, *common, bar, comparison);
  bar.Clear();
  if (!ran.ok()) return Complain(kName, ran, kFailed);
  if (std::string warning = WarningOfEqualRuns(comparison); !warning.empty()) {
    warn(warning);
    comparison.warnings.push_back(std::move(warning));
  }

  comparison.interrupted = Interrupted();
  comparison.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (absl::Status written = WriteReports(comparison, arguments, *reports); !written.ok())
    return Complain(kName, written, kFailed);
  return comparison.interrupted ? kInterrupted : kDone;
}

void AddOrders(Group group, ReplayArguments& to) {
  group.Add("--policy", to.policies, "NAME",
            "rank requests by this policy; repeat to compare with the first [fcfs, sjf, stjf, room_to_pass]; see "
            "'takt policies'");
  group.Add("--system", to.systems, "NAME",
            "run this system of a paper, with its order, its router and what it learns; repeat as needed; see 'takt "
            "policies'");
  group.Add("--estimates", to.estimates, "KIND",
            "estimate output lengths by one of oracle, noise:SIGMA, gaussian:SIGMA, "
            "calibrated:SIGMA, class-mean, lengths, forest, none, learnt(KIND); repeat to compare [oracle]");
}

void AddEngine(Group group, ReplayArguments& to) {
  group.Add("--profile", to.profiles, "ID",
            "take step times and KV capacity from this profile; see 'takt profiles'. Repeat it, or write ID*COUNT, for "
            "engines that differ [aic/llama-3.1-8b/h100/bf16/tp1]");
  group.Add("--profiles", to.profiles_file, "FILE", "read more profiles from a JSON file");
  const Flag instances = group.Add("--instances", to.instances, "N", "simulate N engines, each with its own KV cache",
                                   Whole(1, kMostInstances));
  const Flag prefill =
      group.Add("--prefill-instances", to.prefill_instances, "N",
                "with --decode-instances: use N engines for prompts up to the first token", Whole(1, 1023));
  group.Add("--decode-instances", to.decode_instances, "M", "with --prefill-instances: use M engines for decoding",
            Whole(1, 1023));
  group.Add("--kv-link", to.kv_link_gb_s, "GB/S",
            "with --prefill-instances: set each engine's KV bandwidth, in each direction [25]", Positive());
  group.Add("--deflect", to.deflect_tokens, "TOKENS",
            "with --prefill-instances: compute prompts of at most TOKENS tokens on a decode engine", Whole(0, 1 << 30));
  prefill.Excludes({instances});
  group.Add("--token-budget", to.token_budget, "N", "limit a step to N tokens, prefill and decode together", Whole(1));
  group.Add("--kv-tokens", to.kv_tokens, "N", "set the KV capacity of each instance, in tokens [the profile's]",
            Whole(1, INT64_MAX));
  group.Add("--host-kv-tokens", to.host_kv_tokens, "N",
            "keep N tokens of evicted prompt prefixes per instance in host memory", Whole(1, INT64_MAX));
  group.AddFlag("--prefix-cache", to.prefix_cache, "keep the KV of prompt prefixes for requests that share them");
  AddEngineSetup(group, to);
}

void AddLoad(Group group, ReplayArguments& to) {
  const LoadFlags shared = AddLoadSetup(group, to);
  const Flag load =
      group.Add("--load", to.load, "RHO",
                "set the arrival rate to this share of the engines' capacity (measured first, under fcfs)", Positive());
  const Flag sweep =
      group
          .Add("--sweep", to.sweep, "RHO,...",
               "replay at these shares of the capacity, such as 0.5,0.7,0.9; --load multiplies them", Positive())
          .Listed();
  for (const Flag flag : {load, sweep}) flag.Excludes({shared.scale, shared.closed, shared.sessions});
}

void AddOutput(Group group, ReplayArguments& to) {
  group.Add("--by", to.by, "WHAT", "also report figures by tenant, class, agent or stage",
            OneOf({"tenant", "class", "agent", "stage"}));
  AddReports(group, to, to);
  group.AddFlag("--regret", to.regret, "also run sjf with exact lengths, and compare each run's mean latency with it");
  group.Add("-j,--threads", to.threads, "N", "run N replays in parallel [one per core]; results do not change",
            Whole(1, 1024));
}

}  // namespace

void AddReplay(CLI::App& tool, Chosen& chosen) {
  const auto [app, to] = AddCommand(tool, chosen, "replay", "replay a workload under several policies and compare them",
                                    RunReplay, kReplayExamples);
  Group workload(app, "Workload");
  workload.Add("--workload", to.workload.file, "FILE",
               "replay a trace, 'bundled', or a generator (see 'takt generate --help')");
  AddWorkloadSource(workload, to.workload);
  AddOrders({app, "Policies"}, to);
  AddEngine({app, "Engine"}, to);
  AddLoad({app, "Load"}, to);
  AddOutput({app, "Output (a file, or - for standard output)"}, to);
}

}  // namespace takt::tool
