// How the time that a workflow has left is shared out over its calls (HexGen-Flow).
#ifndef TAKT_WORKFLOW_SLO_BUDGET_H_
#define TAKT_WORKFLOW_SLO_BUDGET_H_

#include <cmath>
#include <cstdint>

#include "takt/base/rounded.h"
#include "takt/base/time.h"

namespace takt {

enum class BudgetRule : std::uint8_t {
  kShare,  // equation 5: the call's share of the cost of all that is to come
  kWhole,  // all the time that is left: the order is then that of least slack
};

// What a call gets where no time is left. Equation 5 as published multiplies a negative rest by the call's share, so
// that of two workflows equally late the one with the *cheap* call looks less urgent, and heavy calls overtake it.
enum class BlownRule : std::uint8_t {
  kLateness,  // all of the (negative) rest: the latest comes first, whatever its call costs. Equal to kShare at zero
  kPublished,  // the call's share of it
  kZero,  // nothing: among the late neither lateness nor stage counts
};

struct BudgetOptions {
  BudgetRule rule = BudgetRule::kShare;
  BlownRule blown = BlownRule::kLateness;

  friend constexpr bool operator==(const BudgetOptions&, const BudgetOptions&) = default;
};

// The time that a call may take from now [s]. Source: HexGen-Flow, equation 5, with the costs of equation 6.
// left_s: the workflow's deadline less now; own_s: expected cost of the call, mean over the instances; after_s: of all
// that follows it, a parallel stage counted once. Where no cost is known, or is no cost at all, the call gets all that
// is left.
inline double SloBudget(double left_s, double own_s, double after_s, const BudgetOptions& options = {}) {
  if (left_s < 0 && options.blown == BlownRule::kZero) return 0;
  if (left_s < 0 && options.blown == BlownRule::kLateness) return left_s;
  const bool known = own_s > 0 && after_s >= 0 && std::isfinite(own_s + after_s);
  if (options.rule == BudgetRule::kWhole || !known) return left_s;
  return Rounded(left_s * (own_s / (own_s + after_s)));
}

// The time in between [s], which may be more than a Duration holds.
inline double SecondsBetween(TimePoint from, TimePoint to) {
  const auto ns = [](TimePoint a, TimePoint b) {  // b not before a
    return static_cast<double>(static_cast<std::uint64_t>(b.time_since_epoch().count()) -
                               static_cast<std::uint64_t>(a.time_since_epoch().count()));
  };
  return Rounded((to >= from ? ns(from, to) : -ns(to, from)) * 1e-9);
}

// `from` and a number of seconds: the call's deadline. Saturates; NaN adds nothing.
inline TimePoint Later(TimePoint from, double seconds) { return After(from, FromSeconds(seconds)); }

}  // namespace takt

#endif  // TAKT_WORKFLOW_SLO_BUDGET_H_
