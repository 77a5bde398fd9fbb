// The key of a single request without a queue, for hosts that compare requests themselves (level L0).
#ifndef TAKT_QUEUE_RANKER_H_
#define TAKT_QUEUE_RANKER_H_

#include <cmath>
#include <limits>
#include <utility>

#include "takt/policy/rank_policy.h"
#include "takt/state/revise.h"

namespace takt {

// Properties of a policy for a host that stores keys. If `fixed` is true, a key stays valid while the request waits.
// The order by (key, arrival, id) is then the order of a queue.
struct PolicyTraits {
  bool fixed = false;  // true if no other property is true
  bool timed = false;  // keys change at known times: read them at each decision, or use a queue
  bool moving = false;  // every key changes with time: read all keys at each decision
  bool groups = false;  // requests are ordered by group first, and only a queue knows groups
  bool learns = false;  // a key may depend on earlier reports about this request or others
  bool pressure = false;  // keys depend on QueuePressure; only a queue or a scheduler reports QueuePressure
  bool ages = false;  // requests that wait long are promoted; only a queue counts waiting
  bool tables = false;  // requests are ranked by the tables of an Epoch; a ranker never gets an Epoch
  bool chooses = false;  // the next request depends on all waiting requests; only a queue knows all of them

  friend constexpr bool operator==(const PolicyTraits&, const PolicyTraits&) = default;
};

template <RankPolicy P>
PolicyTraits TraitsOf(const P& policy) {
  const PolicyHooks hooks = HooksOf(policy);
  PolicyTraits t = {.timed = hooks.timed,
                    .moving = hooks.moving || RefreshIntervalOf(policy) != 0,
                    .groups = hooks.groups,
                    .learns = hooks.observes || hooks.scheduled || hooks.ends,
                    .pressure = hooks.pressure,
                    .ages = AgingOf(policy) != nullptr,
                    .tables = hooks.tables,
                    .chooses = hooks.chooses};
  t.fixed = t == PolicyTraits{};
  return t;
}

// A ranker keeps no requests: each key is computed as if the request were alone. Thread-compatible.
template <RankPolicy Policy>
class Ranker {
 public:
  explicit Ranker(Policy policy) : policy_(std::move(policy)), hooks_(HooksOf(policy_)) {
    if constexpr (ReservePolicy<Policy>) policy_.Reserve(1);
  }

  const Policy& policy() const { return policy_; }
  PolicyTraits traits() const { return TraitsOf(policy_); }

  // Returns the key as of `now`. A smaller key runs sooner; ties by arrival, then id. NaN becomes +infinity. Unset
  // times become `now`, and absurd estimates become unknown, as in a queue.
  double Key(const Request& request, TimePoint now) {
    state_.request = request;
    internal::Sanitize(state_.request, now);
    state_.enqueued = now;
    if constexpr (EnterPolicy<Policy>) {
      if (hooks_.enters) policy_.Enters(state_, now);
    }
    const double key = Read(now).key;
    if constexpr (EndPolicy<Policy>) {
      if (hooks_.ends) policy_.Ends(state_, now);
    }
    return std::isnan(key) ? std::numeric_limits<double>::infinity() : key;
  }

 private:
  RankKey Read([[maybe_unused]] TimePoint now) const {
    if constexpr (MovingPolicy<Policy>) {
      if (hooks_.moving) return policy_.KeyAt(state_, now);
    }
    return policy_.Key(state_);
  }

  Policy policy_;
  PolicyHooks hooks_;
  RequestState state_ = {};
};

}  // namespace takt

#endif  // TAKT_QUEUE_RANKER_H_
