// The instance with the fewest requests, those that wait counted more.
#ifndef TAKT_PLACEMENT_LEAST_LOADED_H_
#define TAKT_PLACEMENT_LEAST_LOADED_H_

#include <string_view>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"

namespace takt {

// vLLM's data-parallel balancer: load = 4 * waiting + running, of the newest report (vLLM: every 100 ms), and what
// that report cannot include counts as waiting. Requests that end between two reports are seen with the next one, as
// there. Departure: an instance that has never reported is taken to have all its outstanding requests waiting.
struct LeastLoaded {
  static constexpr std::string_view kName = "least_loaded";

  double waiting_weight = 4;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("waiting_weight", self.waiting_weight, OptionText{"", "what a waiting request counts; a running one is 1"});
  }

  double Score(const RequestState&, const InstanceState& i, TimePoint) const {
    const std::int64_t waiting = i.reported ? i.report.waiting + i.since_report : i.outstanding;
    return -(Rounded(waiting_weight * static_cast<double>(waiting)) + static_cast<double>(i.report.running));
  }
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_LEAST_LOADED_H_
