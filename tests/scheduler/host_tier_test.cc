// Copies of held prefixes in the host's memory, a second tier of the prefix cache.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "takt/base/random.h"
#include "takt/turns/gates/price.h"
#include "takt/turns/retention/hold_value.h"
#include "takt/turns/retention/lru.h"
#include "catch.h"
#include "counting_new.h"
#include "scheduler/host.h"

namespace takt::testing {
namespace {

constexpr std::int32_t kBlock = 16;

SchedulerOptions Tiers(std::int32_t blocks, std::int32_t copies, std::int32_t cpu = 0) {
  SchedulerOptions options;
  options.kv_blocks = {blocks};
  options.kv_watermark = 0;
  options.prefix_cache = true;
  options.cpu_blocks = {std::max(copies, cpu)};
  options.prefix_cpu_blocks = {copies};
  options.max_running = 16;
  options.reserve_requests = 64;
  return options;
}

Request Turn(std::uint64_t id, std::uint64_t workflow, std::int32_t blocks) {
  Request r = Prompt(id, blocks * kBlock);
  r.workflow = {workflow};
  std::vector<std::uint64_t> hashes;
  for (std::int32_t i = 0; i < blocks; ++i) hashes.push_back(Mix64(workflow * 10'000 + static_cast<std::uint64_t>(i)));
  r.prefix = Prefix(kBlock, hashes);
  return r;
}

struct Agents : Host<> {
  Agents(std::int32_t blocks, std::int32_t copies, const AnyRetention& retention = Lru{}, const AnyGate& gate = {})
      : Host<>(Tiers(blocks, copies), {.tokens = {100'000}}) {
    REQUIRE(scheduler.SetRetention(retention, gate).ok());
  }

  // Runs a turn of one token from arrival to end, with loads. Returns the number of tokens found in a cache; -1: it did
  // not run.
  std::int32_t Run(const Request& turn) {
    Arrive(turn);
    return RunWhatWaits(turn.id.value);
  }
  std::int32_t RunWhatWaits(std::uint64_t id) {
    const StepPlan* plan = &Plan();
    loaded = 0;
    if (!plan->moves.empty()) {
      loaded = plan->moves[0].count.value;
      On(MoveDone{plan->moves[0].id});
      plan = &Plan();
    }
    std::int32_t cached = -1;
    for (const PlanEntry& e : plan->run) {
      if (e.request.value == id) cached = e.position;
    }
    if (cached >= 0) Commit(*plan, {id});
    return cached;
  }
  std::int32_t loaded = 0;  // blocks, by the last of these
};

std::int64_t Count(const StepPlan& plan, KvAction action) {
  return std::ranges::count(plan.host_chunks, action, &HostChunk::action);
}

}  // namespace

TEST_CASE("evicted KV is loaded from the host's memory, the rest computed") {
  Agents host(50, 100);
  CHECK(host.Run(Turn(1, 7, 30)) == 0);
  host.Arrive(Turn(2, 8, 40));
  const StepPlan& other = host.Plan();
  CHECK(Count(other, KvAction::kOut) == 30);  // copied when its turn had ended, before anything overwrites it
  CHECK(other.dropped.size() == 20);
  host.Commit(other, {2});
  CHECK(host.scheduler.kv().cpu_cached == Blocks{70});

  host.Arrive(Turn(3, 7, 32));
  const StepPlan& loads = host.Plan();
  CHECK(loads.run.empty());
  CHECK(loads.idle == Idle::kMovesInFlight);
  REQUIRE(loads.moves.size() == 1);
  const KvMove load = loads.moves[0];
  CHECK(load.action == KvAction::kFetch);
  CHECK(load.request == RequestId{3});
  CHECK(load.first == Blocks{10});  // these are on the GPU yet
  CHECK(load.count == Blocks{20});
  CHECK(host.scheduler.Explain({3}).waits_for == WaitsFor::kMove);
  host.On(MoveDone{load.id});
  const StepPlan& runs = host.Plan();
  REQUIRE(runs.run.size() == 1);
  CHECK(runs.run[0].position == 30 * kBlock);
  CHECK(runs.run[0].tokens == 2 * kBlock);
  CHECK(runs.run[0].admitted());
  host.Commit(runs, {3});
  CHECK(host.scheduler.stats().tokens_loaded == 20 * kBlock);
  CHECK(host.scheduler.stats().tokens_cached == 30 * kBlock);
  CHECK(host.scheduler.kv().cpu_cached == Blocks{72});  // the copies stay; two were new
  CHECK(host.scheduler.Inconsistency() == nullptr);
}

TEST_CASE("without host room for prefixes no copies are made or loaded") {
  Agents host(50, 0);
  host.Run(Turn(1, 7, 30));
  host.Run(Turn(2, 8, 40));
  CHECK(host.Run(Turn(3, 7, 32)) == 10 * kBlock);
  CHECK(host.Plan().host_chunks.empty());
  CHECK(host.scheduler.kv().cpu_cached == Blocks{0});
}

TEST_CASE("after a failed load the KV is computed and its copy forgotten") {
  Agents host(50, 100);
  host.Run(Turn(1, 7, 30));
  host.Run(Turn(2, 8, 40));
  host.Arrive(Turn(3, 7, 30));
  const StepPlan& loads = host.Plan();
  REQUIRE(loads.moves.size() == 1);
  host.On(MoveDone{loads.moves[0].id, true});
  const StepPlan& runs = host.Plan();
  CHECK(Count(runs, KvAction::kDrop) == 20);
  REQUIRE(runs.run.size() == 1);
  CHECK(runs.run[0].position == 10 * kBlock);
  host.Commit(runs, {3});
  CHECK(host.scheduler.stats().moves_failed == 1);
  CHECK(host.scheduler.stats().tokens_loaded == 0);
  // Computed again, and so copied again.
  CHECK(Count(host.Plan(), KvAction::kOut) == 20);
  CHECK(host.scheduler.kv().cpu_cached == Blocks{70});
}

TEST_CASE("KV lost during a load is computed from the loss on") {
  for (const std::int32_t from : {0, 5, 20}) {
    CAPTURE(from);
    Agents host(50, 100);
    host.Run(Turn(1, 7, 30));
    host.Run(Turn(2, 8, 40));
    host.Arrive(Turn(3, 7, 30));
    const MoveId load = host.Plan().moves[0].id;
    host.On(KvLost{{3}, {from * kBlock + 3}});
    host.On(MoveDone{load});
    const StepPlan& runs = host.Plan();
    REQUIRE(runs.run.size() == 1);
    CHECK(runs.run[0].position == (from < 10 ? from * kBlock + 3 : from * kBlock));
    host.Commit(runs, {3});
    CHECK(host.scheduler.Inconsistency() == nullptr);
  }
}

TEST_CASE("a loss of all KV includes the host's memory") {
  Agents host(50, 100);
  host.Run(Turn(1, 7, 30));
  host.Run(Turn(2, 8, 40));
  host.Arrive(Turn(3, 7, 31));
  const MoveId load = host.Plan().moves[0].id;
  host.On(KvLost{});
  CHECK(host.scheduler.kv().cpu_cached == Blocks{30});  // that is being loaded
  host.On(MoveDone{load});
  CHECK(host.scheduler.kv().cpu_cached == Blocks{0});
  const StepPlan& runs = host.Plan();
  CHECK(Count(runs, KvAction::kDrop) == 70);
  REQUIRE(runs.run.size() == 1);
  CHECK(runs.run[0].position == 0);
}

TEST_CASE("a request that ends during a load leaves KV and copies") {
  Agents host(50, 100);
  host.Run(Turn(1, 7, 30));
  host.Run(Turn(2, 8, 40));
  host.Arrive(Turn(3, 7, 31));
  const MoveId load = host.Plan().moves[0].id;
  host.On(Cancelled{{3}});
  CHECK(host.Plan().released.empty());
  CHECK(host.scheduler.kv().used == Blocks{31});
  host.On(MoveDone{load});
  CHECK(host.Plan().released.size() == 1);
  CHECK(host.scheduler.kv().used == Blocks{0});
  CHECK(host.scheduler.kv().cpu_cached == Blocks{70});
  CHECK(host.scheduler.Inconsistency() == nullptr);
  CHECK(host.Run(Turn(4, 7, 31)) == 30 * kBlock);
  CHECK(host.loaded == 0);
}

TEST_CASE("a full host memory evicts the oldest copy, not one loading") {
  Agents host(50, 60);
  host.Run(Turn(1, 7, 30));
  host.Run(Turn(2, 8, 30));
  host.Arrive(Turn(3, 9, 45));
  const StepPlan& third = host.Plan();
  host.Commit(third, {3});
  const StepPlan& after = host.Plan();
  CHECK(Count(after, KvAction::kDrop) == 45);
  CHECK(Count(after, KvAction::kOut) == 45);
  // Forgotten before the new copies use the room.
  CHECK(after.host_chunks.front().action == KvAction::kDrop);
  CHECK(host.scheduler.kv().cpu_cached == Blocks{60});
  CHECK(host.Run(Turn(4, 7, 30)) == 0);
}

TEST_CASE("swapped-out KV evicts copies, but nothing that is being loaded") {
  SchedulerOptions options = Tiers(60, 50, 60);
  options.preempt = PreemptMode::kByRank;
  options.preempt_action = KvAction::kOut;
  Host<> host(options, {.tokens = {100'000}});
  host.Arrive(Turn(1, 7, 40));
  host.Commit(host.Plan(), {1});
  CHECK(host.scheduler.kv().cpu_cached == Blocks{40});
  host.Arrive(Turn(2, 8, 45));
  host.Commit(host.Plan());
  host.On(ToolCalled{{2}});
  CHECK(host.scheduler.kv().cpu_used == Blocks{0});
  CHECK(host.scheduler.Inconsistency() == nullptr);
}

TEST_CASE("an ended workflow is not copied, and its copies are evicted first") {
  Agents host(100, 60);
  host.Run(Turn(1, 7, 30));
  host.Run(Turn(2, 8, 30));
  host.On(WorkflowEnded{{8}});
  host.Run(Turn(3, 9, 30));
  CHECK(host.scheduler.kv().cpu_cached == Blocks{60});
  host.Run(Turn(4, 10, 90));  // the GPU has no KV of 7 now
  CHECK(host.Run(Turn(5, 7, 31)) <= 30 * kBlock);
  host.Arrive(Turn(6, 11, 20));
  const StepPlan& plan = host.Plan();
  host.On(TurnEnded{{11}, 0, TurnWhy::kOver});
  const std::int32_t before = host.scheduler.kv().cpu_cached.value;
  host.Commit(plan, {6});
  CHECK(host.scheduler.kv().cpu_cached == Blocks{before});
}

TEST_CASE("KV with a copy is evicted before KV without one") {
  const HoldValue value{.alpha_ms = 1, .beta_ns = 0, .load_ms = 0.01};
  // 7 has its copy. 8 came when loads had pinned everything.
  Held held{.tokens = 16, .block_tokens = 16};
  const double computed = value.Value(held, {});
  held.copied = true;
  CHECK(value.Value(held, {}) == Approx(computed / 100));
  CHECK(value.List(held) >= HoldValue::kClasses * HoldValue::kCosts);
  CHECK(value.List(held) < HoldValue::kLists);
}

TEST_CASE("the price gate gives up copied KV cheaply, other KV not") {
  const HoldValue value{.alpha_ms = 100, .beta_ns = 0, .load_ms = 0.01};
  const auto waits = [&](std::int32_t copies) {
    Agents host(100, copies, value, Price{.share = 0, .value = value});
    host.Run(Turn(1, 7, 100));
    host.On(TurnEnded{{7}, 0, TurnWhy::kTool});
    host.now += 5000;
    host.Arrive(Turn(2, 8, 100));
    return host.Plan().run.empty();
  };
  CHECK(waits(0));
  CHECK(waits(100));  // it would be lost in the host's memory
  CHECK(!waits(200));
}

TEST_CASE("tiers allocate nothing when warm") {
  auto scheduler = BasicScheduler<Fcfs>::Create(Tiers(60, 150));
  REQUIRE(scheduler.ok());
  REQUIRE(scheduler->SetRetention(HoldValue{}, Price{}).ok());
  constexpr std::uint64_t kTurns = 1200;
  std::vector<Request> turns;
  for (std::uint64_t i = 0; i < kTurns; ++i) {
    turns.push_back(Turn(i + 1, 1 + i * 7 % 11 % 5, 10 + static_cast<std::int32_t>(i % 5) * 5));
  }
  std::vector<RowResult> rows;
  rows.reserve(16);
  const auto play = [&](std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = from; i < to; ++i) {
      const TimePoint now = Ms(static_cast<std::int64_t>(i) * 10'000);
      scheduler->On(Arrived{turns[i]}, now);
      const StepPlan* plan = &scheduler->Plan(now, {.tokens = {100'000}});
      for (const KvMove& move : plan->moves) scheduler->On(MoveDone{move.id, i % 17 == 0}, now);
      if (plan->run.empty()) plan = &scheduler->Plan(now, {.tokens = {100'000}});
      rows.clear();
      for (const PlanEntry& e : plan->run) rows.push_back({e.request, e.lane, 1, 0, RowResult::kFinished});
      scheduler->Commit({plan->id, rows}, now);
      scheduler->On(TurnEnded{turns[i].workflow, 0, i % 3 == 0 ? TurnWhy::kUser : TurnWhy::kTool}, now);
    }
  };
  play(0, 600);
  const std::size_t before = allocations;
  play(600, kTurns);
  CHECK(allocations == before);
  CHECK(scheduler->stats().tokens_loaded > 0);
  CHECK(scheduler->Inconsistency() == nullptr);
}

}  // namespace takt::testing
