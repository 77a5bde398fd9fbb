// Promises of every policy: plain, aged in all variants, and erased.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/policy/aged.h"
#include "takt/policy/any_policy.h"
#include "takt/policy/bands.h"
#include "takt/policy/edf.h"
#include "takt/policy/agent_priority.h"
#include "takt/rivals/policy/autellix.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/first_token.h"
#include "takt/policy/footprint.h"
#include "takt/policy/hrrn.h"
#include "takt/rivals/policy/justitia.h"
#include "takt/rivals/policy/ltr.h"
#include "takt/rivals/policy/mlfq.h"
#include "takt/policy/priority.h"
#include "takt/queue/rank_queue.h"
#include "takt/policy/registry.h"
#include "takt/rivals/policy/sagesched.h"
#include "takt/policy/sjf.h"
#include "takt/rivals/policy/slo_groups.h"
#include "takt/rivals/policy/stage_depth.h"
#include "takt/policy/stjf.h"
#include "takt/rivals/policy/uniboost.h"
#include "takt/policy/urgency.h"
#include "takt/policy/workflow_fcfs.h"
#include "with_rivals.h"

namespace takt {
namespace {

// ---- input ----------------------------------------------------------------------------------------------------

double Absurd(Random& random, double sane) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kAbsurd[] = {std::numeric_limits<double>::quiet_NaN(), kInf, -kInf, 0, -1, 1e308, -0.0, 5e-324};
  return random.Chance(0.3) ? kAbsurd[random.Below(std::size(kAbsurd))] : sane;
}

Estimate AnyEstimate(Random& random) {
  if (random.Chance(0.3)) return {};
  Estimate e = Estimate::Exact(static_cast<double>(random.Below(50)));
  e.mean = Absurd(random, e.mean);
  for (float& q : e.quantiles) q = static_cast<float>(Absurd(random, static_cast<double>(q)));
  return e;
}

TimePoint AnyTime(Random& random) {
  switch (random.Below(6)) {
    case 0: return kNever;
    case 1: return TimePoint{};
    default: return TimePoint(FromSeconds(static_cast<double>(random.Below(20))));
  }
}

RequestState AnyRequest(Random& random, std::uint64_t id) {
  RequestState s;
  Request& r = s.request;
  r.id = {id};
  r.workflow = {random.Below(5)};
  r.agent = {random.Below(3)};
  r.tenant = {random.Below(4)};
  r.arrival = TimePoint(FromSeconds(static_cast<double>(random.Below(20))));
  r.workflow_arrival = TimePoint(FromSeconds(static_cast<double>(random.Below(20))));
  r.deadline = AnyTime(random);
  r.prompt_tokens = {static_cast<std::int32_t>(1 + random.Below(10))};
  r.priority = static_cast<std::int32_t>(random.Below(7)) - 3;
  r.compute = random.Chance(0.1) ? Duration::min() : FromSeconds(random.Uniform() * 30);
  r.output_tokens = AnyEstimate(random);
  r.workflow_tokens_left = AnyEstimate(random);
  if (random.Chance(0.5)) r.after = {2, Absurd(random, 50), Absurd(random, 20), Absurd(random, 900), 20};
  s.enqueued = TimePoint(FromSeconds(static_cast<double>(20 + random.Below(10))));
  s.has_run = random.Chance(0.3);
  s.generated = {static_cast<std::int32_t>(random.Below(5))};
  return s;
}

std::vector<RequestState> AnyRequests(Random& random, std::size_t n) {
  std::vector<RequestState> requests;
  for (std::uint64_t id = 1; id <= n; ++id) {
    requests.push_back(AnyRequest(random, id));
    requests.back().slot = static_cast<std::uint32_t>(id - 1);
  }
  return requests;
}

std::vector<Event> EventsAbout(RequestId id) {
  Request arrived;
  arrived.id = id;
  return {Arrived{arrived},
          Revised{.request = id, .output_tokens = Estimate::Exact(3)},
          Blocked{id},
          Unblocked{id},
          ToolCalled{.request = id},
          ToolReturned{.request = id},
          Cancelled{id},
          MoveDone{.move = {7}},
          KvFreed{},
          Drain{}};
}

template <class P>
void Observe(P& policy, const Event& event) {
  if constexpr (ObservingPolicy<P>) policy.Observe(event, TimePoint{});
}
template <class P>
void Scheduled(P& policy, const RequestState& r, Tokens prefill, Tokens output) {
  if constexpr (ScheduledPolicy<P>) policy.Scheduled(r, prefill, output);
}

// ---- a queue under events ---------------------------------------------------------------------------------------

constexpr TimePoint kNow(std::chrono::seconds(30));

template <class P>
class Driven {
 public:
  Driven(P policy, std::vector<RequestState> requests) : queue(std::move(policy)), requests_(std::move(requests)) {
    for (Slot slot = 0; slot < requests_.size(); ++slot) {
      requests_[slot].slot = slot;
      queue.Push(slot, requests_[slot], kNow);
    }
  }

  void Begin(TimePoint now = kNow) {
    queue.BeginPlan(now, [this](Slot slot) -> const RequestState& { return requests_[slot]; });
  }
  std::vector<Slot> Order() const {
    std::vector<Slot> order;
    queue.ForEachInOrder([&](Slot slot) {
      order.push_back(slot);
      return true;
    });
    return order;
  }
  // Returns the order by taking the first again and again.
  std::vector<Slot> Drain() {
    std::vector<Slot> order;
    for (Slot top; (top = queue.Top()) != kNoSlot; queue.Erase(top)) order.push_back(top);
    return order;
  }
  RequestState& state(Slot slot) { return requests_[slot]; }

  internal::RankQueue<P> queue;

 private:
  std::vector<RequestState> requests_;
};

// ---- the suite --------------------------------------------------------------------------------------------------

template <class P>
void KeysAreNumbers(const P& policy, const std::vector<RequestState>& requests) {
  internal::RankQueue<P> queue(policy);
  for (const RequestState& a : requests) {
    CHECK_FALSE(std::isnan(policy.Key(a).key));
    CHECK_FALSE(std::isnan(queue.KeyOf(a, kNow).key));
    CHECK_FALSE(std::isnan(queue.VictimKeyOf(a, kNow).key));
    CHECK(policy.Key(a).key == policy.Key(a).key);
    for (const RequestState& b : requests) {
      const bool same = a.request.id == b.request.id;
      const internal::FullKey key_a = queue.KeyOf(a, kNow), key_b = queue.KeyOf(b, kNow);
      CHECK((key_a < key_b) + (key_b < key_a) == (same ? 0 : 1));
    }
  }
  CHECK(queue.nan_keys() == 0);
}

template <class P>
void EmptyAndOne(const P& policy, const RequestState& request) {
  Driven<P> empty(policy, {});
  empty.Begin();
  CHECK(empty.queue.empty());
  CHECK(empty.queue.Top() == kNoSlot);
  CHECK(empty.Order().empty());
  empty.queue.EndPlan(false);

  Driven<P> one(policy, {request});
  one.Begin();
  CHECK(one.queue.Top() == 0);
  one.queue.Update(0, request, kNow);
  CHECK(one.Drain() == std::vector<Slot>{0});
  CHECK(one.queue.empty());
}

template <class P>
void SameInputSameOutput(const P& policy, const std::vector<RequestState>& requests) {
  Driven<P> a(policy, requests), b(policy, requests);
  Driven<AnyPolicy> erased(AnyPolicy(policy), requests);
  a.Begin(), b.Begin(), erased.Begin();
  const std::vector<Slot> order = a.Order();
  CHECK(order.size() == requests.size());
  CHECK(b.Order() == order);
  CHECK(erased.Order() == order);
  CHECK(a.Drain() == order);
  CHECK(erased.Drain() == order);
}

// The order does not depend on arrival in the queue or on slots. The order may depend on them if a policy lifts groups
// that wake, or orders groups by the time of waking.
template <class P>
void OrderIsOfTheRequests(const P& policy, std::vector<RequestState> requests) {
  if (HooksOf(policy).group_watch) return;
  if (NameOf(policy).find("justitia") != std::string::npos) return;  // the first call tags its whole workflow
  const auto ids = [](Driven<P>& driven) {
    std::vector<std::uint64_t> order;
    for (Slot slot : driven.Order()) order.push_back(driven.state(slot).request.id.value);
    return order;
  };
  Driven<P> forwards(policy, requests);
  std::ranges::reverse(requests);
  Driven<P> backwards(policy, requests);
  forwards.Begin(), backwards.Begin();
  CHECK(ids(forwards) == ids(backwards));
}

template <class P>
void UnknownIdsAreHarmless(const P& policy, const std::vector<RequestState>& requests) {
  P observing = policy;
  for (const Event& event : EventsAbout({999})) Observe(observing, event);
  for (const Event& event : EventsAbout({0})) Observe(observing, event);
  Driven<P> plain(policy, requests), driven(observing, requests);
  for (const Event& event : EventsAbout({998})) Observe(driven.queue.policy(), event);
  plain.Begin(), driven.Begin();
  CHECK(driven.Order() == plain.Order());
}

// Every request is served once in the end, with random charges.
template <class P>
void NobodyIsLost(P policy, const std::vector<RequestState>& requests, Random& random) {
  Driven<P> driven(std::move(policy), requests);
  std::vector<int> served(requests.size());
  for (TimePoint now = kNow; !driven.queue.empty(); now += std::chrono::seconds(1)) {
    driven.Begin(now);
    const Slot top = driven.queue.Top();
    driven.queue.Erase(top);
    Scheduled(driven.queue.policy(), driven.state(top), {static_cast<std::int32_t>(random.Below(100))}, {1});
    driven.queue.EndPlan(true);
    if (random.Chance(0.3) && served[top] == 0) {
      driven.queue.Push(top, driven.state(top), now, 1);
      served[top] = -1;
    } else {
      served[top] = 1;
      driven.queue.Forget(top, driven.state(top), now);
    }
  }
  CHECK(std::ranges::count(served, 1) == std::ssize(served));
}

template <class P>
void Conforms(const P& policy) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Random random(seed);
    const std::vector<RequestState> requests = AnyRequests(random, 40);
    KeysAreNumbers(policy, requests);
    EmptyAndOne(policy, requests.front());
    SameInputSameOutput(policy, requests);
    OrderIsOfTheRequests(policy, requests);
    UnknownIdsAreHarmless(policy, requests);
    NobodyIsLost(policy, requests, random);
  }
}

// One request competes with a stream of better newcomers. Under every policy, the request must be promoted and be first
// after exactly `threshold` plans that ran a request. The promotion lasts for its quantum.
template <class P>
void StarvesNobody(const P& policy, const AgingOptions& options, RequestState victim) {
  victim.has_run = true;
  internal::RankQueue<P> queue(policy);
  constexpr Slot kVictim = 0;
  std::vector<RequestState> states = {victim};
  const auto state_of = [&](Slot slot) -> const RequestState& { return states[slot]; };
  queue.Push(kVictim, victim, kNow);
  Random random(3);
  for (std::int64_t plan = 0; plan < options.threshold; ++plan) {
    queue.BeginPlan(kNow, state_of);
    REQUIRE_FALSE(queue.promoted(kVictim));
    queue.EndPlan(false);  // a plan that ran nothing does not count
    states.push_back(AnyRequest(random, states.size() + 1000));
    states.back().slot = static_cast<Slot>(states.size() - 1);
    queue.Push(static_cast<Slot>(states.size() - 1), states.back(), kNow);
    queue.EndPlan(true);
  }
  queue.BeginPlan(kNow, state_of);
  REQUIRE(queue.promoted(kVictim));
  REQUIRE(queue.Top() == kVictim);

  queue.Erase(kVictim);
  const bool forever = options.quantum == kForever;
  const std::int64_t steps = forever ? 1'000'000 : options.quantum;
  CHECK(queue.PromotedWith(kVictim, steps - 1));
  CHECK(queue.PromotedWith(kVictim, steps) == forever);
  queue.Push(kVictim, victim, kNow, steps - 1);
  CHECK(queue.promoted(kVictim));
  CHECK(queue.Top() == kVictim);
  queue.Erase(kVictim);
  queue.ToolCalled(kVictim);
  const bool stays = options.at_tool_call != AgingOptions::AtToolCall::kReset;
  CHECK(queue.promoted(kVictim) == stays);
  queue.Push(kVictim, victim, kNow, 1);
  CHECK(queue.promoted(kVictim) == (forever && stays));
  queue.Erase(kVictim);
  queue.Forget(kVictim, victim, kNow);
  CHECK_FALSE(queue.promoted(kVictim));
}

// With count_from first run, requests that never ran are not counted.
template <class P>
void CountsFromFirstRun(const P& policy, RequestState newcomer) {
  newcomer.has_run = false;
  Driven<P> driven(policy, {newcomer});
  for (int plan = 0; plan < 50; ++plan) {
    driven.Begin();
    driven.queue.EndPlan(true);
  }
  CHECK_FALSE(driven.queue.promoted(0));
}

std::vector<AgingOptions> AgingVariants() {
  using From = AgingOptions::CountFrom;
  using At = AgingOptions::AtToolCall;
  std::vector<AgingOptions> variants;
  for (std::int64_t quantum : {std::int64_t{1}, std::int64_t{10}, kForever}) {
    for (From from : {From::kArrival, From::kFirstRun}) {
      for (At at : {At::kKeep, At::kResetCount, At::kReset}) {
        variants.push_back({.threshold = 7, .quantum = quantum, .count_from = from, .at_tool_call = at});
      }
    }
  }
  return variants;
}

template <class P>
void ConformsInAllForms(const P& policy) {
  Conforms(policy);
  Conforms(AnyPolicy(policy));
  Random random(9);
  for (const AgingOptions& options : AgingVariants()) {
    const RequestState request = AnyRequest(random, 1);
    Conforms(Aged(policy, options));
    StarvesNobody(Aged(policy, options), options, request);
    StarvesNobody(AnyPolicy(Aged(policy, options)), options, request);
    if (options.count_from == AgingOptions::CountFrom::kFirstRun) {
      CountsFromFirstRun(Aged(policy, options), request);
      CountsFromFirstRun(AnyPolicy(Aged(policy, options)), request);
    }
  }
}

TEST_CASE("fcfs conforms") { ConformsInAllForms(Fcfs{}); }
TEST_CASE("workflow_fcfs conforms") { ConformsInAllForms(WorkflowFcfs{}); }
TEST_CASE("priority conforms") { ConformsInAllForms(Priority{}); }
TEST_CASE("footprint conforms") {
  Conforms(Footprint{});
  Conforms(*MakePolicy("footprint(hopeless_last=true)"));
  Conforms(*MakePolicy("room_to_pass(preset=mean)"));
}
TEST_CASE("edf conforms") { ConformsInAllForms(Edf{}); }
TEST_CASE("first_token conforms") { ConformsInAllForms(FirstToken{}); }
TEST_CASE("sjf conforms") { ConformsInAllForms(Sjf{}); }
TEST_CASE("stjf conforms") {
  ConformsInAllForms(Stjf{});
  Conforms(Stjf{.quantile = Stjf::kMean});
}
TEST_CASE("hrrn conforms") { ConformsInAllForms(Hrrn{}); }
TEST_CASE("fair_share conforms") { ConformsInAllForms(FairShare{}); }
TEST_CASE("bands conforms") {
  ConformsInAllForms(Bands{{.bands = {{{-3, 0.1}, {0}, {2, 0.3}}}, .quantum = 50}});
  Conforms(*MakePolicy("bands(bands=-1;1:0.5,by=workflow,quantum=10)"));
}
TEST_CASE("agent_priority conforms") { ConformsInAllForms(AgentPriority{}); }
TEST_CASE("stage_depth conforms") { ConformsInAllForms(StageDepth{}); }
TEST_CASE("urgency conforms") {
  ConformsInAllForms(Urgency{});
  Urgency whole;
  whole.of = Urgency::Of::kWorkflow;
  Conforms(whole);
}
TEST_CASE("uniboost conforms") { ConformsInAllForms(UniBoost{}); }
TEST_CASE("sagesched conforms") { ConformsInAllForms(SageSched{}); }
TEST_CASE("justitia conforms") { ConformsInAllForms(Justitia{}); }
TEST_CASE("slo_groups conforms") { ConformsInAllForms(SloGroups{}); }
TEST_CASE("ltr conforms") { ConformsInAllForms(Ltr{}); }
TEST_CASE("mlfq conforms") { ConformsInAllForms(Mlfq{}); }
TEST_CASE("autellix conforms") { ConformsInAllForms(Autellix{}); }

TEST_CASE("every registered policy conforms") {
  for (const PolicyInfo& info : PolicyInfos()) {
    if (info.name == "aged" || info.name == "metered") continue;
    INFO(info.name);
    Conforms(*MakePolicy(info.name));
    Conforms(*MakePolicy("aged(" + info.name + ")"));
  }
}

// ---- policy changes while requests wait --------------------------------------------------------------------------

TEST_CASE("a queue that changes its policy is the new policy's queue") {
  std::vector<AnyPolicy> policies;
  for (const PolicyInfo& info : PolicyInfos()) {
    if (info.name != "aged" && info.name != "metered") policies.push_back(*MakePolicy(info.name));
  }
  Random random(5);
  const std::vector<RequestState> requests = AnyRequests(random, 40);
  for (const AnyPolicy& from : policies) {
    for (const AnyPolicy& to : policies) {
      Driven<AnyPolicy> changed(from, requests), fresh(to, requests);
      changed.Begin();
      const auto state_of = [&](Slot slot) -> const RequestState& { return requests[slot]; };
      changed.queue.ChangePolicy(to, kNow, state_of);
      changed.Begin(), fresh.Begin();
      CHECK(changed.queue.policy().name() == to.name());
      CHECK(changed.Order() == fresh.Order());
    }
  }
}

TEST_CASE("waits and promotions survive a change between aging policies") {
  Random random(5);
  const std::vector<RequestState> requests = AnyRequests(random, 4);
  const auto state_of = [&](Slot slot) -> const RequestState& { return requests[slot]; };
  internal::RankQueue<AnyPolicy> queue(Aged(Fcfs{}, {.threshold = 3, .quantum = 5}));
  const auto plan = [&] {
    queue.BeginPlan(kNow, state_of);
    queue.EndPlan(true);
  };
  queue.Push(0, requests[0], kNow);
  plan(), plan();
  queue.Push(1, requests[1], kNow);
  plan();
  queue.BeginPlan(kNow, state_of);
  CHECK(queue.promoted(0));
  queue.ChangePolicy(Aged(Sjf{}, {.threshold = 3, .quantum = 5}), kNow, state_of);
  CHECK(queue.promoted(0));
  CHECK(queue.Top() == 0);
  plan(), plan();
  queue.BeginPlan(kNow, state_of);
  CHECK(queue.promoted(1));  // one plan before the change, two after

  queue.ChangePolicy(Fcfs{}, kNow, state_of);
  CHECK_FALSE(queue.promoted(0));
  CHECK(queue.size() == 2);
  CHECK(queue.promotions() == 2);
  queue.ChangePolicy(Aged(Sjf{}, {.threshold = 1}), kNow, state_of);
  plan();
  queue.BeginPlan(kNow, state_of);
  CHECK(queue.promotions() == 4);
}

// ---- the policies' hooks ----------------------------------------------------------------------------------------

struct AllHooks {
  static constexpr std::string_view kName = "all_hooks";
  RankKey Key(const RequestState&) const { return {1}; }
  RankKey KeyAt(const RequestState&, TimePoint) const { return {2}; }
  std::uint64_t Group(const RequestState&) const { return 3; }
  RankKey GroupKey(std::uint64_t) const { return {4}; }
  std::vector<std::uint64_t>& moved_groups() { return moved; }
  void GroupSized(std::uint64_t, std::int64_t waiting, std::optional<RankKey> least) {
    sized = waiting + (least ? 1 : 0);
  }
  void PlanBegins(TimePoint) { ++plans; }
  void Observe(const Event&, TimePoint) { ++observed; }
  void Observe(const Epoch&, TimePoint) { observed += 10; }
  void Scheduled(const RequestState&, Tokens prefill, Tokens output) { tokens += prefill.value + output.value; }
  RankKey VictimKey(const RequestState&) const { return {static_cast<double>(tokens)}; }
  std::int64_t refresh_interval() const { return 6; }
  bool Admits(const RequestState&, TimePoint) const { return admitted > 0; }
  void Admitted(const RequestState&, TimePoint) { ++admitted; }

  std::vector<std::uint64_t> moved;
  std::int64_t sized = 0;
  int observed = 0, plans = 0, tokens = 0, admitted = 0;
};

template <class P>
void ForwardsAll(P policy, bool ages) {
  static_assert(RankPolicy<P> && MovingPolicy<P> && GroupPolicy<P> && GroupLogPolicy<P> && GroupWatchPolicy<P> &&
                PlanBeginPolicy<P> && ObservingPolicy<P> && ObservingPolicy<P, Epoch> && ScheduledPolicy<P> &&
                VictimPolicy<P> && RefreshingPolicy<P> && DecliningPolicy<P>);
  CHECK(HooksOf(policy) == PolicyHooks{.moving = true,
                                       .groups = true,
                                       .group_log = true,
                                       .group_watch = true,
                                       .observes = true,
                                       .scheduled = true,
                                       .victims = true,
                                       .declines = true,
                                       .begins = true,
                                       .tables = true});
  CHECK((AgingOf(policy) != nullptr) == ages);
  CHECK(policy.Key({}).key == 1);
  CHECK(policy.KeyAt({}, {}).key == 2);
  CHECK(policy.Group({}) == 3);
  CHECK(policy.GroupKey(3).key == 4);
  policy.moved_groups().push_back(5);
  CHECK(policy.moved_groups().size() == 1);
  policy.GroupSized(3, 7, RankKey{});
  policy.Observe(Drain{}, {});
  policy.Observe(Epoch{}, {});
  policy.Scheduled({}, {2}, {3});
  CHECK(policy.VictimKey({}).key == 5);
  CHECK(policy.refresh_interval() == 6);
  CHECK_FALSE(policy.Admits({}, {}));
  policy.Admitted({}, {});
  CHECK(policy.Admits({}, {}));
}

TEST_CASE("wrappers forward exactly the hooks of their policy") {
  ForwardsAll(AllHooks{}, false);
  ForwardsAll(Aged(AllHooks{}), true);
  ForwardsAll(AnyPolicy(AllHooks{}), false);
  ForwardsAll(AnyPolicy(Aged(AllHooks{})), true);
  ForwardsAll(Aged(AnyPolicy(AllHooks{})), true);
  ForwardsAll(AnyPolicy(Aged(AnyPolicy(AllHooks{}))), true);
  using Plain = Aged<Sjf>;
  static_assert(RankPolicy<Plain> && AgingPolicy<Plain> && !MovingPolicy<Plain> && !GroupPolicy<Plain> &&
                !ObservingPolicy<Plain> && !ScheduledPolicy<Plain> && !VictimPolicy<Plain>);
  CHECK(AnyPolicy(Plain{}).hooks() == PolicyHooks{});
  CHECK(AnyPolicy(Plain{}).aging() != nullptr);
  CHECK(AnyPolicy(Sjf{}).hooks() == PolicyHooks{});
  CHECK(AnyPolicy(Sjf{}).aging() == nullptr);
}

// Chooses the request that joined last.
struct LastFirst {
  static constexpr std::string_view kName = "last_first";
  RankKey Key(const RequestState&) const { return {}; }
  std::uint32_t First() const { return line.empty() ? UINT32_MAX : line.back(); }
  void Joins(const RequestState& r, TimePoint) { line.push_back(r.slot); }
  void Leaves(std::uint32_t slot, bool goes) { std::erase(line, slot), went += goes ? 1 : 0; }
  void Returns(std::uint32_t slot) { line.push_back(slot), --went; }

  std::vector<std::uint32_t> line;
  int went = 0;
};

template <class P>
void ForwardsChoices(P policy) {
  static_assert(ChoosingPolicy<P>);
  CHECK(HooksOf(policy).chooses);
  CHECK_FALSE(HooksOf(policy).groups);
  RequestState r;
  for (r.slot = 4; r.slot < 7; ++r.slot) policy.Joins(r, {});
  CHECK(policy.First() == 6);
  policy.Leaves(6, true), policy.Leaves(5, false);
  CHECK(policy.First() == 4);
  policy.Returns(6);
  CHECK(policy.First() == 6);
}

TEST_CASE("wrappers forward choices") {
  ForwardsChoices(LastFirst{});
  ForwardsChoices(Aged(LastFirst{}));
  ForwardsChoices(AnyPolicy(LastFirst{}));
  ForwardsChoices(AnyPolicy(Aged(AnyPolicy(LastFirst{}))));
}

void CheckAges(const AnyPolicy& policy, std::string_view spec, std::int64_t threshold) {
  CHECK(policy.spec() == spec);
  REQUIRE(policy.aging() != nullptr);
  CHECK(policy.aging()->threshold == threshold);
  CHECK(policy.hooks() == PolicyHooks{});
}

TEST_CASE("an erased policy ages, however it came to hold an aged one") {
  const auto check = [](auto aged, std::string_view spec) {
    const auto& same = aged;
    CheckAges(AnyPolicy(aged), spec, 7);
    CheckAges(AnyPolicy(same), spec, 7);
    CheckAges(AnyPolicy(decltype(aged)(aged)), spec, 7);
    AnyPolicy assigned;
    CheckAges(assigned = aged, spec, 7);
    assigned = Fcfs{};
    CHECK(assigned.aging() == nullptr);
    CheckAges(assigned = same, spec, 7);
    assigned = Fcfs{};
    CheckAges(assigned = std::move(aged), spec, 7);
    AnyPolicy moved;
    CheckAges(moved = std::move(assigned), spec, 7);
    CheckAges(AnyPolicy(std::move(moved)), spec, 7);
  };
  const AgingOptions outer{.threshold = 7};
  check(Aged(Sjf{}, outer), "aged(sjf,threshold=7)");
  check(Aged(AnyPolicy(Sjf{}), outer), "aged(sjf,threshold=7)");
  check(Aged(AnyPolicy(Aged(Sjf{}, {.threshold = 5})), outer), "aged(aged(sjf,threshold=5),threshold=7)");
}

struct Broken {
  RankKey Key(const RequestState& r) const {
    return {r.request.id.value % 2 == 0 ? std::numeric_limits<double>::quiet_NaN() : 1e300};
  }
};

TEST_CASE("a key of NaN is counted and comes last") {
  Random random(1);
  Driven<Broken> driven(Broken{}, AnyRequests(random, 10));
  CHECK(driven.queue.nan_keys() == 5);
  const std::vector<Slot> order = driven.Order();
  CHECK(order.size() == 10);
  for (std::size_t i = 0; i < 10; ++i) CHECK((driven.state(order[i]).request.id.value % 2 == 0) == (i >= 5));
}

}  // namespace
}  // namespace takt
