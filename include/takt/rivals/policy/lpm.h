// The longest cached prefix first.
#ifndef TAKT_RIVALS_POLICY_LPM_H_
#define TAKT_RIVALS_POLICY_LPM_H_

#include <algorithm>
#include <string_view>

#include "takt/policy/rank_policy.h"

namespace takt {

// Key: minus the cached tokens of the prompt (SGLang's longest prefix match; CacheWise's order). Equal keys: by
// arrival.
struct Lpm {
  static constexpr std::string_view kName = "lpm";
  RankKey Key(const RequestState& r) const {
    return {-static_cast<double>(std::max(r.cached.value, r.computed.value))};
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_POLICY_LPM_H_
