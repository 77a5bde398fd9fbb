// Ranks by KV memory over time until the end of the request, least first.
#ifndef TAKT_POLICY_MEMORY_INTEGRAL_H_
#define TAKT_POLICY_MEMORY_INTEGRAL_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/model/memory_time.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Key [token-seconds]: the area under the request's memory from now to its end. The area includes the expected tool
// call (Request::next_call), handled as the pause policy intends (RequestState::at_call). A request with unknown output
// comes after all requests with known output. After a tool call, a request is ranked by its remaining area, from its
// current context. Source: LAMPS, section 4.2.
//
// `stall`: weight of the time that other requests lose to the request's recomputation or swap (equations 1 and 3, terms
// with C_other); 0: the plain integral. In the paper's example, a `stall` of 1 gives the paper's order (R3, R2, R1;
// mean latency 10). The plain integral gives R2, R3, R1 and a mean latency of 29/3.
//
// Departures: the authors' code counts each decode as a whole chunk per step. Its unit for swaps is squared blocks. The
// authors' code ranks by the original prompt even after the context has grown. The published system with its guard
// against starvation is
// aged(memory_integral,threshold=100,quantum=forever,count_from=first_run,at_tool_call=reset_count). Preemptive:
// PreemptMode::kByRank.
struct MemoryIntegral {
  static constexpr std::string_view kName = "memory_integral";
  MemoryPace pace{.decode_s = 0.02, .forward_s = 1e-4, .swap_s = 5e-6};
  double stall = 0;
  std::int64_t refresh = 0;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("decode_s", self.pace.decode_s, OptionText{"s", "time of a decode step"});
    visit("forward_s", self.pace.forward_s, OptionText{"s/token", "time that a prefill token adds to a step"});
    visit("swap_s", self.pace.swap_s, OptionText{"s/token", "time to move a token's KV one way"});
    visit("stall", self.stall, OptionText{"", "weight of time lost by other requests; 0: none"});
    visit("refresh", self.refresh,
          OptionText{"plans", "interval at which waiting requests are ranked again; 0: never"});
  }

  std::int64_t refresh_interval() const { return stall > 0 ? (refresh > 0 ? refresh : kForever) : 0; }

  RankKey Key(const RequestState& r) const {
    const Request& q = r.request;
    if (!q.output_tokens.known()) return {std::numeric_limits<double>::max()};
    const double held = r.computed.value;
    const double known = q.prompt_tokens.value + r.returned.value + Rounded(1.0 * r.generated.value * q.sequences);
    const double left = std::max(q.output_tokens.mean - r.generated.value, 1.0) * q.sequences;
    const NextCall& next = q.next_call;
    const double before = next ? std::min(static_cast<double>(next.after.value), left) : left;
    const std::array<MemorySegment, 2> segments{
        MemorySegment{std::max(known - held, 0.0), before, ToSeconds(next.duration), r.at_call},
        MemorySegment{static_cast<double>(next.returned.value), left - before}};
    double area = AreaOfMemory(pace, std::span(segments).first(next ? 2 : 1), held);
    if (stall > 0) {
      const double context = known + before;
      double seconds = Rounded(pace.forward_s * std::max(known - held, 0.0));
      if (next && r.at_call == KvAction::kDrop) seconds += Rounded(pace.forward_s * context);
      if (next && r.at_call == KvAction::kOut) seconds += Rounded(2 * pace.swap_s * context);
      area += Rounded(stall * seconds * r.beside);
    }
    return {area};
  }
};

}  // namespace takt

#endif  // TAKT_POLICY_MEMORY_INTEGRAL_H_
