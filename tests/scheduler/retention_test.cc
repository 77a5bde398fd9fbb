// KV that is held for workflows, and the gate before it.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "takt/base/random.h"
#include "takt/turns/gates/lease.h"
#include "takt/turns/gates/price.h"
#include "takt/policy/sjf.h"
#include "takt/turns/retention/hold_value.h"
#include "takt/turns/retention/lru.h"
#include "catch.h"
#include "counting_new.h"
#include "scheduler/host.h"

namespace takt::testing {
namespace {

constexpr std::int32_t kBlock = 16;

SchedulerOptions Cached(std::int32_t blocks) {
  SchedulerOptions options;
  options.kv_blocks = {blocks};
  options.kv_watermark = 0;
  options.prefix_cache = true;
  options.max_running = 16;
  options.reserve_requests = 64;
  return options;
}

// A turn of `blocks` blocks of prompt. The first `shared` blocks equal those of its workflow's turns before.
Request Turn(std::uint64_t id, std::uint64_t workflow, std::int32_t blocks, std::uint64_t branch = 0) {
  Request r = Prompt(id, blocks * kBlock);
  r.workflow = {workflow};
  r.branch = branch;
  std::vector<std::uint64_t> hashes;
  for (std::int32_t i = 0; i < blocks; ++i)
    hashes.push_back(Mix64((workflow * 100 + branch) * 10'000 + static_cast<std::uint64_t>(i)));
  r.prefix = Prefix(kBlock, hashes);
  return r;
}

struct Agents : Host<> {
  explicit Agents(std::int32_t blocks, const AnyRetention& retention = Lru{}, const AnyGate& gate = {})
      : Host<>(Cached(blocks), {.tokens = {100'000}}) {
    REQUIRE(scheduler.SetRetention(retention, gate).ok());
  }

  // Runs a turn of one token from arrival to end. Returns the number of its cached tokens; -1: it did not run.
  std::int32_t Run(const Request& turn) {
    Arrive(turn);
    return RunWhatWaits(turn.id.value);
  }
  std::int32_t RunWhatWaits(std::uint64_t id) {
    const StepPlan& plan = Plan();
    std::int32_t cached = -1;
    for (const PlanEntry& e : plan.run) {
      if (e.request.value == id) cached = e.position;
    }
    if (cached >= 0) Commit(plan, {id});
    return cached;
  }
  void Ended(std::uint64_t workflow, TurnWhy why, std::uint64_t branch = 0) { On(TurnEnded{{workflow}, branch, why}); }
};

}  // namespace

TEST_CASE("retention needs a ledger with a prefix cache") {
  SchedulerOptions options = Cached(10);
  options.prefix_cache = false;
  Host<> without(options);
  const absl::Status status = without.scheduler.SetRetention(Lru{});
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message() == "retention: requires kv ledger and prefix_cache");
  CHECK(without.scheduler.return_times() == nullptr);
  without.On(TurnEnded{{7}, 0, TurnWhy::kTool});
  CHECK(without.scheduler.return_times() == nullptr);
}

TEST_CASE("retention may change at any time, and cached KV stays") {
  Agents host(60);
  host.Run(Turn(1, 7, 20));
  host.Run(Turn(2, 8, 20));
  host.Ended(7, TurnWhy::kTool), host.Ended(8, TurnWhy::kUser);
  host.Arrive(Turn(3, 9, 5));
  const StepPlan& running = host.Plan();
  REQUIRE(running.run.size() == 1);
  REQUIRE(host.scheduler.SetRetention(HoldValue{}).ok());
  host.Commit(running, {3});
  CHECK(host.scheduler.kv().cached == Blocks{45});
  CHECK(host.Run(Turn(4, 10, 25)) == 0);
  // By age alone the tool's KV would be evicted.
  CHECK(host.Run(Turn(5, 7, 21)) == 20 * kBlock);
  CHECK(host.scheduler.kv().used == Blocks{0});
}

TEST_CASE("a plan considers few gated requests, and new arrivals at once") {
  constexpr std::uint64_t kCrowd = 1'000, kPlans = 20;
  Agents host(100, Lru{}, Lease{.seconds = 1e6});
  host.Run(Turn(1, 7, 60));
  host.Ended(7, TurnWhy::kTool);
  host.Arrive(Turn(2, 8, 10));
  host.Step();
  for (std::uint64_t i = 0; i < kCrowd; ++i) host.Arrive(Turn(10 + i, 100 + i, 50));
  CHECK(host.Step() == "2:1");
  const std::uint64_t before = host.scheduler.stats().gate_refused;
  CHECK(before >= kCrowd);
  for (std::uint64_t i = 0; i < kPlans; ++i) {
    host.Arrive(Turn(2'000 + i, 2'000 + i, 50));
    CHECK(host.Step() == "2:1");
  }
  CHECK(host.scheduler.stats().gate_refused - before < 2 * kCrowd + kPlans * 200);
  host.Arrive(Turn(3, 7, 61));  // it uses its own held KV
  CHECK(host.Step() == "2:1 3:16");
}

int summed = 0;
struct Summing {
  double LetsInAfter(const GateAsk&, const HeldOrder& held) const {
    return held.Sum([](const Holding&) { return ++summed, 1.0; }) > 0 ? kNotNow : 0;
  }
};

TEST_CASE("the gate's sum over held KV is computed once until changes") {
  Agents host(60, Lru{}, Summing{});
  CHECK(host.Run(Turn(1, 7, 50)) == 0);
  host.Ended(7, TurnWhy::kTool);
  host.Arrive(Turn(2, 8, 5));
  host.Commit(host.Plan(), {});
  for (std::int32_t i = 0; i < 20; ++i) {
    const auto id = static_cast<std::uint64_t>(10 + i);
    host.Arrive(Turn(id, id, 40 - i));  // each needs fewer blocks than those before it
  }
  host.Commit(host.Plan(), {});
  CHECK(host.scheduler.stats().gate_refused == 20);
  CHECK(summed == 1);
  host.On(WorkflowEnded{{7}});
  CHECK(host.Plan().run.size() == 2);
}

TEST_CASE("a host that reports turns gets a default retention and gate") {
  for (const bool reports_turns : {true, false}) {
    CAPTURE(reports_turns);
    SchedulerOptions options = Cached(5000);
    Host<> host(options, {.tokens = {1'000'000}});
    const auto run = [&](const Request& turn) {
      host.Arrive(turn);
      host.Commit(host.Plan(), {turn.id.value});
    };
    run(Turn(1, 7, 4500));
    CHECK(host.scheduler.return_times() == nullptr);
    if (reports_turns) host.On(TurnEnded{{7}, 0, TurnWhy::kTool});
    CHECK((host.scheduler.return_times() != nullptr) == reports_turns);
    run(Turn(2, 7, 4501));  // its blocks belong to its workflow from here on
    if (reports_turns) host.On(TurnEnded{{7}, 0, TurnWhy::kTool});
    for (std::uint64_t id = 3; id <= 7; ++id) host.Arrive(Turn(id, 5 + id, 4500));
    CHECK(host.Plan().idle == (reports_turns ? Idle::kGated : Idle::kBusy));
    CHECK((host.scheduler.stats().gate_refused > 0) == reports_turns);
  }
}

TEST_CASE("a workflow's next turn finds the KV of the previous one") {
  Agents host(100);
  CHECK(host.Run(Turn(1, 7, 20)) == 0);
  host.Ended(7, TurnWhy::kTool);
  CHECK(host.Run(Turn(2, 7, 25)) == 20 * kBlock);
  CHECK(host.Run(Turn(3, 8, 25)) == 0);
  CHECK(host.scheduler.kv().cached == Blocks{50});
}

TEST_CASE("KV of an ended workflow is evicted first, before older KV") {
  Agents host(60);
  host.Run(Turn(1, 7, 25));
  host.Run(Turn(2, 8, 25));
  host.On(WorkflowEnded{{8}});
  host.Run(Turn(3, 9, 20));
  CHECK(host.Run(Turn(4, 7, 26)) == 25 * kBlock);
  CHECK(host.Run(Turn(5, 8, 26)) < 25 * kBlock);
}

TEST_CASE("without the report, the oldest KV is evicted") {
  Agents host(60);
  host.Run(Turn(1, 7, 25));
  host.Run(Turn(2, 8, 25));
  host.Run(Turn(3, 9, 20));
  CHECK(host.Run(Turn(4, 8, 26)) == 25 * kBlock);
  CHECK(host.Run(Turn(5, 7, 26)) < 25 * kBlock);
}

TEST_CASE("KV of a last turn is not held, even if reported early") {
  Agents host(60);
  host.Run(Turn(1, 7, 20));
  host.Arrive(Turn(2, 8, 25));
  const StepPlan& plan = host.Plan();
  host.Ended(8, TurnWhy::kOver);
  host.Commit(plan, {2});
  CHECK(host.scheduler.kv().cached == Blocks{45});
  host.Run(Turn(3, 9, 20));
  CHECK(host.Run(Turn(4, 7, 21)) == 20 * kBlock);
}

TEST_CASE("branches of a workflow are held apart") {
  Agents host(100);
  host.Run(Turn(1, 7, 20, 1));
  host.Run(Turn(2, 7, 20, 2));
  host.Ended(7, TurnWhy::kOver, 1);
  host.Run(Turn(3, 9, 70));
  CHECK(host.Run(Turn(4, 7, 21, 2)) >= 10 * kBlock);
}

TEST_CASE("return times are learned from the scheduler's observations") {
  Agents host(100);
  host.Run(Turn(1, 7, 20));
  host.Ended(7, TurnWhy::kTool);
  CHECK(host.scheduler.return_times()->open() == 1);
  host.now += 20'000;
  host.Run(Turn(2, 7, 21));
  const ReturnCounts& tools = host.scheduler.return_times()->counts(ReturnClass::kTool);
  CHECK(tools.ended[ReturnCurve::BinOf(20)] == 1);
  // Reported late and then corrected: the gap began at the end of the turn.
  host.now += 100;
  host.Ended(7, TurnWhy::kTool);
  host.Ended(7, TurnWhy::kUser);
  host.now += 40'000;
  host.Run(Turn(3, 7, 22));
  CHECK(host.scheduler.return_times()->counts(ReturnClass::kUser).ended[ReturnCurve::BinOf(40)] == 1);
}

TEST_CASE("a lease keeps new requests out until it ends, except cached ones") {
  Agents host(100, Lru{}, Lease{.seconds = 30});
  host.Run(Turn(1, 7, 60));
  host.Arrive(Turn(2, 8, 60));  // 20 of its 60 blocks would be held by 7
  CHECK(host.Plan().run.empty());
  CHECK(host.scheduler.Explain({2}).waits_for == WaitsFor::kGate);
  const StepPlan& idle = host.Plan();
  CHECK(idle.idle == Idle::kGated);
  CHECK(idle.wake_at > Ms(host.now));
  CHECK(idle.wake_at <= Ms(host.now + 500));
  host.Arrive(Turn(3, 7, 61));
  CHECK(host.RunWhatWaits(3) == 60 * kBlock);
  CHECK(host.scheduler.stats().gate_refused > 0);
  host.now += 31'000;
  const StepPlan& plan = host.Plan();
  REQUIRE(plan.run.size() == 1);
  CHECK(plan.run[0].request == RequestId{2});
  CHECK(plan.run[0].gated());
  host.Commit(plan, {2});
}

TEST_CASE("the gate is not asked for free memory or started requests") {
  Agents host(100, Lru{}, Lease{.seconds = 1e9});
  host.Run(Turn(1, 7, 60));
  CHECK(host.Run(Turn(2, 8, 40)) == 0);
  host.On(WorkflowEnded{{7}});
  CHECK(host.Run(Turn(3, 9, 60)) == 0);
  CHECK(host.scheduler.stats().gate_refused == 0);
}

TEST_CASE("if nothing runs, a turn may take KV of waiting requests") {
  Agents host(100, Lru{}, Lease{.seconds = 1e9});
  host.Run(Turn(1, 7, 50));
  host.Run(Turn(2, 8, 50));
  host.Arrive(Turn(3, 7, 80));
  host.Arrive(Turn(4, 8, 80));
  CHECK(host.RunWhatWaits(3) == 50 * kBlock);
}

TEST_CASE("a request that pays nothing is admitted behind a smaller one that the gate refused") {
  Agents host(100, Lru{}, Price{.kappa = 0, .share = 0, .free_below = 1});
  host.Run(Turn(1, 7, 80));
  host.Ended(7, TurnWhy::kTool);
  Request running = Turn(2, 8, 15), refused = Turn(3, 9, 20), chat = Turn(4, 10, 30);
  running.priority = refused.priority = 1;
  host.Arrive(running);
  const StepPlan& first = host.Plan();
  REQUIRE(first.run.size() == 1);
  host.Commit(first);
  host.Arrive(refused), host.Arrive(chat);
  const StepPlan& plan = host.Plan();
  CHECK(std::ranges::any_of(plan.run, [](const PlanEntry& e) { return e.request == RequestId{4}; }));
  CHECK(std::ranges::none_of(plan.run, [](const PlanEntry& e) { return e.request == RequestId{3}; }));
}

TEST_CASE("the price gate delays a request longer for a larger loss") {
  // 100 blocks of 16 tokens at 1 ms: 1.6 s to compute all. A tool's turn returns at a rate of about 0.1 per second.
  const HoldValue value{.alpha_ms = 100, .beta_ns = 0};
  Agents host(100, value, Price{.share = 0, .value = value});
  host.Run(Turn(1, 7, 100));
  host.Ended(7, TurnWhy::kTool);
  host.now += 5000;
  // Loss: 100 blocks of 1.6 s each at 0.1/s: 16 against 1.
  host.Arrive(Turn(2, 8, 100));
  CHECK(host.Plan().run.empty());
  // 7's own turn has all its KV and goes first.
  host.Arrive(Turn(3, 7, 100));
  CHECK(host.RunWhatWaits(3) == 99 * kBlock);
  host.Ended(7, TurnWhy::kTool);
  // When 7 is not expected any more.
  host.now += 3'600'000;
  CHECK(host.RunWhatWaits(2) == 0);
}

TEST_CASE("the door admits the longest waiting request, then one paid for") {
  const HoldValue value{.alpha_ms = 100, .beta_ns = 0};
  Agents host(100, value, Price{.wait_s = 1e12, .share = 0.5, .after_s = 60, .value = value});
  const auto keep_warm = [&](std::uint64_t id) {  // 7 returns every 10 seconds
    host.Arrive(Turn(id, 7, 50));
    const std::int32_t cached = host.RunWhatWaits(id);
    host.Ended(7, TurnWhy::kTool);
    return cached;
  };
  keep_warm(1);
  host.Arrive(Turn(2, 8, 60));
  host.Arrive(Turn(3, 9, 80));
  std::map<std::uint64_t, std::int64_t> began;
  for (std::uint64_t i = 0; i < 60 && began.size() < 2; ++i) {
    keep_warm(10 + i);
    for (int second = 0; second < 10; ++second) {
      host.now += 1000;
      const StepPlan& plan = host.Plan();
      if (plan.run.empty()) continue;
      REQUIRE(plan.run.size() == 1);
      const std::uint64_t turn = plan.run[0].request.value;
      began[turn] = host.now;
      host.Commit(plan, {turn});
      host.On(WorkflowEnded{{turn + 6}});  // it does not take 7's memory for long
    }
  }
  REQUIRE(began.count(2) == 1);
  CHECK(began[2] >= 60'000);
  CHECK(began[2] <= 62'000);
  REQUIRE(began.count(3) == 1);
  // 960 tokens at 0.1 s take 96 s, of which half may go to its kind.
  CHECK(began[3] - began[2] >= 192'000);
  CHECK(began[3] - began[2] <= 195'000);
  CHECK(host.scheduler.stats().gate_doors == 2);
}

namespace {

// A host that chooses how long the KV of ended turns is held.
struct Wishes : Agents {
  using Agents::Agents;

  Request TurnOf(std::uint64_t id, std::uint64_t workflow, std::int32_t blocks, std::uint64_t tenant) {
    Request r = Turn(id, workflow, blocks);
    r.tenant = {tenant};
    return r;
  }
  void Pin(std::uint64_t workflow, Duration pin) { On(TurnEnded{.workflow = {workflow}, .pin = pin}); }
  std::int32_t Has(std::uint64_t workflow) { return scheduler.ExplainHeld({workflow}).tokens.value / kBlock; }
};

}  // namespace

TEST_CASE("pinned KV is evicted last, until its time or a change") {
  using std::chrono::seconds;
  Wishes host(100);
  host.Run(host.TurnOf(1, 7, 10, 1));
  host.Pin(7, seconds(60));
  const TimePoint until = Ms(host.now) + seconds(60);
  host.now += 1'000;
  host.Run(host.TurnOf(2, 8, 30, 2)), host.Run(host.TurnOf(3, 9, 30, 3));
  CHECK(host.scheduler.ExplainHeld({7}).pinned_until == until);
  CHECK(host.scheduler.ExplainHeld({8}).pinned_until == kUnset);
  host.Run(host.TurnOf(4, 10, 60, 4));  // 40 blocks of other workflows
  CHECK(host.Has(7) == 10);
  CHECK(host.Has(8) == 0);
  CHECK(host.scheduler.stats().pins_broken == 0);

  host.now += 60'000;
  host.Run(host.TurnOf(5, 11, 30, 5));  // the pin has ended, and the oldest is evicted first
  CHECK(host.Has(7) == 0);
  CHECK(host.scheduler.ExplainHeld({7}).pinned_until == kUnset);

  host.Run(host.TurnOf(6, 12, 5, 1));
  host.Pin(12, seconds(60)), host.Pin(12, {});  // the newest pin counts
  CHECK(host.scheduler.ExplainHeld({12}).pinned_until == kUnset);
  host.Pin(12, seconds(60));
  host.Ended(12, TurnWhy::kUser);
  CHECK(host.scheduler.ExplainHeld({12}).pinned_until == kUnset);
  CHECK(host.scheduler.stats().faults() == 0);
}

TEST_CASE("a pin set during the last step holds that step's KV") {
  Wishes host(100);
  host.Arrive(host.TurnOf(1, 7, 10, 1));
  const StepPlan& plan = host.Plan();
  host.Pin(7, std::chrono::seconds(60));
  CHECK(host.scheduler.ExplainHeld({7}).pinned_until == kUnset);
  host.Commit(plan, {1});
  CHECK(host.scheduler.ExplainHeld({7}).pinned_until != kUnset);
  // Its next turn needs no pin.
  host.Arrive(host.TurnOf(2, 7, 11, 1));
  CHECK(host.scheduler.ExplainHeld({7}).pinned_until == kUnset);
  CHECK(host.scheduler.ExplainHeld({7}).awaited);
}

TEST_CASE("pins break if nothing else can be evicted") {
  Wishes host(100, HoldValue{}, Price{});
  host.Run(host.TurnOf(1, 7, 10, 1));
  host.Pin(7, std::chrono::hours(1'000'000));
  CHECK(host.Run(host.TurnOf(2, 8, 95, 2)) == 0);
  CHECK(host.Has(7) < 10);
  CHECK(host.scheduler.stats().pins_broken > 0);
  // Longer than the clock lasts.
  host.Run(host.TurnOf(3, 9, 5, 3));
  host.Pin(9, Duration::max());
  CHECK(host.scheduler.ExplainHeld({9}).pinned_until == kNever);
}

TEST_CASE("a tenant pins its share at most, all tenants half the cache") {
  using std::chrono::hours;
  Wishes host(200);  // 20 blocks a tenant
  std::uint64_t id = 0;
  for (std::uint64_t workflow = 1; workflow <= 5; ++workflow) {
    host.Run(host.TurnOf(++id, workflow, 8, 1));
    host.Pin(workflow, hours(1));
  }
  CHECK(host.scheduler.stats().pins_refused == 3);
  host.Pin(1, hours(2));  // again: the first one counts no longer
  CHECK(host.scheduler.stats().pins_refused == 3);
  host.Pin(3, hours(1));
  CHECK(host.scheduler.stats().pins_refused == 4);
  host.On(WorkflowEnded{{1}});
  host.Pin(3, hours(1));
  CHECK(host.scheduler.ExplainHeld({3}).pinned_until != kUnset);
  for (std::uint64_t tenant = 2; tenant <= 6; ++tenant) {
    host.Run(host.TurnOf(++id, 100 + tenant, 19, tenant));
    host.Pin(100 + tenant, hours(1));
  }
  // 16 + 4 * 19 of 100; a fifth would exceed the limit
  CHECK(host.scheduler.stats().pins_refused == 5);
  CHECK(host.scheduler.ExplainHeld({105}).pinned_until != kUnset);
  CHECK(host.scheduler.ExplainHeld({106}).pinned_until == kUnset);
}

TEST_CASE("unlimited names evict their own KV and no other tenant's pin") {
  for (const bool tenants : {false, true}) {
    CAPTURE(tenants);
    Agents host(2'000);
    REQUIRE(host.scheduler.SetRetention(Lru{}, {}, {.max_open = 64}).ok());
    for (std::uint64_t id = 1; id <= 2; ++id) {
      Request turn = Turn(id, 7, 2);
      turn.tenant = {1};
      host.Run(turn);
      host.On(TurnEnded{.workflow = {7}, .why = TurnWhy::kUser, .pin = std::chrono::seconds(1'000)});
    }
    for (std::uint64_t i = 0; i < 200; ++i) {
      Request turn = Turn(10 + i, tenants ? 10 + i : 9, 1, tenants ? 0 : i);
      turn.tenant = {tenants ? 10 + i : 9};
      host.Run(turn);
      host.Ended(turn.workflow.value, TurnWhy::kTool, turn.branch);
    }
    CHECK(host.scheduler.stats().holdings_crowded_out == 137);
    CHECK(host.scheduler.stats().pins_crowded_out == 0);
    CHECK(host.scheduler.ExplainHeld({7}).pinned_until != kUnset);
    CHECK(host.scheduler.return_times()->open() == 64);
  }
}

TEST_CASE("a branch ends no other workflow's gap; an ended workflow ends all") {
  Agents host(60);
  const std::uint64_t own = 222, branch = Mix64(111) - Mix64(own);  // the hash sum of branch 0 of 111
  host.Run(Turn(1, 111, 5));
  host.Ended(111, TurnWhy::kTool);
  host.Ended(own, TurnWhy::kOver, branch);
  host.Ended(own, TurnWhy::kUser, branch);
  CHECK(host.scheduler.return_times()->open() == 2);
  CHECK(host.scheduler.ExplainHeld({111}).return_class == ReturnClass::kTool);
  host.Run(Turn(2, 9, 60));  // the cache has lost the KV of 111
  host.On(WorkflowEnded{{111}});
  host.On(WorkflowEnded{{own}});
  CHECK(host.scheduler.return_times()->open() == 1);
}

TEST_CASE("a reported time is a class whose gaps are learned") {
  Agents host(100, HoldValue{});
  std::uint64_t id = 0;
  // Reported 2 s, actual 20 s.
  for (int i = 0; i < 300; ++i) {
    host.Run(Turn(++id, 7, 2));
    host.On(TurnEnded{.workflow = {7}, .why = TurnWhy::kTool, .expected = std::chrono::seconds(2)});
    host.now += 20'000;
  }
  const std::uint32_t return_class = ReturnClass::Expected(2);
  CHECK(host.scheduler.ExplainHeld({7}).return_class == return_class);
  const ReturnTimes& times = *host.scheduler.return_times();
  CHECK(times.counts(return_class).ended[ReturnCurve::BinOf(20)] >= 290);
  CHECK(times.Survival(return_class, 15) > 0.8);
  CHECK(times.Survival(return_class, 26) < 0.2);
  CHECK(times.counts(ReturnClass::kTool).ended[ReturnCurve::BinOf(20)] == 0);
  static_assert(ReturnClass::kFirstExpected + 8 == ReturnClass::kFirstTool);
  CHECK(ReturnClass::Expected(0.5) == ReturnClass::kFirstExpected);
  CHECK(ReturnClass::Expected(-1) == ReturnClass::kFirstExpected);
  CHECK(ReturnClass::Expected(1.5) == ReturnClass::kFirstExpected + 1);
  CHECK(ReturnClass::Expected(1e300) == ReturnClass::kFirstTool - 1);
}

TEST_CASE("an announced turn makes held KV as good as just used") {
  Agents host(60);
  host.Run(Turn(1, 7, 20)), host.now += 1'000;
  host.Run(Turn(2, 8, 20)), host.now += 1'000;
  host.On(TurnExpected{{7}, 0, Ms(host.now + 3'000)});
  CHECK(host.scheduler.ExplainHeld({7}).return_class == ReturnClass::Expected(3));
  host.Run(Turn(3, 9, 40));
  CHECK(host.scheduler.ExplainHeld({7}).tokens == Tokens{20 * kBlock});
  CHECK(host.scheduler.ExplainHeld({8}).tokens == Tokens{0});
  const ReturnCounts& unknown = host.scheduler.return_times()->counts(ReturnClass::kUnknown);
  CHECK(unknown.lost[ReturnCurve::BinOf(2)] == 1);
  // A workflow that is present is not expected, and id 0 means no workflow.
  host.On(TurnExpected{{55}, 0, Ms(host.now)});
  CHECK(host.scheduler.stats().events_out_of_place == 0);
  host.On(TurnExpected{{}, 0, Ms(host.now)});
  CHECK(host.scheduler.stats().events_out_of_place == 1);
}

TEST_CASE("prefixes of different salts never match, and evictions name hash and salt") {
  Agents host(100);
  Request mine = Turn(1, 7, 20), same = Turn(2, 7, 20), other = Turn(3, 7, 20), none = Turn(4, 7, 20);
  mine.salt = same.salt = 1, other.salt = 2;
  CHECK(host.Run(mine) == 0);
  CHECK(host.Run(other) == 0);
  CHECK(host.Run(none) == 0);
  CHECK(host.Run(same) == 19 * kBlock);  // the last token is always computed
  CHECK(host.scheduler.kv().cached == Blocks{60});
  host.Arrive(Turn(5, 8, 100));
  std::set<std::uint64_t> dropped, expected;
  for (const DroppedPrefix& one : host.Plan().dropped) dropped.insert(one.hash);
  for (const std::uint64_t hash : mine.prefix.hashes) {
    for (const std::uint64_t salt : {0u, 1u, 2u}) expected.insert(SaltedHash(hash, salt));
  }
  CHECK(expected.size() == 60);
  CHECK(dropped == expected);
}

TEST_CASE("gated requests are admitted by the next plan after the reason") {
  Agents host(100, HoldValue{}, Lease{});
  host.Run(Turn(1, 7, 95));
  host.Ended(7, TurnWhy::kTool);
  host.Arrive(Turn(2, 8, 20));
  CHECK(host.Plan().idle == Idle::kGated);
  CHECK(host.Plan().idle == Idle::kGated);
  host.On(WorkflowEnded{{7}});
  CHECK(host.RunWhatWaits(2) == 0);
}

TEST_CASE("while the door's choice does not fit, no other is admitted") {
  Host<Sjf> host(Cached(100), {.tokens = {100'000}});
  REQUIRE(host.scheduler.SetRetention(HoldValue{}, Price{.share = 0.1, .after_s = 300}).ok());
  const auto arrive = [&](std::uint64_t id, std::int32_t blocks, double output) {
    Request turn = Turn(id, 10 + id, blocks);
    turn.output_tokens = Estimate::Exact(output);
    host.Arrive(turn);
  };
  arrive(2, 60, 100);
  CHECK(host.Step() == "2:960");
  arrive(3, 50, 100);  // 40 are not in use
  CHECK(host.Step() == "2:1");
  host.now += 301'000;
  arrive(4, 5, 1);  // enough blocks are free, and it is the shortest
  CHECK(host.Step() == "2:1");
  CHECK(host.scheduler.Explain({4}).waits_for != WaitsFor::kNothing);
  CHECK(host.Step({2}) == "2:1");
  CHECK(host.Step() == "3:800 4:80");
}

TEST_CASE("a request too large for these limits does not hold the door") {
  enum class Own { kSequences, kPrompt, kAdapter };
  for (const Own own : {Own::kSequences, Own::kPrompt, Own::kAdapter}) {
    CAPTURE(static_cast<int>(own));
    Agents host(100, HoldValue{}, Price{.kappa = 0, .after_s = 60});
    Request never = Turn(1, 7, 5);
    if (own == Own::kSequences) never.sequences = 9, host.limits.max_seqs = 8;
    if (own == Own::kPrompt) never.chunkable = false, host.limits.tokens = {5 * kBlock - 1};
    if (own == Own::kAdapter) never.adapter = {1}, host.limits.adapters = 0;
    host.Arrive(never);
    host.now += 1000;
    CHECK(host.Run(Turn(2, 8, 4)) == 0);
    std::uint64_t id = 10;
    for (; host.scheduler.kv().cached < Blocks{100}; ++id) host.Run(Turn(id, id, 4));
    host.Arrive(Turn(3, 9, 4));  // takes KV that other workflows hold
    CHECK(host.RunWhatWaits(3) == -1);
    host.now += 61'000;
    CHECK(host.RunWhatWaits(3) == 0);
    CHECK(host.scheduler.stats().gate_doors == 1);
    // No request waits for it.
    host.On(WorkflowEnded{{9}});
    host.now += 1000;
    host.Arrive(Turn(4, id - 1, 4)), host.Arrive(Turn(5, id - 2, 4));
    CHECK(host.Plan().run.size() == 2);
  }
}

TEST_CASE("waits and bounds stay within range for any reported time") {
  Agents host(100, HoldValue{}, Price{.kappa = 0, .after_s = 1e11});
  host.now = 5'000;
  host.Run(Turn(1, 7, 60));
  Request old = Turn(2, 8, 60), young = Turn(3, 9, 60);
  old.arrival = TimePoint(Duration(INT64_MIN + 1)), young.arrival = TimePoint::max();
  host.Arrive(young);
  const StepPlan& gated = host.Plan();
  CHECK(gated.idle == Idle::kGated);
  CHECK(gated.wake_at == Ms(host.now + 500));
  host.Arrive(old);
  host.RunWhatWaits(2);
  CHECK(host.Plan().run.empty());
}

TEST_CASE("Explain shows a workflow's held KV, price and eviction order") {
  Agents host(100, HoldValue{});
  host.Run(Turn(1, 7, 20));
  host.Ended(7, TurnWhy::kTool);
  host.now += 3000;
  host.Run(Turn(2, 8, 30));
  const TimePoint ended = Ms(host.now);
  host.Ended(8, TurnWhy::kUser);
  host.now += 2000;
  host.Arrive(Turn(3, 9, 1));
  HeldExplanation tool = host.scheduler.ExplainHeld({7}), user = host.scheduler.ExplainHeld({8});
  CHECK(tool.tokens == Tokens{20 * kBlock});
  CHECK(tool.own == tool.tokens);
  CHECK(tool.return_class == ReturnClass::kTool);
  CHECK(tool.turns == 1);
  CHECK(user.since == ended);
  CHECK(user.return_class == ReturnClass::kUser);
  // By hand: the prior's G for gaps of 5 s (tool) and 2 s (user), times the last 16 tokens' prefill.
  const ReturnCurves& curves = host.scheduler.return_times()->curves();
  const HoldValue value;
  const auto worth = [&](std::uint32_t return_class, double age, std::int32_t tokens) {
    return curves.Of(return_class).Gain(age) * kBlock * (value.alpha_ms * 1e-3 + value.beta_ns * 1e-9 * tokens);
  };
  CHECK(tool.value == Approx(worth(ReturnClass::kTool, 5, 320)));
  CHECK(user.value == Approx(worth(ReturnClass::kUser, 2, 480)));
  REQUIRE(user.value < tool.value);
  CHECK(user.next == WorkflowId{8});
  CHECK(tool.next == WorkflowId{8});
  CHECK(user.ahead == Blocks{0});
  CHECK(tool.ahead == Blocks{30});
  CHECK(tool.price == Approx(user.price));
  CHECK(tool.price < tool.value);

  host.Arrive(Turn(4, 8, 31));
  CHECK(host.scheduler.ExplainHeld({8}).awaited);
  CHECK(host.scheduler.ExplainHeld({8}).ahead == Blocks{20});
  CHECK(host.scheduler.ExplainHeld({7}).ahead == Blocks{0});
  const StepPlan& plan = host.Plan();
  CHECK(host.scheduler.ExplainHeld({8}).in_use);
  host.Commit(plan, {3, 4});
  host.On(WorkflowEnded{{8}});
  CHECK(host.scheduler.ExplainHeld({8}).tokens == Tokens{0});
  CHECK(host.scheduler.ExplainHeld({7}).price == 0);  // dead blocks are evicted first
  CHECK(host.scheduler.ExplainHeld({7}).ahead == Blocks{32});
  CHECK(host.scheduler.ExplainHeld({55}).tokens == Tokens{0});
  CHECK(host.scheduler.ExplainHeld({}).turns == 0);
}

// Random turns, ends, losses and cancellations under every gate. Counts hold, and every request is served in the end.
TEST_CASE("counts hold and every request is admitted in random runs") {
  const HoldValue value{.alpha_ms = 1, .beta_ns = 5};
  const std::vector<std::pair<AnyRetention, AnyGate>> settings = {
      {Lru{}, {}},
      {Lru{}, Lease{.seconds = 5}},
      {value, Price{.share = 0.2, .after_s = 5, .value = value}},
      {Lru{}, Price{.share = 0, .value = value}}};
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    for (const auto& [retention, gate] : settings) {
      Random random(seed);
      Agents host(static_cast<std::int32_t>(40 + random.Below(60)), retention, gate);
      host.limits.tokens = {static_cast<std::int32_t>(64 + random.Below(400))};
      std::map<std::uint64_t, std::int32_t> blocks_of;
      std::uint64_t id = 0;
      for (int i = 0; i < 400; ++i) {
        host.now += static_cast<std::int64_t>(random.Below(2000));
        const std::uint64_t workflow = 1 + random.Below(8), branch = random.Below(2);
        switch (random.Below(10)) {
          case 0:
          case 1:
          case 2: {
            std::int32_t& blocks = blocks_of[workflow * 10 + branch];
            blocks = random.Chance(0.1) ? 1 : std::min(blocks + static_cast<std::int32_t>(random.Below(6)) + 1, 30);
            Request turn = Turn(++id, workflow, blocks, branch);
            turn.max_output_tokens = {static_cast<std::int32_t>(1 + random.Below(20))};
            host.Arrive(turn);
            break;
          }
          case 3: host.Ended(workflow, static_cast<TurnWhy>(random.Below(5)), branch); break;
          case 4:
            if (random.Chance(0.3)) host.On(WorkflowEnded{{workflow}});
            break;
          case 5:
            if (id > 0 && random.Chance(0.3)) host.On(Cancelled{{1 + random.Below(id)}});
            break;
          case 6:
            if (random.Chance(0.1)) host.On(KvLost{});
            break;
          default: host.Step();
        }
      }
      for (int i = 0; i < 3000 && host.scheduler.alive() > 0; ++i) {
        host.now += 1000;
        host.Step();
      }
      INFO("seed " << seed << ", gate " << gate.spec());
      REQUIRE(host.scheduler.alive() == 0);
      REQUIRE(host.scheduler.kv().used == Blocks{0});
    }
  }
}

TEST_CASE("retention and a gate allocate nothing after warm-up") {
  const HoldValue value{.alpha_ms = 1, .beta_ns = 5};
  SchedulerOptions options = Cached(200);
  auto scheduler = Scheduler::Create(options, AnyPolicy(Fcfs{}));
  REQUIRE(scheduler.ok());
  REQUIRE(scheduler->SetRetention(value, Price{.value = value}).ok());
  std::vector<Request> turns;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    turns.push_back(Turn(i + 1, 1 + Mix64(i) % 8, 30));
  }
  std::vector<RowResult> rows(64);
  std::int64_t now = 0;
  const auto play = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      scheduler->On(Arrived{turns[i]}, Ms(now += 300));
      const StepPlan& plan = scheduler->Plan(Ms(++now), {.tokens = {1000}});
      std::size_t n = 0;
      for (const PlanEntry& e : plan.run) {
        const std::uint8_t done = e.samples() ? RowResult::kFinished : 0;
        rows[n++] = {e.request, e.lane, static_cast<std::uint16_t>(e.samples()), 0, done};
      }
      if (n > 0) scheduler->Commit({plan.id, std::span(rows).first(n)}, Ms(++now));
      scheduler->On(TurnEnded{turns[i].workflow, 0, TurnWhy::kTool}, Ms(now));
    }
  };
  play(0, 1000);
  const std::size_t before = allocations;
  play(1000, 2000);
  CHECK(allocations == before);
  CHECK(scheduler->stats().tokens_cached > 0);
}

}  // namespace takt::testing
