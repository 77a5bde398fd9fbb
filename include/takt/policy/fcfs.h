// First come, first served.
#ifndef TAKT_POLICY_FCFS_H_
#define TAKT_POLICY_FCFS_H_

#include <string_view>

#include "takt/policy/rank_policy.h"

namespace takt {

// Key: 0 for all, so that (arrival, id) decides, which is vLLM's default order. A preempted request comes before all
// that arrived after it.
struct Fcfs {
  static constexpr std::string_view kName = "fcfs";
  RankKey Key(const RequestState&) const { return {}; }
};

}  // namespace takt

#endif  // TAKT_POLICY_FCFS_H_
