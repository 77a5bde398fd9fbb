#include "lab/lamps/study.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "tool/run/terminal.h"
#include "takt/learning/tool_profile.h"
#include "takt/pause/registry.h"
#include "takt/policy/registry.h"
#include "takt/systems/replay.h"
#include "takt/workload/generate.h"
#include "takt/workload/transform.h"

namespace takt::tool {
namespace {

constexpr double kMinute = 60;  // s
// Host memory for swapped KV, 32,000 tokens. Chosen, because the paper does not give it.
constexpr Blocks kCpuBlocks = {2000};

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

ReplayOptions OptionsOf(const LampsSetup& setup, std::int32_t seqs, const Profile& profile, std::uint64_t seed) {
  ReplayOptions options;
  options.policy = *MakePolicyFactory(setup.system.policy);
  options.pause = *MakePauseFactory(setup.system.pause);
  options.estimates = setup.system.estimates;
  options.seed = seed;
  options.profile = profile;
  options.cluster.rate_scale = setup.rate;
  options.limit = setup.requests();
  options.engine.limits = kStepLimits;
  options.engine.limits.max_seqs = setup.seqs > 0 ? setup.seqs : seqs;
  options.scheduler.cpu_blocks = kCpuBlocks;
  if (setup.system.lamps) systems::UseLamps(*setup.system.lamps, options);
  if (setup.system.preemptive) options.scheduler.preempt = PreemptMode::kByRank;
  return options;
}

}  // namespace

std::int64_t LampsSetup::requests() const { return std::max(1LL, std::llround(rate * minutes * kMinute)); }

LampsStudy::LampsStudy(Workload requests, SeedRange seeds, const LampsSeqs& seqs) : Study(seeds), seqs_(seqs) {
  workloads_[0] = requests;
  LimitTools(workloads_[0], 1);
  workloads_[1] = std::move(requests);
}

absl::Status LampsStudy::Run(int threads, ProgressBar& bar) {
  // One draw per seed and kind of requests serves all rates: fewer requests are its beginning.
  std::int64_t most = 1;
  for (std::size_t c = 0; c < size(); ++c) most = std::max(most, (*this)[c].setup.requests());
  std::vector<Workload> drawn[2];
  for (const LampsCalls calls : kLampsCalls) {
    for (std::size_t s = 0; s < static_cast<std::size_t>(seeds()); ++s) {
      absl::StatusOr<Workload> w = Draw(requests(calls), most, Arrivals{}, seed_range().At(s));
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

  return RunCells(threads, "replaying", bar,
                  [&](const LampsSetup& setup, std::uint64_t seed,
                      const RunProgress& progress) -> absl::StatusOr<std::optional<LampsFigures>> {
                    ReplayOptions options =
                        OptionsOf(setup, seqs(setup.model), profiles[static_cast<std::size_t>(setup.model)], seed);
                    options.cluster.progress = progress;
                    const Workload& workload = drawn[static_cast<std::size_t>(setup.calls)][seed_range().IndexOf(seed)];
                    const absl::StatusOr<ReplayResult> result = Replay(workload, options);
                    if (!result.ok()) return result.status();
                    if (result->stopped) return std::nullopt;
                    return FiguresOf(setup, *result);
                  });
}

LampsPredictor ScorePredictor(const Workload& requests) {
  constexpr std::size_t kTaught = 7, kOf = 10;  // requests
  constexpr std::int32_t kFirst20 = 200;        // tokens
  ToolProfile profile;
  LampsPredictor score;
  double error_sum = 0, first_sum = 0;
  std::int64_t within_5 = 0, within_15 = 0, first = 0;
  // Every seventh to ninth in ten is asked, after all others have taught.
  for (const bool teach : {true, false}) {
    for (std::size_t i = 0; i < requests.calls.size(); ++i) {
      if ((i % kOf < kTaught) != teach) continue;
      std::int32_t generated = 0;
      for (const WorkloadTool& tool : requests.tools_of(requests.calls[i])) {
        const std::int32_t before = tool.after_tokens - generated;
        generated = tool.after_tokens;
        const ToolId id = {std::uint64_t{tool.name} + 1};
        if (teach) {
          profile.Observe({id, ToSeconds(tool.duration), tool.returned_tokens, before});
          continue;
        }
        const double error = std::abs(profile.Expect(id).tokens_before.mean - before);
        ++score.calls;
        error_sum += error;
        within_5 += error <= 5;
        within_15 += error <= 15;
        if (before < kFirst20) first_sum += error, ++first;
      }
    }
  }
  if (score.calls == 0) return score;
  const auto calls = static_cast<double>(score.calls);
  score.acc_5 = 100 * static_cast<double>(within_5) / calls;
  score.acc_15 = 100 * static_cast<double>(within_15) / calls;
  score.mae = error_sum / calls;
  if (first > 0) score.mae_first_20 = first_sum / static_cast<double>(first);
  return score;
}

}  // namespace takt::tool
