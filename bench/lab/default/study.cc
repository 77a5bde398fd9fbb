#include "lab/default/study.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <utility>

#include "lab/scenario.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"
#include "takt/base/random.h"
#include "takt/systems/replay.h"
#include "takt/pause/registry.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/workload/generate.h"
#include "takt/workload/read.h"
#include "takt/workload/transform.h"

namespace takt::tool {
namespace {

// Chosen: usual limits of a step. At 2,048 tokens a step with a prompt takes too long for any order to end workflows
// within five times their time alone. Host memory for swapped KV, in bytes, is as in the LAMPS scenario.
constexpr StepLimits kShortSteps{.tokens = {512}, .max_seqs = 256};
constexpr Blocks kCpuBlocks{12'500};
constexpr std::uint64_t kSampleSeed = 1'000'000;  // of the workflows used to choose sizes; no run uses it
constexpr std::size_t kSampleCalls = 6000;
constexpr double kGreedyShare = 0.6;  // share of capacity for the polite tenants; the greedy one takes the same
constexpr std::uint32_t kPoliteTenants = 9;

std::size_t Index(Served s) { return static_cast<std::size_t>(s); }

// This many workflows in a row, from a random start, with their times.
Workload Window(const Workload& from, std::size_t workflows, std::uint64_t seed) {
  Random random(seed);
  const std::size_t n = std::min(workflows, from.workflows.size());
  const std::size_t first = random.Below(from.workflows.size() - n + 1);
  Workload window = from;
  window.workflows.assign(from.workflows.begin() + static_cast<std::ptrdiff_t>(first),
                          from.workflows.begin() + static_cast<std::ptrdiff_t>(first + n));
  const Duration start = window.workflows.front().arrival.time_since_epoch();
  for (WorkloadWorkflow& w : window.workflows) w.arrival -= start;
  return Tidied(window);
}

// One model answers all; visible features of prompts are left out.
Workload OfOneModel(Workload workload) {
  workload.models.clear();
  workload.model_tokens.clear();
  workload.feature_names.clear();
  workload.features.clear();
  for (WorkloadWorkflow& w : workload.workflows) w.solved_by = 0;
  return workload;
}

// Marks each as having a deadline, without its value.
void MarkDeadlines(Workload& workload) {
  for (WorkloadWorkflow& w : workload.workflows) w.deadline = Duration::zero();
}

// Stretches the arrivals over this many seconds.
absl::Status Stretch(Workload& workload, double seconds) {
  const double span = ToSeconds(workload.workflows.back().arrival);
  return span > 0 && seconds > 0 ? ScaleRate(workload, span / seconds) : absl::OkStatus();
}

DefaultFigures DefaultFiguresOf(const Workload& workload, const IsolatedLatencies& alone, const ReplayResult& result) {
  const Metrics& m = result.metrics;
  DefaultFigures f{.mean = m.workflow.mean,
                   .p50 = m.workflow.p50,
                   .p95 = m.workflow.p95,
                   .p99 = m.workflow.p99,
                   .max = m.workflow.max,
                   .ttft = m.ttft.mean,
                   .ttft_p99 = m.ttft.p99,
                   .slowdown_max = m.workflow_slowdown.max,
                   .scale = m.slo_scale_95,
                   .kv = m.kv_mean,
                   .preempted = static_cast<double>(m.preemptions)};
  std::vector<double> others;
  for (std::size_t i = 0; i < result.workflows.size(); ++i) {
    const WorkflowRecord& w = result.workflows[i];
    if (w.outcome != Outcome::kCompleted) continue;
    const double took = ToSeconds(w.end - w.arrival);
    f.in_time += took <= kDefaultSloScale * ToSeconds(alone.workflows[i]);
    if (workload.workflows[i].tenant != kGreedyTenant) others.push_back(took);
  }
  f.in_time *= 100 / static_cast<double>(std::max<std::size_t>(1, result.workflows.size()));
  const Summary s = Summary::Of(others);
  f.others = s.mean, f.others_p99 = s.p99;
  return f;
}

}  // namespace

DefaultStudy::DefaultStudy(const std::string& data, double minutes, SeedRange seeds)
    : Study(seeds), minutes_(minutes), profile_(*FindProfile(kDefaultProfile)) {
  const auto generated = [&](Served s, const char* spec) {
    Source& source = sources_[Index(s)];
    source.spec = spec;
    if (const absl::Status made = GenerateWorkload(source.spec + ",workflows=2").status(); !made.ok()) {
      source.missing = std::string(made.message());
    }
  };
  generated(Served::kApps, "gen:apps,model=qwen2.5-1.5b,rate=1");
  generated(Served::kMath, "gen:math,model=qwen2.5-1.5b,rate=1");
  generated(Served::kApps7, "gen:apps,model=qwen2.5-7b,rate=1");
  generated(Served::kAgents, "gen:kairos,app=mix,rate=1");
  const auto read = [&](Served s, const char* folder, const char* file, bool window) {
    Source& source = sources_[Index(s)];
    source.window = window;
    const absl::StatusOr<std::string> path = FindData(data, folder, file);
    absl::StatusOr<Workload> w = path.ok() ? ReadWorkload(*path) : path.status();
    if (w.ok()) {
      source.requests = *std::move(w);
    } else {
      source.missing = std::string(w.status().message());
      missing_.push_back(fmt::format("{}/{}", folder, file));
    }
  };
  read(Served::kText1, "text2sql", "trace1.jsonl", false);
  read(Served::kText2, "text2sql", "trace2.jsonl", false);
  read(Served::kTools, "tools", "infercept_multi_api.jsonl", false);
  read(Served::kConv, "traces", "azure_llm_2023_conv.csv.gz", true);
  read(Served::kCode, "traces", "azure_llm_2023_code.csv.gz", true);
  read(Served::kShareGpt, "traces", "sharegpt_10k_lengths.csv.gz", false);
  read(Served::kChats, "traces", "mooncake_fast25_conversation.jsonl.gz", true);
  for (const Served s : {Served::kGreedyShort, Served::kGreedyAlike}) {
    sources_[Index(s)].missing = sources_[Index(Served::kConv)].missing;
  }
}

// In a workload without tool calls, only the order uses estimates.
DefaultSetup DefaultStudy::Reduced(DefaultSetup setup) const {
  const bool tools = setup.served == Served::kTools || setup.served == Served::kMix;
  if (!setup.system.asks && !tools) setup.estimates = {};
  return setup;
}

std::optional<std::size_t> DefaultStudy::AddRun(DefaultSetup setup) {
  if (!has(setup.served)) return std::nullopt;
  return Add(Reduced(std::move(setup)));
}

const DefaultCell* DefaultStudy::FindRun(DefaultSetup setup) const { return Find(Reduced(std::move(setup))); }

std::optional<Reduction> DefaultStudy::Compare(const DefaultSetup& ours, const DefaultSetup& other,
                                               DefaultFigure figure) const {
  return Study::Compare(Reduced(ours), Reduced(other), figure);
}

ReplayOptions DefaultStudy::OptionsOf(const DefaultSetup& setup, std::uint64_t seed) const {
  ReplayOptions options;
  options.profile = profile_;
  options.policy = *MakePolicyFactory(setup.system.policy);
  options.pause = *MakePauseFactory("least_waste");
  options.estimates = setup.estimates;
  options.budgets = setup.system.budget;
  options.seed = seed;
  options.instances = setup.instances;
  options.placement = *MakePlacement(setup.placement);
  options.engine.limits = kShortSteps;
  options.scheduler.cpu_blocks = kCpuBlocks;
  options.scheduler.prefix_cache = setup.served == Served::kChats;
  return options;
}

absl::StatusOr<Workload> DefaultStudy::Make(Served served, std::size_t workflows, std::uint64_t seed) const {
  const Source& source = sources_[Index(served)];
  if (!source.spec.empty()) {
    absl::StatusOr<Workload> made =
        GenerateWorkload(fmt::format("{},workflows={},seed={}", source.spec, workflows, seed));
    return made.ok() ? OfOneModel(*std::move(made)) : made;
  }
  if (source.window) return Window(source.requests, workflows, seed);
  return Draw(source.requests, static_cast<std::int64_t>(workflows), Arrivals{}, seed);
}

absl::StatusOr<double> DefaultStudy::WorkflowsPerSecond(Served served) const {
  absl::StatusOr<Workload> sample = Make(served, 50, kSampleSeed);
  if (!sample.ok()) return sample.status();
  const std::size_t calls_each = std::max<std::size_t>(1, sample->calls.size() / sample->workflows.size());
  sample = Make(served, kSampleCalls / calls_each, kSampleSeed);
  if (!sample.ok()) return sample.status();
  const absl::StatusOr<double> rps = MeasureSaturation(*sample, OptionsOf({.served = served}, 1));
  if (!rps.ok()) return rps.status();
  return *rps * static_cast<double>(sample->workflows.size()) / static_cast<double>(sample->calls.size());
}

// Each part alone would take an equal share of the GPU.
absl::StatusOr<Workload> DefaultStudy::MakeMix(const std::vector<Served>& parts, std::uint64_t seed) const {
  std::vector<Workload> made;
  const double seconds = minutes_ * 60 * SpanOf(Served::kMix);
  for (const Served part : parts) {
    const double n = std::max(4.0, std::round(pace_[Index(part)] * seconds / static_cast<double>(parts.size())));
    absl::StatusOr<Workload> workload = Make(part, static_cast<std::size_t>(n), seed);
    if (!workload.ok()) return workload.status();
    if (absl::Status s = Stretch(*workload, seconds); !s.ok()) return s;
    if (UnderDeadlines(part)) MarkDeadlines(*workload);
    made.push_back(*std::move(workload));
  }
  std::vector<Part> merged;
  for (const Workload& workload : made) merged.push_back({&workload, Duration{0}});
  return Merge(merged);
}

absl::StatusOr<Workload> DefaultStudy::MakeGreedy(bool alike, std::uint64_t seed) const {
  const double seconds = minutes_ * 60 / (2 * kGreedyShare);
  const double polite_n = std::max(8.0, std::round(kGreedyShare * pace_[Index(Served::kConv)] * seconds));
  absl::StatusOr<Workload> polite = Draw(sources_[Index(Served::kConv)].requests, std::llround(polite_n), {}, seed);
  if (!polite.ok()) return polite.status();
  absl::StatusOr<Workload> greedy;
  if (alike) {
    greedy = Draw(sources_[Index(Served::kConv)].requests, std::llround(polite_n), {}, seed + kSampleSeed);
  } else {
    const auto spec = [&](double n) {
      return fmt::format("gen:poisson,prompt=lognormal:200:0.5,output=lognormal:20:0.5,seed={},requests={:.0f}",
                         seed + kSampleSeed, n);
    };
    const absl::StatusOr<Workload> sample = GenerateWorkload(spec(kSampleCalls));
    if (!sample.ok()) return sample.status();
    const absl::StatusOr<double> rps = MeasureSaturation(*sample, OptionsOf({}, 1));
    if (!rps.ok()) return rps.status();
    greedy = GenerateWorkload(spec(std::max(8.0, std::round(kGreedyShare * *rps * seconds))));
  }
  if (!greedy.ok()) return greedy.status();
  for (std::size_t i = 0; i < polite->workflows.size(); ++i) {
    polite->workflows[i].tenant = kGreedyTenant + 1 + static_cast<std::uint32_t>(i % kPoliteTenants);
  }
  for (WorkloadWorkflow& w : greedy->workflows) w.tenant = kGreedyTenant;
  for (Workload* w : {&*polite, &*greedy}) {
    if (absl::Status s = Stretch(*w, seconds); !s.ok()) return s;
  }
  const Part parts[] = {{&*polite, Duration{0}}, {&*greedy, Duration{0}}};
  return Merge(parts);
}

absl::StatusOr<DefaultStudy::Ground> DefaultStudy::MakeGround(Served served, std::uint64_t seed) const {
  absl::StatusOr<Workload> workload;
  if (served == Served::kMix) {
    std::vector<Served> parts;
    for (std::size_t i = 0; i < kHomes; ++i) {
      if (has(static_cast<Served>(i))) parts.push_back(static_cast<Served>(i));
    }
    workload = MakeMix(parts, seed);
  } else if (served == Served::kGreedyShort || served == Served::kGreedyAlike) {
    workload = MakeGreedy(served == Served::kGreedyAlike, seed);
  } else {
    const double most = sources_[Index(served)].window
                            ? 0.8 * static_cast<double>(sources_[Index(served)].requests.workflows.size())
                            : 1e9;
    const double n = std::min(std::max(16.0, std::round(pace_[Index(served)] * minutes_ * 60 * SpanOf(served))), most);
    workload = Make(served, static_cast<std::size_t>(n), seed);
  }
  if (!workload.ok()) return workload.status();
  if (UnderDeadlines(served)) MarkDeadlines(*workload);
  const ReplayOptions options = OptionsOf({.served = served}, seed);
  Ground ground{.workload = *std::move(workload), .own = {}, .alone = {}};
  ground.own = ground.workload;
  ground.alone = MeasureIsolated(ground.workload, options);
  if (absl::Status s = SetDeadlines(ground.workload, ground.alone.workflows, kDefaultSloScale); !s.ok()) return s;
  for (std::size_t i = 0; i < ground.own.workflows.size(); ++i) {
    if (ground.own.workflows[i].deadline != Duration::max()) {
      ground.own.workflows[i].deadline = ground.workload.workflows[i].deadline;
    }
  }
  const absl::StatusOr<double> capacity = MeasureSaturation(ground.workload, options);
  if (!capacity.ok()) return capacity.status();
  ground.capacity_rps = *capacity;
  return ground;
}

absl::Status DefaultStudy::Prepare(int threads, ProgressBar& bar) {
  std::array<bool, kServedNames.size()> wanted = {};
  for (std::size_t c = 0; c < size(); ++c) wanted[Index((*this)[c].setup.served)] = true;
  std::vector<std::pair<Served, std::uint64_t>> all;
  std::vector<Served> sampled;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Served s = static_cast<Served>(i);
    const bool part =
        (wanted[Index(Served::kMix)] && i < kHomes) ||
        ((wanted[Index(Served::kGreedyShort)] || wanted[Index(Served::kGreedyAlike)]) && s == Served::kConv);
    const bool whole = s != Served::kMix && s != Served::kGreedyShort && s != Served::kGreedyAlike;
    if ((wanted[i] || part) && whole && has(s)) sampled.push_back(s);
    if (!wanted[i]) continue;
    grounds_[i].resize(static_cast<std::size_t>(seeds()));
    for (std::uint64_t n = 0; n < static_cast<std::uint64_t>(seeds()); ++n) all.emplace_back(s, n);
  }
  std::vector<absl::Status> faults(sampled.size() + all.size());
  RunEach(sampled.size(), threads, "measuring capacity", bar, [&](std::size_t i, const RunProgress&) {
    const absl::StatusOr<double> pace = WorkflowsPerSecond(sampled[i]);
    faults[i] = pace.status();
    if (pace.ok()) pace_[Index(sampled[i])] = *pace;
  });
  RunEach(all.size(), threads, "making workloads", bar, [&](std::size_t i, const RunProgress&) {
    absl::StatusOr<Ground> ground = MakeGround(all[i].first, seed_range().At(all[i].second));
    faults[sampled.size() + i] = ground.status();
    if (ground.ok()) grounds_[Index(all[i].first)][all[i].second] = *std::move(ground);
  });
  for (const absl::Status& fault : faults) {
    if (!fault.ok() && !Interrupted()) return fault;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<DefaultFigures>> DefaultStudy::RunOne(const DefaultSetup& setup, std::uint64_t seed,
                                                                   const RunProgress& progress) const {
  const Ground& ground = grounds_[Index(setup.served)][seed_range().IndexOf(seed)];
  if (ground.workload.workflows.empty()) return std::nullopt;
  ReplayOptions options = OptionsOf(setup, seed);
  options.cluster.rate_scale = RateScaleForLoad(ground.workload, setup.load * setup.instances, ground.capacity_rps);
  options.cluster.progress = progress;
  if (setup.system.learns) systems::UseKairos({.learner = {}}, options);  // also distributions that have not converged
  const absl::StatusOr<ReplayResult> result = Replay(setup.system.by_deadline ? ground.workload : ground.own, options);
  if (!result.ok()) {
    return absl::Status(result.status().code(),
                        fmt::format("{}, {:g}, {}, seed {}: {}", Name(setup.served), setup.load, setup.system.policy,
                                    seed, std::string(result.status().message())));
  }
  if (result->stopped) return std::nullopt;
  return DefaultFiguresOf(ground.workload, ground.alone, *result);
}

absl::Status DefaultStudy::Run(int threads, ProgressBar& bar) {
  if (absl::Status s = Prepare(threads, bar); !s.ok()) return s;
  if (Interrupted()) return absl::OkStatus();
  return RunCells(threads, "replaying", bar,
                  [this](const DefaultSetup& setup, std::uint64_t seed, const RunProgress& progress) {
                    return RunOne(setup, seed, progress);
                  });
}

DefaultStudy::Size DefaultStudy::SizeOf(Served served) const {
  Size size;
  const std::vector<Ground>& grounds = grounds_[Index(served)];
  for (const Ground& ground : grounds) {
    const auto n = static_cast<double>(grounds.size());
    size.workflows += static_cast<double>(ground.workload.workflows.size()) / n;
    size.calls += static_cast<double>(ground.workload.calls.size()) / n;
    size.capacity_rps += ground.capacity_rps / n;
  }
  return size;
}

}  // namespace takt::tool
