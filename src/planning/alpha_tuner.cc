#include "takt/planning/alpha_tuner.h"

#include "takt/base/faults.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "takt/base/random.h"
#include "takt/numeric/quantile.h"
#include "takt/numeric/tail_test.h"
#include "takt/numeric/ttest.h"
#include "takt/rivals/placement/code_ratio.h"
#include "takt/placement/workload_balance.h"
#include "takt/workload/transform.h"
#include "takt/workload/validate.h"
#include "workload/builder.h"

namespace takt {
namespace {

// Returns the quantile of the latencies of all workflows after the first `warm`. A workflow that did not complete has
// infinite latency.
double TailOf(const ReplayResult& result, double quantile, std::int64_t warm) {
  std::vector<double> latencies;
  for (const WorkflowRecord& w : std::span(result.workflows).subspan(static_cast<std::size_t>(warm))) {
    latencies.push_back(w.outcome == Outcome::kCompleted ? ToSeconds(Between(w.arrival, w.end)) : 1e9);
  }
  return Quantile(latencies, quantile);
}

// The runs of all pairs of alpha and seed.
class Runs {
 public:
  Runs(const AlphaSearch& search, const Progress& progress) : search_(search), progress_(progress) {
    for (std::int32_t s = 0; s < search.seeds; ++s) {
      workloads_.push_back(Reshuffled(search.workload, static_cast<std::uint64_t>(s)));
    }
    tails_.resize(workloads_.size() * search.alphas.size());
    faults_.resize(tails_.size());
  }

  absl::Status Run(const ParallelFor& parallel) {
    // Runs slices, so that progress is reported on the caller's thread.
    const std::size_t slice = search_.alphas.size();
    for (std::size_t done = 0; done < tails_.size(); done += slice) {
      if (progress_ && !progress_(static_cast<double>(done) / static_cast<double>(tails_.size()))) {
        return absl::CancelledError("the search for alpha was stopped");
      }
      parallel(slice, [&](std::size_t i) { RunOne(done + i); });
    }
    for (const absl::Status& fault : faults_) {
      if (!fault.ok()) return fault;
    }
    return absl::OkStatus();
  }

  double Tail(std::size_t alpha, std::size_t seed) const { return tails_[seed * search_.alphas.size() + alpha]; }

 private:
  void RunOne(std::size_t index) {
    ReplayOptions options = search_.replay;
    options.placement.Observe(Epoch{.alpha = search_.alphas[index % search_.alphas.size()]}, TimePoint{});
    const std::size_t seed = index / search_.alphas.size();
    options.seed = search_.replay.seed + seed;
    const absl::StatusOr<ReplayResult> result = Replay(workloads_[seed], options);
    faults_[index] = result.status();
    if (result.ok()) tails_[index] = TailOf(*result, search_.quantile, search_.warm);
  }

  const AlphaSearch& search_;
  const Progress& progress_;
  std::vector<Workload> workloads_;
  std::vector<double> tails_;  // by seed, then alpha [s]
  std::vector<absl::Status> faults_;
};

}  // namespace

Workload Reshuffled(const Workload& workload, std::uint64_t seed) {
  if (seed == 0 || workload.workflows.size() < 2) return workload;
  Workload shuffled = workload;
  std::vector<WorkloadWorkflow>& flows = shuffled.workflows;
  std::vector<Duration> gaps;
  for (std::size_t i = 1; i < flows.size(); ++i) gaps.push_back(Between(flows[i - 1].arrival, flows[i].arrival));
  Random random(seed);
  const auto shuffle = [&random](auto& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.Below(i)]);
  };
  shuffle(gaps);
  shuffle(flows);
  TimePoint now{};
  for (std::size_t i = 0; i < flows.size(); ++i) {
    if (i > 0) now = After(now, gaps[i - 1]);
    flows[i].arrival = now;
  }
  return Tidied(shuffled);
}

absl::Status AlphaSearch::Validate() const {
  Faults faults;
  faults.Expect(!alphas.empty(), "alphas", "empty", "expected at least one");
  for (std::size_t i = 0; i < alphas.size(); ++i) {
    faults.Expect(alphas[i] >= 0 && alphas[i] <= 1, "alphas", alphas[i], "must lie in 0 .. 1");
    faults.Expect(i == 0 || alphas[i] > alphas[i - 1], "alphas", alphas[i], "must be larger than the one before it");
  }
  faults.Expect(seeds >= 1 && seeds <= 10'000, "seeds", seeds, "must be 1 to 10000");
  faults.Expect(quantile >= 0 && quantile <= 1, "quantile", quantile, "must lie in 0 .. 1");
  faults.Expect(noise_p >= 0 && noise_p <= 1, "noise_p", noise_p, "must lie in 0 .. 1");
  const std::string& placer = replay.placement.name();
  faults.Expect(placer == WorkloadBalance::kName || placer == CodeRatio::kName, "placement", placer,
                "must have an alpha: workload_balance or code_ratio");
  faults.Expect(!workload.workflows.empty(), "workload", "empty", "must hold workflows");
  faults.Expect(warm >= 0 && (warm == 0 || std::cmp_less(warm, workload.workflows.size())), "warm", warm,
                "must be at least 0, and below the number of workflows");
  faults.Expect(replay.limit <= 0 || warm < replay.limit, "warm", warm, "must be below the limit of the replay");
  return faults.ToStatus();
}

absl::StatusOr<AlphaChoice> SearchAlpha(const AlphaSearch& search, const ParallelFor& parallel,
                                        const Progress& progress) {
  if (absl::Status status = search.Validate(); !status.ok()) return status;
  if (absl::Status status = search.replay.Validate(); !status.ok()) return status;
  if (absl::Status status = Validate(search.workload); !status.ok()) return status;
  Runs runs(search, progress);
  if (absl::Status status = runs.Run(parallel); !status.ok()) return status;

  AlphaChoice choice{.replays = std::ssize(search.alphas) * search.seeds};
  const auto seeds = static_cast<std::size_t>(search.seeds);
  for (std::size_t a = 0; a < search.alphas.size(); ++a) {
    Moments tails;
    for (std::size_t s = 0; s < seeds; ++s) tails.Add(runs.Tail(a, s));
    choice.points.push_back({search.alphas[a], tails.mean(), tails.deviation(), 1});
  }
  const auto best =
      static_cast<std::size_t>(std::ranges::min_element(choice.points, {}, &AlphaPoint::mean) - choice.points.begin());
  choice.best = search.alphas[best];
  for (std::size_t a = 0; a < search.alphas.size(); ++a) {
    Moments worse;
    for (std::size_t s = 0; s < seeds; ++s) worse.Add(runs.Tail(a, s) - runs.Tail(best, s));
    // A single seed cannot measure noise, so only an alpha that is no worse counts as equal.
    AlphaPoint& point = choice.points[a];
    point.p_worse = seeds > 1 ? PairedTest(worse).p_greater : worse.mean() > 0 ? 0.0 : 1.0;
  }
  const auto chosen = std::ranges::find_if(
      choice.points, [&](const AlphaPoint& p) { return p.alpha == choice.best || p.p_worse > search.noise_p; });
  choice.alpha = chosen->alpha;
  const AlphaPoint& least = choice.points[best];
  choice.why = choice.alpha == choice.best ? fmt::format("alpha {} has the least p{:.0f} over {} replays, {:.1f} s",
                                                         choice.alpha, 100 * search.quantile, seeds, least.mean)
                                           : fmt::format(
                                                 "alpha {} ({:.1f} s at p{:.0f}) is not significantly worse than the "
                                                 "best alpha, {} ({:.1f} s), over {} replays (p = {:.2f})",
                                                 choice.alpha, chosen->mean, 100 * search.quantile, choice.best,
                                                 least.mean, seeds, chosen->p_worse);
  return choice;
}

// ---- when to search ------------------------------------------------------------------------------------------------

absl::Status AlphaTunerOptions::Validate() const {
  Faults faults;
  faults.Expect(window > Duration{0}, "window", ToSeconds(window), "must be above 0 [s]");
  faults.Expect(p >= 0 && p <= 1, "p", p, "must lie in 0 .. 1");
  faults.Expect(tail >= 0 && tail < 1, "tail", tail, "must be at least 0 and below 1");
  faults.Expect(least >= 2, "least", least, "must be at least 2");
  faults.Expect(most >= 1, "most", most, "must be at least 1");
  faults.Expect(history >= 1, "history", history, "must be at least 1");
  return faults.ToStatus();
}

absl::StatusOr<AlphaTuner> AlphaTuner::Create(AlphaTunerOptions options, ReplayOptions replay) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  if (absl::Status status = replay.Validate(); !status.ok()) return status;
  replay.limit = 0;  // `most` limits the workflows
  return AlphaTuner(options, std::move(replay));
}

void AlphaTuner::Ended(ServedWorkflow workflow) {
  const auto n = workflow.calls.size();
  const auto sound = [n](const std::vector<std::uint32_t>& before) {
    return std::ranges::all_of(before, [n](std::uint32_t b) { return b < n; });
  };
  const auto sane = [](const WorkloadCall& c) { return c.prompt_tokens >= 1 && c.output_tokens >= 1; };
  if (n == 0 || workflow.predecessors.size() != n || workflow.end < workflow.arrival ||
      !std::ranges::all_of(workflow.predecessors, sound) || !std::ranges::all_of(workflow.calls, sane)) {
    ++ignored_;
    return;
  }
  latencies_.push_back(ToSeconds(Between(workflow.arrival, workflow.end)));
  served_.push_back(std::move(workflow));
  while (std::cmp_greater(served_.size(), options_.most)) served_.pop_front();
}

std::optional<AlphaSearch> AlphaTuner::Advance(TimePoint now) {
  if (!started_) started_ = true, window_end_ = After(now, options_.window);
  if (now < window_end_) return std::nullopt;
  AlphaDecision decision = EndWindow();
  // Windows during which the host slept become one, because nothing separates them.
  window_end_ = After(window_end_, Times(options_.window, Between(window_end_, now) / options_.window + 1));
  const bool worse = decision.p < options_.p;
  const bool first = options_.first_search && !searched_ && decision.now >= options_.least;
  const bool search = (worse || first) && !searching_;
  if (search) {
    decision.action = AlphaDecision::Action::kSearched;
    searching_ = searched_ = true;
    if (!worse) decision.why = fmt::format("{} workflows ended in the first full window", decision.now);
  } else if (worse) {
    decision.why += "; a search is already running";
  }
  const TimePoint old = Before(decision.time, options_.window);
  std::optional<AlphaSearch> snapshot;
  if (search) snapshot = Snapshot(old);
  std::erase_if(served_, [old](const ServedWorkflow& w) { return w.end <= old; });
  Remember(std::move(decision));
  return snapshot;
}

AlphaDecision AlphaTuner::EndWindow() {
  AlphaDecision d{.time = window_end_,
                  .before = std::ssize(before_),
                  .now = std::ssize(latencies_),
                  .alpha_before = alpha_,
                  .alpha = alpha_};
  std::vector<double> both = before_;
  both.insert(both.end(), latencies_.begin(), latencies_.end());
  if (!before_.empty()) d.tail_before = Quantile(std::span(both).first(before_.size()), 0.95);
  if (!latencies_.empty()) d.tail_now = Quantile(std::span(both).subspan(before_.size()), 0.95);
  if (d.before < options_.least || d.now < options_.least) {
    d.why = fmt::format("{} and {} workflows ended in two windows; expected {} each", d.before, d.now, options_.least);
  } else {
    d.p = TailTest(before_, latencies_, options_.tail).p_greater;
    d.why = fmt::format("p95 of {:.1f} s after {:.1f} s: {} (p = {:.3g})", d.tail_now, d.tail_before,
                        d.p < options_.p ? "worse" : "not significantly worse", d.p);
  }
  before_ = std::exchange(latencies_, {});
  return d;
}

AlphaSearch AlphaTuner::Snapshot(TimePoint from) const {
  AlphaSearch search{.replay = replay_};
  WorkloadBuilder builder;
  for (const ServedWorkflow& served : served_) {
    WorkloadWorkflow head = served.workflow;
    head.arrival = served.arrival;
    head.name = 0;
    std::vector<CallDraft> drafts;
    for (std::size_t c = 0; c < served.calls.size(); ++c) {
      CallDraft draft;
      draft.call = served.calls[c];
      draft.after = served.predecessors[c];
      // Stages index the host's table of names, so a stage becomes its number here.
      if (draft.call.stage > 0) draft.call.stage = builder.Name(fmt::format("{}", draft.call.stage));
      draft.call.agent = 0;
      drafts.push_back(std::move(draft));
    }
    // Skips invalid workflows. The host reported them wrongly, and the others are still valid.
    builder.Add(head, drafts).IgnoreError();
  }
  builder.Finish();
  if (options_.warm) {
    const auto& flows = builder.workload().workflows;
    const auto early = std::ranges::count_if(flows, [from](const WorkloadWorkflow& w) { return w.arrival < from; });
    if (std::ssize(flows) - early >= options_.least) search.warm = early;
  }
  search.workload = Tidied(builder.workload());
  return search;
}

Epoch AlphaTuner::Restore(double alpha) {
  alpha_ = std::clamp(alpha, 0.0, 1.0);
  searched_ = true;
  return Epoch{.alpha = alpha_};
}

std::optional<Epoch> AlphaTuner::Finished(const absl::StatusOr<AlphaChoice>& choice, TimePoint now) {
  if (!searching_) return std::nullopt;
  searching_ = false;
  AlphaDecision d{.time = now, .alpha_before = alpha_, .alpha = alpha_};
  if (!choice.ok()) {
    d.action = AlphaDecision::Action::kFailed;
    d.why = std::string(choice.status().message());
    Remember(std::move(d));
    return std::nullopt;
  }
  d.why = choice->why;
  d.alpha = choice->alpha;
  const bool changed = choice->alpha != alpha_;
  d.action = changed ? AlphaDecision::Action::kChanged : AlphaDecision::Action::kKept;
  alpha_ = choice->alpha;
  Remember(std::move(d));
  if (!changed) return std::nullopt;
  return Epoch{.alpha = alpha_};
}

void AlphaTuner::Remember(AlphaDecision decision) {
  history_.push_back(std::move(decision));
  if (std::cmp_greater(history_.size(), options_.history)) history_.pop_front();
}

}  // namespace takt
