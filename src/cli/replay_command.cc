#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/comparison.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/reports.h"
#include "cli/runner.h"
#include "cli/scheduler_settings.h"
#include "cli/terminal.h"
#include "fmt/format.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"

namespace takt::cli {
namespace {

// ---- what is asked for ---------------------------------------------------------------------------------------------

// The specs of the policies with those of `options` that they know. Every option must be known to one of them.
absl::Status GiveOptions(std::vector<std::string>& policies, const std::vector<std::string>& options) {
  for (std::string& spec : policies) {
    absl::StatusOr<AnyPolicy> policy = MakePolicy(spec);
    if (!policy.ok()) return policy.status();
    spec = policy->spec();
  }
  for (const std::string& option : options) {
    absl::Status fault;
    bool known = false;
    for (std::string& spec : policies) {
      const absl::StatusOr<AnyPolicy> policy = MakePolicy(spec, std::span(&option, 1));
      if (policy.ok()) {
        spec = policy->spec();
        known = true;
      } else {
        fault = policy.status();
      }
    }
    if (!known) {
      return absl::InvalidArgumentError(
          fmt::format("--option {}: the scheduler has {}; {}", option, SettingNames(), std::string(fault.message())));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Profile> LoadProfile(const ReplayArguments& arguments) {
  if (arguments.profiles_file.empty()) return FindProfile(arguments.profile);
  const absl::StatusOr<std::vector<Profile>> more = ReadProfiles(arguments.profiles_file);
  if (!more.ok()) return more.status();
  return FindProfile(arguments.profile, *more);
}

// What all runs have in common. Errors are of the command line.
absl::StatusOr<ReplayOptions> CommonOptions(ReplayArguments& arguments) {
  if (absl::StatusOr<AnyPlacement> placement = MakePlacement(arguments.placement); !placement.ok()) {
    return placement.status();
  }
  ReplayOptions options;
  absl::StatusOr<Profile> profile = LoadProfile(arguments);
  if (!profile.ok()) return profile.status();
  options.profile = *std::move(profile);
  options.seed = arguments.workload.seed;
  options.kv_tokens = arguments.kv_tokens;
  options.instances = arguments.instances;
  options.placement = arguments.placement;
  options.limits.tokens = {arguments.token_budget};
  options.limits.max_seqs = arguments.max_seqs;
  options.scheduler.prefix_cache = arguments.prefix_cache;
  options.rate_scale = arguments.rate_scale;
  options.closed_loop = arguments.closed_loop;
  options.slo = {FromSeconds(arguments.slo_ttft), FromSeconds(arguments.slo_tpot)};

  std::vector<std::string> of_policies;
  for (const std::string& option : arguments.options) {
    const absl::StatusOr<bool> known = ApplySetting(option, options);
    if (!known.ok()) return known.status();
    if (!*known) of_policies.push_back(option);
  }
  if (absl::Status given = GiveOptions(arguments.policies, of_policies); !given.ok()) return given;
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  return options;
}

std::vector<double> LoadsOf(const ReplayArguments& arguments) {
  if (arguments.sweep.empty()) return arguments.load ? std::vector{*arguments.load} : std::vector<double>{};
  std::vector<double> loads = arguments.sweep;
  for (double& load : loads) load *= arguments.load.value_or(1);
  return loads;
}

// Loads, then policies, then estimates.
absl::StatusOr<std::vector<RunSettings>> RunsOf(const Comparison& comparison) {
  std::vector<std::pair<std::optional<double>, double>> rates;
  for (const double load : LoadsOf(comparison.arguments)) {
    const double scale = RateScaleForLoad(comparison.workload, load, comparison.saturation_rps);
    if (!(scale > 0)) return absl::InvalidArgumentError("--load: the workload has no rate, all of it comes at once");
    rates.emplace_back(load, scale);
  }
  if (rates.empty()) rates.emplace_back(std::nullopt, comparison.arguments.rate_scale);
  std::vector<RunSettings> runs;
  for (const auto& [load, scale] : rates) {
    for (const std::string& policy : comparison.arguments.policies) {
      for (const std::string& estimates : comparison.arguments.estimates) {
        runs.push_back({policy, EstimateSpec::Parse(estimates).value(), load, scale});
      }
    }
  }
  return runs;
}

// ---- running -------------------------------------------------------------------------------------------------------

ReplayOptions OptionsOf(const ReplayOptions& common, const RunSettings& settings) {
  ReplayOptions options = common;
  options.policy = settings.policy;
  options.estimates = settings.estimates;
  options.rate_scale = settings.rate_scale;
  return options;
}

// `seconds` of each record that has both ends.
template <class Records, class From, class To>
Quantiles QuantilesOf(const Records& records, From from, To to) {
  constexpr std::size_t kSteps = 200;
  std::vector<double> seconds;
  for (const auto& record : records) {
    if (record.outcome == Outcome::kCompleted) seconds.push_back(ToSeconds(record.*to - record.*from));
  }
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  Quantiles quantiles;
  for (std::size_t i = 0; i <= kSteps; ++i) {
    quantiles.push_back(QuantileOfSorted(seconds, static_cast<double>(i) / kSteps));
  }
  return quantiles;
}

// Keeps of a result what the reports need.
void Keep(ReplayResult result, bool requests, Run& run) {
  run.ended = true;
  run.stopped = result.stopped;
  run.metrics = result.metrics;
  run.stats = result.stats;
  run.steps = result.steps;
  run.kv_blocks = result.kv_blocks;
  run.series = std::move(result.series);
  for (const RequestRecord& record : result.requests) {
    if (record.outcome == Outcome::kFailed) ++run.failed[static_cast<std::size_t>(record.reason)];
  }
  run.ttft = QuantilesOf(result.requests, &RequestRecord::arrival, &RequestRecord::first_token);
  run.e2e = QuantilesOf(result.requests, &RequestRecord::arrival, &RequestRecord::end);
  run.workflow = QuantilesOf(result.workflows, &WorkflowRecord::arrival, &WorkflowRecord::end);
  if (run.trace) run.trace->Finish(result.requests);
  if (requests) run.requests = std::move(result.requests);
}

// The first error; runs that it hit have not ended.
absl::Status RunRuns(const ReplayOptions& common, std::string_view what, ProgressBar& bar, Comparison& comparison,
                     std::vector<Run>& runs) {
  const ReplayArguments& arguments = comparison.arguments;
  std::vector<ReplayOptions> options;
  for (Run& run : runs) {
    options.push_back(OptionsOf(common, run.settings));
    if (arguments.perfetto.empty()) continue;
    run.trace =
        std::make_unique<ScheduleTrace>(comparison.workload, static_cast<std::size_t>(arguments.perfetto_limit));
    options.back().on_step = [trace = run.trace.get()](const VirtualStep& step) { trace->OnStep(step); };
  }
  std::vector<absl::Status> faults(runs.size());
  RunAll(comparison.workload, options, arguments.threads, what, bar,
         [&](std::size_t i, absl::StatusOr<ReplayResult> result, double wall_s) {
           faults[i] = result.status();
           runs[i].wall_s = wall_s;
           if (result.ok()) Keep(*std::move(result), !arguments.csv.empty(), runs[i]);
         });
  for (const absl::Status& fault : faults) {
    if (!fault.ok()) return fault;
  }
  return absl::OkStatus();
}

// What the engines can do at most, where a load is asked for.
absl::Status Saturate(const ReplayOptions& common, ProgressBar& bar, Comparison& comparison) {
  if (LoadsOf(comparison.arguments).empty()) return absl::OkStatus();
  ReplayOptions options = common;
  options.progress = [&bar](double share) {
    bar.Show(share, "measuring what the engines can do");
    return !Interrupted();
  };
  const absl::StatusOr<double> saturation = MeasureSaturation(comparison.workload, options);
  if (saturation.ok()) comparison.saturation_rps = *saturation;
  return saturation.status();
}

// Compares every run's mean latency with that of the exact-size order at the same load, which is run where it is not
// among the runs.
absl::Status FindRegret(const ReplayOptions& common, ProgressBar& bar, Comparison& comparison) {
  std::vector<Run> exact;
  for (const Run& run : comparison.runs) {
    if (!exact.empty() && exact.back().settings.load == run.settings.load) continue;
    exact.emplace_back().settings = {"sjf", {EstimateKind::kOracle}, run.settings.load, run.settings.rate_scale};
  }
  if (absl::Status run = RunRuns(common, "the exact-size order", bar, comparison, exact); !run.ok()) return run;
  for (Run& run : comparison.runs) {
    const auto reference = std::find_if(exact.begin(), exact.end(), [&](const Run& e) {
      return e.ended && !e.stopped && e.settings.load == run.settings.load && e.metrics.e2e.mean > 0;
    });
    if (run.ended && reference != exact.end()) run.metrics.regret = run.metrics.e2e.mean / reference->metrics.e2e.mean;
  }
  return absl::OkStatus();
}

// ---- reporting -----------------------------------------------------------------------------------------------------

using Writer = void (*)(const Comparison&, OutputFile&);

struct Report {
  std::string ReplayArguments::* path;
  Writer write;
};

constexpr Report kReports[] = {
    {&ReplayArguments::json, [](const Comparison& c, OutputFile& out) { out.Write(JsonReport(c)); }},
    {&ReplayArguments::csv, WriteRequestCsv},
    {&ReplayArguments::csv_summary, WriteRunCsv},
    {&ReplayArguments::html, [](const Comparison& c, OutputFile& out) { out.Write(HtmlReport(c)); }},
    {&ReplayArguments::perfetto, WritePerfetto},
};

struct OpenReport {
  Writer write;
  OutputFile out;
};

// Before anything long begins, so that a file that cannot be written is known at once.
absl::StatusOr<std::vector<OpenReport>> OpenReports(const ReplayArguments& arguments) {
  std::vector<OpenReport> open;
  for (const Report& report : kReports) {
    const std::string& path = arguments.*report.path;
    if (path.empty()) continue;
    absl::StatusOr<OutputFile> out = OutputFile::Open(path);
    if (!out.ok()) return out.status();
    open.push_back({report.write, *std::move(out)});
  }
  return open;
}

std::ptrdiff_t StdoutReports(const ReplayArguments& arguments) {
  return std::count_if(std::begin(kReports), std::end(kReports),
                       [&](const Report& report) { return IsStdout(arguments.*report.path); });
}

// Every report is tried; the first error is told.
absl::Status WriteReports(const Comparison& comparison, std::vector<OpenReport>& reports) {
  absl::Status fault;
  for (OpenReport& report : reports) {
    report.write(comparison, report.out);
    fault.Update(report.out.Close());
  }
  if (comparison.arguments.quiet) return fault;
  std::FILE* stream = StdoutReports(comparison.arguments) > 0 ? stderr : stdout;
  const std::string text = TextReport(comparison, WantsColour(stream));
  if (std::fputs(text.c_str(), stream) < 0 || std::fflush(stream) != 0) {
    fault.Update(absl::UnavailableError("cannot write the table"));
  }
  return fault;
}

void SetDefaults(ReplayArguments& arguments) {
  if (arguments.policies.empty()) arguments.policies = {"fcfs", "sjf", "stjf"};
  if (arguments.estimates.empty()) arguments.estimates = {"oracle"};
}

absl::Status CheckUsage(const ReplayArguments& arguments) {
  for (const std::string& estimates : arguments.estimates) {
    if (absl::StatusOr<EstimateSpec> spec = EstimateSpec::Parse(estimates); !spec.ok()) {
      return absl::InvalidArgumentError("--estimates: " + std::string(spec.status().message()));
    }
  }
  if (StdoutReports(arguments) > 1) return absl::InvalidArgumentError("only one report can go to standard output");
  return absl::OkStatus();
}

}  // namespace

int RunCommand(const ReplayArguments& wished) {
  constexpr std::string_view kName = "replay";
  const auto begin = std::chrono::steady_clock::now();
  CatchInterrupts();
  Comparison comparison;
  comparison.arguments = wished;
  ReplayArguments& arguments = comparison.arguments;
  SetDefaults(arguments);
  if (absl::Status usage = CheckUsage(arguments); !usage.ok()) return Complain(kName, usage, kUsage);
  const absl::StatusOr<ReplayOptions> common = CommonOptions(arguments);
  if (!common.ok()) return Complain(kName, common.status(), kUsage);
  comparison.profile = common->profile;

  absl::StatusOr<Workload> workload = LoadWorkload(arguments.workload);
  if (!workload.ok()) return Complain(kName, workload.status(), kFailed);
  comparison.workload = *std::move(workload);
  absl::StatusOr<std::vector<OpenReport>> reports = OpenReports(arguments);
  if (!reports.ok()) return Complain(kName, reports.status(), kFailed);

  ProgressBar bar(!arguments.quiet);
  if (absl::Status measured = Saturate(*common, bar, comparison); !measured.ok()) {
    return Complain(kName, measured, kFailed);
  }
  if (Interrupted()) return Complain(kName, absl::CancelledError("interrupted before the first run"), kInterrupted);
  absl::StatusOr<std::vector<RunSettings>> settings = RunsOf(comparison);
  if (!settings.ok()) return Complain(kName, settings.status(), kUsage);
  for (RunSettings& s : *settings) comparison.runs.emplace_back().settings = std::move(s);
  absl::Status ran = RunRuns(*common, "replaying", bar, comparison, comparison.runs);
  if (ran.ok() && arguments.regret && !Interrupted()) ran = FindRegret(*common, bar, comparison);
  bar.Clear();
  if (!ran.ok()) return Complain(kName, ran, kFailed);

  comparison.interrupted = Interrupted();
  comparison.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (absl::Status written = WriteReports(comparison, *reports); !written.ok())
    return Complain(kName, written, kFailed);
  return comparison.interrupted ? kInterrupted : kDone;
}

}  // namespace takt::cli
