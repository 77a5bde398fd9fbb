// Capacity: the largest load at which 90 % of each class meet their targets.
#ifndef TAKT_BENCH_LAB_OPERATORS_STUDY_H_
#define TAKT_BENCH_LAB_OPERATORS_STUDY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lab/figure.h"
#include "lab/operators/inputs.h"
#include "lab/operators/systems.h"
#include "lab/study.h"
#include "takt/sim/profiles.h"
#include "tool/report/reports.h"

namespace takt::tool {

// Loads relative to the rate that fcfs serves if all calls wait from the start.
inline constexpr double kCapacityLoads[] = {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1};
inline constexpr double kMixedBurst = 2.5, kAttained = 0.9;

struct CapacitySetup {
  std::size_t system = 0;  // index in the study's systems
  double load = 1;

  friend bool operator==(const CapacitySetup&, const CapacitySetup&) = default;
};
struct CapacityFigures {
  double attained = 0;  // share of calls that meet all targets, of the class with the smallest share
  double interactive = 0, agents = 0, batch = 0;  // by class
  double late = 0;  // share of steps with prompts, and with decodes that have targets, that exceed the smallest target
};
using CapacityCell = Cell<CapacitySetup, CapacityFigures>;

// Returns the share of calls of a class that met its targets. Calls whose target is after `until` do not count.
double Attained(const std::vector<OperatorCall>& calls, const OperatorRun& run, std::uint32_t kind, double until);

// Returns the calls per second that fcfs serves if all calls of a long mixed workload wait from the start.
absl::StatusOr<double> MixedSaturation(const Profile& profile);

class CapacityStudy : public Study<CapacitySetup, CapacityFigures> {
 public:
  CapacityStudy(SeedRange seeds, std::vector<NamedSystem> systems, const Profile& profile, double minutes)
      : Study(seeds), systems_(std::move(systems)), profile_(profile), minutes_(minutes) {}

  const std::vector<NamedSystem>& systems() const { return systems_; }
  absl::Status Run(int threads, ProgressBar& bar);
  // The capacity of each seed, interpolated between the loads: the first crossing of kAttained. Empty if a run is
  // incomplete.
  std::vector<double> Capacities(std::size_t system) const;
  std::optional<Interval> Capacity(std::size_t system) const;
  std::vector<Condition> Conditions() const;

 private:
  std::vector<NamedSystem> systems_;
  const Profile& profile_;
  double minutes_;
  double saturation_ = 0;
};

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_OPERATORS_STUDY_H_
