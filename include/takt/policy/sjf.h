// Shortest job first, by predicted output of this call.
#ifndef TAKT_POLICY_SJF_H_
#define TAKT_POLICY_SJF_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Key: mean predicted output tokens of the whole call. Generated tokens are not subtracted, so that a preempted request
// keeps its place, as in LTR. The prompt does not count, since decoding takes most of a call's time. This order
// minimizes mean completion time on one machine if sizes are known (Smith, 1956).
struct Sjf {
  static constexpr std::string_view kName = "sjf";

  // assumed output tokens of a request without a prediction: a middle value, so that it neither wins nor starves
  double unknown = 256;

  RankKey Key(const RequestState& r) const {
    const Estimate& tokens = r.request.output_tokens;
    return {tokens.known() ? tokens.mean : unknown};
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("unknown", self.unknown, OptionText{"tokens", "output of a request without a prediction"});
  }
};

}  // namespace takt

#endif  // TAKT_POLICY_SJF_H_
