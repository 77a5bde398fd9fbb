// The parts of the scenario of operators that have one run a system and seed: tenants, memory, answers to clients.
#ifndef TAKT_BENCH_LAB_OPERATORS_PARTS_H_
#define TAKT_BENCH_LAB_OPERATORS_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "lab/figure.h"
#include "lab/operators/systems.h"
#include "lab/scenario.h"
#include "lab/study.h"
#include "takt/sim/profiles.h"

namespace takt::tool {

enum class OperatorPart : std::uint8_t { kFlood, kQuota, kBurst, kShare, kMemory, kAnswers };
constexpr auto NamesOf(OperatorPart) {
  return std::to_array<std::string_view>({"flood", "quota", "burst", "share", "memory", "answers"});
}

struct PartSetup {
  OperatorPart part = {};
  std::size_t system = 0;  // index in the systems of the part
  bool flood = true;  // kFlood, kQuota: false: the tenant that floods is away

  friend bool operator==(const PartSetup&, const PartSetup&) = default;
};
struct PartFigures {
  double first_p95 = 0;  // s, p95 of the time to first token of the other tenants, or of interactive calls
  double over_quota = 0;  // share by which the flood's rate differs from its quota
  double batch_share = 0;  // share of the computed tokens that batch has
  double idle_s = 0;  // time without a step while requests waited
  double recomputed = 0, preempted = 0, seconds = 0;  // tokens, requests, time until all have ended
  double pace_p99 = 0;  // s, p99 over requests of the mean time between tokens
  double at_first_return = 0;  // share of clients taken at their first return
  double returns = 0;  // clients that came back
};
using PartStudy = Study<PartSetup, PartFigures>;
using PartFigure = double PartFigures::*;

// Runs the parts, and adds their tables, rows and claims.
absl::Status AddOperatorParts(const StudySettings& settings, const Profile& profile, SeedRange seeds, ProgressBar& bar,
                              ScenarioReport& report);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_OPERATORS_PARTS_H_
