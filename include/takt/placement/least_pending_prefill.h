// The instance with the fewest prompt tokens left to compute.
#ifndef TAKT_PLACEMENT_LEAST_PENDING_PREFILL_H_
#define TAKT_PLACEMENT_LEAST_PENDING_PREFILL_H_

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "takt/placement/least_outstanding_tokens.h"

namespace takt {

// Chooses the least InstanceState::pending_prefill [tokens]. Ties go to the fewest outstanding tokens, as counted by
// least_outstanding_tokens. Suits data-parallel ranks that step together: a step takes as long as the rank with the
// most prefill. Pending tokens above 2^27 count as equal, and so do outstanding tokens above 2^26, so that a double
// holds both.
class LeastPendingPrefill : public LeastOutstandingTokens {
 public:
  static constexpr std::string_view kName = "least_pending_prefill";
  static constexpr bool kGoesByService = true;

  double Score(const RequestState& r, const InstanceState& i, TimePoint now) const {
    constexpr std::int64_t kMostPending = std::int64_t{1} << 27;
    constexpr double kMostOutstanding = 0x1p26;
    const auto pending = static_cast<double>(std::min(i.pending_prefill, kMostPending));
    const double outstanding = -LeastOutstandingTokens::Score(r, i, now);
    return -(pending + std::min(outstanding, kMostOutstanding - 1) / kMostOutstanding);
  }
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_LEAST_PENDING_PREFILL_H_
