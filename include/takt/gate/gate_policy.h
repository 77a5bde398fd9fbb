// What a gate is: it lets in a turn that needs memory of others, or has it wait.
#ifndef TAKT_GATE_GATE_POLICY_H_
#define TAKT_GATE_GATE_POLICY_H_

#include <concepts>
#include <cstdint>
#include <limits>

#include "absl/functional/function_ref.h"
#include "takt/base/id.h"
#include "takt/base/time.h"
#include "takt/kv/held.h"

namespace takt {

// A request that would be let in next, if the gate agrees.
struct GateAsk {
  WorkflowId workflow = {};
  std::uint64_t branch = 0;
  std::int32_t need = 0;  // blocks beyond those that it has, or that are cached for it
  std::int32_t lack = 0;  // of these, so many must be taken from what is held; 0: nobody is harmed
  std::int32_t block_tokens = 16;
  std::int32_t tokens = 0;  // of its context
  std::int32_t cached = 0;  // of these, not to be computed
  double waited_s = 0;
  std::int64_t delayed = 1;  // requests that wait or run here, it included
  std::int32_t total = 0;  // blocks of the cache
  bool stuck = false;  // nothing runs: somebody must go first, and blocks that a waiting turn will use count nothing
  TimePoint now = {};
};

// Whether it would take what its own branch has left there and cannot use: that harms nobody.
constexpr bool IsOwn(const GateAsk& ask, const Held& held) {
  return ask.workflow && held.workflow == ask.workflow && held.branch == ask.branch;
}

// What is held, in the order in which it would go.
class HeldOrder {
 public:
  virtual ~HeldOrder() = default;
  // take(victim) until it is false, or so many blocks were shown. Dead blocks come first.
  virtual void Walk(std::int32_t blocks, absl::FunctionRef<bool(const HeldVictim&)> take) const = 0;
  // Each branch of a workflow that holds anything; `own_from` is not told.
  virtual void ForEach(absl::FunctionRef<void(WorkflowId, std::uint64_t, const Holding&)> tell) const = 0;
};

// Answers how long such a request must have waited [s] to be let in, as things are now: at most ask.waited_s is now;
// infinity is not as things are. What lacks more, needs more and has waited no longer must not be let in sooner. It is
// asked where something would be taken from others, and again as things change, at least twice a second. Where nothing
// runs and nothing but blocks that waiting turns will use would be taken, it must let in: else none would ever go
// first.
template <class G>
concept GatePolicy = requires(const G& g, const GateAsk& ask, const HeldOrder& held) {
  { g.LetsInAfter(ask, held) } -> std::same_as<double>;
};
inline constexpr double kNotNow = std::numeric_limits<double>::infinity();

// Who waits at the gate waits no longer than for its share of the engine: of those that have waited at least `after_s`
// the first to come is let in without being asked; after one whose prefill takes c seconds the next comes c / share
// later. While such a one does not fit, nobody is let in. share 0: no bound.
struct GateDoor {
  double share = 0;  // of prefill time
  double after_s = 300;
};

// Optional: a bound on how long anything waits.
template <class G>
concept DoorGate = GatePolicy<G> && requires(const G& g, const GateAsk& ask) {
  { g.Door() } -> std::same_as<GateDoor>;
  { g.PrefillSeconds(ask) } -> std::same_as<double>;
};

}  // namespace takt

#endif  // TAKT_GATE_GATE_POLICY_H_
