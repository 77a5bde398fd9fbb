// Shortest total job first: the workflow with the fewest remaining output tokens (Chimera).
#ifndef TAKT_POLICY_STJF_H_
#define TAKT_POLICY_STJF_H_

#include <string_view>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Key: a quantile of the predicted output tokens of this call and all later calls of its workflow. Source: Chimera's
// order (starvation level, median predicted total tokens, arrival); Aged provides the starvation level. Departure: if
// the workflow's rest is unknown, the prediction of this call replaces it, since workflows of one call are common.
struct Stjf {
  static constexpr std::string_view kName = "stjf";
  static constexpr double kMean = -1;

  double quantile = 0.5;  // quantile of the prediction, in [0, 1]; kMean: the mean, which gives weight to long tails
  double input = 0;  // weight of the prompt's tokens; Chimera found no gain
  double unknown = 512;  // assumed tokens of a request without a prediction: a middle value

  RankKey Key(const RequestState& r) const {
    const Estimate& workflow = r.request.workflow_tokens_left;
    const Estimate& tokens = workflow.known() ? workflow : r.request.output_tokens;
    const double output = !tokens.known() ? unknown : quantile < 0 ? tokens.mean : tokens.Quantile(quantile);
    return {output + Rounded(input * r.request.prompt_tokens.value)};
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("quantile", self.quantile, OptionText{"share", "quantile of the prediction; -1: its mean", -1, 1});
    visit("input", self.input, OptionText{"share", "weight of the prompt's tokens"});
    visit("unknown", self.unknown, OptionText{"tokens", "value without any prediction"});
  }
};

}  // namespace takt

#endif  // TAKT_POLICY_STJF_H_
