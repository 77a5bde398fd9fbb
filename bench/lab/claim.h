// Judges claims: compares measured results with a paper's claims.
#ifndef TAKT_BENCH_LAB_CLAIM_H_
#define TAKT_BENCH_LAB_CLAIM_H_

#include <cmath>
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

// Text such as "95 % interval 3 to 5".
inline std::string IntervalText(const Interval& ours) {
  return fmt::format("95 % interval {} to {}", Short(ours.low), Short(ours.high));
}

// The interval of a figure that no seed changes.
inline Interval Exact(double figure) { return {figure, figure, figure}; }

// The verdict on a paper's claim. The claim holds if the 95 % interval reaches the claimed range. The interval of a
// claimed effect must also lie above `none`, the figure of no effect. A claim is beyond if the whole interval lies
// above the range, and the range has a lower bound. It is undecided without a finite interval, or if the interval
// contains the claimed figure and `none`.
inline Verdict VerdictOf(const Interval& ours, const Claimed& claimed, double none) {
  if (!std::isfinite(ours.high - ours.low)) return Verdict::kUndecided;
  if (claimed.high && ours.low > *claimed.high) return claimed.low ? Verdict::kBeyond : Verdict::kFails;
  if (claimed.low && ours.high < *claimed.low) return Verdict::kFails;
  const bool effect = claimed.low && (*claimed.low > none || (*claimed.low == none && !claimed.high));
  return !effect || ours.low > none ? Verdict::kHolds : Verdict::kUndecided;
}

// The verdict on a claim of several parts or settings: the worse one. Any failure fails, and any doubt is a doubt.
inline Verdict Worse(Verdict a, Verdict b) {
  for (const Verdict v : {Verdict::kFails, Verdict::kUndecided, Verdict::kBeyond}) {
    if (a == v || b == v) return v;
  }
  return Verdict::kHolds;
}

// The verdict on takt's own target, which the caller judges by the interval's end. A missed target is undecided if the
// interval contains both the target and no effect.
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
  explicit Claims(ClaimSource source = ClaimSource::kOwn) : source_(source) {}

  // A claim that the caller judges. `limit`: the end of the interval that decides.
  void Add(std::string name, std::optional<double> ours, const Claimed& claimed, std::string unit, Verdict verdict,
           std::string reason, std::optional<double> limit = {}) {
    claims_.push_back(
        {std::move(name), ours, claimed.low, claimed.high, std::move(unit), verdict, std::move(reason), limit});
    claims_.back().source = source_;
  }
  void Add(std::string name, std::optional<double> ours, const Claimed& claimed, std::string unit, bool holds,
           std::string reason, std::optional<double> limit = {}) {
    Add(std::move(name), ours, claimed, std::move(unit), holds ? Verdict::kHolds : Verdict::kFails, std::move(reason),
        limit);
  }
  // The caller decides whether the target is met beyond chance. One that is not may still be undecided.
  void Add(std::string name, const Interval& ours, const Claimed& claimed, std::string unit, bool holds,
           std::string reason, std::optional<double> limit = {}) {
    const Verdict verdict = VerdictOf(holds, ours, claimed, NoEffect(unit));
    Add(std::move(name), ours, claimed, std::move(unit), verdict, std::move(reason), limit);
  }
  void Add(std::string name, const Interval& ours, const Claimed& claimed, std::string unit, Verdict verdict,
           std::string reason, std::optional<double> limit = {}) {
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

  // A paper's claim, judged by its interval. A factor has the unit "x".
  void Judge(std::string name, const Interval& ours, const Claimed& claimed, const std::string& unit,
             std::string reason) {
    Add(std::move(name), ours, claimed, unit, VerdictOf(ours, claimed, NoEffect(unit)), std::move(reason));
  }

  // Source of the claim that was added last.
  void Tag(ClaimSource source) { claims_.back().source = source; }

  std::vector<ScenarioClaim> Take() { return std::move(claims_); }

 private:
  ClaimSource source_;  // of new claims
  std::vector<ScenarioClaim> claims_;
};

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_CLAIM_H_
