#include "lab/hexgen/study.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <utility>

#include "lab/hexgen/both_databases.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"
#include "takt/numeric/quantile.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/systems/replay.h"
#include "takt/workload/generate.h"
#include "takt/workload/read.h"
#include "takt/workload/transform.h"

namespace takt::tool {
namespace {

constexpr std::uint64_t kTuningSeed = 1000;  // first seed of the arrivals on which alpha is tuned; runs have 0 and up

// Time per decoded token in the authors' simulator, from their measurements [s].
constexpr double kDecodeA100 = 0.035, kDecodeA6000 = 0.058, kDecodeL40 = 0.0545;

// `to` takes `times` as long as `from` for everything; its memory is unchanged.
void Slow(Profile& to, const Profile& from, double times, const char* gpu) {
  CostModel cost = from.cost;
  for (SoftFloor* part : {&cost.gemm, &cost.head}) {
    part->offset_ms *= times;
    part->floor_ms *= times;
    part->slope_ms *= times;
  }
  for (CostModel::Attention* part : {&cost.prefill, &cost.decode}) {
    part->constant_ms *= times;
    part->per_token_ms *= times;
    part->per_context_ms *= times;
  }
  for (TransferCurve::Point& p : cost.all_reduce.points) p.ms *= times;
  cost.overhead_ms *= times;
  cost.overhead_per_sample_ms *= times;
  to.cost = std::move(cost);
  to.id = fmt::format("measured-ratio/{}/{}/{}/tp{}", to.model, gpu, to.dtype, to.cost.tp);
  to.source = "scaled by the authors' decode times";
}

// Fifteen minutes at a low rate, five at the peak with the other database's queries, fifteen at the low rate again.
absl::StatusOr<Workload> Changing(const Workload& calm, const Workload& peak, double rate, std::uint64_t seed) {
  constexpr double kCalmRate = 0.08, kCalmSeconds = 900, kPeakSeconds = 300;
  std::vector<Workload> parts;
  std::vector<Part> merged;
  double start = 0;
  for (const bool at_peak : {false, true, false}) {
    const double its_rate = at_peak ? rate : kCalmRate;
    const double span = at_peak ? kPeakSeconds : kCalmSeconds;
    absl::StatusOr<Workload> part =
        Draw(at_peak ? peak : calm, std::llround(its_rate * span), {.rate = its_rate}, 3 * seed + parts.size());
    if (!part.ok()) return part.status();
    parts.push_back(*std::move(part));
  }
  for (const Workload& part : parts) {
    merged.push_back({&part, FromSeconds(start)});
    start += &part == &parts[1] ? kPeakSeconds : kCalmSeconds;
  }
  return Merge(merged);
}

// The scale within which 95 % of the queries end. Reorders the argument.
double P95(std::vector<double>& values) { return values.empty() ? 0 : Quantile(values, 0.95); }

HexgenFigures HexgenFiguresOf(const Workload& workload, const IsolatedLatencies& alone, const ReplayResult& result) {
  HexgenFigures f;
  std::vector<double> latency, middle, scale, scale_middle, user[2];
  const std::size_t n = result.workflows.size();
  std::int64_t in_time = 0;
  TimePoint last{};
  for (std::size_t i = 0; i < n; ++i) {
    const WorkflowRecord& w = result.workflows[i];
    const bool done = w.outcome == Outcome::kCompleted;
    const double seconds = done ? ToSeconds(w.end - w.arrival) : 1e9;
    const double times = seconds / ToSeconds(alone.workflows[i]);
    latency.push_back(seconds);
    scale.push_back(times);
    if (4 * i >= n && 4 * i < 3 * n) middle.push_back(seconds), scale_middle.push_back(times);
    user[i % 2].push_back(times);
    f.mean += seconds / static_cast<double>(n);
    in_time += done && w.end - w.arrival <= workload.workflows[i].deadline;
    if (done) last = std::max(last, w.end);
    for (std::size_t s = 0; s < kHexgenScales.size(); ++s) f.attained[s] += times <= kHexgenScales[s] ? 1 : 0;
  }
  for (double& share : f.attained) share *= 100 / static_cast<double>(n);
  f.p95 = P95(latency);
  f.p95_middle = P95(middle);
  f.scale = P95(scale);
  f.scale_middle = P95(scale_middle);
  f.user1 = P95(user[0]);
  f.user2 = P95(user[1]);
  f.in_time = 100 * static_cast<double>(in_time) / static_cast<double>(n);
  f.throughput = static_cast<double>(n) / ToSeconds(last);
  for (std::size_t c = 0; c < result.requests.size(); ++c) {
    const std::string& part = workload.names[workload.calls[c].agent];  // "stage 2"
    const int stage = part.empty() ? 0 : part.back() - '0';
    if (stage >= 1 && stage <= 4) ++f.calls[static_cast<std::size_t>(stage - 1)][result.requests[c].instance];
  }
  return f;
}

void AddDecisions(const AlphaTuner& tuner, HexgenFigures& f) {
  f.alpha = tuner.alpha();
  for (const AlphaDecision& d : tuner.history()) {
    f.searches += d.action == AlphaDecision::Action::kSearched ? 1 : 0;
    f.decisions.emplace_back(ToSeconds(d.time), fmt::format("{}; alpha {}", d.why, d.alpha));
  }
}

}  // namespace

absl::StatusOr<HexgenStudy> HexgenStudy::Create(const std::vector<std::string>& files, SeedRange seeds,
                                                bool as_measured) {
  HexgenStudy study(seeds);
  study.as_measured_ = as_measured;
  study.rebuilt_ = files.size() < std::size(kHexgenTraces);
  for (std::size_t t = 0; t < std::size(kHexgenTraces); ++t) {
    absl::StatusOr<Workload> trace = t < files.size() ? ReadWorkload(files[t], {.format = WorkloadFormat::kText2Sql})
                                                      : BothDatabases(study.traces_[0], study.traces_[1]);
    if (!trace.ok()) return trace.status();
    study.traces_[t] = *std::move(trace);
  }
  const auto profile = [](const char* gpu) {
    // A6000 and L40 are not measured: takt derives them.
    const bool known = std::string_view(gpu) == "a100";
    return FindProfile(fmt::format("{}/llama-3.1-70b/{}/bf16/tp4", known ? "aic" : "derived", gpu));
  };
  absl::StatusOr<Profile> a100 = profile("a100"), a6000 = profile("a6000"), l40 = profile("l40");
  for (const auto* p : {&a100, &a6000, &l40}) {
    if (!p->ok()) return p->status();
  }
  if (as_measured) {
    Slow(*a6000, *a100, kDecodeA6000 / kDecodeA100, "a6000");
    Slow(*l40, *a100, kDecodeL40 / kDecodeA100, "l40");
  }
  study.engines_[0] = {*a100, *a100, *a6000, *a6000};
  study.engines_[1] = {*a100, *a100, *a6000, *l40};
  study.engines_[2] = {*a100, *a100, *a100, *a100};
  return study;
}

absl::StatusOr<Workload> HexgenStudy::WorkloadOf(const HexgenSetup& setup, std::uint64_t seed) const {
  absl::StatusOr<Workload> made = setup.load == HexgenLoad::kChanging
                                      ? Changing(traces_[0], traces_[1], setup.rate, seed)
                                      : absl::StatusOr<Workload>(trace(setup.load));
  if (!made.ok()) return made.status();
  Workload& w = *made;
  if (setup.load != HexgenLoad::kChanging) {
    const auto arrivals = NumpyPoissonArrivals(setup.rate, static_cast<std::uint32_t>(seed), w.workflows.size());
    if (absl::Status s = SetArrivals(w, arrivals); !s.ok()) return s;
  }
  if (minutes_ > 0) {
    constexpr std::ptrdiff_t kLeast = 8;
    const TimePoint end(FromSeconds(60 * minutes_));
    const auto kept = std::ranges::count_if(w.workflows, [end](const auto& flow) { return flow.arrival <= end; });
    Truncate(w, static_cast<std::size_t>(std::max<std::ptrdiff_t>(kept, kLeast)));
  }
  const IsolatedLatencies alone = MeasureIsolated(w, OptionsOf(setup, seed));
  if (absl::Status s = SetDeadlines(w, alone.workflows, setup.slo_scale); !s.ok()) return s;
  for (std::size_t i = 0; i < w.workflows.size(); ++i) {
    WorkloadWorkflow& flow = w.workflows[i];
    flow.tenant = static_cast<std::uint32_t>(setup.system.query_is_tenant ? i + 1 : setup.two_users ? i % 2 + 1 : 0);
    if (setup.two_users && i % 2 == 1) flow.deadline *= 2;
  }
  return made;
}

ReplayOptions HexgenStudy::OptionsOf(const HexgenSetup& setup, std::uint64_t seed) const {
  ReplayOptions options;
  options.router_policy = options.policy;  // in the order of arrival
  options.policy = *MakePolicyFactory(setup.system.policy);
  options.placement = *MakePlacement(setup.system.placement);
  options.estimates = setup.system.estimates;
  if (setup.system.budget) options.budgets = BudgetOptions{.rule = *setup.system.budget};
  options.seed = seed + 1;
  options.engines = engines(setup.cluster);
  return options;
}

absl::StatusOr<std::optional<HexgenFigures>> HexgenStudy::RunOne(const HexgenSetup& setup, std::uint64_t seed,
                                                                 const RunProgress& progress) const {
  const absl::StatusOr<Workload> workload = WorkloadOf(setup, seed);
  if (!workload.ok()) return workload.status();
  ReplayOptions options = OptionsOf(setup, seed);
  std::shared_ptr<systems::HexGenFlow> flow;
  if (setup.system.tuner) systems::UseHexGenFlow({}, options, &flow);
  options.cluster.progress = progress;
  const absl::StatusOr<ReplayResult> result = Replay(*workload, options);
  if (!result.ok()) return result.status();
  if (result->stopped) return std::nullopt;
  HexgenFigures figures = HexgenFiguresOf(*workload, MeasureIsolated(*workload, options), *result);
  if (flow) AddDecisions(*flow->tuner(), figures);
  return figures;
}

absl::Status HexgenStudy::Run(int threads, ProgressBar& bar) {
  return RunCells(threads, "replaying", bar,
                  [this](const HexgenSetup& setup, std::uint64_t seed, const RunProgress& progress) {
                    return RunOne(setup, seed - 1, progress);
                  });
}

absl::Status HexgenStudy::Tune(std::vector<Tuned>& all, int threads, ProgressBar& bar) const {
  std::vector<absl::Status> faults(all.size());
  RunEach(all.size(), threads, "tuning alpha", bar, [&](std::size_t i, const RunProgress& progress) {
    Tuned& t = all[i];
    HexgenSetup setup{.cluster = t.cluster, .load = t.load, .rate = t.rate};
    setup.system = {"", "workload_balance", "urgency", BudgetRule::kShare};
    const absl::StatusOr<Workload> workload = WorkloadOf(setup, kTuningSeed);
    if (!workload.ok()) {
      faults[i] = workload.status();
      return;
    }
    absl::StatusOr<AlphaChoice> choice =
        SearchAlpha({.workload = *workload, .replay = OptionsOf(setup, kTuningSeed)}, SerialFor, progress);
    if (choice.ok()) t.choice = *std::move(choice);
    else if (choice.status().code() != absl::StatusCode::kCancelled) faults[i] = choice.status();
  });
  for (const absl::Status& fault : faults) {
    if (!fault.ok()) return fault;
  }
  return absl::OkStatus();
}

}  // namespace takt::tool
