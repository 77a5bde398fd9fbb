// Earliest deadline first.
#ifndef TAKT_POLICY_EDF_H_
#define TAKT_POLICY_EDF_H_

#include <string_view>

#include "takt/policy/rank_policy.h"

namespace takt {

// Key: the deadline for the end of the call [s]. Requests without a deadline come last, in order of arrival. On one
// preemptive machine, this order meets all deadlines if any order does (Liu and Layland, 1973). Under overload it may
// miss most, since requests that will miss their deadlines come first.
struct Edf {
  static constexpr std::string_view kName = "edf";
  RankKey Key(const RequestState& r) const { return {ToSeconds(r.request.deadline)}; }
};

}  // namespace takt

#endif  // TAKT_POLICY_EDF_H_
