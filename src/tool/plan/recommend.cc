// takt recommend: finds the configuration with the least GPUs that serves a workload within targets.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "takt/planning/parallelism.h"
#include "takt/version.h"
#include "tool/command/commands.h"
#include "tool/command/replay_setup.h"
#include "tool/command/write_reports.h"
#include "tool/plan/recommend_search.h"
#include "tool/report/json_writer.h"
#include "tool/report/table.h"
#include "tool/run/exit_code.h"
#include "tool/run/load_workload.h"
#include "tool/run/output.h"
#include "tool/run/progress_bar.h"
#include "tool/run/terminal.h"

namespace takt::tool {
namespace {

struct RecommendArguments : ReplaySetup {
  WorkloadSource workload;
  std::string estimates = "oracle";
  std::vector<std::string> slo;
  std::int32_t gpus = 0;
  std::vector<std::string> shapes, policies, caches;
  std::vector<std::int32_t> tp = {1, 2, 4, 8}, pp = {1}, budgets = {2048, 8192};
  std::string profiles_file;
  bool exhaustive = false;
  std::int64_t rows = 5;
  std::string json;
  bool quiet = false;
  int threads = 0;  // 0: one per core
  const CLI::App* app = nullptr;  // the command, for the options that takt replay needs too
};

struct Recommendation {
  const RecommendArguments& arguments;
  ReplaySetup setup;
  Workload workload;
  std::vector<Target> targets;
  Grid grid;
  std::vector<std::string> left_out;  // shapes that serve nothing, with the reason
  std::int64_t count = 0;  // candidates
  std::vector<Candidate> ranked = {};
  bool interrupted = false;

  const Candidate* best() const { return !ranked.empty() && ranked.front().serves() ? &ranked.front() : nullptr; }
};

constexpr std::string_view kRecommend = "recommend";
constexpr std::int64_t kMostCandidates = 10'000;
constexpr const char *kWorkloadGroup = "Workload", *kEngineGroup = "Engine", *kLoadGroup = "Load",
                     *kRequestGroup = "Targets of a request";

constexpr const char* kRecommendExamples =
    R"(Targets: FIGURE_STATISTIC=LIMIT, at most LIMIT; a figure is ttft, tpot, e2e, queue, workflow, per_token, slowdown, ...,
and a statistic mean, p50, p90, p95, p99 or max. attainment=SHARE, goodput=RPS and success=SHARE [1] are least values.
See docs/howto/recommend.md.

Examples
  takt recommend --workload azure_llm_2023_conv.csv.gz --rate-scale 5 --gpus 8 --slo ttft_p95=2s,tpot_p99=50ms
  takt recommend --profile aic/llama-3.1-70b/h100/bf16 --gpus 16 --slo attainment=0.9,e2e_p95=30s --policy fcfs --json -

Exit code: 0 found, 1 failed or nothing serves (the message has the nearest miss), 2 wrong usage, 130 interrupted (the
best so far is reported).)";

// ---- reports ------------------------------------------------------------------------------------------------------

std::string LimitText(const Target& target) {
  const bool time = target.summary != nullptr && target.summary != &Metrics::slowdown &&
                    target.summary != &Metrics::workflow_slowdown;
  return fmt::format("{} {} {}{}", target.name, target.least ? "at least" : "at most", target.limit, time ? " s" : "");
}

// Returns "ttft_p95 by 35 %": the missed targets, the worst first.
std::string MissesText(const std::vector<Target>& targets, const Candidate& c) {
  std::vector<std::pair<double, std::string_view>> missed;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const double room = targets[t].RoomOf(c.figures[t]);
    if (room < 0) missed.emplace_back(room, targets[t].name);
  }
  std::ranges::stable_sort(missed, {}, &std::pair<double, std::string_view>::first);
  std::string text;
  for (const auto& [room, name] : missed) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name,
                        std::isfinite(room) ? fmt::format("by {} %", Short(-100 * room)) : "(nothing to measure)");
  }
  return text.empty() ? "-" : text;
}

// Returns the arguments of the takt replay that runs a candidate.
std::vector<std::string> ReplayArgs(const Recommendation& r, const Candidate& c) {
  std::vector<std::string> args = {"replay"};
  const auto add = [&](std::string name, std::string value) {
    args.push_back(std::move(name)), args.push_back(std::move(value));
  };
  for (std::string& arg : GivenOptions(*r.arguments.app, {kWorkloadGroup, kEngineGroup, kLoadGroup, kRequestGroup})) {
    args.push_back(std::move(arg));
  }
  add("--profile", r.grid.shapes[c.shape].id);
  add("--instances", fmt::format("{}", c.replicas));
  add("--token-budget", fmt::format("{}", r.grid.budgets[c.budget]));
  const CacheSetting& cache = r.grid.caches[c.cache];
  if (cache.prefixes) args.emplace_back("--prefix-cache");
  if (cache.host_tokens > 0) add("--host-kv-tokens", fmt::format("{}", cache.host_tokens));
  add("--policy", r.grid.policies[c.policy]);
  return args;
}

std::string ShellText(const std::vector<std::string>& args) {
  std::string text = "takt";
  for (const std::string& arg : args) {
    const bool plain = !arg.empty() && arg.find_first_not_of(
                                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                           "0123456789_./:=,@%+-") == std::string::npos;
    text += ' ';
    if (plain) {
      text += arg;
      continue;
    }
    text += '\'';
    for (const char letter : arg) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    text += '\'';
  }
  return text;
}

// Returns the candidates of the table: the first candidates with the GPUs of the best. Then the first candidate of each
// other number of GPUs, the nearest number first.
std::vector<const Candidate*> Shown(const Recommendation& r) {
  std::vector<const Candidate*> shown;
  if (r.ranked.empty()) return shown;
  const std::int32_t gpus = r.ranked.front().gpus;
  for (const Candidate& c : r.ranked) {
    if (c.gpus == gpus && std::ssize(shown) < r.arguments.rows) shown.push_back(&c);
  }
  std::vector<const Candidate*> others;
  for (const Candidate& c : r.ranked) {
    const auto equal = [&](const Candidate* other) { return other->gpus == c.gpus; };
    if (c.gpus != gpus && std::ranges::none_of(others, equal)) others.push_back(&c);
  }
  std::ranges::stable_sort(others, {},
                           [&](const Candidate* c) { return std::pair(std::abs(c->gpus - gpus), c->gpus); });
  others.resize(std::min(others.size(), static_cast<std::size_t>(r.arguments.rows)));
  shown.insert(shown.end(), others.begin(), others.end());
  return shown;
}

std::string RecommendText(const Recommendation& r, bool colour) {
  std::string targets;
  for (const Target& target : r.targets) {
    targets += targets.empty() ? "" : ", ";
    targets += target.implied ? "every request completes" : LimitText(target);
  }
  std::string text = fmt::format(
      "Workload  {}: {} of {}\nTargets   {}\n"
      "Search    {} of {} ran, with at most {}{}\n",
      ShownName(r.workload.name), Counted(std::ssize(r.workload.workflows), "workflow"),
      Counted(std::ssize(r.workload.calls), "request"), targets, Grouped(std::ssize(r.ranked)),
      Counted(r.count, "candidate"), Counted(r.grid.gpus, "GPU"), r.interrupted ? "; interrupted" : "");
  for (const std::string& shape : r.left_out) {
    text += fmt::format("Left out  {}\n", ShownName(shape));
  }
  std::vector<Table::Column> columns = {
      {"", "GPUs"}, {"", "engines", false}, {"", "policy", false}, {"", "step tokens"}, {"", "prefixes", false}};
  for (const Target& target : r.targets) {
    if (!target.implied) columns.push_back({"", target.name});
  }
  columns.push_back({"", "room %"});
  columns.push_back({"", "misses", false});
  Table table(std::move(columns));
  const bool one_id = r.arguments.shapes.size() == 1;  // named once below the table
  std::int32_t gpus = 0;
  for (const Candidate* c : Shown(r)) {
    if (gpus == r.ranked.front().gpus && c->gpus != gpus) table.BeginSection();
    gpus = c->gpus;
    table.BeginRow();
    table.Number(c->gpus);
    const std::string& id = r.grid.shapes[c->shape].id;
    table.Text(fmt::format("{} x {}", c->replicas, id.substr(one_id ? r.arguments.shapes.front().size() + 1 : 0)));
    table.Text(r.grid.policies[c->policy]);
    table.Number(r.grid.budgets[c->budget]);
    table.Text(r.grid.caches[c->cache].Name());
    for (std::size_t t = 0; t < r.targets.size(); ++t) {
      if (!r.targets[t].implied) table.Number(c->figures[t]);
    }
    table.Number(100 * c->room);
    table.Text(MissesText(r.targets, *c));
  }
  text += "\n" + table.ToString(colour);
  if (const Candidate* best = r.best()) {
    text += fmt::format("\nUse {}: {}. This run is\n  {}\n", ShownName(TextOf(r.grid, *best)),
                        Counted(best->gpus, "GPU"), ShownLines(ShellText(ReplayArgs(r, *best))));
  }
  return text;
}

void WriteCandidate(JsonWriter& json, const Recommendation& r, const Candidate& c) {
  const Profile& shape = r.grid.shapes[c.shape];
  const CacheSetting& cache = r.grid.caches[c.cache];
  json.BeginObject().Field("gpus", c.gpus).Field("replicas", c.replicas).Field("profile", shape.id);
  json.Field("derived", shape.derived).Field("tp", shape.cost.tp).Field("pp", shape.cost.pp);
  json.Field("policy", r.grid.policies[c.policy]).Field("token_budget", r.grid.budgets[c.budget]);
  json.Field("prefix_cache", cache.prefixes).Field("host_kv_tokens", cache.host_tokens);
  json.Field("serves", c.serves()).Field("room", c.room).Key("figures").BeginObject();
  for (std::size_t t = 0; t < r.targets.size(); ++t) json.Field(r.targets[t].name, c.figures[t]);
  json.EndObject().Field("requests", c.metrics.requests).Field("completed", c.metrics.completed);
  json.Field("goodput_rps", c.metrics.goodput_rps).Field("e2e_mean_s", c.metrics.e2e.mean);
  json.Key("replay").BeginArray();
  for (const std::string& arg : ReplayArgs(r, c)) json.Value(arg);
  json.EndArray().EndObject();
}

std::string RecommendJson(const Recommendation& r) {
  JsonWriter json;
  json.BeginObject().Field("takt", TAKT_VERSION).Field("command", kRecommend);
  json.Key("workload").BeginObject().Field("source", r.arguments.workload.file).Field("name", r.workload.name);
  json.Field("workflows", r.workload.workflows.size()).Field("requests", r.workload.calls.size()).EndObject();
  json.Field("gpus", r.grid.gpus).Field("estimates", r.arguments.estimates).Field("seed", r.arguments.workload.seed);
  json.Key("targets").BeginArray();
  for (const Target& target : r.targets) {
    json.BeginObject().Field("name", target.name).Field(target.least ? "least" : "most", target.limit).EndObject();
  }
  json.EndArray().Key("left_out").BeginArray();
  for (const std::string& shape : r.left_out) json.Value(shape);
  json.EndArray().Field("candidates", r.count).Field("partial", r.interrupted);
  json.Key("best");
  if (const Candidate* best = r.best()) WriteCandidate(json, r, *best);
  else json.Null();
  json.Key("ranked").BeginArray();
  for (const Candidate& c : r.ranked) WriteCandidate(json, r, c);
  return json.EndArray().EndObject().Take() + "\n";
}

constexpr ReportOf<RecommendArguments, Recommendation> kRecommendReports[] = {
    {"--json", &RecommendArguments::json, RecommendJson}};

// ---- the search ---------------------------------------------------------------------------------------------------

absl::StatusOr<Grid> GridOf(const RecommendArguments& arguments, std::vector<std::string>& left_out) {
  Grid grid{.budgets = arguments.budgets, .policies = arguments.policies, .gpus = arguments.gpus};
  std::vector<Profile> more;
  if (!arguments.profiles_file.empty()) {
    absl::StatusOr<std::vector<Profile>> read = ReadProfiles(arguments.profiles_file);
    if (!read.ok())
      return absl::InvalidArgumentError(fmt::format("--profiles: {}", std::string(read.status().message())));
    more = *std::move(read);
  }
  for (const std::string& id : arguments.shapes) {
    absl::StatusOr<std::vector<Profile>> shapes = FindShapes(id, arguments.tp, arguments.pp, more);
    if (!shapes.ok()) {
      return absl::InvalidArgumentError(fmt::format("--profile: {}", std::string(shapes.status().message())));
    }
    for (Profile& shape : *shapes) {
      if (shape.kv_capacity_tokens > 0) grid.shapes.push_back(std::move(shape));
      else left_out.push_back(shape.id + ": no KV capacity, as the weights do not fit or are unknown");
    }
  }
  if (grid.shapes.empty()) {
    return absl::InvalidArgumentError("--profile: no shape has KV capacity; expected another profile, --tp or --pp");
  }
  for (const std::string& text : arguments.caches) {
    const absl::StatusOr<CacheSetting> cache = ReadCacheSetting(text);
    if (!cache.ok()) return cache.status();
    grid.caches.push_back(*cache);
  }
  return grid;
}

// At a horizon some requests still run, so not all can be expected to complete. The user then states how many must.
absl::Status CheckHorizon(const ReplayOptions& base, std::vector<Target>& targets) {
  if (base.cluster.horizon <= Duration{0}) return absl::OkStatus();
  std::erase_if(targets, [](const Target& t) { return t.implied; });
  for (const Target& target : targets) {
    if (target.name == "success" || target.name == "attainment" || target.name == "goodput") return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "--slo: is incomplete with a horizon; expected success, attainment or goodput too, because latencies leave out "
      "requests that have not completed by then");
}

// Leaves out shapes whose KV is too small for the longest request, if every request must complete.
absl::Status LeaveOutSmall(const ReplayOptions& base, Recommendation& r) {
  const bool all = std::ranges::any_of(r.targets, [](const Target& t) { return t.name == "success" && t.limit >= 1; });
  if (!all || base.scheduler.kv != KvMode::kLedger || base.cluster.horizon > Duration{0}) return absl::OkStatus();
  std::int64_t longest = 0;  // tokens at the last step; models of a workload have outputs of their own
  for (const WorkloadCall& call : r.workload.calls) {
    const std::int32_t output = r.workload.models.empty() ? call.output_tokens : 1;
    longest = std::max(longest, std::int64_t{call.prompt_tokens} + output - 1);
  }
  std::erase_if(r.grid.shapes, [&](const Profile& shape) {
    if (shape.kv_capacity_tokens >= longest) return false;
    r.left_out.push_back(fmt::format("{}: {} tokens of KV, but the longest request needs {}", shape.id,
                                     Grouped(shape.kv_capacity_tokens), Grouped(longest)));
    return true;
  });
  if (!r.grid.shapes.empty()) return absl::OkStatus();
  return absl::NotFoundError(fmt::format("no configuration serves: {}", r.left_out.back()));
}

// Chooses the cache settings if the user gave none. A cache that the workload or a retention policy needs stays on.
absl::Status SetCaches(const Workload& workload, bool needed, std::vector<CacheSetting>& caches) {
  if (caches.empty()) {
    if (!needed) caches.push_back({});
    if (needed || !workload.prefix_hashes.empty()) caches.push_back({.prefixes = true});
  }
  if (needed && std::ranges::any_of(caches, [](const CacheSetting& c) { return !c.prefixes; })) {
    return absl::InvalidArgumentError("--caches: off is unsupported with sessions, --retention and --gate");
  }
  return absl::OkStatus();
}

absl::Status CheckCount(const Recommendation& r, const std::vector<CacheSetting>& caches) {
  Grid grid{.shapes = r.grid.shapes,
            .caches = caches,
            .budgets = r.grid.budgets,
            .policies = r.grid.policies,
            .gpus = r.grid.gpus};
  if (grid.caches.empty()) grid.caches.resize(1);  // until the workload is known
  const std::int64_t count = CountOf(grid);
  if (count > 0 && count <= kMostCandidates) return absl::OkStatus();
  if (count == 0) {
    std::int32_t least = GpusOf(grid.shapes.front());
    for (const Profile& shape : grid.shapes) least = std::min(least, GpusOf(shape));
    return absl::InvalidArgumentError(
        fmt::format("--gpus: {} is invalid; expected at least {}, as each engine needs", grid.gpus, least));
  }
  return absl::InvalidArgumentError(
      fmt::format("--gpus: the grid has {} candidates; expected at most {}. Use fewer GPUs, shapes, policies, "
                  "budgets or caches",
                  Grouped(count), Grouped(kMostCandidates)));
}

int RunRecommend(const RecommendArguments& wished) {
  CatchInterrupts();
  RecommendArguments arguments = wished;
  if (arguments.policies.empty()) arguments.policies = DefaultPolicies();
  if (arguments.shapes.empty()) arguments.shapes = {"aic/llama-3.1-8b/h100/bf16"};
  const auto usage = [](const absl::Status& status) { return Complain(kRecommend, status, kUsage); };
  const auto fail = [](const absl::Status& status) { return Complain(kRecommend, status, kFailed); };
  if (absl::Status load = CheckLoad(arguments); !load.ok()) return usage(load);
  const NamedPath inputs[] = {{"--workload", arguments.workload.file}, {"--profiles", arguments.profiles_file}};
  if (absl::Status paths = CheckPaths(inputs, PathsOf(arguments, kRecommendReports)); !paths.ok()) return usage(paths);

  absl::StatusOr<std::vector<Target>> targets = ReadTargets(arguments.slo);
  if (!targets.ok()) return usage(targets.status());
  const absl::StatusOr<EstimateSpec> estimates = EstimateSpec::Parse(arguments.estimates);
  if (!estimates.ok()) {
    return usage(absl::InvalidArgumentError(fmt::format("--estimates: {}", std::string(estimates.status().message()))));
  }
  std::vector<std::string> left_out;
  absl::StatusOr<Grid> grid = GridOf(arguments, left_out);
  if (!grid.ok()) return usage(grid.status());
  absl::StatusOr<ReplayOptions> base =
      ReplayOptionsOf(arguments, {grid->shapes.front()}, arguments.workload.seed, grid->policies);
  if (!base.ok()) return usage(base.status());
  base->estimates = *estimates;
  Recommendation r{.arguments = arguments,
                   .setup = arguments,
                   .workload = {},
                   .targets = *std::move(targets),
                   .grid = *std::move(grid),
                   .left_out = std::move(left_out)};
  if (absl::Status count = CheckCount(r, r.grid.caches); !count.ok()) return usage(count);

  absl::StatusOr<Workload> workload = LoadWorkload(arguments.workload);
  if (!workload.ok()) return fail(workload.status());
  r.workload = *std::move(workload);
  if (absl::Status drawn = DrawLoad(r.setup, arguments.workload.seed, r.workload, *base); !drawn.ok()) {
    return usage(drawn);
  }
  if (absl::Status horizon = CheckHorizon(*base, r.targets); !horizon.ok()) return usage(horizon);
  if (absl::Status left = LeaveOutSmall(*base, r); !left.ok()) return fail(left);
  if (absl::Status caches = SetCaches(r.workload, r.setup.prefix_cache, r.grid.caches); !caches.ok()) {
    return usage(caches);
  }
  if (absl::Status count = CheckCount(r, r.grid.caches); !count.ok()) return usage(count);
  r.count = CountOf(r.grid);
  absl::StatusOr<std::vector<OutputFile>> files = OpenReports(arguments, kRecommendReports);
  if (!files.ok()) return fail(files.status());

  ProgressBar bar(!arguments.quiet);
  absl::StatusOr<std::vector<Candidate>> ranked =
      RunSearch({r.workload, r.setup, *base, r.grid, r.targets, arguments.exhaustive}, arguments.threads, bar);
  bar.Clear();
  if (!ranked.ok()) return absl::IsInvalidArgument(ranked.status()) ? usage(ranked.status()) : fail(ranked.status());
  r.ranked = *std::move(ranked);
  r.interrupted = Interrupted();
  if (absl::Status written = WriteReports(r, arguments, kRecommendReports, *files, arguments.quiet, RecommendText);
      !written.ok()) {
    return fail(written);
  }
  if (r.interrupted) return kInterrupted;
  if (r.best() != nullptr) return kDone;
  const Candidate& nearest = r.ranked.front();
  return fail(absl::NotFoundError(
      fmt::format("no configuration of at most {} serves within the targets. The nearest misses {}: {}",
                  Counted(r.grid.gpus, "GPU"), MissesText(r.targets, nearest), TextOf(r.grid, nearest))));
}

}  // namespace

void AddRecommend(CLI::App& tool, Chosen& chosen) {
  const auto [app, to] = AddCommand(tool, chosen, "recommend",
                                    "find the least GPUs, and their settings, that serve a workload within targets",
                                    RunRecommend, kRecommendExamples);
  to.app = &app;
  Group goal(app, "Goal");
  goal.Add("--slo", to.slo, "TARGET,...", "serve within these targets, such as ttft_p95=2s,tpot_p99=50ms")
      .Listed()
      .Required();
  goal.Add("--gpus", to.gpus, "N", "use at most N GPUs", Whole(1, 65536)).Required();
  Group request(app, kRequestGroup);
  request.Add("--slo-ttft", to.slo_ttft, "S", "attainment and goodput: set the limit of the time to first token",
              Positive());
  request.Add("--slo-tpot", to.slo_tpot, "S", "attainment and goodput: set the limit of the mean time per token",
              Positive());
  Group workload(app, kWorkloadGroup);
  workload.Add("--workload", to.workload.file, "FILE", "serve this trace, 'bundled', or a generator");
  AddWorkloadSource(workload, to.workload);
  workload.Add("--estimates", to.estimates, "KIND", "estimate output lengths as in takt replay");
  Group grid(app, "Grid");
  grid.Add("--profile", to.shapes, "ID",
           "try engines with this profile, given without /tpN; repeat as needed [aic/llama-3.1-8b/h100/bf16]");
  grid.Add("--tp", to.tp, "N,...", "try these degrees of tensor parallelism, as far as the profile has them",
           Whole(1, 64))
      .Listed();
  grid.Add("--pp", to.pp, "N,...", "try these numbers of pipeline stages that divide the layers", Whole(1, 64))
      .Listed();
  grid.Add("--token-budgets", to.budgets, "N,...", "try these limits of a step's tokens", Whole(1)).Listed();
  grid.Add("--policy", to.policies, "NAME",
           "try this policy; repeat as needed [fcfs, sjf, stjf, room_to_pass]; see 'takt policies'");
  grid.Add(
          "--caches", to.caches, "SETTING,...",
          "try prefix caches: off, on, or a number of tokens per engine in host memory [off and on if the workload has "
          "prefixes]")
      .Listed();
  grid.AddFlag("--exhaustive", to.exhaustive,
               "also run candidates with more GPUs than the best; its choice is the same");
  Group engine(app, kEngineGroup);
  engine.Add("--profiles", to.profiles_file, "FILE", "read more profiles from a JSON file");
  AddEngineSetup(engine, to);
  AddLoadSetup({app, kLoadGroup}, to);
  Group output(app, "Output (a file, or - for standard output)");
  output.Add("--json", to.json, "FILE", "write all candidates that ran");
  output.Add("--rows", to.rows, "N", "show N candidates with the best's GPUs, and one for each of N other numbers",
             Whole(1, kMostCandidates));
  output.AddFlag("-q,--quiet", to.quiet, "print no table and no progress bar");
  output.Add("-j,--threads", to.threads, "N", "run N replays in parallel [one per core]; results do not change",
             Whole(1, 1024));
}

}  // namespace takt::tool
