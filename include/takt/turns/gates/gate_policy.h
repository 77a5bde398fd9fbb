// The concept of a gate, which admits or delays a request that needs held KV.
#ifndef TAKT_TURNS_GATES_GATE_POLICY_H_
#define TAKT_TURNS_GATES_GATE_POLICY_H_

#include <concepts>
#include <cstdint>
#include <limits>

#include "takt/base/function_ref.h"
#include "takt/base/id.h"
#include "takt/base/time.h"
#include "takt/turns/held.h"

namespace takt {

// A question to a gate: may this request be admitted next?
struct GateAsk {
  WorkflowId workflow = {};
  std::uint64_t branch = 0;
  TenantId tenant = {};
  std::int32_t priority = 0;
  std::int32_t need = 0;  // blocks that the request must allocate
  std::int32_t lack = 0;  // blocks of `need` that must be taken from held KV; 0: no other workflow loses KV
  std::int32_t block_tokens = 16;
  std::int32_t tokens = 0;  // context tokens of the request
  std::int32_t cached = 0;  // context tokens that need not be computed
  double waited_s = 0;
  std::int64_t delayed = 1;  // number of waiting and running requests, including this request
  std::int64_t running = 0;  // number of running requests
  std::int32_t used = 0;  // blocks that requests use now
  std::int32_t total = 0;  // blocks of the cache
  double hits = 1;  // cached share of the tokens of recent prompts
  double state = 0;  // state that the gate's Told last returned; 0: none yet
  // true: nothing runs, so a request must be admitted; kPinned and kAwaited blocks then have no value
  bool stuck = false;
  TimePoint now = {};
};

// Returns true if a victim belongs to the request's own branch, so that no other branch loses KV.
constexpr bool IsOwn(const GateAsk& ask, const Held& held) {
  return ask.workflow && held.workflow == ask.workflow && held.branch == ask.branch;
}

// Held KV in eviction order.
class HeldOrder {
 public:
  virtual ~HeldOrder() = default;
  // Calls take(victim) until it returns false or `blocks` blocks were passed. Dead blocks come first.
  virtual void Walk(std::int32_t blocks, FunctionRef<bool(const HeldVictim&)> take) const = 0;
  // Calls visit for each branch that holds KV. Holding::own_from is not set.
  virtual void ForEach(FunctionRef<void(WorkflowId, std::uint64_t, const Holding&)> visit) const = 0;
  // Returns the sum of `of` over all holdings, computed once per state. A gate must use only one function `of`, which
  // depends only on its options and GateAsk::now.
  virtual double Sum(FunctionRef<double(const Holding&)> of) const {
    double sum = 0;
    ForEach([&](WorkflowId, std::uint64_t, const Holding& h) { sum += of(h); });
    return sum;
  }
};

// Returns true if the request would take unpinned KV of an absent workflow other than its own.
inline bool TakesOfOthers(const GateAsk& ask, const HeldOrder& held) {
  bool takes = false;
  held.Walk(ask.lack, [&](const HeldVictim& victim) {
    takes = victim.tier == HeldTier::kHeld && !IsOwn(ask, victim.held);
    return !takes;
  });
  return takes;
}

// LetsInAfter returns the waiting time [s] from which on the request is admitted in the current state. A time of at
// most ask.waited_s admits the request now; infinity refuses it in this state. A request without KV must not get a
// shorter time than a longer waiting one of its tenant and priority with less need and lack.
// The scheduler asks only if held KV would be taken. It asks again when the state changes, at least twice a second. If
// ask.stuck is set and only pinned or awaited blocks would be taken, the gate must admit, or no request would ever run.
template <class G>
concept GatePolicy = requires(const G& g, const GateAsk& ask, const HeldOrder& held) {
  { g.LetsInAfter(ask, held) } -> std::same_as<double>;
};
inline constexpr double kNotNow = std::numeric_limits<double>::infinity();

// The door bounds how long a request waits at the gate. Without asking the gate, it admits the oldest request that has
// waited `after_s` and fits the step limits. After a prefill of c seconds, the door stays closed for c / share seconds.
// While the oldest request does not fit, the door admits no other. share 0: no bound.
struct GateDoor {
  double share = 0;  // share of the engine's time for the prefill of these requests
  double after_s = 300;
};

// Optional: a bound on the wait of each request.
template <class G>
concept DoorGate = GatePolicy<G> && requires(const G& g, const GateAsk& ask) {
  { g.Door() } -> std::same_as<GateDoor>;
  { g.PrefillSeconds(ask) } -> std::same_as<double>;
};

// Activity of an engine since the last report.
struct GateSigns {
  double use = 0;  // share of its blocks that requests use
  double hits = 1;  // cached share of the prompt tokens of requests that started to run
  std::int64_t running = 0;  // running requests
};

// Optional: a state that follows the engine, such as a window. The scheduler keeps it, so the gate itself stays
// immutable. Told returns the new state every UpdateEvery() seconds (0: never), and each GateAsk contains it.
template <class G>
concept UpdatingGate = GatePolicy<G> && requires(const G& g, double state, const GateSigns& signs) {
  { g.Update(state, signs) } -> std::same_as<double>;
  { g.UpdateEvery() } -> std::same_as<double>;
};

}  // namespace takt

#endif  // TAKT_TURNS_GATES_GATE_POLICY_H_
