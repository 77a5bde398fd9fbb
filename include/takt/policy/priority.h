// The host's own priorities.
#ifndef TAKT_POLICY_PRIORITY_H_
#define TAKT_POLICY_PRIORITY_H_

#include <string_view>

#include "takt/policy/rank_policy.h"

namespace takt {

// Key: Request::priority, lower first, as in vLLM; ties by arrival. Strict: urgent requests can starve the rest, which
// Aged prevents.
struct Priority {
  static constexpr std::string_view kName = "priority";
  RankKey Key(const RequestState& r) const { return {static_cast<double>(r.request.priority)}; }
};

}  // namespace takt

#endif  // TAKT_POLICY_PRIORITY_H_
