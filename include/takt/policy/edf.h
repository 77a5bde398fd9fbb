// Earliest deadline first.
#ifndef TAKT_POLICY_EDF_H_
#define TAKT_POLICY_EDF_H_

#include <string_view>

#include "takt/policy/rank_policy.h"

namespace takt {

// Key: the deadline of the call's end [s]; requests without one come last, in order of arrival. Meets all deadlines
// where any order does, on one preemptive machine (Liu and Layland, 1973); once some must be missed it may miss
// most, since it serves first those that are lost.
struct Edf {
  static constexpr std::string_view kName = "edf";
  RankKey Key(const RequestState& r) const { return {ToSeconds(r.request.deadline)}; }
};

}  // namespace takt

#endif  // TAKT_POLICY_EDF_H_
