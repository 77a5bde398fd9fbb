// What a ranking policy is: a value with a key. Nothing but Aged inherits from a policy.
#ifndef TAKT_POLICY_RANK_POLICY_H_
#define TAKT_POLICY_RANK_POLICY_H_

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "takt/model/event.h"
#include "takt/state/request_state.h"

namespace takt {

// Smaller is sooner. The queue completes it with (arrival, id), so that every order is total; a NaN key is taken
// as +infinity and counted.
struct RankKey {
  double key = 0;
};

// The one thing a policy must say. Key is read when a request joins the queue and when it is revised; it must not
// depend on the current time: never key on `now - x`, key on `x`.
template <class P>
concept RankPolicy = requires(const P& p, const RequestState& r) {
  { p.Key(r) } -> std::same_as<RankKey>;
};

// Optional: is told of a request before its key is read: when it joins the queue, at arrival and whenever it comes
// back, when something new is known of it, and when the policy is new. So a policy may compute a key once, from what it
// knows then, and keep it by RequestState::slot. A request enters several times before it ends.
template <class P>
concept EnterPolicy = RankPolicy<P> && requires(P& p, const RequestState& r, TimePoint now) { p.Enters(r, now); };

// Optional: makes ready for so many requests at once, so that none that enters allocates.
template <class P>
concept ReservePolicy = RankPolicy<P> && requires(P& p, std::size_t slots) { p.Reserve(slots); };

// Optional: has hash tables of names that strangers may choose (tenants, workflows), and is given what keys their
// hashes before any request enters. Nothing that the policy says may depend on it.
template <class P>
concept HashingPolicy = RankPolicy<P> && requires(P& p, std::uint64_t seed) { p.KeyHashes(seed); };

// Optional: is told when a request has ended, however: its slot will be another's. Also of one that never entered.
template <class P>
concept EndPolicy = RankPolicy<P> && requires(P& p, const RequestState& r, TimePoint now) { p.Ends(r, now); };

// Optional: a key that changes at a time known beforehand (kNever: does not). Before the first plan from then on,
// Change is told of each waiting request that is due; then ChangesAt and the key are read again. At most one change a
// plan.
template <class P>
concept TimedPolicy = RankPolicy<P> && requires(P& p, const P& c, const RequestState& r, TimePoint now) {
  { c.ChangesAt(r) } -> std::same_as<TimePoint>;
  p.Change(r, now);
};

// Optional: is told after each plan what kept the first of the queue out.
template <class P>
concept PressurePolicy =
    RankPolicy<P> && requires(P& p, const QueuePressure& pressure, TimePoint now) { p.PlanEnds(pressure, now); };

// Optional: what a key came from, for people.
struct KeyPart {
  std::string_view name = {};  // of static duration
  double value = 0;
};
struct KeyParts {
  std::array<KeyPart, 12> parts = {};
  std::size_t size = 0;

  void Add(std::string_view name, double value) {
    if (size < parts.size()) parts[size++] = {name, value};
  }
};
template <class P>
concept ExplainPolicy = RankPolicy<P> && requires(const P& p, const RequestState& r) {
  { p.Explain(r) } -> std::same_as<KeyParts>;
};

// Optional: an order that really moves with time. KeyAt replaces Key and is read again for every waiting request
// whenever the queue is asked for candidates: O(waiting).
template <class P>
concept MovingPolicy = RankPolicy<P> && requires(const P& p, const RequestState& r, TimePoint now) {
  { p.KeyAt(r, now) } -> std::same_as<RankKey>;
};

// Optional: requests form groups (a tenant, an agent). Requests are ordered by their group's GroupKey, then by Key.
// GroupKey may change through Scheduled, Observe and GroupSized; the queue reads it again before the next plan.
template <class P>
concept GroupPolicy = RankPolicy<P> && requires(const P& p, const RequestState& r, std::uint64_t group) {
  { p.Group(r) } -> std::same_as<std::uint64_t>;
  { p.GroupKey(group) } -> std::same_as<RankKey>;
};

// Optional: says whose keys to read again, so that the queue need not ask for all groups that wait. The policy
// appends the groups whose keys may have changed, each at least once, or kAllGroups; the queue clears the list.
inline constexpr std::uint64_t kAllGroups = UINT64_MAX;
template <class P>
concept GroupLogPolicy = GroupPolicy<P> && requires(P& p) {
  { p.moved_groups() } -> std::same_as<std::vector<std::uint64_t>&>;
};

// Optional: hears how many of a group wait whenever that changes, before the queue reads the group's key. `least` has a
// value if no request of the group waited before: the smallest GroupKey of the groups that wait. If no group waits, it
// is the present key of the group that was the last to wait. Before any group has waited it is empty.
template <class P>
concept GroupWatchPolicy =
    GroupPolicy<P> && requires(P& p, std::uint64_t group, std::int64_t waiting, std::optional<RankKey> least) {
      p.GroupSized(group, waiting, least);
    };

// Optional: is told the time when a plan begins, before the queue takes in group keys that changed.
template <class P>
concept PlanBeginPolicy = RankPolicy<P> && requires(P& p, TimePoint now) { p.PlanBegins(now); };

// Optional: a key that depends on what runs beside a request (RequestState::beside, at_call), so that those that wait
// are scored again, a slice in each plan and each once in so many plans. 0: it does not; kForever: it does, and a
// score from the time of joining the queue is good enough.
template <class P>
concept RefreshingPolicy = requires(const P& p) {
  { p.refresh_interval() } -> std::same_as<std::int64_t>;
};
template <class P>
std::int64_t RefreshIntervalOf([[maybe_unused]] const P& policy) {
  if constexpr (RefreshingPolicy<P>) return policy.refresh_interval();
  else return 0;
}

// Optional: may keep a waiting request out for now. A request that it declines is passed over, and those behind it go
// on: so any number of them may overtake it as long as it is declined, where any bound on overtaking counts only what
// overtook it while it was not. Admits is asked whenever a request would be let in, also several times in a plan.
// While it declines, each plan looks at all that wait before the first that it does not: O(declined). Nothing wakes a
// scheduler where the answer depends on the time alone. Only a scheduler asks: a queue without rows does not.
// The policy hears of each request that gets a row by Admitted, before the next Admits. It hears of the request again
// after a preemption or a tool. A policy that is new hears of all that have a row.
template <class P>
concept DecliningPolicy = RankPolicy<P> && requires(P& p, const P& c, const RequestState& r, TimePoint now) {
  { c.Admits(r, now) } -> std::same_as<bool>;
  p.Admitted(r, now);
};

// Optional: hears every event that the scheduler hears; with Epoch as the second parameter, the tables that it brings.
template <class P, class Told = Event>
concept ObservingPolicy = requires(P& p, const Told& told, TimePoint now) { p.Observe(told, now); };

// Optional: is told, at Commit, of the tokens that a step computed for a request (`prefill` known ones, `output`
// new ones). Where it returns a bool, true says that this has changed the request's key. In a router one call may stand
// for many steps: a policy that counts them takes their number as a fourth argument.
template <class P>
concept ScheduledPolicy =
    requires(P& p, const RequestState& r, Tokens prefill, Tokens output) { p.Scheduled(r, prefill, output); } ||
    requires(P& p, const RequestState& r, Tokens tokens, std::int64_t steps) { p.Scheduled(r, tokens, tokens, steps); };

// Optional: which request to preempt first, larger is sooner, whatever the groups; by default the last by GroupKey,
// then Key.
template <class P>
concept VictimPolicy = requires(const P& p, const RequestState& r) {
  { p.VictimKey(r) } -> std::same_as<RankKey>;
};

// Optional: has learnt what another may begin with. LoadLearnt takes what SaveLearnt of the same policy gave, on any
// machine, before any request enters; false, and nothing has changed, where it is anything else.
template <class P>
concept LearningPolicy = RankPolicy<P> && requires(P& p, const P& c, std::span<const std::uint64_t> words) {
  { c.SaveLearnt() } -> std::same_as<std::vector<std::uint64_t>>;
  { p.LoadLearnt(words) } -> std::same_as<bool>;
};

// Tells a policy that has the hook; whether the request's key has changed.
template <class P>
bool TellOfStep(P& policy, const RequestState& r, Tokens prefill, Tokens output,
                [[maybe_unused]] std::int64_t steps = 1) {
  if constexpr (!ScheduledPolicy<P>) {
    return false;
  } else {
    const auto tell = [&] {
      if constexpr (requires { policy.Scheduled(r, prefill, output, steps); }) {
        return policy.Scheduled(r, prefill, output, steps);
      } else {
        return policy.Scheduled(r, prefill, output);
      }
    };
    if constexpr (std::same_as<decltype(tell()), bool>) {
      return tell();
    } else {
      tell();
      return false;
    }
  }
}

// How long a request may be passed over. See docs/reference/policies/aged.md.
struct AgingOptions {
  // Plans in which something ran, and this request did not, after which it is promoted (S). LTR's scripts and
  // Chimera give no figure or 200; LAMPS 100.
  std::int64_t threshold = 100;
  // Steps that a promotion lasts (Q), counted in steps that ran the request; kForever: until it ends (LAMPS).
  std::int64_t quantum = 10;
  enum class CountFrom : std::uint8_t { kArrival, kFirstRun } count_from = CountFrom::kArrival;  // LAMPS: first run
  friend constexpr auto NamesOf(CountFrom) { return std::to_array<std::string_view>({"arrival", "first_run"}); }
  bool reset_at_tool_call = false;  // LAMPS: a tool call ends a promotion and the count

  friend constexpr bool operator==(const AgingOptions&, const AgingOptions&) = default;
};

// Optional: promotes a request that waited too long; null: does not. See Aged.
template <class P>
concept AgingPolicy = requires(const P& p) {
  { p.aging() } -> std::same_as<const AgingOptions*>;
};
template <class P>
const AgingOptions* AgingOf([[maybe_unused]] const P& policy) {
  if constexpr (AgingPolicy<P>) return policy.aging();
  else return nullptr;
}

// The optional hooks of a policy that its queue or scheduler asks for before it calls them. A policy whose type does
// not show its hooks (AnyPolicy, also aged) has all of them, and hooks() returns those of the policy inside.
struct PolicyHooks {
  bool moving = false, groups = false, group_log = false, group_watch = false;
  bool observes = false, scheduled = false, victims = false, declines = false;
  bool enters = false, ends = false, timed = false, pressure = false, begins = false;

  friend constexpr bool operator==(const PolicyHooks&, const PolicyHooks&) = default;
};

template <RankPolicy P>
constexpr PolicyHooks HooksOf() {
  static_assert(
      DecliningPolicy<P> || !requires(const P& p, const RequestState& r, TimePoint now) { p.Admits(r, now); },
      "a policy with Admits needs Admitted, too");
  return {.moving = MovingPolicy<P>,
          .groups = GroupPolicy<P>,
          .group_log = GroupLogPolicy<P>,
          .group_watch = GroupWatchPolicy<P>,
          .observes = ObservingPolicy<P>,
          .scheduled = ScheduledPolicy<P>,
          .victims = VictimPolicy<P>,
          .declines = DecliningPolicy<P>,
          .enters = EnterPolicy<P>,
          .ends = EndPolicy<P>,
          .timed = TimedPolicy<P>,
          .pressure = PressurePolicy<P>,
          .begins = PlanBeginPolicy<P>};
}

template <RankPolicy P>
constexpr PolicyHooks HooksOf(const P& policy) {
  if constexpr (requires { policy.hooks(); }) return policy.hooks();
  else return HooksOf<P>();
}

}  // namespace takt

#endif  // TAKT_POLICY_RANK_POLICY_H_
