// Shortest job first, by the predicted output of this call.
#ifndef TAKT_POLICY_SJF_H_
#define TAKT_POLICY_SJF_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Key: the mean of the predicted output tokens, as predicted for the whole call (what has been generated is not
// taken off: a preempted request keeps its place, as in LTR). Output, not prompt, since decoding takes most of a
// call's time. The order that minimises mean completion time on one machine where sizes are known (Smith, 1956).
struct Sjf {
  static constexpr std::string_view kName = "sjf";

  double unknown = 256;  // taken for a length without prediction: middling, so that it neither wins nor starves

  RankKey Key(const RequestState& r) const {
    const Estimate& tokens = r.request.output_tokens;
    return {tokens.known() ? tokens.mean : unknown};
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("unknown", self.unknown, OptionText{"tokens", "taken for a length without a prediction"});
  }
};

}  // namespace takt

#endif  // TAKT_POLICY_SJF_H_
