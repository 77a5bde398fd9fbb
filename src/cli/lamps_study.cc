#include "cli/lamps_study.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

#include "cli/runner.h"
#include "cli/terminal.h"
#include "takt/numeric/summary.h"
#include "takt/numeric/ttest.h"
#include "takt/workload/generate.h"
#include "takt/workload/transform.h"

namespace takt::cli {
namespace {

constexpr double kMinute = 60;  // s
constexpr double kPercent = 100;
// Chosen, not told by the paper: where KV goes that is swapped out, 32,000 tokens.
constexpr Blocks kCpuBlocks = {2000};

// So far from the mean that 2.5 % lie beyond.
double StudentQuantile(double freedom) {
  double low = 0, high = 1000;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (StudentTail(middle, freedom) > 0.025 ? low : high) = middle;
  }
  return high;
}

Moments MomentsOf(const LampsCell& cell, LampsFigure figure) {
  Moments moments;
  for (const LampsFigures& seed : cell.seeds) moments.Add(seed.*figure);
  return moments;
}

LampsFigures FiguresOf(const LampsSetup& setup, const ReplayResult& result) {
  const Metrics& m = result.metrics;
  LampsFigures f{.latency = m.e2e.mean,
                 .latency_p50 = m.e2e.p50,
                 .latency_p99 = m.e2e.p99,
                 .ttft = m.ttft.mean,
                 .ttft_p99 = m.ttft.p99,
                 .queue = m.queue.mean,
                 .completed = static_cast<double>(m.completed),
                 .drained = m.makespan,
                 .kv = m.kv_mean,
                 .recomputed = static_cast<double>(m.recomputed_tokens)};
  if (result.steps > 0) f.running = static_cast<double>(result.request_steps) / static_cast<double>(result.steps);
  const TimePoint end = TimePoint(FromSeconds(setup.minutes * kMinute));
  for (const RequestRecord& r : result.requests) f.in_time += r.outcome == Outcome::kCompleted && r.end <= end;
  return f;
}

ReplayOptions OptionsOf(const LampsSetup& setup, const Profile& profile, std::uint64_t seed) {
  ReplayOptions options;
  options.policy = setup.system.policy;
  options.pause = setup.system.pause;
  options.estimates = setup.system.estimates;
  options.seed = seed;
  options.profile = profile;
  options.rate_scale = setup.rate;
  options.limit = setup.requests();
  options.limits.tokens = {2048};
  options.limits.max_seqs = 256;
  options.scheduler.cpu_blocks = kCpuBlocks;
  if (setup.system.preemptive) options.scheduler.preempt = Preempt::kByRank;
  return options;
}

}  // namespace

std::int64_t LampsSetup::requests() const { return std::max(1LL, std::llround(rate * minutes * kMinute)); }

double LampsCell::Mean(LampsFigure figure) const { return MomentsOf(*this, figure).mean(); }
double LampsCell::Deviation(LampsFigure figure) const { return MomentsOf(*this, figure).deviation(); }

Reduction ReductionOf(const LampsCell& ours, const LampsCell& other, LampsFigure figure) {
  Moments differences, shares;
  for (std::size_t i = 0; i < std::min(ours.seeds.size(), other.seeds.size()); ++i) {
    const double a = ours.seeds[i].*figure, b = other.seeds[i].*figure;
    differences.Add(a - b);
    shares.Add(b != 0 ? kPercent * (1 - a / b) : 0);
  }
  const TTest test = PairedTest(differences);
  Reduction r{.mean = shares.mean(), .p = std::min(1.0, 2 * std::min(test.p_less, test.p_greater))};
  const auto n = static_cast<double>(shares.count());
  const double around =
      n > 1 ? StudentQuantile(n - 1) * shares.deviation() / std::sqrt(n) : std::numeric_limits<double>::infinity();
  r.low = r.mean - around;
  r.high = r.mean + around;
  return r;
}

LampsStudy::LampsStudy(Workload requests, int seeds) : seeds_(seeds) {
  workloads_[0] = requests;
  LimitTools(workloads_[0], 1);
  workloads_[1] = std::move(requests);
}

std::size_t LampsStudy::Add(const LampsSetup& setup) {
  const auto found = std::find_if(cells_.begin(), cells_.end(), [&](const LampsCell& c) { return c.setup == setup; });
  const auto index = static_cast<std::size_t>(found - cells_.begin());
  if (found == cells_.end()) cells_.push_back({setup, {}});
  return index;
}

const LampsCell* LampsStudy::Find(const LampsSetup& setup) const {
  for (const LampsCell& c : cells_) {
    if (c.setup == setup && c.complete()) return &c;
  }
  return nullptr;
}

absl::Status LampsStudy::Run(int threads, ProgressBar& bar) {
  // One draw per seed and kind of requests serves all rates: fewer requests are its beginning.
  std::int64_t most = 1;
  for (const LampsCell& c : cells_) most = std::max(most, c.setup.requests());
  const auto seeds = static_cast<std::size_t>(seeds_);
  std::vector<Workload> drawn[2];
  for (const LampsCalls calls : kLampsCalls) {
    for (std::size_t s = 0; s < seeds; ++s) {
      absl::StatusOr<Workload> w = Draw(requests(calls), most, Arrivals{}, s + 1);
      if (!w.ok()) return w.status();
      drawn[static_cast<std::size_t>(calls)].push_back(*std::move(w));
    }
  }
  std::vector<Profile> profiles;
  for (const LampsModel model : kLampsModels) {
    absl::StatusOr<Profile> profile = FindProfile(ProfileOf(model));
    if (!profile.ok()) return profile.status();
    profiles.push_back(*std::move(profile));
  }

  std::vector<ReplayTask> tasks;
  for (const LampsCell& c : cells_) {
    for (std::size_t s = 0; s < seeds; ++s) {
      tasks.push_back({&drawn[static_cast<std::size_t>(c.setup.calls)][s],
                       OptionsOf(c.setup, profiles[static_cast<std::size_t>(c.setup.model)], s + 1)});
    }
  }
  std::vector<LampsFigures> figures(tasks.size());
  std::vector<unsigned char> ended(tasks.size(), 0);
  std::vector<absl::Status> faults(tasks.size());
  RunAll(tasks, threads, "replaying", bar, [&](std::size_t i, absl::StatusOr<ReplayResult> result, double) {
    faults[i] = result.status();
    if (!result.ok() || result->stopped) return;
    figures[i] = FiguresOf(cells_[i / seeds].setup, *result);
    ended[i] = 1;
  });
  for (const absl::Status& fault : faults) {
    if (!fault.ok()) return fault;
  }
  for (std::size_t c = 0; c < cells_.size(); ++c) {
    const auto from = static_cast<std::ptrdiff_t>(c * seeds), to = static_cast<std::ptrdiff_t>((c + 1) * seeds);
    if (std::count(ended.begin() + from, ended.begin() + to, 1) < to - from) continue;
    cells_[c].seeds.assign(figures.begin() + from, figures.begin() + to);
  }
  return absl::OkStatus();
}

}  // namespace takt::cli
