// The host's own priorities.
#ifndef TAKT_POLICY_PRIORITY_H_
#define TAKT_POLICY_PRIORITY_H_

#include <string_view>

#include "takt/policy/rank_policy.h"

namespace takt {

// Key: Request::priority, lower is sooner, as in vLLM; the order of arrival among equals. Strict: Aged keeps a stream
// of urgent requests from starving the rest.
struct Priority {
  static constexpr std::string_view kName = "priority";
  RankKey Key(const RequestState& r) const { return {static_cast<double>(r.request.priority)}; }
};

}  // namespace takt

#endif  // TAKT_POLICY_PRIORITY_H_
