// Each allocation of a run fails once. The host then repeats or omits the call. Either the run continues as if nothing
// had failed, or the scheduler, router or queue reports ended().
#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "takt/base/random.h"
#include "takt/inbox.h"
#include "takt/learning/batcher.h"
#include "takt/pause/registry.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/queue/waiting_queue.h"
#include "takt/router.h"
#include "takt/scheduler.h"
#include "with_rivals.h"

namespace takt {
namespace {

// The host's reaction to a call whose allocation failed.
enum class Then : std::uint8_t { kAgain, kLeftOut };

// Makes calls, of which one may fail, and hashes their answers.
class Calls {
 public:
  Calls(std::size_t fails, Then then, std::size_t left_out) : then_(then), left_out_(left_out) {
    failing = fails;
    watched_allocations = 0;
  }
  ~Calls() { failing = 0; }

  // Returns false if the call is omitted.
  template <class F>
  bool Make(F&& call) {
    if (++made_ == left_out_) return false;
    if (!Attempt(call)) {
      failed_ = made_;
      return then_ == Then::kAgain && Attempt(call);
    }
    return true;
  }

  template <class... T>
  void Note(T... values) {
    ((hash_ = Mix64(hash_ ^ Bits(values))), ...);
  }

  std::size_t failed() const { return failed_; }  // number of the failed call; 0: none
  std::uint64_t hash() const { return hash_; }

 private:
  static std::uint64_t Bits(double value) { return std::bit_cast<std::uint64_t>(value); }
  template <class T>
    requires(!std::floating_point<T>)
  static std::uint64_t Bits(T value) {
    return static_cast<std::uint64_t>(value);
  }

  template <class F>
  static bool Attempt(F& call) {
    watched = true;
    try {
      call();
    } catch (const std::bad_alloc&) {
      watched = false;
      return false;
    }
    watched = false;
    return true;
  }

  Then then_;
  std::size_t left_out_, made_ = 0, failed_ = 0;
  std::uint64_t hash_ = 0;
};

// The result of a run.
struct Outcome {
  std::uint64_t hash = 0;
  std::size_t failed = 0, allocations = 0;
  bool ended = false;
};

// ---- a scheduler ----------------------------------------------------------------------------------------------

struct Case {
  std::string policy, pause = "keep_all";
  SchedulerOptions options = {.max_running = 6, .reserve_requests = 0, .kv_blocks = {40}, .prefix_cache = true};
  bool prefixes = true;
  bool changes_policy = true;
};

// 40 blocks of 16 tokens in the host's memory. Some frees come late, and some requests are refused.
class Oracle final : public KvOracle {
 public:
  Tokens block_tokens() const override { return {16}; }
  KvSnapshot Snapshot() const override { return {{40}, {free_}, {0}}; }
  void CachedTokens(std::span<KvHit>) override {}
  void Reserve(StepId, std::span<KvReservation> wishes) override {
    for (KvReservation& wish : wishes) {
      const std::int32_t blocks = (wish.want - wish.have).value / 16;
      wish.granted = blocks <= free_ && ++asked_ % 7 != 0;
      if (wish.granted) free_ -= blocks, held_[wish.request.value] += blocks;
    }
  }
  Blocks Release(RequestId request, KvAction) override {
    const std::int32_t blocks = std::exchange(held_[request.value], 0);
    free_ += blocks;
    return {blocks};
  }

 private:
  std::int32_t free_ = 40, asked_ = 0;
  std::int32_t held_[1000] = {};
};

Request RequestOf(std::uint64_t id, Random& random, TimePoint now, bool has_prefix = true) {
  static const std::vector<std::array<std::uint64_t, 3>> prefixes = [] {
    std::vector<std::array<std::uint64_t, 3>> made;
    for (std::uint64_t i = 1; i <= 5; ++i) made.push_back({Mix64(i), Mix64(i + 50), Mix64(i + 90)});
    return made;
  }();
  Request r;
  r.id = {id};
  r.workflow = {random.Below(12)};
  r.workflow_arrival = now;
  r.agent = {random.Below(4)};
  r.tenant = {random.Chance(0.5) ? random.Below(9) : 100 + id};  // half of them are new
  r.adapter = {random.Below(3)};
  r.prompt_tokens = {static_cast<std::int32_t>(1 + random.Below(90))};
  r.output_tokens = Estimate::Exact(1 + static_cast<double>(random.Below(20)));
  r.priority = static_cast<std::int32_t>(random.Below(3));
  if (random.Chance(0.3) && has_prefix) r.prefix = {{16}, prefixes[random.Below(prefixes.size())]};
  if (random.Chance(0.3)) r.expires_at = now + Duration(std::chrono::milliseconds(random.Below(40)));
  if (random.Chance(0.5)) r.deadline = now + Duration(std::chrono::milliseconds(random.Below(200)));
  if (random.Chance(0.2)) r.sequences = 2;
  if (random.Chance(0.3)) r.next_call = {{1}, {5}, {10}, std::chrono::milliseconds(5)};
  return r;
}

Outcome RunScheduler(const Case& c, std::size_t fails, Then then = Then::kAgain, std::size_t left_out = 0) {
  Oracle oracle;
  auto scheduler = *Scheduler::Create(c.options, *MakePolicy(c.policy), *MakePause(c.pause),
                                      c.options.kv == KvMode::kOracle ? &oracle : nullptr);
  Calls calls(fails, then, left_out);
  Random random(11);
  const AnyPolicy others[] = {*MakePolicy("aged(fair_share)"), *MakePolicy(c.policy)};
  const auto ranks = std::make_shared<const AgentRanks>();
  std::vector<MoveId> moves;
  std::vector<RequestId> paused, alive;
  std::vector<std::pair<StepId, std::vector<RowResult>>> flying;
  std::uint64_t last = 0;
  TimePoint now{};
  Outcome outcome;

  const auto check = [&] {
    const char* wrong = scheduler.Inconsistency();
    REQUIRE(std::string(wrong == nullptr ? "" : wrong).empty());
    outcome.ended = scheduler.ended();
  };
  const auto on = [&](const auto& event) {
    calls.Make([&] { scheduler.On(event, now); });
    check();
  };
  const auto commit = [&] {
    calls.Make([&] { scheduler.Commit({flying.front().first, flying.front().second}, now); });
    check();
    for (const RowResult& row : flying.front().second) {
      if (row.finished() || !random.Chance(0.05)) continue;
      on(ToolCalled{.request = row.request, .expected = std::chrono::milliseconds(4)});
      paused.push_back(row.request);
    }
    flying.erase(flying.begin());
  };

  for (int step = 0; step < 150 && !outcome.ended; ++step) {
    now += std::chrono::milliseconds(1);
    for (std::uint64_t n = step < 100 ? random.Below(3) : 0; n > 0; --n) {
      on(Arrived{RequestOf(++last, random, now, c.prefixes)});
      alive.push_back({last});
    }
    const auto someone = [&] { return alive.empty() ? RequestId{1} : alive[random.Below(alive.size())]; };
    if (random.Chance(0.1)) on(Cancelled{someone()});
    if (random.Chance(0.1)) on(Revised{.request = someone(), .output_tokens = Estimate::Exact(3), .priority = 1});
    if (random.Chance(0.05)) on(Revised{.request = someone(), .expires_at = now + std::chrono::milliseconds(3)});
    if (random.Chance(0.1)) on(Blocked{someone()});
    if (random.Chance(0.2)) on(Unblocked{someone()});
    if (!paused.empty() && random.Chance(0.3)) {
      on(ToolReturned{paused.back(), {7}});
      paused.pop_back();
    }
    for (const MoveId move : moves) on(MoveDone{move, random.Chance(0.1)});
    moves.clear();
    if (step % 17 == 0) on(Epoch{.agent_ranks = ranks});
    if (c.changes_policy && (step == 50 || step == 70)) {
      calls.Make([&] { scheduler.ChangePolicy(others[step == 70], now); });
      check();
    }
    if (step == 120) on(Drain{});

    const StepPlan* plan = nullptr;
    calls.Make([&] { plan = &scheduler.Plan(now, {.tokens = {64}, .max_seqs = 6, .adapters = 2}); });
    check();
    if (plan != nullptr) {
      calls.Note(plan->run.size(), plan->tokens.value, plan->idle, plan->wake_at.time_since_epoch().count());
      for (const PlanEntry& e : plan->run) calls.Note(e.request.value, e.tokens, e.position);
      for (const KvMove& m : plan->moves) calls.Note(m.id.value, m.action), moves.push_back(m.id);
      for (const Preemption& p : plan->preempted) calls.Note(p.request.value, p.action);
      for (const Failure& f : plan->failed) calls.Note(f.request.value, f.reason);
      for (const RequestId id : plan->released) calls.Note(id.value), std::erase(alive, id), std::erase(paused, id);
      if (!plan->run.empty()) {
        std::vector<RowResult> rows;
        for (const PlanEntry& e : plan->run) {
          if (random.Chance(0.03)) continue;
          const auto flags = static_cast<std::uint8_t>(e.samples() && random.Chance(0.1) ? RowResult::kFinished : 0);
          rows.push_back({e.request, e.lane, static_cast<std::uint16_t>(e.samples()), 0, flags});
        }
        flying.emplace_back(plan->id, std::move(rows));
      }
    }
    if (flying.size() > 1 || (!flying.empty() && step >= 100)) commit();
  }
  if (!outcome.ended) {
    const Stats& stats = scheduler.stats();
#define TAKT_NOTE(name, text) calls.Note(stats.name);
    TAKT_STATS(TAKT_NOTE)
#undef TAKT_NOTE
  } else {  // after ended(), calls neither crash nor have an effect
    const std::uint64_t ignored = scheduler.stats().calls_after_end;
    scheduler.On(Arrived{RequestOf(9999, random, now)}, now);
    const StepPlan& plan = scheduler.Plan(now, {});
    CHECK((plan.idle == Idle::kEnded && plan.run.empty() && plan.failed.empty() && plan.released.empty()));
    if (!flying.empty()) scheduler.Commit({flying[0].first, flying[0].second}, now);
    scheduler.Explain({1});
    CHECK(scheduler.stats().calls_after_end == ignored + 2 + !flying.empty());
    CHECK(scheduler.ended());
    Scheduler moved = std::move(scheduler);
    CHECK(moved.ended());
  }
  outcome.hash = calls.hash(), outcome.failed = calls.failed(), outcome.allocations = watched_allocations;
  return outcome;
}

// Counts the allocations after which the run continued, and those that ended it.
struct Tally {
  std::size_t allocations = 0, went_on = 0, ended = 0;
};

template <class Run>
Tally FailEachOnce(Run&& run) {
  const Outcome whole = run(0, Then::kAgain, 0);
  Tally tally{.allocations = whole.allocations};
  for (std::size_t n = 1; n <= whole.allocations; ++n) {
    INFO("allocation " << n << " of " << whole.allocations);
    const Outcome again = run(n, Then::kAgain, 0);
    REQUIRE(again.failed > 0);
    ++(again.ended ? tally.ended : tally.went_on);
    if (again.ended) continue;
    REQUIRE(again.hash == whole.hash);
    if (n % 4 != 1) continue;
    const Outcome without = run(n, Then::kLeftOut, 0), twin = run(0, Then::kAgain, without.failed);
    REQUIRE(without.hash == twin.hash);
  }
  return tally;
}

std::vector<Case> Cases() {
  SchedulerOptions swaps{.max_running = 6,
                         .reserve_requests = 0,
                         .preempt_action = KvAction::kOut,
                         .kv_blocks = {40},
                         .cpu_blocks = {60},
                         .prefix_cache = true};
  SchedulerOptions sheds{.max_running = 6,
                         .max_waiting = 12,
                         .reserve_requests = 0,
                         .shed = Shed::kWorst,
                         .preempt = PreemptMode::kByRank,
                         .kv_blocks = {40}};
  std::vector<Case> cases;
  for (const char* policy : {"fcfs", "room_to_pass", "fair_share", "bands(bands=0;1:0.2)", "autellix", "justitia",
                             "agent_priority", "aged(sjf,threshold=5)", "slo_groups", "mlfq", "hrrn"}) {
    cases.push_back({.policy = policy});
  }
  cases.push_back({.policy = "memory_integral", .pause = "infercept", .options = swaps});
  cases.push_back({.policy = "footprint(hopeless_last=true)", .pause = "swap_all", .options = swaps});
  cases.push_back({.policy = "aged(fair_share)", .options = sheds});
  cases.push_back({.policy = "sjf", .pause = "least_waste", .options = sheds});
  SchedulerOptions asks{
      .max_running = 6, .reserve_requests = 0, .preempt = PreemptMode::kByRank, .kv = KvMode::kOracle};
  cases.push_back({.policy = "fcfs", .options = asks});
  cases.push_back({.policy = "aged(room_to_pass)", .pause = "drop_all", .options = asks});
  return cases;
}

TEST_CASE("a failed allocation leaves a scheduler as before the call") {
  Tally all;
  for (const Case& c : Cases()) {
    CAPTURE(c.policy, c.pause);
    const Tally tally = FailEachOnce(
        [&](std::size_t fails, Then then, std::size_t left_out) { return RunScheduler(c, fails, then, left_out); });
    CHECK(tally.allocations > 20);
    CHECK(tally.ended == 0);
    all.allocations += tally.allocations, all.went_on += tally.went_on, all.ended += tally.ended;
  }
  WARN(all.allocations << " allocations failed: " << all.went_on << " calls not made, " << all.ended << " ends");
}

TEST_CASE("a scheduler with reserved storage allocates nothing") {
  for (Case c : Cases()) {
    CAPTURE(c.policy, c.pause);
    c.options.reserve_requests = 256;
    c.changes_policy = false;  // a new policy allocates its tables
    c.prefixes = false;  // slots keep their capacity
    CHECK(RunScheduler(c, 0).allocations == 0);
  }
}

TEST_CASE("a slot with capacity takes new hashes and scores without allocation") {
  auto scheduler = *Scheduler::Create({.kv_blocks = {100}, .prefix_cache = true}, Fcfs{});
  const std::vector<std::uint64_t> hashes(40, 7);
  const std::vector<ModelScore> scores(3);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    Arrived arrival;
    arrival.request = {.id = {id}, .prompt_tokens = {700}, .prefix = {{16}, hashes}, .scores = scores};
    Calls calls(0, Then::kAgain, 0);
    calls.Make([&] { scheduler.On(arrival, {}); });
    CHECK((id == 1 ? watched_allocations > 0 : watched_allocations == 0));
    scheduler.On(Cancelled{{id}}, {});
    scheduler.Plan({}, {});
  }
}

TEST_CASE("another hash seed changes no plan") {
  for (Case c : Cases()) {
    CAPTURE(c.policy, c.pause);
    const std::uint64_t hash = RunScheduler(c, 0).hash;
    c.options.hash_seed = 0x1234567890abcdef;
    CHECK(RunScheduler(c, 0).hash == hash);
  }
}

// A host's own policy that throws on demand.
struct Thrower {
  RankKey Key(const RequestState&) const { return {}; }
  void Enters(const RequestState&, TimePoint) {
    if (*at > 0 && --*at == 0) throw std::bad_alloc();
  }
  std::shared_ptr<int> at;
};

TEST_CASE("a host policy that throws ends its scheduler and nothing else") {
  for (int n = 1; n < 6; ++n) {
    auto scheduler = *Scheduler::Create({.kv_blocks = {40}}, Thrower{std::make_shared<int>(n)});
    Random random(3);
    int thrown = 0;
    for (std::uint64_t id = 1; id < 10; ++id) {
      try {
        scheduler.On(Arrived{RequestOf(id, random, {})}, {});
      } catch (const std::bad_alloc&) {
        ++thrown;
      }
    }
    CHECK(thrown == 1);
    CHECK(scheduler.ended());
    CHECK(scheduler.Plan({}, {}).idle == Idle::kEnded);
  }
}

TEST_CASE("a queue ended by a throwing policy stays ended") {
  const Thrower policy{std::make_shared<int>(0)};
  WaitingQueue<Thrower> queue(policy);
  Random random(3);
  const std::vector<WaitingQueue<Thrower>::Ran> ran = {{{1}}};
  CHECK(queue.Push(RequestOf(1, random, {}), {}) == QueueResult::kDone);
  *policy.at = 1;
  CHECK_THROWS_AS(queue.Push(RequestOf(2, random, {}), {}), std::bad_alloc);
  CHECK(queue.ended());
  queue.End(ran, {});
  CHECK(queue.Erase({1}) == QueueResult::kEnded);
  CHECK(queue.size() == 1);
}

TEST_CASE("a result whose prefix chunks lack memory may be repeated") {
  auto scheduler = *Scheduler::Create({.kv_block_tokens = {1}, .kv_blocks = {200}, .prefix_cache = true}, Fcfs{});
  Arrived arrival;
  arrival.request.id = {1};
  arrival.request.prompt_tokens = {101};
  std::vector<std::uint64_t> hashes(100);
  std::iota(hashes.begin(), hashes.end(), 1);
  arrival.request.prefix = {{1}, hashes};
  scheduler.On(arrival, {});
  const StepPlan& plan = scheduler.Plan({}, {});
  REQUIRE(plan.run.size() == 1);
  const std::vector<RowResult> rows = {{{1}, plan.run[0].lane, 1, 0, RowResult::kFinished}};
  Calls calls(1, Then::kLeftOut, 0);
  CHECK_FALSE(calls.Make([&] { scheduler.Commit({plan.id, rows}, {}); }));
  CHECK_FALSE(scheduler.ended());
  CHECK(calls.Make([&] { scheduler.Commit({plan.id, rows}, {}); }));
  CHECK(scheduler.kv().cached == Blocks{100});
}

// ---- a router -------------------------------------------------------------------------------------------------

Outcome RunRouter(const std::string& policy, const std::string& placement, std::size_t fails, Then then,
                  std::size_t left_out) {
  auto router = *Router::Create({.max_outstanding = 4, .reserve_requests = 0, .budgets = BudgetOptions{}},
                                *MakePolicy(policy), *MakePlacement(placement));
  Calls calls(fails, then, left_out);
  Random random(5);
  std::vector<std::pair<RequestId, InstanceId>> placed;
  std::uint64_t last = 0;
  TimePoint now{};
  Outcome outcome;
  const auto on = [&](const RouterEvent& event) {
    calls.Make([&] { router.On(event, now); });
    outcome.ended = router.ended();
  };
  for (std::uint64_t i = 1; i <= 4; ++i) on(InstanceUp{{.id = {i}, .kv_tokens = {1000}, .model = {1 + i % 2}}});
  for (int step = 0; step < 80 && !outcome.ended; ++step) {
    now += std::chrono::milliseconds(1);
    if (step % 10 == 0) {
      Workflow w{.id = {100 + static_cast<std::uint64_t>(step)}};
      for (std::uint32_t s = 0; s < 3; ++s) {
        WorkflowStage stage;
        stage.stage = {s + 1u};
        if (s > 0) stage.after = {s - 1};
        w.stages.push_back(stage);
      }
      on(WorkflowDeclared{w});
      for (std::uint64_t s = 1; s <= 3; ++s) {
        Request r = RequestOf(++last, random, now);
        r.workflow = w.id, r.stage = {s};
        on(Arrived{r});
      }
    }
    for (std::uint64_t n = random.Below(3); n > 0; --n) on(Arrived{RequestOf(++last, random, now)});
    if (random.Chance(0.1)) on(Cancelled{{1 + random.Below(last + 1)}});
    if (random.Chance(0.05)) on(WorkflowEnded{{100 + 10 * random.Below(8)}, true});
    if (step == 30) on(InstanceDown{{2}});
    if (step == 40) on(InstanceUp{{.id = {2}, .kv_tokens = {1000}, .model = {1}}});
    for (auto it = placed.begin(); it != placed.end();) {
      if (!random.Chance(0.4)) {
        ++it;
        continue;
      }
      on(RequestEnded{it->first, it->second});
      it = placed.erase(it);
    }
    calls.Make([&] {
      for (const Placement& p : router.Place(now)) {
        watched = false;  // the host's allocations follow
        calls.Note(p.request.value, p.instance.value);
        placed.emplace_back(p.request, p.instance);
      }
    });
    outcome.ended = router.ended();
    for (const Failure& f : router.failed()) calls.Note(f.request.value, f.reason);
    for (const WorkflowEnd& e : router.ended_workflows()) calls.Note(e.workflow.value);
    calls.Note(router.alive(), router.waiting(), router.wake_at().time_since_epoch().count());
  }
  if (outcome.ended) {
    router.On(Cancelled{{1}}, now);
    CHECK(router.Place(now).empty());
    CHECK(router.ended());
  }
  outcome.hash = calls.hash(), outcome.failed = calls.failed(), outcome.allocations = watched_allocations;
  return outcome;
}

TEST_CASE("a failed allocation leaves a router unchanged or ended") {
  Tally all;
  for (const auto& [policy, placement] :
       std::vector<std::pair<std::string, std::string>>{{"fcfs", "least_loaded"},
                                                        {"aged(fair_share)", "time_slot_packer"},
                                                        {"room_to_pass", "workload_balance"},
                                                        {"sjf", "confidence_slack"},
                                                        {"sjf", "gain_slack"},
                                                        {"fcfs", "token_reservation"},
                                                        {"fcfs", "best_fit"}}) {
    CAPTURE(policy, placement);
    const Tally tally = FailEachOnce([&](std::size_t fails, Then then, std::size_t left_out) {
      return RunRouter(policy, placement, fails, then, left_out);
    });
    all.allocations += tally.allocations, all.went_on += tally.went_on, all.ended += tally.ended;
  }
  CHECK(all.went_on > all.ended);
  WARN(all.allocations << " allocations failed: " << all.went_on << " calls not made, " << all.ended << " ends");
}

TEST_CASE("an instance without memory is not up and may start again") {
  auto router = *Router::Create({}, Fcfs{}, *MakePlacement("least_loaded"));
  router.On(InstanceUp{{.id = {1}}}, {});
  Calls calls(1, Then::kLeftOut, 0);
  CHECK_FALSE(calls.Make([&] { router.On(InstanceUp{{.id = {2}}}, {}); }));
  CHECK_FALSE(router.ended());
  CHECK(router.instances().size() == 1);
  CHECK(calls.Make([&] { router.On(InstanceUp{{.id = {2}}}, {}); }));
  CHECK(router.instances().size() == 2);
}

// ---- a queue, an inbox ----------------------------------------------------------------------------------------

std::uint64_t Number(QueueResult result) { return static_cast<std::uint64_t>(result); }

Outcome RunQueue(const std::string& policy, std::size_t fails, Then then, std::size_t left_out) {
  AnyWaitingQueue queue(*MakePolicy(policy));
  Calls calls(fails, then, left_out);
  Random random(9);
  TimePoint now{};
  std::uint64_t last = 0;
  std::vector<RequestId> running;
  Outcome outcome;
  for (int step = 0; step < 60 && !queue.ended(); ++step) {
    now += std::chrono::milliseconds(1);
    for (std::uint64_t n = random.Below(4); n > 0; --n) {
      const Request r = RequestOf(++last, random, now);
      calls.Make([&] { calls.Note(Number(queue.Push(r, now))); });
    }
    calls.Make([&] { calls.Note(Number(queue.Revise({.request = {1 + last / 2}, .priority = 3}, now))); });
    std::vector<AnyWaitingQueue::Ran> ran;
    calls.Make([&] { queue.Begin(now); });
    for (int taken = 0; taken < 4 && queue.Top(); ++taken) {  // the fourth is returned
      const RequestId top = queue.Top();
      calls.Note(top.value);
      calls.Make([&] { calls.Note(Number(queue.Take(top))); });
      if (taken < 3) ran.push_back({top});
    }
    calls.Make([&] { queue.End(ran, now); });
    for (const auto& r : ran) running.push_back(r.request);
    std::vector<AnyWaitingQueue::Holding> rows;
    for (const RequestId id : running) rows.push_back({id, {2}});
    std::vector<RequestId> victims;
    calls.Make([&] { queue.Victims(rows, {4}, now, victims); });
    for (const RequestId id : victims) calls.Note(id.value);
    for (auto it = running.begin(); it != running.end();) {
      const RequestId id = *it;
      calls.Make([&] { calls.Note(Number(queue.Computed({id, {10}, {1}}))); });
      const double what = random.Uniform();
      if (what < 0.2) calls.Make([&] { calls.Note(Number(queue.Erase(id))); });
      if (what >= 0.2 && what < 0.3) calls.Make([&] { calls.Note(Number(queue.Requeue(id, now))); });
      it = what < 0.3 ? running.erase(it) : it + 1;
    }
  }
  outcome.ended = queue.ended();
  if (outcome.ended) CHECK(queue.Push(RequestOf(9999, random, now), now) == QueueResult::kEnded);
  outcome.hash = calls.hash(), outcome.failed = calls.failed(), outcome.allocations = watched_allocations;
  return outcome;
}

TEST_CASE("a failed allocation leaves a queue as before the call") {
  for (const char* policy : {"fcfs", "room_to_pass", "aged(fair_share,threshold=3)", "autellix", "hrrn"}) {
    CAPTURE(policy);
    const Tally tally = FailEachOnce(
        [&](std::size_t fails, Then then, std::size_t left_out) { return RunQueue(policy, fails, then, left_out); });
    CHECK(tally.allocations > 10);
    CHECK(tally.ended == 0);
  }
}

TEST_CASE("an event without memory is missing in the inbox, others arrive") {
  std::size_t fails = 1;
  for (bool failed = true; failed; ++fails) {
    Inbox inbox;
    Calls calls(fails, Then::kAgain, 0);
    for (std::uint64_t id = 1; id <= 20; ++id) {
      const Event event = Cancelled{{id}};
      auto pushed = Pushed::kFull;
      calls.Make([&] { pushed = inbox.Push(event); });
      REQUIRE(pushed != Pushed::kFull);
    }
    failed = calls.failed() > 0;
    std::uint64_t expected = 0;
    inbox.Drain([&](const Event& event) { CHECK(std::get<Cancelled>(event).request.value == ++expected); });
    CHECK(expected == 20);
  }
  CHECK(fails > 4);
}

TEST_CASE("a loop that throws in a drain gets the remaining events again") {
  Inbox inbox;
  for (std::uint64_t id = 1; id <= 3; ++id) REQUIRE(inbox.Push(Cancelled{{id}}) != Pushed::kFull);
  std::vector<std::uint64_t> seen;
  const auto take = [&](const Event& event) {
    const std::uint64_t id = std::get<Cancelled>(event).request.value;
    if (id == 2 && seen.size() == 1) {
      seen.push_back(0);
      throw std::bad_alloc();
    }
    seen.push_back(id);
  };
  CHECK_THROWS_AS(inbox.Drain(take), std::bad_alloc);
  REQUIRE(inbox.Push(Cancelled{{4}}) != Pushed::kFull);
  CHECK(inbox.Drain(take) == 3);
  CHECK(seen == std::vector<std::uint64_t>{1, 0, 2, 3, 4});
  CHECK(inbox.Drain(take) == 0);
}

// ---- a batcher ------------------------------------------------------------------------------------------------

Outcome RunBatcher(std::size_t fails, Then then, std::size_t left_out) {
  Batcher batcher({.most = 4, .bound = std::chrono::milliseconds(6), .capacity = 20});
  Calls calls(fails, then, left_out);
  Random random(13);
  const std::vector<float> sketch(8, 0.5f);
  TimePoint now{};
  Outcome outcome;
  const auto drain = [&] {
    batcher.Drain(now, [&](const Event& event) {
      watched = false;  // the host's allocations follow
      if (const auto* arrived = std::get_if<Arrived>(&event)) {
        calls.Note(arrived->request.id.value, arrived->request.workflow_tokens_left.mean);
      } else {
        calls.Note(std::get<Revised>(event).request.value, -1);
      }
    });
  };
  for (int step = 0; step < 60; ++step) {
    now += std::chrono::milliseconds(1);
    for (std::uint64_t n = random.Below(7); n > 0; --n) {
      const Request r = RequestOf(1 + random.Below(30), random, now);
      calls.Make([&] { batcher.Add(r, {}, {.sketch = sketch}, now); });
    }
    if (random.Chance(0.2)) calls.Note(batcher.Cancel({1 + random.Below(30)}));
    if (random.Chance(0.6)) {
      calls.Make([&] {
        batcher.Run([&](auto queries, auto out) {
          const std::vector<int> needed(queries.size());  // a predictor may lack memory, too
          for (std::size_t i = 0; i < queries.size(); ++i) {
            out[i] = Estimate::Exact(queries[i].input.sketch.size() == 8 ? 42 : 0);
          }
        });
      });
    }
    if (random.Chance(0.5)) calls.Make(drain);
    calls.Note(batcher.wake_at().time_since_epoch().count(), batcher.Due(now));
  }
  now += std::chrono::seconds(1);
  calls.Make(drain);
  const Batcher::Stats stats = batcher.stats();
  calls.Note(stats.in_time, stats.fallbacks, stats.late, stats.full, stats.dropped);
  outcome.hash = calls.hash(), outcome.failed = calls.failed(), outcome.allocations = watched_allocations;
  return outcome;
}

TEST_CASE("a failed allocation leaves a batcher unchanged and loses no request") {
  const Tally tally = FailEachOnce(RunBatcher);
  CHECK(tally.allocations > 200);
}

}  // namespace
}  // namespace takt
