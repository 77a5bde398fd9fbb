// The instance with the fewest requests; waiting requests have more weight.
#ifndef TAKT_PLACEMENT_LEAST_LOADED_H_
#define TAKT_PLACEMENT_LEAST_LOADED_H_

#include <string_view>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"

namespace takt {

// vLLM's data-parallel balancer: load = 4 * waiting + running, from the newest report (vLLM: every 100 ms). Requests
// placed since the report count as waiting. Requests that end between two reports are seen in the next report, as in
// vLLM. Departure from vLLM: until an instance has reported, all its requests count as waiting.
struct LeastLoaded {
  static constexpr std::string_view kName = "least_loaded";

  double waiting_weight = 4;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("waiting_weight", self.waiting_weight,
          OptionText{"", "weight of a waiting request; a running request has 1"});
  }

  double Score(const RequestState&, const InstanceState& i, TimePoint) const {
    const std::int64_t waiting = i.reported ? i.report.waiting + i.since_report : i.outstanding;
    return -(Rounded(waiting_weight * static_cast<double>(waiting)) + static_cast<double>(i.report.running));
  }
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_LEAST_LOADED_H_
