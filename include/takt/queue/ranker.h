// The key of one request without a queue, for hosts that compare by themselves (level L0).
#ifndef TAKT_QUEUE_RANKER_H_
#define TAKT_QUEUE_RANKER_H_

#include <cmath>
#include <limits>
#include <utility>

#include "takt/policy/rank_policy.h"
#include "takt/state/revise.h"

namespace takt {

// What a host that keeps keys must know of a policy. Where nothing but `fixed` holds, a key that was read once is good
// for as long as the request waits, and the order by (key, arrival, id) is that of a queue.
struct PolicyTraits {
  bool fixed = false;    // none of the others
  bool timed = false;    // a key changes at times known beforehand: read it again at each decision, or use a queue
  bool moving = false;   // every key moves with time: read all again at each decision
  bool groups = false;   // requests are ordered by the keys of their groups first, which only a queue knows
  bool learns = false;   // a key may depend on what the policy was told before, of this request or of others
  bool pressure = false;  // goes by what keeps requests out, which only a queue or a scheduler tells it
  bool ages = false;     // promotes what waits for long, which only a queue counts

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
                    .ages = AgingOf(policy) != nullptr};
  t.fixed = t == PolicyTraits{};
  return t;
}

// Holds no request: each is asked about as though it were alone. Thread-compatible.
template <RankPolicy Policy>
class Ranker {
 public:
  explicit Ranker(Policy policy) : policy_(std::move(policy)), hooks_(HooksOf(policy_)) {
    if constexpr (ReservePolicy<Policy>) policy_.Reserve(1);
  }

  const Policy& policy() const { return policy_; }
  PolicyTraits traits() const { return TraitsOf(policy_); }

  // Its key as of `now`: smaller is sooner, equal keys go by arrival, then by id. What is not a number is +infinity.
  // Unset times are taken as the present, absurd predictions as unknown, as the queue takes them.
  double Key(const Request& request, TimePoint now) {
    state_.request = request;
    internal::Believe(state_.request, now);
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
