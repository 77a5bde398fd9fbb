// Judges claims: compares measured results with a paper's claims.
#ifndef TAKT_BENCH_LAB_CLAIM_H_
#define TAKT_BENCH_LAB_CLAIM_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/study.h"
#include "lab/report/scenario_report.h"
#include "tool/report/table.h"
#include "fmt/format.h"

namespace takt::tool {

inline constexpr const char* kNotRun = "run was incomplete";

// The range that a paper claims; a missing bound means unbounded.
struct Claimed {
  Claimed() = default;
  Claimed(double number) : low(number), high(number) {}
  Claimed(std::optional<double> least, std::optional<double> most) : low(least), high(most) {}

  std::optional<double> low, high;
};
inline Claimed Over(double number) { return {number, std::nullopt}; }

// Text such as "95 % interval 3 to 5", with a note if the whole interval lies above the claim.
inline std::string IntervalText(const Interval& ours, const Claimed& claimed = {}) {
  const bool more = claimed.high && ours.low > *claimed.high;
  return fmt::format("95 % interval {} to {}{}", Short(ours.low), Short(ours.high),
                     more ? ": more than the paper's" : "");
}

// Whether the interval reaches the claimed improvement and excludes `none`, the figure of no improvement. A claim of at
// most `none` need not exclude it.
inline bool Reaches(const Interval& ours, const Claimed& claimed, double none = 0) {
  const bool gain = *claimed.low > none || (*claimed.low == none && !claimed.high);
  return ours.high >= *claimed.low && (!gain || ours.low > none);
}

// The verdict on an interval that does not confirm the claim: undecided if the interval contains both the claimed
// figure and no effect.
inline Verdict VerdictOf(bool holds, const Interval& ours, const Claimed& claimed, double none) {
  if (holds) return Verdict::kHolds;
  const bool figure =
      !(claimed.low && ours.high < *claimed.low) && !(claimed.high && !claimed.low && ours.low > *claimed.high);
  return figure && ours.low <= none && none <= ours.high ? Verdict::kUndecided : Verdict::kFails;
}

// Figure of no effect.
inline double NoEffect(std::string_view unit) { return unit == "x" ? 1 : 0; }

class Claims {
 public:
  // A claim that the caller judges. `limit`: the end of the interval that decides.
  void Add(std::string name, std::optional<double> ours, const Claimed& claimed, std::string unit, Verdict verdict,
           std::string reason, std::optional<double> limit = {}) {
    claims_.push_back(
        {std::move(name), ours, claimed.low, claimed.high, std::move(unit), verdict, std::move(reason), limit});
  }
  void Add(std::string name, std::optional<double> ours, const Claimed& claimed, std::string unit, bool holds,
           std::string reason, std::optional<double> limit = {}) {
    Add(std::move(name), ours, claimed, std::move(unit), holds ? Verdict::kHolds : Verdict::kFails, std::move(reason),
        limit);
  }
  // The caller decides whether the claim holds beyond chance. A claim that does not may still be undecided.
  void Add(std::string name, const Interval& ours, const Claimed& claimed, std::string unit, bool holds,
           std::string reason, std::optional<double> limit = {}) {
    const Verdict verdict = VerdictOf(holds, ours, claimed, NoEffect(unit));
    Add(std::move(name), std::optional(ours.mean), claimed, std::move(unit), verdict, std::move(reason), limit);
    claims_.back().low = ours.low, claims_.back().high = ours.high;
  }

  // Not measured.
  void Lacking(std::string name, const Claimed& claimed, std::string unit, std::string why = kNotRun) {
    Add(std::move(name), std::nullopt, claimed, std::move(unit), Verdict::kUndecided, std::move(why));
  }

  // Judged by the figure alone; no figure: not measured.
  void Between(std::string name, std::optional<double> ours, const Claimed& claimed, std::string unit,
               std::string reason) {
    if (!ours) return Lacking(std::move(name), claimed, std::move(unit), std::move(reason));
    const bool holds = (!claimed.low || *ours >= *claimed.low) && (!claimed.high || *ours <= *claimed.high);
    Add(std::move(name), ours, claimed, std::move(unit), holds, std::move(reason));
  }
  void AtLeast(std::string name, std::optional<double> ours, double low, std::string unit, std::string reason) {
    Between(std::move(name), ours, {low, {}}, std::move(unit), std::move(reason));
  }
  void AtMost(std::string name, std::optional<double> ours, double high, std::string unit, std::string reason) {
    Between(std::move(name), ours, {{}, high}, std::move(unit), std::move(reason));
  }

  // Judged by the interval of an improvement, in %, in points, or as a factor if the unit is "x".
  void Reach(std::string name, const Interval& ours, const Claimed& claimed, const std::string& unit,
             std::string reason) {
    Add(std::move(name), ours, claimed, unit, Reaches(ours, claimed, NoEffect(unit)), std::move(reason));
  }

  std::vector<ScenarioClaim> Take() { return std::move(claims_); }

 private:
  std::vector<ScenarioClaim> claims_;
};

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_CLAIM_H_
