// The concepts of a ranking policy: a value with a key, and optional hooks. Only Aged inherits from a policy.
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

// The rank of a request: the smallest key is served first. The queue breaks ties by (arrival, id). A NaN key counts as
// +infinity and is reported.
struct RankKey {
  double key = 0;
};

// The only function that a policy must have. The queue reads Key when a request joins and when its state is revised.
// Key must not depend on the current time: rank by `x`, never by `now - x`.
template <class P>
concept RankPolicy = requires(const P& p, const RequestState& r) {
  { p.Key(r) } -> std::same_as<RankKey>;
};

// Optional: Enters is called before the queue reads a request's key: at arrival, at each return of the request, at a
// change of its estimates, and at a change of the policy. A policy may compute a key once here and keep it by
// RequestState::slot. A request enters several times before it ends.
template <class P>
concept EnterPolicy = RankPolicy<P> && requires(P& p, const RequestState& r, TimePoint now) { p.Enters(r, now); };

// Optional: reserves memory for `slots` concurrent requests, so that Enters does not allocate.
template <class P>
concept ReservePolicy = RankPolicy<P> && requires(P& p, std::size_t slots) { p.Reserve(slots); };

// Optional: receives the seed of hashes before any request enters, for tables of names that clients choose (tenants,
// workflows). No result of the policy may depend on the seed.
template <class P>
concept HashingPolicy = RankPolicy<P> && requires(P& p, std::uint64_t seed) { p.KeyHashes(seed); };

// Optional: Ends is called when a request has ended for any reason, even if it never entered. Another request may then
// get its slot.
template <class P>
concept EndPolicy = RankPolicy<P> && requires(P& p, const RequestState& r, TimePoint now) { p.Ends(r, now); };

// Optional: a key that changes at a known time; kNever: does not change. The first plan after that time calls Change
// for each waiting request that is due. Then the queue reads ChangesAt and the key again. A key changes at most once a
// plan.
template <class P>
concept TimedPolicy = RankPolicy<P> && requires(P& p, const P& c, const RequestState& r, TimePoint now) {
  { c.ChangesAt(r) } -> std::same_as<TimePoint>;
  p.Change(r, now);
};

// Optional: PlanEnds is called after each plan with the limit that kept the first request of the queue waiting.
template <class P>
concept PressurePolicy =
    RankPolicy<P> && requires(P& p, const QueuePressure& pressure, TimePoint now) { p.PlanEnds(pressure, now); };

// Optional: the terms of a key, for diagnosis.
struct KeyPart {
  std::string_view name = {};  // a string literal
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

// Optional: an order that changes with time. KeyAt replaces Key. The queue reads it for every waiting request whenever
// it returns candidates: O(waiting).
template <class P>
concept MovingPolicy = RankPolicy<P> && requires(const P& p, const RequestState& r, TimePoint now) {
  { p.KeyAt(r, now) } -> std::same_as<RankKey>;
};

// Optional: requests form groups (a tenant, an agent). Requests are ordered by GroupKey of their group, then by Key.
// Scheduled, Observe and GroupSized may change GroupKey; the queue reads it again before the next plan.
template <class P>
concept GroupPolicy = RankPolicy<P> && requires(const P& p, const RequestState& r, std::uint64_t group) {
  { p.Group(r) } -> std::same_as<std::uint64_t>;
  { p.GroupKey(group) } -> std::same_as<RankKey>;
};

// Optional: a list of the groups whose keys may have changed, so that the queue need not read all keys. The policy
// appends each such group at least once, or kAllGroups. The queue clears the list.
inline constexpr std::uint64_t kAllGroups = UINT64_MAX;
template <class P>
concept GroupLogPolicy = GroupPolicy<P> && requires(P& p) {
  { p.moved_groups() } -> std::same_as<std::vector<std::uint64_t>&>;
};

// Optional: GroupSized is called when the number of waiting requests of a group changes, before the queue reads the
// group's key. `least` has a value if no request of the group waited before. `least` is then the smallest GroupKey of
// the groups that wait. If no group waits, `least` is the current key of the group that waited last. Until a group has
// waited, `least` is empty.
template <class P>
concept GroupWatchPolicy =
    GroupPolicy<P> && requires(P& p, std::uint64_t group, std::int64_t waiting, std::optional<RankKey> least) {
      p.GroupSized(group, waiting, least);
    };

// Optional: a policy that chooses the next request itself, because the choice depends on all requests that wait. It
// must not group. Key remains the order for everything but the choice: victims, shedding and positions.
//
// Joins is called when a request begins to wait, after Enters. Leaves is called when it no longer waits. `goes`: it was
// admitted, placed or taken. Otherwise it ended, was promoted or set aside. Returns undoes the last Leaves of a
// request. First returns the slot of the request that goes next; kNoSlot if none waits. To list several requests, the
// queue calls First and Leaves(slot, true) in turn, and then Returns in the reverse order.
template <class P>
concept ChoosingPolicy =
    RankPolicy<P> && requires(P& p, const P& c, const RequestState& r, std::uint32_t slot, bool goes, TimePoint now) {
      { c.First() } -> std::same_as<std::uint32_t>;
      p.Joins(r, now);
      p.Leaves(slot, goes);
      p.Returns(slot);
    };

// Optional: PlanBegins is called when a plan begins, before the queue reads changed group keys.
template <class P>
concept PlanBeginPolicy = RankPolicy<P> && requires(P& p, TimePoint now) { p.PlanBegins(now); };

// Optional: a key that depends on other running requests (RequestState::beside, at_call). Each plan rereads the keys of
// some waiting requests, and each key is reread once per refresh_interval() plans. 0: the key does not depend on other
// requests. kForever: the key is not reread.
template <class P>
concept RefreshingPolicy = requires(const P& p) {
  { p.refresh_interval() } -> std::same_as<std::int64_t>;
};
template <class P>
std::int64_t RefreshIntervalOf([[maybe_unused]] const P& policy) {
  if constexpr (RefreshingPolicy<P>) return policy.refresh_interval();
  else return 0;
}

// Optional: a policy that may decline to admit a waiting request for now.
//
// The scheduler skips a declined request and tries the next request. Any number of requests may overtake a declined
// request; limits on overtaking do not count these. Admits may be called several times in a plan. Each plan visits all
// declined requests: O(declined). A scheduler is not woken when an answer changes with time alone. Only a scheduler
// calls Admits; a queue without rows does not.
//
// Admitted is called for each request that gets a row, before the next Admits, also after a preemption or a tool call.
// A new policy gets Admitted for every request that has a row.
template <class P>
concept DecliningPolicy = RankPolicy<P> && requires(P& p, const P& c, const RequestState& r, TimePoint now) {
  { c.Admits(r, now) } -> std::same_as<bool>;
  p.Admitted(r, now);
};

// Optional: receives every event of the scheduler. With Epoch as the second parameter, receives its tables.
template <class P, class E = Event>
concept ObservingPolicy = requires(P& p, const E& event, TimePoint now) { p.Observe(event, now); };

// Optional: Scheduled is called at Commit with the tokens that a step computed for a request: `prefill` known tokens
// and `output` new ones. If it returns a bool, true means that the request's key has changed. In a router one call may
// cover many steps; a policy that counts steps takes their number as a fourth argument.
template <class P>
concept ScheduledPolicy =
    requires(P& p, const RequestState& r, Tokens prefill, Tokens output) { p.Scheduled(r, prefill, output); } ||
    requires(P& p, const RequestState& r, Tokens tokens, std::int64_t steps) { p.Scheduled(r, tokens, tokens, steps); };

// Optional: the tokens of a step count by group only, and Scheduled(r, ...) equals ScheduledGroup(Group(r), ...).
// ScheduledGroup may then be called once with the sum of several requests of a group, so sums of fractions may round
// differently. Group must not change while a
// request runs, except by Revised.
template <class P>
concept GroupChargePolicy = GroupPolicy<P> && ScheduledPolicy<P> && requires(P& p, std::uint64_t group, Tokens tokens) {
  p.ScheduledGroup(group, tokens, tokens);
};

// Optional: the request with the largest VictimKey is preempted first, regardless of groups. The default victim is the
// last by GroupKey, then Key.
template <class P>
concept VictimPolicy = requires(const P& p, const RequestState& r) {
  { p.VictimKey(r) } -> std::same_as<RankKey>;
};

// Optional: a policy whose learnt state can be saved. LoadLearnt accepts the words that SaveLearnt of the same policy
// returned on any machine, before any request enters. Invalid words change nothing and return false.
template <class P>
concept LearningPolicy = RankPolicy<P> && requires(P& p, const P& c, std::span<const std::uint64_t> words) {
  { c.SaveLearnt() } -> std::same_as<std::vector<std::uint64_t>>;
  { p.LoadLearnt(words) } -> std::same_as<bool>;
};

// Calls Scheduled if the policy has it. Returns true if the request's key has changed.
template <class P>
bool ReportStep(P& policy, const RequestState& r, Tokens prefill, Tokens output,
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

// Limits on how long a request may be passed over. See docs/reference/policies/aged.md.
struct AgingOptions {
  // Number of plans in a row that run other requests before a request is promoted (S). LTR's scripts: 200; LAMPS: 100;
  // Chimera gives no value.
  std::int64_t threshold = 100;
  // Number of steps with the request that a promotion lasts (Q); kForever: until the request ends (LAMPS).
  std::int64_t quantum = 10;
  // event from which on waiting counts; LAMPS: first_run
  enum class CountFrom : std::uint8_t { kArrival, kFirstRun } count_from = CountFrom::kArrival;
  friend constexpr auto NamesOf(CountFrom) { return std::to_array<std::string_view>({"arrival", "first_run"}); }
  // Effect of a tool call. kKeep: none.
  // kResetCount: the count starts again, and a promotion stays (LAMPS, section 4.4).
  // kReset: the count starts again, and a promotion ends (the authors' code of LAMPS).
  enum class AtToolCall : std::uint8_t { kKeep, kResetCount, kReset } at_tool_call = AtToolCall::kKeep;
  friend constexpr auto NamesOf(AtToolCall) {
    return std::to_array<std::string_view>({"keep", "reset_count", "reset"});
  }

  friend constexpr bool operator==(const AgingOptions&, const AgingOptions&) = default;
};

// Optional: the aging options, which promote requests that waited too long; null: none. See Aged.
template <class P>
concept AgingPolicy = requires(const P& p) {
  { p.aging() } -> std::same_as<const AgingOptions*>;
};
template <class P>
const AgingOptions* AgingOf([[maybe_unused]] const P& policy) {
  if constexpr (AgingPolicy<P>) return policy.aging();
  else return nullptr;
}

// The hooks that a policy has. A queue or scheduler checks them before it calls a hook. The type AnyPolicy has all
// hooks; hooks() returns the hooks of the policy inside.
struct PolicyHooks {
  bool moving = false, groups = false, group_log = false, group_watch = false;
  bool observes = false, scheduled = false, victims = false, declines = false;
  bool enters = false, ends = false, timed = false, pressure = false, begins = false, chooses = false;
  bool tables = false;  // the policy ranks by the tables of an Epoch
  bool group_charges = false;

  friend constexpr bool operator==(const PolicyHooks&, const PolicyHooks&) = default;
};

template <RankPolicy P>
constexpr PolicyHooks HooksOf() {
  static_assert(
      DecliningPolicy<P> || !requires(const P& p, const RequestState& r, TimePoint now) { p.Admits(r, now); },
      "a policy with Admits also needs Admitted");
  static_assert(!ChoosingPolicy<P> || !GroupPolicy<P>, "a policy that chooses must not group");
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
          .begins = PlanBeginPolicy<P>,
          .chooses = ChoosingPolicy<P>,
          .tables = ObservingPolicy<P, Epoch>,
          .group_charges = GroupChargePolicy<P>};
}

template <RankPolicy P>
constexpr PolicyHooks HooksOf(const P& policy) {
  if constexpr (requires { policy.hooks(); }) return policy.hooks();
  else return HooksOf<P>();
}

}  // namespace takt

#endif  // TAKT_POLICY_RANK_POLICY_H_
