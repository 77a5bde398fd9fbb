// Divides the remaining time of a workflow among its calls (HexGen-Flow).
#ifndef TAKT_WORKFLOW_SLO_BUDGET_H_
#define TAKT_WORKFLOW_SLO_BUDGET_H_

#include <cmath>
#include <cstdint>

#include "takt/base/rounded.h"
#include "takt/base/time.h"

namespace takt {

enum class BudgetRule : std::uint8_t {
  kShare,  // equation 5: the remaining time, times the call's share of the remaining cost
  kWhole,  // all the remaining time; the order is then least slack first
};

// The budget of a call if the remaining time is negative. Equation 5 multiplies the negative time by the call's share.
// If two workflows are equally late, the one with the cheaper call then looks less urgent.
enum class BlownRule : std::uint8_t {
  kLateness,  // all of the negative time, so that the latest workflow is first at any cost
  kPublished,  // the call's share of the negative time
  kZero,  // zero for all late calls
};

struct BudgetOptions {
  BudgetRule rule = BudgetRule::kShare;
  BlownRule blown = BlownRule::kLateness;

  friend constexpr bool operator==(const BudgetOptions&, const BudgetOptions&) = default;
};

// Returns the time that a call may take from now [s]. Source: HexGen-Flow, equations 5 and 6. left_s: time until the
// workflow's deadline. own_s: expected cost of the call, averaged over the instances. after_s: cost of all later
// stages, each parallel stage counted once. If no cost is positive, the call gets all the remaining time.
inline double SloBudget(double left_s, double own_s, double after_s, const BudgetOptions& options = {}) {
  if (left_s < 0 && options.blown == BlownRule::kZero) return 0;
  if (left_s < 0 && options.blown == BlownRule::kLateness) return left_s;
  const bool known = own_s > 0 && after_s >= 0 && std::isfinite(own_s + after_s);
  if (options.rule == BudgetRule::kWhole || !known) return left_s;
  return Rounded(left_s * (own_s / (own_s + after_s)));
}

// Returns the time between two points [s], which may be more than a Duration holds.
inline double SecondsBetween(TimePoint from, TimePoint to) {
  const auto ns = [](TimePoint a, TimePoint b) {  // b >= a
    return static_cast<double>(static_cast<std::uint64_t>(b.time_since_epoch().count()) -
                               static_cast<std::uint64_t>(a.time_since_epoch().count()));
  };
  return Rounded((to >= from ? ns(from, to) : -ns(to, from)) * 1e-9);
}

// Returns `from` plus `seconds`. Saturates; NaN adds nothing.
inline TimePoint Later(TimePoint from, double seconds) { return After(from, FromSeconds(seconds)); }

}  // namespace takt

#endif  // TAKT_WORKFLOW_SLO_BUDGET_H_
