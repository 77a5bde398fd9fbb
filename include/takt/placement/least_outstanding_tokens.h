// The instance with the fewest tokens left to serve.
#ifndef TAKT_PLACEMENT_LEAST_OUTSTANDING_TOKENS_H_
#define TAKT_PLACEMENT_LEAST_OUTSTANDING_TOKENS_H_

#include <cstdint>
#include <string_view>

#include "takt/placement/books/call_costs.h"
#include "takt/placement/books/work_in_flight.h"

namespace takt {

// A request counts its prompt and estimated output from placement to its end. The speed of instances does not matter. A
// call without an estimate counts CallCosts::kUnknownOutput output tokens.
class LeastOutstandingTokens {
 public:
  static constexpr std::string_view kName = "least_outstanding_tokens";

  double Score(const RequestState&, const InstanceState& i, TimePoint) const {
    return -static_cast<double>(tokens_.outstanding(i.slot));
  }
  void Placed(const RequestState& r, const InstanceState& i, TimePoint) {
    tokens_.Placed(r.slot, i.slot, r.request.prompt_tokens.value + CallCosts::OutputTokens(r.request));
  }
  void Released(const RequestState& r, const InstanceState&, TimePoint) { tokens_.Released(r.slot); }

 private:
  WorkInFlight tokens_;
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_LEAST_OUTSTANDING_TOKENS_H_
