// Shortest total job first: the workflow with the fewest tokens still to come (Chimera).
#ifndef TAKT_POLICY_STJF_H_
#define TAKT_POLICY_STJF_H_

#include <string_view>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Key: a quantile of the predicted output tokens of this call and all that follow in its workflow. Source: Chimera,
// order (starvation level, predicted total tokens, arrival), the prediction being the median; the starvation level
// is Aged's. Departure: where nothing is known of the workflow, this call's own prediction stands in, since a
// workflow of one call is the common case.
struct Stjf {
  static constexpr std::string_view kName = "stjf";
  static constexpr double kMean = -1;

  double quantile = 0.5;  // in [0, 1]; kMean: the mean, which weighs long tails
  double input = 0;       // share of the prompt's tokens that counts too: Chimera found no gain in it
  double unknown = 512;   // taken where neither is known: middling, so that it neither wins nor starves

  RankKey Key(const RequestState& r) const {
    const Estimate& workflow = r.request.workflow_tokens_left;
    const Estimate& tokens = workflow.known() ? workflow : r.request.output_tokens;
    const double output = !tokens.known() ? unknown : quantile < 0 ? tokens.mean : tokens.Quantile(quantile);
    return {output + Rounded(input * r.request.prompt_tokens.value)};
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("quantile", self.quantile, OptionText{"share", "of the prediction that counts; -1: its mean", -1, 1});
    visit("input", self.input, OptionText{"share", "of the prompt's tokens that is added"});
    visit("unknown", self.unknown, OptionText{"tokens", "taken where nothing was predicted"});
  }
};

}  // namespace takt

#endif  // TAKT_POLICY_STJF_H_
