#include "tool/command/arguments.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "tool/run/exit_code.h"
#include "tool/command/options.h"
#include "fmt/format.h"
#include "takt/planning/milp.h"
#include "takt/version.h"

namespace takt::tool {
namespace {

constexpr const char* kToolHelp =
    R"(takt decides what an LLM serving engine runs next. This tool replays a workload through virtual engines under
several scheduling policies, and shows which of them serves its users better.)";

constexpr const char* kToolExamples = R"(Begin with
  takt replay                              the bundled workload under three policies
  takt replay --html report.html           the same, with plots
  takt policies                            which policies there are
  takt replay --help                       all that can be varied)";

constexpr const char* kReplayExamples = R"(Examples
  A real trace at five times its rate, first come first served against shortest first:
    takt replay --workload azure_llm_2023_conv.csv.gz --rate-scale 5 --policy fcfs --policy sjf
  The same at 90 % of what the engine can do, with predictions that are off by a factor of about 1.6:
    takt replay --workload azure_llm_2023_conv.csv.gz --load 0.9 --policy fcfs --policy sjf --estimates noise:0.5
  How much does it cost to know less?
    takt replay --policy stjf --estimates oracle --estimates calibrated:0.5 --estimates class-mean --estimates none
  Latency against load, on four engines, as a page with plots:
    takt replay --instances 4 --sweep 0.5,0.7,0.9,1.0,1.1 --html report.html
  Figures for another program:
    takt replay --json - | jq '.runs[] | {policy, mean: .metrics.e2e_s.mean}'

Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted (what had ended by then is reported).)";

constexpr const char* kGenerateExamples =
    R"(Generators: poisson, constant, gamma, weibull (arrivals of single requests), multi_stage (workflows).
docs/simulator/workloads.md lists their keys.

Examples
  takt generate gen:poisson,requests=1000,rate=5,output=lognormal:200:0.8 --output poisson.jsonl
  takt generate gen:multi_stage,workflows=500,rate=2,seed=7 --output stages.jsonl.gz
  takt replay --workload gen:multi_stage,rate=6)";

constexpr const char* kCalibrateExamples =
    R"(The log is JSON, one step a line: {"time_s": 0.031, "rows": [[1, 812, 0, 1], [512, 0, 1, 0]]}, where a row is
[tokens computed, context computed before, prefill, yields a token]; or CSV with totals.
docs/simulator/fitting_profiles.md tells how to obtain one from takt, vLLM or llama.cpp.

Examples
  takt calibrate steps.jsonl --html fit.html
  takt calibrate steps.jsonl --id own/llama-3.1-8b/h100/bf16/tp1 --kv-tokens 430000 --out own.json
  takt replay --profiles own.json --profile own/llama-3.1-8b/h100/bf16/tp1)";

constexpr const char* kPlanExamples =
    R"(A line of the workload: {"prompt": 400, "outputs": [600, 550], "scores": [62, 91]}, a number per model; or
cascadia:1 to cascadia:3, requests as in Cascadia's traces. The models: {"models": [{"name": "8b", "profile":
"aic/llama-3.1-8b/h100/bf16", "tp": [1, 2, 4, 8], "pp": [1, 2, 4]}, ...]}. docs/planning/plan.md tells more.

Examples
  takt plan --workload profiled.jsonl --models cascade.json --gpus 32 --rate 10 --quality 80 --html plan.html
  takt plan --workload cascadia:1 --models cascade.json --gpus 32 --rate 10 --latency 30 --alternation

Exit code: 0 done, 1 failed or no plan (the message says what is missing), 2 wrong usage, 130 interrupted.)";

constexpr const char* kClusterExamples =
    R"(The file: {"quality": 80, "budget": 100,
 "models": [{"name": "8b"}, {"name": "70b", "min_replicas": 2}],
 "classes": [{"name": "h100", "price": 2.67, "servers": [{"servers": 4, "gpus": 8}]}],
 "replicas": [{"name": "8b tp1", "model": "8b", "class": "h100", "tp": 1, "rate": 5}, ...],
 "routings": [{"name": "74", "rates": [30, 12], "quality": 84}, ...]}. docs/planning/milp.md lists all there is.

Examples
  takt cluster cluster.json
  takt cluster cluster.json --mps cluster.mps && glpsol --freemps cluster.mps

Exit code: 0 a plan (where a limit ended the search, it says so), 1 failed or no plan (it says what is missing),
2 wrong usage, 130 interrupted (the best plan so far was reported).)";

constexpr const char* kTrainExamples =
    R"(A line of the log is a call: {"workflow": "w7", "stage": "coder", "model": "8b", "prompt_tokens": 812,
"output_tokens": 344, "text": "...", "solved": true}, or CSV with a header of these names. Only output_tokens must be
there; lines of one workflow stand in the order in which its calls began. docs/learning/prediction.md lists all there is.

Examples
  takt train calls.jsonl --out calls.model --html calls.html
  takt predict calls.model next.jsonl

Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.)";

void AddPolicies(Group group, ReplayArguments& to) {
  group.Add("--policy", to.policies, "NAME",
            "which request first; several times to compare with the first [fcfs, sjf, stjf, boosted_footprint]; see "
            "'takt policies'");
  group.Add("--estimates", to.estimates, "KIND",
            "what is known of lengths that have not been seen: oracle, noise:SIGMA, gaussian:SIGMA, "
            "calibrated:SIGMA, class-mean, lengths, forest, none, learnt(KIND); several times to compare [oracle]");
}

void AddEngine(Group group, ReplayArguments& to) {
  group.Add("--profile", to.profile, "ID", "what a step costs and how much KV cache there is; see 'takt profiles'");
  group.Add("--profiles", to.profiles_file, "FILE", "a JSON file with more profiles");
  group.Add("--instances", to.instances, "N", "engines side by side, each with its own KV cache", Whole(1, 1024));
  group.Add("--placement", to.placement, "NAME", "which instance a request goes to; see 'takt policies'");
  group.Add("--token-budget", to.token_budget, "N",
            "tokens that one step computes at most, prefill and decode together", Whole(1));
  group.Add("--max-seqs", to.max_seqs, "N", "requests that run at once at most", Whole(1, 1 << 20));
  group.Add("--kv-tokens", to.kv_tokens, "N", "size of each instance's KV cache instead of the profile's",
            Whole(1, INT64_MAX));
  group.AddFlag("--prefix-cache", to.prefix_cache, "keep the KV of prompts' beginnings for requests that share them");
  group.Add("--option", to.options, "K=V",
            "how the scheduler or a policy behaves, as often as wished: preempt=by_rank, order=prefill_first, "
            "chunk_tokens=512, threshold=50, ... (docs/guide/cli.md lists them)");
}

void AddLoad(Group group, ReplayArguments& to) {
  CLI::Option* scale =
      group.Add("--rate-scale", to.rate_scale, "X", "requests come X times as fast as they did", Positive());
  CLI::Option* load = group.Add(
      "--load", to.load, "RHO",
      "requests come at this share of what the engines can do at most (measured first, under fcfs)", Positive());
  CLI::Option* sweep =
      group
          .Add("--sweep", to.sweep, "RHO,...", "several loads, such as 0.5,0.7,0.9; --load multiplies them", Positive())
          ->delimiter(',');
  CLI::Option* closed =
      group.Add("--closed-loop", to.closed_loop, "N",
                "N workflows in flight: one starts when another ends, whenever it had come", Whole(1, INT64_MAX));
  scale->excludes(load, sweep, closed);
  closed->excludes(load, sweep);
}

void AddOutput(Group group, ReplayArguments& to) {
  AddReports(group, to);
  group.AddFlag("--regret", to.regret, "also run sjf with exact lengths, and compare every run's mean latency with it");
  group.Add("-j,--threads", to.threads, "N", "runs at once [as many as there are cores]; changes no result",
            Whole(1, 1024));
}

// A command and what its options are written to; `chosen` is that when the command is the one that was given.
template <class Of>
std::pair<CLI::App*, Of&> AddCommand(CLI::App& tool, Arguments& chosen, const char* name, const char* text,
                                     const char* footer = "") {
  CLI::App* app = tool.add_subcommand(name, text);
  auto to = std::make_shared<Of>();
  app->footer(footer);
  app->callback([to, &chosen] { chosen = *to; });
  return {app, *to};
}

void AddReplay(CLI::App& tool, Arguments& chosen) {
  const auto [app, to] = AddCommand<ReplayArguments>(
      tool, chosen, "replay", "replay a workload under several policies, and compare them", kReplayExamples);
  Group workload(*app, "Workload");
  workload.Add("--workload", to.workload.file, "FILE",
               "a trace, 'bundled', or a generator (see 'takt generate --help')");
  AddWorkload(workload, to.workload);
  AddPolicies({*app, "Policies"}, to);
  AddEngine({*app, "Engine"}, to);
  AddLoad({*app, "Load"}, to);
  AddOutput({*app, "Output (a file, or - for standard output)"}, to);
}

void AddCalibrate(CLI::App& tool, Arguments& chosen) {
  const auto [app, to] = AddCommand<CalibrateArguments>(
      tool, chosen, "calibrate", "fit a profile to the log of an engine's steps, and say how good it is",
      kCalibrateExamples);
  Group log(*app, "Log");
  log.Add("log", to.log, "FILE", "what each step held, and how long it took; plain or gzip; - for standard input")
      ->required();
  log.AddFlag("--skip-bad-lines", to.skip_bad_lines, "count lines that cannot be read, and go on");
  log.AddFlag("--no-plan-time", to.no_plan_time, "leave out what the log says that planning took");
  Group fit(*app, "Fit");
  fit.Add("--form", to.form, "NAME", "auto: the better one; linear; saturating",
          CLI::IsMember({"auto", "linear", "saturating"}));
  fit.Add("--holdout", to.holdout, "SHARE", "of the steps, on which the forms are compared", Share(0.5));
  fit.Add("--token-budget", to.token_budget, "N", "warn where the log has no steps of so many prefill tokens",
          Whole(1));
  fit.Add("--max-seqs", to.max_seqs, "N", "... of so many decode rows", Whole(1));
  fit.Add("--max-context", to.max_context, "N", "... of such a context [not checked]", Whole(1, INT64_MAX));
  Group profile(*app, "Profile");
  profile.Add("--id", to.id, "ID", "its name: FAMILY/MODEL/GPU/DTYPE/tpN");
  profile.Add("--kv-tokens", to.kv_tokens, "N", "tokens that the KV cache holds", Whole(1, INT64_MAX));
  profile.Add("--kv-bytes-per-token", to.kv_bytes_per_token, "N", "what swaps and pause policies reckon with",
              Whole(1, INT64_MAX));
  profile.Add("--weight-bytes", to.weight_bytes, "N", "of the model", Whole(1, INT64_MAX));
  Group output(*app, "Output (a file, or - for standard output)");
  output.Add("--out", to.out, "FILE", "the profile, for --profiles");
  output.Add("--html", to.html, "FILE", "a page with plots of the errors, which needs nothing else");
  output.Add("--json", to.json, "FILE", "all figures");
}

void AddPrediction(CLI::App& tool, Arguments& chosen) {
  const auto [train, to] = AddCommand<TrainArguments>(
      tool, chosen, "train", "learn from a log of calls how many tokens workflows have left, and say how good it is",
      kTrainExamples);
  Group log(*train, "Log");
  log.Add("log", to.log, "FILE", "calls that have ended: lines of JSON, or CSV; plain or gzip; - for standard input")
      ->required();
  log.AddFlag("--skip-bad-lines", to.skip_bad_lines, "count lines that cannot be read, and go on");
  Group forest(*train, "Forest");
  forest.Add("--holdout", to.holdout, "SHARE", "of the workflows, that are not learnt from but checked on", Share(0.5));
  forest.Add("--trees", to.trees, "N", "of each model's forest", Whole(1, 10'000));
  forest.Add("--min-leaf", to.min_leaf, "N", "calls in a leaf, at least", Whole(1));
  forest.Add("--seed", to.seed, "N", "of what trees are grown from");
  forest.Add("-j,--threads", to.threads, "N", "[as many as there are cores]; changes no result", Whole(1, 1024));
  Group output(*train, "Output (a file, or - for standard output)");
  output.Add("--out", to.out, "FILE", "the model, for takt predict and CallPredictor::Load");
  output.Add("--html", to.html, "FILE", "a page with reliability plots, which needs nothing else");
  output.Add("--json", to.json, "FILE", "all figures");
  output.AddFlag("-q,--quiet", to.quiet, "no table, no progress");

  const auto [predict, asked] = AddCommand<PredictArguments>(
      tool, chosen, "predict",
      "tell what a model of 'takt train' knows of calls: tokens that their workflows have left",
      "The log is as for takt train; output_tokens need not be there. A line per call: mean and quantiles of the "
      "tokens\n"
      "that it and all after it in its workflow will generate; empty where the model is unknown.\n\n"
      "Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.");
  Group files(*predict, "Options");
  files.Add("model", asked.model, "MODEL", "what takt train --out wrote, or - for standard input")->required();
  files.Add("log", asked.log, "FILE", "calls: lines of JSON, or CSV; plain or gzip; - for standard input")->required();
  files.AddFlag("--skip-bad-lines", asked.skip_bad_lines, "count lines that cannot be read, and go on");
  files.Add("--output", asked.output, "FILE", "a file, or - for standard output");
  files.Add("--format", asked.format, "NAME", "csv, jsonl", CLI::IsMember({"csv", "jsonl"}));
}

void AddCompare(CLI::App& tool, Arguments& chosen) {
  const auto [app, to] = AddCommand<CompareArguments>(
      tool, chosen, "compare", "say how far reports of the same runs are apart: an engine's and the simulator's",
      "Reports are those of --json, of takt replay or of a host such as tiny_engine. Runs stand against each other in "
      "the\n"
      "order of the files; policies are ranked among runs of the same workload and rate.\n\nExample\n"
      "  takt compare --measured engine.json --predicted simulator.json");
  Group options(*app, "Options");
  options.Add("--measured", to.measured, "FILE", "one or several")->required();
  options.Add("--predicted", to.predicted, "FILE", "as many runs, in the same order")->required();
  options.Add("--tie", to.tie, "PCT", "policies that are so close count as equal", Share(100));
}

void AddScenario(CLI::App& tool, Arguments& chosen) {
  const auto [app, to] = AddCommand<ScenarioArguments>(
      tool, chosen, "scenario", "repeat a paper's experiments, and put its claims next to what comes out",
      "Without a name: which scenarios there are. docs/lab/scenarios.md tells what each needs and what was "
      "measured.\n\n"
      "Example\n"
      "  takt scenario lamps --data infercept_multi_api.jsonl --html lamps.html");
  Group options(*app, "Options");
  options.Add("name", to.name, "NAME", "which one");
  options.Add("--data", to.data, "PATH",
              "its data: a file, or a folder that holds it [the folder that TAKT_DATA names, or ../shared/data]");
  options.AddFlag("--full", to.full, "longer runs, more seeds, as docs/lab/scenarios.md says");
  options.Add("--seeds", to.seeds, "N", "so many paired runs of everything [as docs/lab/scenarios.md says]",
              Whole(1, 1000));
  options.Add("--first-seed", to.first_seed, "N", "of them; default and default-sensitivity only", Whole(1, 1'000'000));
  options.Add("--minutes", to.minutes, "X", "of arrivals in every run [as docs/lab/scenarios.md says]", Positive());
  options.Add("-j,--threads", to.threads, "N", "runs at once [as many as there are cores]; changes no result",
              Whole(1, 1024));
  Group output(*app, "Output (a file, or - for standard output)");
  output.Add("--json", to.json, "FILE", "all figures and claims");
  output.Add("--html", to.html, "FILE", "a page with plots, which needs nothing else");
  output.AddFlag("--no-wall", to.no_wall, "leave out how long it all took, so that equal runs give equal files");
  output.AddFlag("-q,--quiet", to.quiet, "no table, no progress bar");
}

void AddTune(CLI::App& tool, Arguments& chosen) {
  const auto [app, to] = AddCommand<TuneArguments>(
      tool, chosen, "tune", "find the alpha of workload_balance under which a workload would have been served best",
      "The workload is what was served, as workflow JSONL (docs/simulator/workloads.md); it is replayed under every\n"
      "alpha and several shuffles of its arrivals. docs/planning/alpha_tuner.md tells how one is chosen.\n\n"
      "Example\n"
      "  takt tune --workload served.jsonl --engine aic/llama-3.1-70b/a100/bf16/tp4 --engine "
      "derived/llama-3.1-70b/a6000/bf16/tp4");
  Group options(*app, "Options");
  options.Add("--workload", to.workload.file, "FILE", "what was served")->required();
  AddWorkload(options, to.workload);
  options.Add("--engine", to.engines, "ID", "the profile of an instance; one for each")->required();
  options.Add("--profiles", to.profiles, "FILE", "a JSON file with more profiles");
  options.Add("--placement", to.placement, "SPEC", "workload_balance or code_ratio, with its other options");
  options.Add("--policy", to.policy, "SPEC", "the order on each instance; see 'takt policies'");
  options.Add("--estimates", to.estimates, "KIND", "what is known of lengths, as of takt replay");
  options
      .Add("--budget", to.budget, "RULE", "calls get shares of their workflow's time as deadlines: none, share, whole")
      ->check(CLI::IsMember({"none", "share", "whole"}));
  options.Add("--slo-scale", to.slo_scale, "X", "deadlines of X times what a workflow takes alone [as in the workload]",
              Positive());
  options.Add("--rate-scale", to.rate_scale, "X", "workflows come X times as fast as they did", Positive());
  options.Add("--alphas", to.alphas, "A,...", "which are tried, rising", Share(1))->delimiter(',');
  options.Add("--seeds", to.seeds, "N", "replays per alpha", Whole(1, 10'000));
  options.Add("--quantile", to.quantile, "Q", "of the workflows' latencies", Share(1));
  options.Add("--token-budget", to.token_budget, "N", "tokens that one step computes at most", Whole(1));
  options.Add("--max-seqs", to.max_seqs, "N", "requests that run at once at most", Whole(1, 1 << 20));
  options.Add("-j,--threads", to.threads, "N", "runs at once [as many as there are cores]; changes no result",
              Whole(1, 1024));
  Group output(*app, "Output (a file, or - for standard output)");
  output.Add("--json", to.json, "FILE", "the choice, and what each alpha came to");
  output.AddFlag("-q,--quiet", to.quiet, "no table, no progress bar");
}

void AddPlan(CLI::App& tool, Arguments& chosen) {
  const auto [app, to] = AddCommand<PlanArguments>(
      tool, chosen, "plan", "plan a cascade of models on a cluster: GPUs, replicas, thresholds", kPlanExamples);
  Group problem(*app, "Problem");
  problem.Add("--workload", to.workload, "FILE", "requests that every model has answered, with the judge's scores")
      ->required();
  problem.Add("--models", to.models, "FILE", "the models of the cascade, the smallest first")->required();
  problem.Add("--gpus", to.gpus, "N", "GPUs of the cluster", Whole(1, 65536))->required();
  problem.Add("--rate", to.rate, "X", "requests per second", Positive())->required();
  problem.Add("--judge-s", to.judge_s, "S", "the judge takes so long per answer");
  problem.Add("--gpu-usd", to.gpu_usd, "USD", "price of a GPU, per hour");
  problem.Add("--profiles", to.profiles, "FILE", "a JSON file with more profiles");
  Group goal(*app, "Goal");
  CLI::Option* quality = goal.Add("--quality", to.quality, "Q", "least p95 latency with at least this mean score [0]");
  goal.Add("--latency", to.latency, "S", "best quality with this p95 latency instead", Positive())->excludes(quality);
  goal.AddFlag("--path", to.path, "least p95 along the path that requests take, instead of that of the slowest model")
      ->excludes("--latency");
  goal.Add("--penalty", to.penalty, "MU", "a miss costs so much per unit of the range [a miss is no plan]", Positive());
  Group search(*app, "Search");
  CLI::Option* thresholds =
      search.Add("--thresholds", to.thresholds, "H,...", "this routing alone: a threshold for each model but the last")
          ->delimiter(',');
  search.Add("--grid", to.grid, "H,...", "thresholds that each model may have, rising [0, 1 .. 101]")
      ->delimiter(',')
      ->excludes(thresholds);
  search.AddFlag("--alternation", to.alternation, "also run Cascadia's alternation on the same tables");
  search.Add("--requests", to.requests, "N", "the plan is simulated with so many; 0: not", Whole(0, 100'000'000));
  search.Add("--seed", to.seed, "N", "of their arrivals");
  search.Add("-j,--threads", to.threads, "N", "[as many as there are cores]; changes no result", Whole(1, 1024));
  Group output(*app, "Output (a file, or - for standard output)");
  output.Add("--json", to.json, "FILE", "the plan and the frontier");
  output.Add("--html", to.html, "FILE", "a page with a picture of the plan, which needs nothing else");
  output.AddFlag("--no-wall", to.no_wall, "leave out how long it took, so that equal runs give equal files");
  output.AddFlag("-q,--quiet", to.quiet, "no table, no progress bar");
}

void AddCluster(CLI::App& tool, Arguments& chosen) {
  std::string solvers;
  for (const MilpSolverInfo& info : MilpSolverInfos()) {
    solvers += fmt::format("{}{}{}", solvers.empty() ? "" : ", ", info.name, info.built_in ? "" : " (not built in)");
  }
  const auto [app, to] = AddCommand<ClusterArguments>(
      tool, chosen, "cluster", "plan a cluster of several classes of GPUs by an integer program", kClusterExamples);
  Group problem(*app, "Problem");
  problem.Add("file", to.file, "FILE", "models, classes of GPUs, replicas and routings, or - for standard input")
      ->required();
  problem.AddFlag("--patterns", to.patterns, "how each server is filled, also where counting GPUs is exact");
  Group search(*app, "Search");
  search.Add("--solver", to.solver, "NAME", (solvers + " [the first that is built in]").c_str());
  search.Add("--seconds", to.seconds, "S", "then the best plan so far and its bound are reported", Positive());
  search.Add("--gap", to.gap, "SHARE", "a plan so close to its bound is the optimum", Share(1));
  Group output(*app, "Output (a file, or - for standard output)");
  output.Add("--json", to.json, "FILE", "the plan");
  output.Add("--mps", to.mps, "FILE", "the integer program as free MPS, for any solver");
  output.AddFlag("-q,--quiet", to.quiet, "no table");
}

void AddOthers(CLI::App& tool, Arguments& chosen) {
  const std::string group = "Options";
  AddCommand<PoliciesArguments>(tool, chosen, "policies", "list the policies: what each does, and its options");

  const auto [profiles, more] = AddCommand<ProfilesArguments>(
      tool, chosen, "profiles", "list the profiles: models on GPUs, by what a step costs");
  Group(*profiles, group).Add("--profiles", more.file, "FILE", "a JSON file with more");

  const auto [inspect, inspected] = AddCommand<InspectArguments>(
      tool, chosen, "workload", "say what is in a workload",
      "Examples\n  takt workload azure_llm_2023_conv.csv.gz\n  takt workload bundled --output bundled.jsonl");
  Group options(*inspect, group);
  options.Add("file", inspected.workload.file, "FILE", "a trace, 'bundled', or a generator");
  AddWorkload(options, inspected.workload);
  options.Add("--output", inspected.output, "FILE", "write it as workflow JSONL (.gz packs it)");

  const auto [generate, made] = AddCommand<GenerateArguments>(
      tool, chosen, "generate", "make a workload of random arrivals and lengths", kGenerateExamples);
  Group generator(*generate, group);
  generator.Add("spec", made.spec, "SPEC", "gen:NAME,key=value,...")->required();
  generator.Add("--output", made.output, "FILE", "a file (.gz packs it), or - for standard output");

  const auto [log, replayed] = AddCommand<ReplayLogArguments>(
      tool, chosen, "replay-log", "replay the log of a scheduler, and say where its plans come out otherwise",
      "A log that was cut off is replayed up to the cut. Exit code: 0 all plans came out again, 1 one did not.");
  Group logs(*log, group);
  logs.Add("file", replayed.file, "FILE", "a log that takt's Recorder wrote, or - for standard input")->required();
  logs.AddFlag("--dump", replayed.dump, "print its records instead, one a line");
}

}  // namespace

std::variant<Arguments, int> ParseArguments(int argc, const char* const* argv) {
  CLI::App tool(kToolHelp, "takt");
  tool.formatter(HelpFormat());
  tool.set_version_flag("--version", "takt " TAKT_VERSION);
  tool.require_subcommand(1);
  tool.footer(kToolExamples);
  Arguments chosen;
  AddReplay(tool, chosen);
  AddCalibrate(tool, chosen);
  AddPrediction(tool, chosen);
  AddCompare(tool, chosen);
  AddScenario(tool, chosen);
  AddPlan(tool, chosen);
  AddTune(tool, chosen);
  AddCluster(tool, chosen);
  AddOthers(tool, chosen);
  if (argc < 2) {
    std::fputs(tool.help().c_str(), stderr);
    return kUsage;
  }
  try {
    tool.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return tool.exit(error) == 0 ? kDone : kFailed;
    return ReportUsage(tool, error);
  }
  return chosen;
}

}  // namespace takt::tool
