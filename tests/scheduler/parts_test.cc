// The parts of a scheduler, each alone or with the parts below it.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/room_to_pass.h"
#include "takt/policy/priority.h"
#include "takt/scheduler/joined_policies.h"
#include "takt/scheduler/loop_parts.h"

namespace takt::internal {
namespace {

TimePoint At(std::int64_t ms) { return TimePoint(std::chrono::milliseconds(ms)); }

SchedulerOptions Blocks16(std::int32_t blocks) {
  SchedulerOptions options;
  options.kv_block_tokens = {16};
  options.kv_blocks = {blocks};
  options.kv_watermark = 0;
  options.cpu_blocks = {8};
  options.reserve_requests = 16;
  return options;
}

// All parts, and a plan that can be built by hand.
template <class Policy = Fcfs>
struct Bench {
  explicit Bench(const SchedulerOptions& options = Blocks16(10)) : p(options, policies, nullptr) {}

  template <class E>
  void Hear(const E& event, std::int64_t ms = 0) {
    p.storage.MakeRoomFor(event);
    p.Enter(At(ms));
    p.events.Handle(event, p.state.now);
    p.faults.desk.Leave();
  }
  Slot Arrive(std::uint64_t id, std::int32_t tokens, std::int32_t priority = 0, std::int64_t ms = 0) {
    Request r;
    r.id = {id};
    r.prompt_tokens = {tokens};
    r.priority = priority;
    r.arrival = At(ms);
    Hear(Arrived{r}, ms);
    return p.state.table.Find({id});
  }
  void BeginPlan(const StepLimits& limits = {.tokens = {1000}}) {
    p.storage.MakeRoomForPlan();
    Step& step = p.state.steps.Next();
    Draft& draft = p.state.draft;
    draft.plan = &step.plan, draft.of = &step, draft.entries = step.entries.data(), draft.step = step.bits;
    draft.planned = 0;
    step.plan.tokens = {0};
    ++p.state.stats.plans;
    p.state.budget.BeginPlan(limits);
    p.state.budget.BeginBuild(Pacer::kUnlimited);
    p.walk.BeginPlan();
    p.kv.round.BeginPlan();
  }
  Record& record(std::uint64_t id) { return p.state.table[p.state.table.Find({id})]; }
  std::uint32_t lane(std::uint64_t id) { return record(id).lane; }

  JoinedPolicies<Policy, KeepAll> policies{Policy{}, KeepAll{}};
  LoopParts p;
};

TEST_CASE("Faults: a fault has the last planned step unless it names one") {
  Bench bench;
  bench.p.faults.UnknownRequest({7});
  CHECK(bench.p.state.stats.events_unknown == 1);
  CHECK(bench.p.faults.desk.log().last().request == RequestId{7});
  CHECK(bench.p.faults.desk.log().last().step == StepId{bench.p.state.steps.last()});
  bench.p.faults.Blame(&Stats::commits_unknown, {.kind = FaultKind::kUnknownStep, .step = {99}});
  CHECK(bench.p.faults.desk.log().last().step == StepId{99});
  CHECK(bench.p.faults.desk.log().count() == bench.p.state.stats.faults());
}

TEST_CASE("Kv: a context gets the fewest blocks that hold it") {
  Bench bench;
  for (std::int32_t sequences : {1, 2, 3, 7}) {
    for (std::int32_t prompt = 1; prompt <= 40; ++prompt) {
      for (std::int32_t generated = 0; generated <= 40; ++generated) {
        Record record;
        record.state.request.sequences = sequences;
        record.state.generated = {generated};
        record.known = prompt + sequences * generated;
        // Sequences share the prompt's whole blocks. Each has its own copy of the rest and of its output.
        const std::int32_t whole = prompt / 16, own = (prompt % 16 + generated + 15) / 16;
        const std::int32_t blocks = sequences == 1 ? (prompt + generated + 15) / 16 : whole + sequences * own;
        REQUIRE(bench.p.kv.BlocksFor(record) == blocks);
        REQUIRE(bench.p.kv.CapacityOf(record, blocks) >= record.known);
        if (sequences == 1) REQUIRE(bench.p.kv.CapacityOf(record, blocks - 1) < record.known);
      }
    }
  }
}

TEST_CASE("SearchMemory: requests are noted during a vain search, within a limit") {
  Bench bench;
  const Slot slot = bench.Arrive(1, 16);
  bench.p.memory.NoteJoined(slot);
  CHECK(bench.p.memory.joined().empty());
  bench.BeginPlan();
  bench.p.memory.Remember(AnySearch{.free = 9});
  bench.p.memory.NoteJoined(slot);
  CHECK(bench.p.memory.joined() == std::vector<Slot>{slot});
  bench.p.memory.NoteJoined(slot);  // more notes than requests
  CHECK(bench.p.memory.joined().empty());
  bench.p.memory.NoteJoined(slot);
  CHECK(bench.p.memory.joined().empty());
}

TEST_CASE("SearchMemory: no search is remembered if the policy chooses") {
  Bench<RoomToPass> bench;
  const Slot slot = bench.Arrive(1, 16);
  bench.BeginPlan();
  bench.p.memory.Remember(AnySearch{.free = 9});
  bench.p.memory.NoteJoined(slot);
  CHECK(bench.p.memory.joined().empty());
  CHECK_FALSE(bench.p.memory.Holds());
}

TEST_CASE("Gate: joins and ends change answers; no door, no eldest") {
  Bench bench;
  const std::uint64_t before = bench.p.gate.changes();
  bench.Arrive(1, 16);
  const std::uint64_t joined = bench.p.gate.changes();
  CHECK(joined > before);
  bench.Hear(Cancelled{{1}});
  CHECK(bench.p.gate.changes() > joined);
  CHECK(bench.p.gate.open());
  CHECK(bench.p.gate.OldestAtDoor() == kNoSlot);
}

TEST_CASE("Turns: nothing is learned before the host reports turns") {
  SchedulerOptions options = Blocks16(10);
  options.prefix_cache = true;
  Bench bench(options);
  CHECK_FALSE(bench.p.turns.Holds());
  bench.Hear(TurnEnded{.workflow = {3}});
  CHECK(bench.p.turns.Holds());
  CHECK(bench.p.turns.times()->IsOpen({3}, 0));
  bench.Hear(WorkflowEnded{{3}});
  CHECK_FALSE(bench.p.turns.times()->IsOpen({3}, 0));
  bench.Hear(TurnEnded{});
  CHECK(bench.p.state.stats.events_out_of_place == 1);
}

TEST_CASE("Prefixes: no chunk that may be found has a prompt's last token") {
  Request r;
  const std::vector<std::uint64_t> hashes = {1, 2, 3};
  r.prefix = {{16}, hashes};
  r.prompt_tokens = {48};
  CHECK(Prefixes::UsableChunks(r) == 2);
  r.prompt_tokens = {49};
  CHECK(Prefixes::UsableChunks(r) == 3);
}

TEST_CASE("Entries: a removed entry returns all its resources") {
  Bench bench;
  const Slot slot = bench.Arrive(1, 40);
  bench.BeginPlan();
  const StepBudget before = bench.p.state.budget;
  bench.p.kv.ledger.Allocate(3);
  bench.record(1).blocks = 3;
  bench.p.new_rows.Admit(slot, 0, 40);
  CHECK(bench.p.state.draft.planned == 1);
  CHECK(bench.p.state.budget.tokens == before.tokens - 40);
  CHECK(bench.p.entries.EntryOf(bench.lane(1))->tokens == 40);
  CHECK(bench.p.entries.Unplan(bench.lane(1)));
  CHECK_FALSE(bench.p.entries.Unplan(bench.lane(1)));
  bench.p.entries.CloseGaps();
  CHECK(bench.p.state.draft.planned == 0);
  CHECK(bench.p.state.budget.tokens == before.tokens);
  CHECK(bench.p.state.budget.prefill == before.prefill);
  CHECK(bench.p.state.budget.seqs == before.seqs);
  CHECK(bench.p.state.draft.plan->tokens == Tokens{0});
}

TEST_CASE("Victims: the last by rank is preempted first, non-preemptible rows last") {
  Bench<Priority> bench;
  for (const std::uint64_t id : {1u, 2u, 3u}) {
    const Slot slot = bench.Arrive(id, 16, static_cast<std::int32_t>(id), static_cast<std::int64_t>(id));
    bench.record(id).state.request.preemptible = id != 2;
    if (id == 1) bench.BeginPlan();
    bench.p.kv.ledger.Allocate(1);
    bench.record(id).blocks = 1;
    bench.p.new_rows.Admit(slot, 0, 16);
  }
  std::vector<std::uint64_t> order;
  CHECK(bench.p.victims.Worst(true) != kNoLane);
  bench.p.victims.VisitInOrder([&](std::uint32_t lane) {
    order.push_back(bench.p.state.running.Look(lane).request.value);
    return true;
  });
  REQUIRE(order.size() == 3);
  CHECK(order.back() == 2);
  bench.p.victims.Leave(bench.lane(order.front()));
  CHECK(bench.p.state.running.Look(bench.p.victims.Worst(true)).request.value == order[1]);
  bench.p.victims.Leave(bench.lane(order[1]));
  CHECK(bench.p.victims.Worst(true) == kNoLane);
  CHECK(bench.p.victims.Worst(false) == bench.lane(2));
}

TEST_CASE("Displacing: a displaced row waits again, without KV") {
  Bench bench;
  const Slot slot = bench.Arrive(1, 16);
  bench.BeginPlan();
  bench.p.kv.ledger.Allocate(1);
  bench.record(1).blocks = 1;
  bench.p.new_rows.Admit(slot, 0, 16);
  bench.p.displacing.Preempt(bench.lane(1), false);
  CHECK(bench.record(1).status == RequestStatus::kWaiting);
  CHECK(bench.record(1).lane == kNoLane);
  CHECK(bench.p.kv.FreeBlocks() == 10);
  CHECK(bench.p.state.notices.preempted.size() == 1);
  CHECK(bench.p.state.draft.displaced);
}

TEST_CASE("RowRoom: a row gets free blocks, or nothing changes") {
  Bench bench(Blocks16(2));
  const Slot slot = bench.Arrive(1, 16);
  bench.BeginPlan();
  bench.p.kv.ledger.Allocate(1);
  bench.record(1).blocks = 1;
  bench.p.new_rows.Admit(slot, 0, 16);
  CHECK(bench.p.room.SpareRoom(bench.lane(1), 32));
  CHECK(bench.p.state.running.Look(bench.lane(1)).capacity == 32);
  CHECK_FALSE(bench.p.room.SpareRoom(bench.lane(1), 33));
  CHECK(bench.p.state.running.Look(bench.lane(1)).blocks == 2);
}

TEST_CASE("Admission: a request that does not fit only gets a reason") {
  Bench bench(Blocks16(4));
  bench.Arrive(1, 48);
  const Slot second = bench.Arrive(2, 32);
  bench.BeginPlan();
  CHECK(bench.p.admission.TryAdmit(bench.p.state.table.Find({1})) == Fit::kAdmitted);
  CHECK(bench.p.admission.TryAdmit(second) == Fit::kStop);
  CHECK(bench.p.state.draft.top_waits_for == WaitsFor::kKv);
  CHECK(bench.p.state.draft.head == second);
  CHECK(bench.record(2).status == RequestStatus::kWaiting);
  CHECK(bench.record(2).blocks == 0);
  CHECK(bench.p.kv.FreeBlocks() == 1);
}

TEST_CASE("Passing: at most admission_window others pass a request in its wait") {
  SchedulerOptions options = Blocks16(4);
  options.admission_window = 2;
  Bench bench(options);
  const Slot first = bench.Arrive(1, 64), other = bench.Arrive(2, 16);
  bench.BeginPlan();
  bench.p.kv.ledger.Allocate(2);
  bench.p.state.draft.top_waits_for = WaitsFor::kKv;
  bench.p.passing.Begin();
  CHECK(bench.p.passing.LetPass(first));
  CHECK_FALSE(bench.p.passing.exhausted());
  bench.p.passing.Admitted(other), bench.p.passing.Admitted(other);
  CHECK(bench.p.passing.exhausted());
  bench.p.passing.End();
  CHECK(bench.record(1).passed == 2);
  CHECK(bench.p.state.draft.head == first);
  CHECK_FALSE(bench.p.passing.MayBePassed(first));
}

TEST_CASE("Passing: at most admission_window adapter requests pass an adapter's waiter") {
  SchedulerOptions options = Blocks16(10);
  options.admission_window = 2;
  Bench bench(options);
  const Slot waits = bench.Arrive(1, 16), with = bench.Arrive(2, 16), without = bench.Arrive(3, 16);
  for (const Slot slot : {waits, with}) bench.p.state.table[slot].state.request.adapter = {7};
  bench.BeginPlan({.tokens = {1000}, .adapters = 1});
  bench.p.passing.Begin();
  bench.p.passing.Admitted(with);  // before it
  bench.p.passing.PassWithoutAdapter(waits);
  bench.p.passing.Admitted(without), bench.p.passing.Admitted(without), bench.p.passing.Admitted(with);
  CHECK(bench.p.passing.MayTakeAdapter(with));
  bench.p.passing.Admitted(with);
  CHECK_FALSE(bench.p.passing.MayTakeAdapter(with));
  CHECK(bench.p.passing.MayTakeAdapter(without));
  CHECK_FALSE(bench.p.passing.exhausted());
  bench.p.passing.End();
  CHECK(bench.record(1).overtaken == 2);
}

TEST_CASE("ThroughGate: a partial search ends after kMostLooks looks") {
  SchedulerOptions options = Blocks16(10);
  options.admission_window = 2;
  Bench bench(options);
  for (std::uint64_t id = 1; id <= 200; ++id) bench.Arrive(id, 16);
  bench.BeginPlan();
  for (const bool whole : {false, true}) {
    ThroughGate waiting{bench.p.state, bench.p.gate, bench.p.memory, {.whole = whole}};
    std::size_t visits = 0;
    waiting([&](Slot slot) {
      ++visits;
      bench.p.state.draft.top_waits_for = WaitsFor::kGate;
      return waiting.Skipped(bench.p.state.table[slot]);
    });
    CHECK(visits == (whole ? 400 : Gate::kMostLooks));
    CHECK(waiting.search.partly == !whole);
    CHECK(waiting.search.looks == visits);
    CHECK(waiting.window == 2);
  }
}

TEST_CASE("AdmissionWalk: a request with KV continues while the first waits") {
  Bench<Priority> bench(Blocks16(4));
  bench.Arrive(1, 32, 1);
  bench.BeginPlan();
  CHECK(bench.p.admission.TryAdmit(bench.p.state.table.Find({1})) == Fit::kAdmitted);
  bench.p.entries.Unplan(bench.lane(1));
  bench.Hear(ToolCalled{{1}});
  bench.Arrive(2, 64, 0);
  bench.Arrive(3, 48, 1);
  bench.Hear(ToolReturned{{1}, {8}});
  bench.BeginPlan();
  bench.p.walk.AdmitWaiting();
  CHECK(bench.record(1).status == RequestStatus::kRunning);
  CHECK(bench.record(2).status == RequestStatus::kWaiting);
  CHECK(bench.record(3).status == RequestStatus::kWaiting);
  CHECK(bench.p.state.draft.head == bench.p.state.table.Find({2}));
  CHECK(bench.p.state.draft.top_waits_for == WaitsFor::kKv);
}

TEST_CASE("AdmissionWalk: requests are tried in queue order until one stops") {
  Bench bench(Blocks16(4));
  for (const std::uint64_t id : {1u, 2u, 3u}) bench.Arrive(id, id == 2 ? 48 : 32, 0, static_cast<std::int64_t>(id));
  bench.record(2).passed = INT32_MAX;  // passed as often as allowed
  bench.BeginPlan();
  bench.p.walk.AdmitWaiting();
  CHECK(bench.record(1).status == RequestStatus::kRunning);
  CHECK(bench.record(2).status == RequestStatus::kWaiting);
  CHECK(bench.record(3).status == RequestStatus::kWaiting);
  CHECK(bench.p.state.draft.head == bench.p.state.table.Find({2}));
}

TEST_CASE("AdmissionWalk: any request that fits runs, and a vain search is remembered") {
  Bench bench(Blocks16(2));
  bench.Arrive(1, 32);
  bench.Arrive(2, 16, 0, 1);
  bench.p.kv.ledger.Allocate(1);
  bench.BeginPlan();
  bench.p.state.draft.top_waits_for = WaitsFor::kKv;
  CHECK(bench.p.walk.AdmitAny());
  CHECK(bench.record(2).status == RequestStatus::kRunning);
  bench.p.state.draft.planned = 0;
  CHECK_FALSE(bench.p.walk.AdmitAny());
  CHECK(bench.p.memory.Holds());
  const std::uint64_t searched = bench.p.state.stats.searched;
  CHECK_FALSE(bench.p.walk.AdmitAny());
  CHECK(bench.p.state.stats.searched == searched);
  bench.p.kv.ledger.Free(2);
}

TEST_CASE("PausedRequests and RestingKv: a paused request keeps its KV until released") {
  Bench bench;
  const Slot slot = bench.Arrive(1, 16);
  bench.BeginPlan();
  CHECK(bench.p.admission.TryAdmit(slot) == Fit::kAdmitted);
  bench.p.entries.Unplan(bench.lane(1));
  CHECK(bench.p.pauses.KeptOf(bench.record(1)).blocks == 1);
  bench.Hear(ToolCalled{{1}});
  CHECK(bench.record(1).status == RequestStatus::kPaused);
  CHECK(bench.record(1).blocks == 1);
  bench.p.resting.RankHolders();
  CHECK(bench.p.resting.Reclaim(kNoSlot, false));
  CHECK(bench.record(1).blocks == 0);
  CHECK(bench.p.kv.FreeBlocks() == 10);
  CHECK_FALSE(bench.p.resting.Reclaim(kNoSlot, false));
}

TEST_CASE("FreshRequests: an expiry time is watched until the request runs or leaves") {
  Bench bench;
  FreshRequests& fresh = bench.p.lives.fresh();
  Request r{.id = {1}, .prompt_tokens = {16}};
  r.expires_at = At(5);
  bench.Hear(Arrived{r});
  bench.Arrive(2, 16);
  CHECK(fresh.waiting() == 2);
  CHECK(fresh.next_expiry() == At(5));
  CHECK(fresh.Expired(At(4)) == kNoSlot);
  CHECK(fresh.Expired(At(5)) == bench.p.state.table.Find({1}));
  bench.p.lives.Expire(At(5));
  CHECK(fresh.waiting() == 1);
  CHECK(fresh.next_expiry() == kNever);
  CHECK(fresh.Expired(kNever) == kNoSlot);
}

TEST_CASE("Lives: a request that ends is released once, in any state") {
  Bench bench;
  for (const std::uint64_t id : {1u, 2u, 3u}) bench.Arrive(id, 16);
  bench.BeginPlan();
  CHECK(bench.p.admission.TryAdmit(bench.p.state.table.Find({1})) == Fit::kAdmitted);
  bench.p.entries.Unplan(bench.lane(1));
  bench.Hear(Blocked{{2}});
  for (const std::uint64_t id : {1u, 2u, 3u})
    bench.p.lives.End(bench.p.state.table.Find({id}), TransitionReason::kCancelled);
  for (const std::uint64_t id : {1u, 2u, 3u})
    bench.p.lives.End(bench.p.state.table.Find({id}), TransitionReason::kCancelled);
  CHECK(bench.p.state.notices.released.size() == 3);
  CHECK(bench.p.state.counts.rows == 0);
  CHECK(bench.p.state.counts.blocked == 0);
  CHECK(bench.p.state.queue.empty());
  CHECK(bench.p.kv.FreeBlocks() == 10);
}

TEST_CASE("Ranks: a revised request gets the place of its new key") {
  Bench<Priority> bench;
  bench.Arrive(1, 16, 1);
  bench.Arrive(2, 16, 2);
  const RequestId before = bench.p.state.table[bench.p.state.queue.Top()].state.request.id;
  const std::uint64_t other = before == RequestId{1} ? 2 : 1;
  Request& r = bench.record(other).state.request;
  r.priority = before == RequestId{1} ? 0 : 3;
  bench.p.ranks.Rank(bench.p.state.table.Find({other}));
  CHECK(bench.p.state.table[bench.p.state.queue.Top()].state.request.id == RequestId{other});
}

TEST_CASE("IdlePlans: an empty plan has its reason") {
  Bench bench;
  bench.BeginPlan();
  CHECK(bench.p.idle.WhyIdle() == Idle::kNoRequests);
  bench.Arrive(1, 16);
  bench.Hear(Blocked{{1}});
  CHECK(bench.p.idle.WhyIdle() == Idle::kBlocked);
  bench.p.state.budget.BeginPlan({.tokens = {0}});
  CHECK(bench.p.idle.WhyIdle() == Idle::kNoBudget);
}

TEST_CASE("Storage: the lists of a plan have enough room") {
  Bench bench;
  for (std::uint64_t id = 1; id <= 50; ++id) bench.Arrive(id, 16);
  bench.p.storage.MakeRoomForPlan();
  CHECK(bench.p.state.notices.released.capacity() - bench.p.state.notices.released.size() >= 51);
  CHECK(bench.p.state.slots_reserved >= 50);
}

}  // namespace
}  // namespace takt::internal
