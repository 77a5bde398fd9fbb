// What a gate is: it lets in a turn that needs memory of others, or has it wait.
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
  std::int64_t running = 0;  // requests that run
  std::int32_t used = 0;   // blocks that requests use now
  std::int32_t total = 0;  // blocks of the cache
  double hits = 1;   // of the tokens of late prompts, the share that was cached
  double state = 0;  // what the gate's Told has answered last; 0: not told yet
  bool stuck = false;  // nothing runs: somebody must go first, and blocks of kPinned and kAwaited count nothing
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
  virtual void Walk(std::int32_t blocks, FunctionRef<bool(const HeldVictim&)> take) const = 0;
  // Each branch of a workflow that holds anything; `own_from` is not told.
  virtual void ForEach(FunctionRef<void(WorkflowId, std::uint64_t, const Holding&)> tell) const = 0;
  // Returns the sum of `of` over these. A gate asks for one sum only, in which nothing but its options and GateAsk::now
  // counts: for all that are asked as things are, it is computed once.
  virtual double Sum(FunctionRef<double(const Holding&)> of) const {
    double sum = 0;
    ForEach([&](WorkflowId, std::uint64_t, const Holding& h) { sum += of(h); });
    return sum;
  }
};

// Whether anything would be taken that is somebody else's, who is away, and has not pinned it.
inline bool TakesOfOthers(const GateAsk& ask, const HeldOrder& held) {
  bool takes = false;
  held.Walk(ask.lack, [&](const HeldVictim& victim) {
    takes = victim.tier == HeldTier::kHeld && !IsOwn(ask, victim.held);
    return !takes;
  });
  return takes;
}

// Answers how long such a request must have waited [s] to be let in, as things are now: at most ask.waited_s is now;
// infinity is not as things are. What lacks more, needs more, has waited no longer and holds
// nothing itself must not be let in sooner. It is
// asked where something would be taken from others, and again as things change, at least twice a second. Where nothing
// runs and nothing but blocks that are pinned, or that waiting turns will use, would be taken, it must let in: else
// none would ever go first.
template <class G>
concept GatePolicy = requires(const G& g, const GateAsk& ask, const HeldOrder& held) {
  { g.LetsInAfter(ask, held) } -> std::same_as<double>;
};
inline constexpr double kNotNow = std::numeric_limits<double>::infinity();

// Who waits at the gate waits no longer than for its share of the engine: of those that have waited at least `after_s`,
// and that a step of these limits could run, the first to come is let in without being asked; after one whose prefill
// takes c seconds the next comes c / share later. While such a one does not fit, nobody is let in. share 0: no bound.
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

// What an engine has done since it was told last.
struct GateSigns {
  double use = 0;  // share of its blocks that requests use
  double hits = 1;  // of the tokens of prompts that began to run, the share that was cached
  std::int64_t running = 0;  // requests
};

// Optional: a number that the gate goes by and that moves as the engine does, such as a window. The scheduler keeps it,
// so that a gate is a value all the same: asked so often [s; 0: never] what it becomes, and shown it in each ask.
template <class G>
concept ToldGate = GatePolicy<G> && requires(const G& g, double state, const GateSigns& signs) {
  { g.Told(state, signs) } -> std::same_as<double>;
  { g.TellEvery() } -> std::same_as<double>;
};

}  // namespace takt

#endif  // TAKT_TURNS_GATES_GATE_POLICY_H_
