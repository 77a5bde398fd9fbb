// The counters of a router.
#ifndef TAKT_ROUTER_STATS_H_
#define TAKT_ROUTER_STATS_H_

#include <cstdint>

namespace takt {

// X(name, unit that it counts)
#define TAKT_ROUTER_STATS(X)                                                                              \
  X(arrived, "requests accepted")                                                                         \
  X(placed, "placements, repeated ones included")                                                         \
  X(ended, "requests that ended on their instance")                                                       \
  X(cancelled, "requests cancelled while alive")                                                          \
  X(failed_invalid, "requests refused: no id, or nothing to compute")                                     \
  X(failed_id_in_use, "requests refused because their id was still in use")                               \
  X(failed_expired, "requests that waited here past expires_at or a time limit")                          \
  X(failed_unfit, "requests too large for every instance that was up, with fail_unfit")                   \
  X(returned, "requests returned because their instance went down")                                       \
  X(held, "calls made before earlier stages had ended")                                                   \
  X(dropped, "requests that failed because their workflow was over")                                      \
  X(workflows_declared, "workflows that began")                                                           \
  X(workflows_ended, "workflows that completed, were cancelled, or failed by silence")                    \
  X(workflow_faults, "invalid reports about workflows")                                                   \
  X(instances_lost, "instances that went down")                                                           \
  X(reported_late, "late reports: from a former place, an earlier life, or out of date; ignored")         \
  X(events_unknown, "events that name no living request, or no instance that is up")                      \
  X(events_invalid, "instances with no id, new role, unknown profile; negative counts; as_of beyond now") \
  X(clock_stepped_back, "calls with a time before an earlier call, which was used instead")               \
  X(calls_after_end, "calls after an exception ended the router; ignored")                                \
  X(failed_shed, "requests shed because the queue, or the queue of their class, was full")                \
  X(failed_quota, "requests shed because their tenant had too many waiting requests or tokens")           \
  X(failed_no_instance, "requests that failed because no instance was up")                                \
  X(placed_apart, "placements with one instance for prefill and one for decode")                          \
  X(handed_over, "requests that a decode instance took over after their prefill")                         \
  X(decode_lost, "requests that lost their decode instance before they were handed over")

struct RouterStats {
#define TAKT_ROUTER_STATS_FIELD(name, text) std::uint64_t name = 0;
  TAKT_ROUTER_STATS(TAKT_ROUTER_STATS_FIELD)
#undef TAKT_ROUTER_STATS_FIELD

  // Returns the number of invalid inputs from the host (model/fault.h). 0: no faults found.
  constexpr std::uint64_t faults() const {
    return failed_invalid + failed_id_in_use + workflow_faults + events_unknown + events_invalid + clock_stepped_back +
           calls_after_end;
  }

  friend constexpr bool operator==(const RouterStats&, const RouterStats&) = default;
};

}  // namespace takt

#endif  // TAKT_ROUTER_STATS_H_
