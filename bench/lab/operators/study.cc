#include "lab/operators/study.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "fmt/format.h"

namespace takt::tool {
namespace {

constexpr double kGrace = 120;  // time after the last arrival in which calls may end [s]

}  // namespace

double Attained(const std::vector<OperatorCall>& calls, const OperatorRun& run, std::uint32_t kind, double until) {
  const ServiceClass& target = kServiceClasses[kind];
  double all = 0, met = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const OperatorCall& call = calls[i];
    if (call.kind != kind || call.at + target.end > until) continue;
    ++all;
    const OperatorRecord& r = run.records[i];
    if (target.end > 0 && (r.end < 0 || r.end - call.at > target.end)) continue;
    if (target.first_token > 0 && (r.first_token < 0 || r.first_token - call.at > target.first_token)) continue;
    if (target.pace > 0 && (r.end < 0 || r.end - r.first_token > target.pace * std::max(call.output - 1, 1))) continue;
    ++met;
  }
  return all > 0 ? met / all : 1;
}

absl::StatusOr<double> MixedSaturation(const Profile& profile) {
  std::vector<OperatorCall> calls = MixedCalls(20, 1, 150, 1000);
  for (OperatorCall& call : calls) call.at = 0;
  const OperatorSystem system = StaticBudget("fcfs", 8192, profile).system;
  const absl::StatusOr<OperatorRun> run = Serve(calls, kServiceClasses, system, profile.cost, 1000, 1e9);
  if (!run.ok()) return run.status();
  return static_cast<double>(calls.size()) / run->seconds;
}

absl::Status CapacityStudy::Run(int threads, ProgressBar& bar) {
  const absl::StatusOr<double> saturation = MixedSaturation(profile_);
  if (!saturation.ok()) return saturation.status();
  saturation_ = *saturation;
  return RunCells(threads, "serving three classes", bar,
                  [&](const CapacitySetup& setup, std::uint64_t seed,
                      const RunProgress& progress) -> absl::StatusOr<std::optional<CapacityFigures>> {
                    if (!progress(0)) return std::nullopt;
                    const double seconds = 60 * minutes_;
                    const std::vector<OperatorCall> calls =
                        MixedCalls(setup.load * saturation_, kMixedBurst, seconds, seed);
                    const absl::StatusOr<OperatorRun> run = Serve(calls, kServiceClasses, systems_[setup.system].system,
                                                                  profile_.cost, seed, seconds + kGrace);
                    if (!run.ok()) return run.status();
                    CapacityFigures f{.interactive = Attained(calls, *run, 0, seconds + kGrace),
                                      .agents = Attained(calls, *run, 1, seconds + kGrace),
                                      .batch = Attained(calls, *run, 2, seconds + kGrace)};
                    f.attained = std::min({f.interactive, f.agents, f.batch});
                    f.late = run->paced > 0 ? static_cast<double>(run->late) / static_cast<double>(run->paced) : 0;
                    return f;
                  });
}

std::vector<double> CapacityStudy::Capacities(std::size_t system) const {
  std::vector<double> capacities;
  for (std::size_t seed = 0; seed < static_cast<std::size_t>(seeds()); ++seed) {
    double capacity = 0, below = 0, at_below = 1;
    for (const double load : kCapacityLoads) {
      const CapacityCell* cell = Find({system, load});
      if (cell == nullptr) return {};
      const double at = cell->seeds[seed].attained;
      if (at < kAttained) {
        capacity = below + (load - below) * (at_below - kAttained) / (at_below - at);
        break;
      }
      capacity = below = load, at_below = at;
    }
    capacities.push_back(capacity);
  }
  return capacities;
}

std::optional<Interval> CapacityStudy::Capacity(std::size_t system) const {
  const std::vector<double> all = Capacities(system);
  if (all.empty()) return std::nullopt;
  Moments moments;
  for (const double capacity : all) moments.Add(capacity);
  return IntervalOf(moments);
}

std::vector<Condition> CapacityStudy::Conditions() const {
  return {{"Engine", fmt::format("{}; at most 256 requests a step; step times with a noise of 5 %", kOperatorProfile)},
          {"Classes", "interactive (first token in 2 s, 50 ms between tokens), agents (10 s, 100 ms), batch (300 s)"},
          {"Arrivals", fmt::format("Poisson; ten seconds of each minute have {:g} times the mean rate", kMixedBurst)},
          {"Load", fmt::format("rho 1: {:.2f} calls a second, which fcfs serves if all calls wait", saturation_)},
          {"Capacity", "largest rho at which 90 % of each class meet all their targets"}};
}

}  // namespace takt::tool
