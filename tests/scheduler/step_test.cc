// Behaviours of the step loop, one per case, worked out by hand.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/host.h"
#include "takt/policy/aged.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/hrrn.h"
#include "takt/policy/workflow_fcfs.h"

namespace takt {
namespace {

using testing::Host;
using testing::Ms;
using testing::Prompt;
using testing::Shape;
using Released = std::vector<RequestId>;
using Failed = std::vector<Failure>;
// The failures of a plan without the times to come back.
Failed Told(const StepPlan& plan) {
  Failed failed(plan.failed.begin(), plan.failed.end());
  for (Failure& f : failed) f.retry_after_ms = 0;
  return failed;
}

// Blocks of 16 tokens, and no watermark, so that counts are easy to follow.
SchedulerOptions Blocks16(std::int32_t blocks) { return {.kv_blocks = {blocks}, .kv_watermark = 0}; }

TEST_CASE("a prompt is computed in chunks under the token budget, then decodes") {
  Host host(Blocks16(10), {.tokens = {16}});
  host.Arrive(1, 40);
  CHECK(host.Step() == "1:16");
  CHECK(host.Step() == "1:16");
  CHECK(host.used() == 3);  // all blocks of the prompt are reserved at admission
  const StepPlan& last = host.Plan();
  CHECK(Shape(last) == "1:8");
  CHECK((last.run[0].prefill() && last.run[0].samples() && last.run[0].position == 32));
  host.Commit(last);
  const StepPlan& decode = host.Plan();
  CHECK((Shape(decode) == "1:1" && decode.run[0].position == 40 && !decode.run[0].prefill()));
  host.Commit(decode, {1});
  const StepPlan& end = host.Plan();
  CHECK(end.run.empty());
  CHECK(end.idle == Idle::kNoRequests);
  CHECK(end.released == Released{{1}});
  CHECK(host.used() == 0);
  CHECK(host.scheduler.stats().tokens_prefill == 40);
  CHECK(host.scheduler.stats().tokens_output == 2);
}

TEST_CASE("running first plans decodes before chunks, and leaves room to admissions") {
  Host host(Blocks16(100), {.tokens = {20}});
  host.Arrive(1, 16);
  host.Step();
  host.Arrive(2, 64);
  host.Arrive(3, 8);
  CHECK(host.Step() == "1:1 2:19");
  CHECK(host.Step() == "1:1 3:8 2:11");  // 2 leaves room to 3 and uses the rest
  CHECK(host.Step() == "1:1 3:1 2:18");
  CHECK(host.Step() == "1:1 3:1 2:16");
}

TEST_CASE("prefill first plans prompts before decodes") {
  SchedulerOptions options = Blocks16(100);
  options.order = StepOrder::kPrefillFirst;
  Host host(options, {.tokens = {20}});
  host.Arrive(1, 16);
  host.Step();
  host.Arrive(2, 38);
  CHECK(host.Step() == "2:20");
  CHECK(host.Step() == "2:18 1:1");
}

TEST_CASE("prefill and chunk limits apply together with the budget") {
  Host host(Blocks16(100), {.tokens = {100}, .prefill_tokens = {30}, .chunk_tokens = {20}});
  host.Arrive(1, 50);
  host.Arrive(2, 50);
  CHECK(host.Step() == "1:20 2:10");
}

TEST_CASE("max_seqs bounds running requests; the next is admitted when one ends") {
  Host host(Blocks16(100), {.max_seqs = 2});
  for (std::uint64_t id : {1u, 2u, 3u}) host.Arrive(id, 8);
  CHECK(host.Step() == "1:8 2:8");
  CHECK(host.scheduler.Explain({3}).waits_for == WaitsFor::kSequences);
  CHECK(host.Step({1}) == "1:1 2:1");
  CHECK(host.Step() == "2:1 3:8");
}

TEST_CASE("a row that cannot grow preempts the last by rank") {
  Host host(Blocks16(4));
  host.Arrive(1, 32);
  host.Arrive(2, 32);
  CHECK(host.Step() == "1:32 2:32");
  const StepPlan& plan = host.Plan();  // both need a third block, none is free
  CHECK(Shape(plan) == "1:1");
  CHECK(plan.preempted == std::vector<Preemption>{{{2}, KvAction::kDrop}});
  host.Commit(plan, {1});
  const StepPlan& again = host.Plan();
  CHECK(Shape(again) == "2:33");  // its prompt and its one token
  CHECK(again.run[0].prefill());
  host.Commit(again, {2});
  CHECK(host.scheduler.stats().tokens_recomputed == 32);
  CHECK(host.scheduler.stats().preempted_recompute == 1);
  CHECK(host.scheduler.stats().kv_stalls == 1);
}

TEST_CASE("preemption by swap computes nothing twice") {
  SchedulerOptions options = Blocks16(4);
  options.preempt_action = KvAction::kOut;
  options.cpu_blocks = {8};
  Host host(options);
  host.Arrive(1, 32);
  host.Arrive(2, 32);
  host.Step();
  const StepPlan& plan = host.Plan();
  CHECK(plan.run.empty());  // the blocks are free only after the move
  CHECK(plan.preempted == std::vector<Preemption>{{{2}, KvAction::kOut}});
  CHECK(plan.moves == std::vector<KvMove>{{{1}, {2}, KvAction::kOut, {0}, {2}}});
  CHECK(plan.idle == Idle::kMovesInFlight);
  CHECK(host.used() == 4);
  host.On(MoveDone{{1}});
  CHECK(host.used() == 2);
  CHECK(host.scheduler.kv().cpu_used == Blocks{2});
  CHECK(host.Step({1}) == "1:1");
  const StepPlan& in = host.Plan();
  CHECK(in.moves == std::vector<KvMove>{{{2}, {2}, KvAction::kIn, {0}, {2}}});
  CHECK(in.idle == Idle::kMovesInFlight);
  host.On(MoveDone{{2}});
  CHECK(host.scheduler.kv().cpu_used == Blocks{0});
  CHECK(host.Step({2}) == "2:1");
  CHECK(host.scheduler.stats().tokens_recomputed == 0);
}

TEST_CASE("a failed move causes a recomputation") {
  SchedulerOptions options = Blocks16(4);
  options.preempt_action = KvAction::kOut;
  options.cpu_blocks = {8};
  Host host(options);
  host.Arrive(1, 32);
  host.Arrive(2, 32);
  host.Step();
  host.Plan();
  host.On(MoveDone{{1}, true});
  CHECK(host.scheduler.kv().cpu_used == Blocks{0});
  host.Step({1});
  CHECK(host.Step() == "2:33");
}

TEST_CASE("a step swaps in at most its limit, or one larger request") {
  SchedulerOptions options = Blocks16(20);
  options.cpu_blocks = {20};
  Host<Fcfs, SwapAll> host(options, {.swap_in = {3}});
  for (std::uint64_t id : {1u, 2u, 3u}) host.Arrive(id, id == 3 ? 64 : 32);
  host.Step();
  for (std::uint64_t id : {1u, 2u, 3u}) host.On(ToolCalled{{id}});
  CHECK(host.Plan().moves.size() == 3);
  for (std::uint64_t move : {1u, 2u, 3u}) host.On(MoveDone{{move}});
  for (std::uint64_t id : {1u, 2u, 3u}) host.On(ToolReturned{{id}, {1}});
  CHECK(host.Plan().moves == std::vector<KvMove>{{{4}, {1}, KvAction::kIn, {0}, {2}}});
  CHECK(host.Plan().moves == std::vector<KvMove>{{{5}, {2}, KvAction::kIn, {0}, {2}}});
  CHECK(host.Plan().moves == std::vector<KvMove>{{{6}, {3}, KvAction::kIn, {0}, {4}}});
}

TEST_CASE("a preempted request does not renew the swap-in limit of a step") {
  SchedulerOptions options = Blocks16(10);
  options.cpu_blocks = {10};
  options.preempt = PreemptMode::kByRank;
  Host<Priority, SwapAll> host(options, {.swap_in = {2}});
  host.Arrive(1, 32);
  host.Arrive(2, 32);
  host.Step();
  for (std::uint64_t id : {1u, 2u}) host.On(ToolCalled{{id}});
  host.Plan();
  for (std::uint64_t move : {1u, 2u}) host.On(MoveDone{{move}});
  Request worse = Prompt(3, 96);
  worse.priority = 1;
  host.Arrive(worse);
  CHECK(host.Step() == "3:96");
  for (std::uint64_t id : {1u, 2u}) host.On(ToolReturned{{id}, {1}});
  const StepPlan& plan =
      host.Plan();  // 1 takes the last free blocks; 3 is preempted for 2, which runs in the next step
  CHECK(plan.preempted.size() == 1);
  CHECK(plan.moves == std::vector<KvMove>{{{3}, {1}, KvAction::kIn, {0}, {2}}});
}

TEST_CASE("admissions leave the watermark free unless nothing runs") {
  Host host({.kv_blocks = {10}, .kv_watermark = 0.2});
  host.Arrive(1, 144);
  CHECK(host.Step({1}) == "1:144");  // alone: 9 of 10 blocks
  host.Arrive(2, 80);
  CHECK(host.Step() == "2:80");
  host.Arrive(3, 48);
  CHECK(host.Step({2}) == "2:1");  // 4 blocks are free, and 3 would leave fewer than two
  CHECK(host.scheduler.Explain({3}).waits_for == WaitsFor::kKv);
  CHECK(host.Step() == "3:48");
}

TEST_CASE("swapped-in requests leave the watermark free, too") {
  SchedulerOptions options{.kv_blocks = {10}, .cpu_blocks = {10}, .kv_watermark = 0.2};
  Host<Fcfs, SwapAll> host(options);
  host.Arrive(1, 30);
  host.Arrive(2, 70);
  CHECK(host.Step() == "1:30 2:70");
  host.On(ToolCalled{{1}});
  host.Step();
  host.On(MoveDone{{1}});
  host.Arrive(3, 20);
  CHECK(host.Step() == "2:1 3:20");  // 3 blocks are free
  host.On(ToolReturned{{1}, {1}});
  CHECK(host.Plan().moves.empty());  // and 2 would leave fewer than two
  CHECK(host.scheduler.Explain({1}).waits_for == WaitsFor::kKv);
  host.On(Cancelled{{3}});
  host.On(Cancelled{{2}});
  CHECK(host.Plan().moves.size() == 1);
}

TEST_CASE("a request too large for narrow limits is tried under wider ones") {
  SchedulerOptions options = Blocks16(4);
  options.cpu_blocks = {4};
  Host<Fcfs, SwapAll> host(options);
  host.Arrive(1, 48);
  host.Step();
  host.On(ToolCalled{{1}});  // its three blocks are being swapped out
  host.Arrive(2, 32);
  host.Arrive(3, 16);
  host.limits.max_seqs = 0;
  CHECK(host.Plan().run.empty());
  host.limits.max_seqs = 2;
  CHECK(host.Step() == "3:16");  // 2 comes first and does not fit into the fourth
}

TEST_CASE("without preemption a row waits for memory until nothing runs") {
  SchedulerOptions options = Blocks16(4);
  options.preempt = PreemptMode::kOff;
  Host host(options);
  host.Arrive(1, 32);
  host.Arrive(2, 31);
  host.Step();
  CHECK(host.Step() == "2:1");  // 1 has no block for its next token, 2 has one place left
  CHECK(host.Step() == "1:1");  // both are stuck: 2 is preempted
  CHECK(host.scheduler.stats().preempted_recompute == 1);
}

TEST_CASE("by rank, a better request displaces one if max_seqs is full") {
  SchedulerOptions options = Blocks16(100);
  options.preempt = PreemptMode::kByRank;
  options.preempt_margin = 2;
  Host<Priority> host(options, {.max_seqs = 1});
  const auto arrive = [&](std::uint64_t id, std::int32_t priority) {
    Request r = Prompt(id, 8);
    r.priority = priority;
    host.Arrive(r);
  };
  arrive(1, 5);
  CHECK(host.Step() == "1:8");
  arrive(2, 5);
  CHECK(host.Step() == "1:1");  // equal ranks never swap
  arrive(3, 3);
  CHECK(host.Step() == "1:1");  // better, but not by more than the margin
  arrive(4, 2);
  const StepPlan& plan = host.Plan();
  CHECK(Shape(plan) == "4:8");
  CHECK(plan.preempted == std::vector<Preemption>{{{1}, KvAction::kDrop}});
  host.Commit(plan, {4});
  CHECK(host.scheduler.stats().preempted_by_rank == 1);
  CHECK(host.Step() == "3:8");
}

TEST_CASE("by rank, a request with KV displaces another for its missing blocks") {
  SchedulerOptions options = Blocks16(4);
  options.preempt = PreemptMode::kByRank;
  Host<Priority> host(options);
  host.Arrive(1, 32);
  CHECK(host.Step() == "1:32");
  host.On(Blocked{{1}});  // it keeps two blocks and needs a third
  Request worse = Prompt(2, 20);
  worse.priority = 5;
  host.Arrive(worse);
  CHECK(host.Step() == "2:20");
  CHECK(host.Step() == "2:1");
  host.On(Unblocked{{1}});
  const StepPlan& plan = host.Plan();
  CHECK(plan.preempted == std::vector<Preemption>{{{2}, KvAction::kDrop}});
  CHECK(Shape(plan) == "1:1");
}

TEST_CASE("a request that is not preemptible keeps its place") {
  Host host(Blocks16(4));
  host.Arrive(1, 32);
  Request fixed = Prompt(2, 32);
  fixed.preemptible = false;
  host.Arrive(fixed);
  host.Step();
  CHECK(host.Step() == "2:1");  // 2 ranks behind 1, and yet 1 is preempted
}

TEST_CASE("shared prefixes are found at admission and count once") {
  SchedulerOptions options = Blocks16(20);
  options.prefix_cache = true;
  Host host(options);
  for (std::uint64_t id : {1u, 2u}) {
    Request r = Prompt(id, 80);
    r.prefix = testing::Prefix(32, {7, 8});
    host.Arrive(r);
    const StepPlan& plan = host.Plan();
    const PlanEntry& mine = plan.run.back();
    CHECK(mine.position == (id == 1 ? 0 : 64));
    host.Commit(plan);
  }
  CHECK(host.used() == 4 + 1 + 1 + 1);  // the shared four, one fifth block each, and 1's growth to 81 tokens
  CHECK(host.scheduler.stats().tokens_cached == 64);
  host.Step({1, 2});
  host.Plan();
  CHECK(host.used() == 0);
  CHECK(host.scheduler.kv().cached == Blocks{4});
  host.Arrive(3, 20 * 16);  // needs all memory: idle prefixes are evicted
  CHECK(host.Step() == "3:320");
  CHECK(host.scheduler.kv().cached == Blocks{0});
}

TEST_CASE("accepted drafts count, and rejected ones are rolled back") {
  Host host(Blocks16(100));
  host.Arrive(1, 8);
  const StepPlan& prefill = host.Plan();
  host.CommitRows(prefill, {{{1}, prefill.run[0].lane, 1, 3, 0}});
  const StepPlan& plan = host.Plan();
  CHECK(Shape(plan) == "1:1+3");
  CHECK(plan.tokens == Tokens{4});
  host.CommitRows(plan, {{{1}, plan.run[0].lane, 3, 0, 0}});  // two of three accepted, and one new
  CHECK(host.scheduler.Explain({1}).generated == Tokens{4});
  CHECK(host.scheduler.Explain({1}).computed == Tokens{11});
  CHECK(host.Plan().run[0].position == 11);
}

TEST_CASE("drafts use free memory only and evict nothing") {
  Host host(Blocks16(2));
  const auto drafts_next = [&host](const StepPlan& plan, std::vector<std::uint64_t> finished = {}) {
    std::vector<RowResult> rows = Host<>::Answer(plan, std::move(finished));
    for (RowResult& row : rows) row.drafts = 4;
    host.CommitRows(plan, rows);
  };
  host.Arrive(1, 10);
  host.Arrive(2, 12);
  drafts_next(host.Plan());
  const StepPlan& both = host.Plan();
  CHECK(Shape(both) == "1:1+4 2:1+3");  // 17 tokens would need a block that only a preemption gives
  CHECK(both.preempted.empty());
  drafts_next(both, {1});
  const StepPlan& alone = host.Plan();
  CHECK(Shape(alone) == "2:1+4");
  host.CommitRows(alone, {{{2}, alone.run[0].lane, 5, 4, 0}});
  for (int i = 0; i < 12; ++i) {  // 18 tokens to 30; 32 is the maximum
    const StepPlan& plan = host.Plan();
    CHECK(plan.failed.empty());
    REQUIRE(plan.run.size() == 1);
    drafts_next(plan);
  }
  CHECK(host.scheduler.stats().failed_kv_exhausted == 0);
}

TEST_CASE("several sequences share the prompt's whole blocks and decode together") {
  Host host(Blocks16(20), {.max_seqs = 3});
  Request r = Prompt(1, 40);  // two whole blocks, and 8 tokens that each sequence holds itself
  r.sequences = 3;
  host.Arrive(r);
  host.Arrive(2, 8);
  CHECK(host.Step() == "1:40");
  CHECK(host.used() == 2 + 3);
  for (int i = 0; i < 8; ++i) CHECK(host.Step() == "1:3");  // to 16 tokens in each own block
  CHECK(host.used() == 2 + 3);
  CHECK(host.Step() == "1:3");
  CHECK(host.used() == 2 + 6);
  Revised fewer{.request = {1}};
  fewer.sequences = 1;
  host.On(fewer);
  CHECK(host.Step() == "1:1 2:8");  // one row, and room for the other request
  CHECK(host.used() == 2 + 2 + 1);
}

TEST_CASE("at most the allowed adapters run at once; others pass") {
  Host host(Blocks16(100), {.adapters = 1});
  for (std::uint64_t id : {1u, 2u, 3u, 4u}) {
    Request r = Prompt(id, 8);
    r.adapter = {id == 2 ? 20u : id == 4 ? 0u : 10u};
    host.Arrive(r);
  }
  CHECK(host.Step({1, 3}) == "1:8 3:8 4:8");
  CHECK(host.scheduler.HeadWaitsFor() == WaitsFor::kAdapter);
  CHECK(host.Step() == "4:1 2:8");
  CHECK(host.scheduler.HeadWaitsFor() == WaitsFor::kNothing);
}

TEST_CASE("the head's reason is its own, also if a later request stopped the plan") {
  Host host({.max_running = 2, .kv_blocks = {100}}, {.adapters = 1});
  for (std::uint64_t id : {1u, 2u, 3u, 4u}) {
    Request r = Prompt(id, 8);
    r.adapter = {id == 2 ? 20u : 10u};
    host.Arrive(r);
  }
  CHECK(host.Step() == "1:8 3:8");
  CHECK(host.scheduler.HeadWaitsFor() == WaitsFor::kAdapter);  // request 4 waits for a place
}

TEST_CASE("a prompt that is not chunkable waits for a large step") {
  SchedulerOptions options = Blocks16(100);
  options.max_step_tokens = {20};
  Host host(options, {.tokens = {20}});
  host.Arrive(1, 16);
  host.Step();
  Request whole = Prompt(2, 20);
  whole.chunkable = false;
  host.Arrive(whole);
  host.Arrive(3, 4);
  CHECK(host.Step({1}) == "1:1 3:4");
  CHECK(host.Step({3}) == "3:1");
  CHECK(host.Step() == "2:20");
  Request larger = Prompt(4, 21);
  larger.chunkable = false;
  host.Arrive(larger);
  const StepPlan& plan = host.Plan();
  CHECK(plan.failed == Failed{{{4}, FailReason::kNeverFits}});
}

TEST_CASE("a request that waits too long expires, and wake_at names the time") {
  Host host(Blocks16(100), {.max_seqs = 1});
  host.Arrive(1, 8);
  host.Step();
  Request r = Prompt(2, 8);
  r.expires_at = Ms(3);
  host.Arrive(r);
  CHECK(host.Plan().wake_at == Ms(3));
  const StepPlan& plan = host.Plan();
  CHECK(plan.failed == Failed{{{2}, FailReason::kExpired}});
  CHECK(plan.released == Released{{2}});
  CHECK(plan.wake_at == kNever);
}

TEST_CASE("a request that arrives at the instant of its expiry is rejected") {
  Host host(Blocks16(100));
  host.now = 5;
  for (const std::int64_t at : {5, 6}) {
    Request r = Prompt(static_cast<std::uint64_t>(at), 8);
    r.expires_at = Ms(at);
    host.Arrive(r);
  }
  CHECK(host.scheduler.waiting() == 1);
  CHECK(host.Plan().failed == Failed{{{5}, FailReason::kExpired}, {{6}, FailReason::kExpired}});
}

TEST_CASE("a request's wait counts from its workflow's start, if reported") {
  Host<WorkflowFcfs> host(Blocks16(100), {.max_seqs = 1});
  for (const auto& [id, began] :
       std::vector<std::pair<std::uint64_t, TimePoint>>{{1, kUnset}, {2, Ms(-1)}, {3, Ms(5)}}) {
    Request r = Prompt(id, 8);
    r.workflow_arrival = began;
    host.Arrive(r);
  }
  CHECK(host.Step({2}) == "2:8");
  CHECK(host.Step({1}) == "1:8");
  CHECK(host.Step() == "3:8");
}

TEST_CASE("a request blocked during its first step still expires") {
  Host host(Blocks16(100));
  Request r = Prompt(1, 8);
  r.expires_at = Ms(5);
  host.Arrive(r);
  const StepPlan& first = host.Plan();
  host.On(Blocked{{1}});
  const StepPlan& meanwhile = host.Plan();
  CHECK((meanwhile.failed.empty() && meanwhile.wake_at == Ms(5)));
  host.now = 4;
  CHECK(host.Plan().failed == Failed{{{1}, FailReason::kExpired}});
  host.Commit(first);
  CHECK(host.Plan().released == Released{{1}});
}

TEST_CASE("bounded waiting sheds the new request or the last by rank") {
  SchedulerOptions options = Blocks16(100);
  options.max_waiting = 2;
  const auto fill = [](Host<Priority>& host) {
    for (std::uint64_t id : {1u, 2u, 3u}) {
      Request r = Prompt(id, 8);
      r.priority = static_cast<std::int32_t>(10 - id);
      host.Arrive(r);
    }
  };
  Host<Priority> newest(options, {.max_seqs = 0});
  fill(newest);
  CHECK(Told(newest.Plan()) == Failed{{{3}, FailReason::kShed}});
  options.shed = Shed::kWorst;
  Host<Priority> worst(options, {.max_seqs = 0});
  fill(worst);
  CHECK(Told(worst.Plan()) == Failed{{{1}, FailReason::kShed}});
}

Request Of(std::uint64_t tenant, Request r) {
  r.tenant = {tenant};
  return r;
}

TEST_CASE("a full queue sheds requests of the most served tenant") {
  SchedulerOptions options = Blocks16(100);
  options.max_waiting = 4;
  options.shed = Shed::kWorst;
  Host<AnyPolicy> host(options, {.max_seqs = 1}, AnyPolicy(FairShare{}));
  host.Arrive(Of(1, Prompt(1, 8)));
  for (int i = 0; i < 3; ++i) host.Step();
  for (std::uint64_t id = 2; id <= 5; ++id) host.Arrive(Of(1, Prompt(id, 8)));  // one tenant fills the queue
  host.Step();
  host.Arrive(Of(2, Prompt(6, 8)));
  const StepPlan& plan = host.Plan();
  CHECK(Told(plan) == Failed{{{5}, FailReason::kShed}});
  host.Commit(plan);
  host.Arrive(Of(2, Prompt(7, 8)));
  host.Arrive(Of(1, Prompt(8, 8)));
  CHECK(Told(host.Plan()) == Failed{{{8}, FailReason::kShed}, {{4}, FailReason::kShed}});
}

TEST_CASE("with changing keys, the currently worst request is shed") {
  SchedulerOptions options = Blocks16(100);
  options.max_waiting = 2;
  options.shed = Shed::kWorst;
  Host<AnyPolicy> host(options, {.max_seqs = 0}, AnyPolicy(Hrrn{}));
  const auto call = [](std::uint64_t id, double tokens) {  // of 20 ms each
    Request r = Prompt(id, 8);
    r.output_tokens = Estimate::Exact(tokens);
    return r;
  };
  host.Arrive(call(1, 5000));
  host.now = 10'000;
  host.Arrive(call(2, 50));
  host.Plan();  // 1 ranks better: it has waited for a tenth of its length, and 2 not at all
  host.now = 20'000;
  Request r = call(3, 500);
  r.arrival = Ms(0);
  host.Arrive(r);  // it has waited for twice its length, 2 for ten times, and 1 still for a fifth
  CHECK(Told(host.Plan()) == Failed{{{1}, FailReason::kShed}});
}

TEST_CASE("requests of the most served tenant are preempted first") {
  FairShare::Options shares;
  shares.weights.weights = {{{2}, 100}};  // so that tenant 2 is never served as much
  Host<AnyPolicy> host(Blocks16(4), {}, AnyPolicy(FairShare(shares)));
  for (std::uint64_t id = 1; id <= 3; ++id) host.Arrive(Of(1, Prompt(id, 16)));
  for (int i = 0; i < 2; ++i) host.Step();  // 1 and 2 hold two blocks each, 3 was preempted
  host.On(Cancelled{{3}});
  host.On(Cancelled{{2}});
  host.Arrive(Of(2, Prompt(4, 16)));  // the last to arrive
  host.Step();
  for (int i = 0; i < 14; ++i) REQUIRE(host.Step() == "1:1 4:1");
  host.Arrive(Of(3, Prompt(5, 8)));
  const StepPlan& plan = host.Plan();
  CHECK(Shape(plan) == "4:1");
  REQUIRE(plan.preempted.size() == 1);
  CHECK(plan.preempted[0].request == RequestId{1});
}

TEST_CASE("with changing keys, the current last by rank is preempted") {
  Host<AnyPolicy> host(Blocks16(3), {}, AnyPolicy(Hrrn{}));
  Request r = Prompt(1, 24);
  r.output_tokens = Estimate::Exact(5000);
  host.Arrive(r);
  host.now = 10'000;
  r = Prompt(2, 16);
  r.output_tokens = Estimate::Exact(50);
  host.Arrive(r);
  host.Step();  // one has waited for a tenth of its length, and the other not at all
  host.now = 20'000;
  const StepPlan& plan = host.Plan();  // 2 needs a second block, and has waited for ten times its length
  CHECK(Shape(plan) == "2:1");
  REQUIRE(plan.preempted.size() == 1);
  CHECK(plan.preempted[0].request == RequestId{1});
}

// Priority that counts its calls.
struct CountedPriority {
  std::shared_ptr<std::int64_t> asked = std::make_shared<std::int64_t>();
  RankKey Key(const RequestState& r) const { return {static_cast<double>((++*asked, r.request.priority))}; }
};

TEST_CASE("many better requests displace all rows with few comparisons") {
  const bool full = GENERATE(false, true);  // memory as well
  constexpr std::int32_t kRows = 512;
  SchedulerOptions options = Blocks16(full ? 2 * kRows : 100 * kRows);
  options.max_running = kRows;
  options.preempt = PreemptMode::kByRank;
  const CountedPriority policy;
  auto scheduler = *Scheduler::Create(options, policy);
  const StepLimits limits{.tokens = {1 << 20}, .max_seqs = kRows};
  const auto arrive = [&](std::uint64_t first, std::int32_t priority) {
    for (std::uint64_t id = first; id < first + kRows; ++id) {
      Request r = Prompt(id, 16);
      r.priority = priority;
      scheduler.On(Arrived{r}, Ms(0));
    }
  };
  arrive(1, 2);
  const StepPlan& first = scheduler.Plan(Ms(1), limits);
  scheduler.Commit({first.id, Host<>::Answer(first)}, Ms(1));
  arrive(1001, 1);
  *policy.asked = 0;
  const StepPlan& plan = scheduler.Plan(Ms(2), limits);
  CHECK(*policy.asked < 10 * (kRows + kRows));
  REQUIRE(plan.run.size() == kRows);
  for (std::size_t i = 0; i < plan.run.size(); ++i) CHECK(plan.run[i].request.value == 1001 + i);
  CHECK(plan.preempted.size() == kRows);
  CHECK(scheduler.Inconsistency() == nullptr);
}

TEST_CASE("a request that needs all memory displaces all rows cheaply") {
  constexpr std::int32_t kRows = 512;
  SchedulerOptions options = Blocks16(2 * kRows);
  options.preempt = PreemptMode::kByRank;
  options.order = StepOrder::kPrefillFirst;
  const CountedPriority policy;
  auto scheduler = *Scheduler::Create(options, policy);
  const StepLimits limits{.tokens = {1 << 20}, .max_seqs = kRows + 1};
  for (std::uint64_t id = 1; id <= kRows; ++id) scheduler.On(Arrived{Prompt(id, 16)}, Ms(0));
  const StepPlan& first = scheduler.Plan(Ms(1), limits);
  scheduler.Commit({first.id, Host<>::Answer(first)}, Ms(1));
  Request giant = Prompt(1001, 2 * kRows * 16);
  giant.priority = -1;
  scheduler.On(Arrived{giant}, Ms(1));
  *policy.asked = 0;
  const StepPlan& plan = scheduler.Plan(Ms(2), limits);
  CHECK(*policy.asked < 10 * kRows);
  CHECK(Shape(plan) == "1001:16384");
  CHECK(plan.preempted.size() == kRows);
  CHECK(scheduler.Inconsistency() == nullptr);
}

TEST_CASE("a cancel is valid at any time, and twice") {
  Host host(Blocks16(100), {.max_seqs = 1});
  host.Arrive(1, 8);
  host.Arrive(2, 8);
  const StepPlan& plan = host.Plan();
  host.On(Cancelled{{1}});  // in flight: its blocks stay until the step has resolved
  host.On(Cancelled{{1}});
  host.On(Cancelled{{2}});  // waiting: at once
  CHECK(host.used() == 1);
  CHECK(host.scheduler.alive() == 1);
  host.Commit(plan);
  CHECK(host.used() == 0);
  CHECK(host.Plan().released == Released{{2}, {1}});
  CHECK(host.scheduler.stats().cancelled == 2);
  CHECK(host.scheduler.stats().rows_dead == 1);
  CHECK(host.scheduler.stats().events_unknown == 1);
}

TEST_CASE("blocked requests are not planned until unblocked, and keep their KV") {
  Host host(Blocks16(100));
  host.Arrive(1, 20);
  host.Step();
  host.On(Blocked{{1}});
  const StepPlan& plan = host.Plan();
  CHECK((plan.run.empty() && plan.idle == Idle::kBlocked));
  CHECK(host.used() == 2);
  host.On(Unblocked{{1}});
  CHECK(host.Step() == "1:1");  // nothing is recomputed
}

TEST_CASE("a tool call voids steps in flight; its answer is added") {
  Host host(Blocks16(100));
  host.Arrive(1, 20);
  host.Step();
  const StepPlan& plan = host.Plan();
  host.On(ToolCalled{{1}});
  CHECK(host.Plan().idle == Idle::kStepsInFlight);
  host.Commit(plan);
  CHECK(host.scheduler.Explain({1}).generated == Tokens{1});
  CHECK(host.Plan().idle == Idle::kPaused);
  host.On(ToolReturned{{1}, {5}});
  CHECK(host.Step() == "1:6");  // the token before the call, and five returned
}

TEST_CASE("two further steps may be planned while one is in flight") {
  Host host(Blocks16(100));
  host.Arrive(1, 8);
  const StepPlan& a = host.Plan();
  const StepPlan& b = host.Plan();
  const StepPlan& c = host.Plan();
  CHECK((Shape(a) == "1:8" && Shape(b) == "1:1" && Shape(c) == "1:1"));
  CHECK((b.run[0].position == 8 && c.run[0].position == 9));
  CHECK(host.Plan().idle == Idle::kStepsInFlight);
  host.Commit(a);
  CHECK(Shape(b) == "1:1");
  host.Commit(b, {1});
  host.Commit(c);  // names a request that has ended
  CHECK(host.scheduler.stats().rows_dead == 1);
  CHECK(host.used() == 0);
}

TEST_CASE("an absent row voids later steps planned on top of it") {
  Host host(Blocks16(100));
  host.Arrive(1, 8);
  host.Arrive(2, 8);
  const StepPlan& a = host.Plan();
  const StepPlan& b = host.Plan();
  host.CommitRows(a, {{{2}, a.run[1].lane, 1, 0, 0}});
  host.Commit(b);
  CHECK(host.scheduler.stats().rows_absent == 1);
  CHECK(host.scheduler.stats().rows_dead == 1);
  const StepPlan& again = host.Plan();
  CHECK(Shape(again) == "2:1 1:8");
  CHECK(again.run[0].position == 9);
}

TEST_CASE("late results count after any number of plans") {
  for (const std::uint64_t plans : {std::uint64_t{1} << 31, std::uint64_t{1} << 32, (std::uint64_t{1} << 33) - 3}) {
    CAPTURE(plans);
    Host host(Blocks16(100));
    host.Arrive(1, 8);
    host.Step();
    SchedulerCounters::SkipPlans(host.scheduler, plans);
    CHECK(host.Step() == "1:1");
    CHECK(host.scheduler.Explain({1}).generated == Tokens{2});
    CHECK(host.scheduler.stats().rows_dead == 0);
  }
}

TEST_CASE("a void result stays void after any number of plans") {
  Host host(Blocks16(100));
  host.Arrive(1, 8);
  const StepPlan& a = host.Plan();
  const StepPlan& b = host.Plan();
  host.CommitRows(a, {});  // its row is absent, so b counts for nothing
  SchedulerCounters::SkipPlans(host.scheduler, std::uint64_t{1} << 31);
  const StepPlan& c = host.Plan();
  host.Commit(c);
  host.Commit(b);
  CHECK(host.scheduler.stats().rows_dead == 1);
  CHECK(host.scheduler.Explain({1}).generated == Tokens{1});
  CHECK(host.Step() == "1:1");
}

TEST_CASE("plan numbers start at the host's number") {
  for (const std::uint64_t first : {std::uint64_t{1} << 31, (std::uint64_t{1} << 32) - 1, std::uint64_t{1} << 63}) {
    SchedulerOptions options = Blocks16(100);
    options.first_step = {first};
    Host host(options);
    host.Arrive(1, 8);
    const StepPlan& plan = host.Plan();
    CHECK(plan.id == StepId{first});
    host.Commit(plan);
    for (int i = 0; i < 10; ++i) CHECK(host.Step() == "1:1");
    CHECK(host.scheduler.Explain({1}).generated == Tokens{11});
  }
}

TEST_CASE("a scheduler moves while steps are in flight, and plans stay valid") {
  static_assert(!std::is_copy_constructible_v<Scheduler> && !std::is_copy_assignable_v<Scheduler>);
  static_assert(std::is_nothrow_move_constructible_v<Scheduler> && std::is_nothrow_move_assignable_v<Scheduler>);
  Host host(Blocks16(100));
  Host other(Blocks16(100));
  host.Arrive(1, 8);
  const StepPlan& a = host.Plan();
  const StepPlan& b = host.Plan();
  std::vector<BasicScheduler<Fcfs>> schedulers;
  for (int i = 0; i < 3; ++i) schedulers.push_back(std::move(i == 0 ? host.scheduler : other.scheduler));
  BasicScheduler<Fcfs> scheduler = std::move(schedulers.front());
  schedulers.clear();
  CHECK((Shape(a) == "1:8" && Shape(b) == "1:1"));
  scheduler.Commit({a.id, Host<>::Answer(a)}, Ms(5));
  const StepPlan& c = scheduler.Plan(Ms(6), {});
  CHECK((Shape(b) == "1:1" && Shape(c) == "1:1"));
  scheduler.Commit({b.id, Host<>::Answer(b)}, Ms(7));
  scheduler.Commit({c.id, Host<>::Answer(c, {1})}, Ms(8));
  CHECK(scheduler.Plan(Ms(9), {}).released == Released{{1}});
  CHECK(scheduler.Inconsistency() == nullptr);
  CHECK(scheduler.stats().tokens_output == 3);
}

TEST_CASE("late, repeated, unknown and impossible results are counted and harmless") {
  Host host(Blocks16(100));
  host.Arrive(1, 8);
  const StepPlan& plan = host.Plan();
  std::vector<RowResult> rows = Host<>::Answer(plan);
  rows.push_back(rows[0]);
  rows.push_back({{77}, 5000, 1, 0, 0});
  rows[0].tokens = 9;
  host.CommitRows(plan, rows);
  host.CommitRows(plan, rows);
  CHECK(host.scheduler.Explain({1}).generated == Tokens{1});
  CHECK(host.scheduler.stats().rows_unknown == 2);
  CHECK(host.scheduler.stats().rows_invalid == 1);
  CHECK(host.scheduler.stats().commits_unknown == 1);
}

TEST_CASE("a request may end without a token before its prompt's result") {
  Host<> host({.kv_blocks = {100}}, {.tokens = {64}});
  Request r = Prompt(1, 2);
  r.sequences = 3;
  host.Arrive(r);
  const StepPlan& prompt = host.Plan();
  CHECK(Shape(prompt) == "1:2");
  const StepPlan& decode = host.Plan();
  CHECK(Shape(decode) == "1:3");
  std::vector<RowResult> rows = host.Answer(decode, {1});
  rows[0].tokens = 0;
  host.CommitRows(decode, rows);
  CHECK(host.scheduler.stats().finished == 1);
  host.Commit(prompt);
  host.Plan();
  CHECK(host.scheduler.alive() == 0);
}

TEST_CASE("a request that can never fit fails by name") {
  SchedulerOptions options = Blocks16(4);
  options.max_step_seqs = 4;
  Host host(options);
  host.Arrive(1, 65);
  Request many = Prompt(2, 8);
  many.sequences = 5;
  host.Arrive(many);
  Request nothing = Prompt(3, 0);
  host.Arrive(nothing);
  const StepPlan& plan = host.Plan();
  CHECK(plan.failed ==
        Failed{{{1}, FailReason::kNeverFits}, {{2}, FailReason::kNeverFits}, {{3}, FailReason::kInvalid}});
  CHECK(plan.released.size() == 3);
  CHECK(plan.idle == Idle::kNoRequests);
}

TEST_CASE("a context that outgrows the whole cache fails its request") {
  Host host(Blocks16(1));
  host.Arrive(1, 16);
  CHECK(host.Step() == "1:16");
  const StepPlan& plan = host.Plan();
  CHECK(plan.failed == Failed{{{1}, FailReason::kKvExhausted}});
  CHECK(host.used() == 0);
}

TEST_CASE("no step is planned past the host's cap on output") {
  Host host(Blocks16(100));
  Request r = Prompt(1, 8);
  r.max_output_tokens = {2};
  host.Arrive(r);
  host.Plan(), host.Plan();
  CHECK(host.Plan().idle == Idle::kStepsInFlight);  // its two tokens are in flight
}

TEST_CASE("a row that has grown keeps to its output cap") {
  Host host(Blocks16(100));
  Request r = Prompt(1, 15);
  r.max_output_tokens = {3};
  host.Arrive(r);
  CHECK(host.Step() == "1:15");
  CHECK(host.Step() == "1:1");
  CHECK(host.Step() == "1:1");  // its second block
  CHECK(host.Step().empty());
  CHECK(host.scheduler.stats().finished == 1);
}

TEST_CASE("drain admits no request and finishes the present ones") {
  Host host(Blocks16(100));
  host.Arrive(1, 8);
  host.On(Drain{});
  host.Arrive(2, 8);
  const StepPlan& plan = host.Plan();
  CHECK(Shape(plan) == "1:8");
  CHECK(plan.failed == Failed{{{2}, FailReason::kDraining}});
  host.Commit(plan, {1});
  CHECK(host.Plan().idle == Idle::kDrained);
}

TEST_CASE("an empty plan names its reason") {
  Host host(Blocks16(4), {.tokens = {0}});
  CHECK(host.Plan().idle == Idle::kNoRequests);
  host.Arrive(1, 8);
  CHECK(host.Plan().idle == Idle::kNoBudget);
  host.limits = {};
  const StepPlan& plan = host.Plan();
  CHECK(plan.idle == Idle::kBusy);
  host.Commit(plan);
  CHECK(host.scheduler.Explain({1}).status == RequestStatus::kRunning);
  CHECK(host.scheduler.Explain({9}).status == RequestStatus::kUnknown);
}

TEST_CASE("kept KV is evicted if nothing else could run") {
  const std::int32_t held = GENERATE(60, 10);
  Host host(Blocks16(4));
  host.Arrive(1, held);
  host.Step();
  host.On(ToolCalled{{1}});  // it keeps its blocks: four, or one
  host.Arrive(2, 60);
  CHECK(host.Step({2}) == "2:60");
  CHECK(host.scheduler.stats().kv_reclaimed == 1);
  host.On(ToolReturned{{1}, {1}});
  CHECK(host.Step() == "1:" + std::to_string(held + 2));
}

TEST_CASE("a request without memory keeps its own KV while others lose theirs") {
  Host host(Blocks16(4));
  host.Arrive(1, 40);
  host.Arrive(2, 10);
  CHECK(host.Step() == "1:40 2:10");
  for (std::uint64_t id : {1u, 2u}) host.On(ToolCalled{{id}});
  host.On(ToolReturned{{1}, {20}});
  CHECK(host.Step() == "1:21");  // in its three blocks and that of 2
}

TEST_CASE("a policy may change while requests wait and run") {
  auto made = Scheduler::Create(Blocks16(100), AnyPolicy(Fcfs{}));
  REQUIRE(made.ok());
  Scheduler scheduler = *std::move(made);
  const StepLimits one{.max_seqs = 1};
  for (std::uint64_t id : {1u, 2u, 3u}) {
    Request r = Prompt(id, 8);
    r.priority = static_cast<std::int32_t>(10 - id);
    scheduler.On(Arrived{r}, Ms(0));
  }
  const StepPlan& plan = scheduler.Plan(Ms(1), one);
  CHECK(Shape(plan) == "1:8");
  scheduler.ChangePolicy(Priority{}, Ms(1));
  scheduler.Commit({plan.id, Host<>::Answer(plan, {1})}, Ms(1));
  CHECK(Shape(scheduler.Plan(Ms(2), one)) == "3:8");
  CHECK(scheduler.Inconsistency() == nullptr);
}

TEST_CASE("after a policy change the new policy's last is preempted") {
  auto made = Scheduler::Create(Blocks16(4), AnyPolicy(Fcfs{}));
  REQUIRE(made.ok());
  Scheduler scheduler = *std::move(made);
  for (std::uint64_t id : {1u, 2u}) {
    Request r = Prompt(id, 32);
    r.priority = static_cast<std::int32_t>(10 - id);
    scheduler.On(Arrived{r}, Ms(0));
  }
  const StepPlan& plan = scheduler.Plan(Ms(1), {});
  scheduler.Commit({plan.id, Host<>::Answer(plan)}, Ms(1));
  scheduler.ChangePolicy(Priority{}, Ms(1));
  const StepPlan& tight = scheduler.Plan(Ms(2), {});  // both need a third block
  CHECK(Shape(tight) == "2:1");
  CHECK(tight.preempted == std::vector<Preemption>{{{1}, KvAction::kDrop}});
}

TEST_CASE("a change of policy also ranks requests that are being swapped in") {
  SchedulerOptions options = Blocks16(4);
  options.cpu_blocks = {4};
  auto made = Scheduler::Create(options, AnyPolicy(Fcfs{}), SwapAll{});
  REQUIRE(made.ok());
  Scheduler scheduler = *std::move(made);
  for (std::uint64_t id : {1u, 2u}) {
    Request r = Prompt(id, id == 1 ? 32 : 31);
    r.priority = static_cast<std::int32_t>(7 + id);
    scheduler.On(Arrived{r}, Ms(0));
  }
  const StepPlan& plan = scheduler.Plan(Ms(1), {});
  scheduler.Commit({plan.id, Host<>::Answer(plan)}, Ms(1));
  const StepLimits moves_only{.tokens = {0}};
  scheduler.On(ToolCalled{{2}}, Ms(1));
  scheduler.Plan(Ms(1), moves_only);
  scheduler.On(MoveDone{{1}}, Ms(1));
  scheduler.On(ToolReturned{{2}, {0}}, Ms(1));
  CHECK(scheduler.Plan(Ms(1), moves_only).moves == std::vector<KvMove>{{{2}, {2}, KvAction::kIn, {0}, {2}}});
  scheduler.ChangePolicy(Priority{}, Ms(1));
  scheduler.On(MoveDone{{2}}, Ms(1));
  const StepPlan& tight = scheduler.Plan(Ms(2), {});  // 1 needs a third block
  CHECK(Shape(tight) == "1:1");
  CHECK(tight.preempted == std::vector<Preemption>{{{2}, KvAction::kDrop}});
}

TEST_CASE("time never runs backwards, and absurd estimates are unknown") {
  Host host(Blocks16(100));
  host.now = 10;
  Request r = Prompt(1, 8);
  r.output_tokens.mean = std::numeric_limits<double>::quiet_NaN();
  host.Arrive(r);
  host.now = 2;
  host.Plan();
  CHECK(host.scheduler.stats().clock_stepped_back == 1);
  CHECK(host.scheduler.stats().estimates_absurd == 1);
}

TEST_CASE("an id in use is rejected, and a released one accepted") {
  Host host(Blocks16(100));
  host.Arrive(1, 8);
  host.Arrive(1, 99);
  const StepPlan& plan = host.Plan();
  CHECK(Shape(plan) == "1:8");
  CHECK(plan.failed == Failed{{{1}, FailReason::kIdInUse}});
  CHECK(plan.released.empty());  // the request with this id is alive
  host.Commit(plan, {1});
  CHECK(host.Plan().released == Released{{1}});
  host.Arrive(1, 12);
  CHECK(host.Step() == "1:12");
  CHECK(host.scheduler.stats().failed_id_in_use == 1);
}

TEST_CASE("an id that returns before its release is refused and reported") {
  Host host(Blocks16(100));
  host.Arrive(1, 8);
  const StepPlan& plan = host.Plan();
  host.On(Cancelled{{1}});
  host.Arrive(1, 9);  // the step in flight still names the first
  const StepPlan& next = host.Plan();
  CHECK(next.run.empty());
  CHECK(next.failed == Failed{{{1}, FailReason::kIdInUse}});
  CHECK(next.released.empty());
  host.Commit(plan);
  const StepPlan& last = host.Plan();
  CHECK((last.failed.empty() && last.released == Released{{1}}));
  CHECK(host.scheduler.stats().failed_id_in_use == 1);
}

TEST_CASE("a request without an id is named as such") {
  Host host(Blocks16(100));
  host.Arrive(0, 8);
  const StepPlan& plan = host.Plan();
  CHECK(plan.failed == Failed{{{0}, FailReason::kInvalid}});
  CHECK(plan.released.empty());
  CHECK(host.scheduler.stats().failed_invalid == 1);
}

struct NoNumber {
  RankKey Key(const RequestState&) const { return {std::numeric_limits<double>::quiet_NaN()}; }
};

TEST_CASE("Explain changes nothing, not even a counter") {
  Host<NoNumber> host(Blocks16(100), {.max_seqs = 1});
  for (std::uint64_t id : {1u, 2u, 3u}) host.Arrive(id, 8);
  host.Step();
  const Stats before = host.scheduler.stats();
  const Explanation waits = std::as_const(host.scheduler).Explain({3});
  CHECK((waits.status == RequestStatus::kWaiting && waits.ahead == 1));
  CHECK(waits.key.key == std::numeric_limits<double>::infinity());
  CHECK(host.scheduler.Explain({1}).status == RequestStatus::kRunning);
  CHECK(host.scheduler.stats() == before);
}

TEST_CASE("65,535 sequences decode up to the largest context, 65,536 are refused") {
  SchedulerOptions options{.max_running = 1 << 17, .kv = KvMode::kNone};
  Host<> host(options, {.tokens = {1 << 20}, .max_seqs = 1 << 17});
  Request r = Prompt(1, 10);
  r.sequences = UINT16_MAX;
  host.Arrive(r);
  Request more = Prompt(2, 10);
  more.sequences = UINT16_MAX + 1;
  host.Arrive(more);
  const StepPlan& first = host.Plan();
  CHECK(first.failed == Failed{{{2}, FailReason::kNeverFits}});
  host.Commit(first);
  std::int64_t steps = 1;
  Failed failed;
  for (; failed.empty() && steps < 40'000; ++steps) {
    const StepPlan& plan = host.scheduler.Plan(Ms(1), host.limits);
    failed.assign(plan.failed.begin(), plan.failed.end());
    if (!plan.run.empty()) host.scheduler.Commit({plan.id, Host<>::Answer(plan)}, Ms(1));
  }
  host.Check();
  CHECK(failed == Failed{{{1}, FailReason::kKvExhausted}});
  CHECK(steps == (1 << 30) / UINT16_MAX + 2);  // 2^30 tokens of context
}

TEST_CASE("a block for each sequence must be countable") {
  SchedulerOptions options{.max_running = 1 << 17, .kv_block_tokens = {1 << 20}, .kv_blocks = {INT32_MAX}};
  Host<> host(options, {.tokens = {1 << 20}, .max_seqs = 1 << 17});
  Request r = Prompt(1, 10);
  r.sequences = UINT16_MAX;
  host.Arrive(r);
  CHECK(host.Plan().failed == Failed{{{1}, FailReason::kNeverFits}});
}

TEST_CASE("all invalid options are named at once") {
  const auto made = BasicScheduler<Fcfs>::Create({.max_running = 0, .kv_blocks = {0}, .kv_watermark = 2}, Fcfs{});
  REQUIRE_FALSE(made.ok());
  const std::string message(made.status().message());
  CHECK(message ==
        "max_running is 0: must be 1 to 1048576\n"
        "kv_blocks is 0: must be at least 1 (where the library counts KV)\n"
        "kv_watermark is 2: must be in [0, 1)");
}

TEST_CASE("bounds of options are exact, also those of the ledger") {
  const auto fault = [](SchedulerOptions options) { return std::string(options.Validate().message()); };
  CHECK(fault({.kv = KvMode::kNone, .kv_block_tokens = {0}, .kv_watermark = 1}).empty());
  CHECK(fault({.preempt_action = KvAction::kOut, .kv = KvMode::kNone, .first_step = {std::uint64_t{1} << 63}}).empty());
  CHECK(fault({.preempt_action = KvAction::kKeep, .kv = KvMode::kNone}) ==
        "preempt_action is keep: must be one of drop, out");
  CHECK(fault({.shed = static_cast<Shed>(7), .kv = KvMode::kNone}) == "shed is 7: must be one of newest, worst");
  CHECK(fault({.preempt_margin = std::nan(""), .kv = KvMode::kNone}) == "preempt_margin is nan: must be at least 0");
  CHECK(fault({.kv = KvMode::kNone, .first_step = {0}}) == "first_step is 0: must be 1 to 9223372036854775808");
  CHECK(fault({.kv = KvMode::kNone, .first_step = {(std::uint64_t{1} << 63) + 1}}) ==
        "first_step is 9223372036854775809: must be 1 to 9223372036854775808");
  CHECK(fault({.kv_blocks = {1}, .kv_watermark = 1}) == "kv_watermark is 1: must be in [0, 1)");
}

// Prompts of `tokens` tokens that begin with the same four blocks.
Request Alike(std::uint64_t id, std::int32_t tokens) {
  Request r = Prompt(id, tokens);
  r.prefix = testing::Prefix(16, {1, 2, 3, 4});
  return r;
}

TEST_CASE("if the first does not fit, one with shared KV runs") {
  SchedulerOptions options = Blocks16(8);
  options.prefix_cache = true;
  Host host(options);
  host.Arrive(Alike(1, 64));
  CHECK(host.Step() == "1:64");
  host.On(Blocked{{1}});
  host.Arrive(2, 80);  // five blocks, of four that are free
  host.Arrive(Alike(3, 80));
  CHECK(host.Step() == "3:16");
  CHECK(host.scheduler.stats().kv_reclaimed == 0);
}

TEST_CASE("a vain search is repeated after others share a waiting prefix") {
  SchedulerOptions options = Blocks16(13);
  options.prefix_cache = true;
  options.cpu_blocks = {13};
  Host<Fcfs, SwapAll> host(options);
  host.Arrive(1, 48);
  host.Arrive(2, 48);
  CHECK(host.Step() == "1:48 2:48");
  host.On(ToolCalled{.request = {1}});  // its three blocks are being swapped out throughout
  host.On(Blocked{{2}});                // it holds three more
  host.Arrive(3, 208);                  // the first; it needs all blocks
  host.Arrive(Alike(5, 128));           // eight, of seven that are free
  CHECK(host.Plan().idle == Idle::kMovesInFlight);
  host.Arrive(Alike(4, 64));
  CHECK(host.Step() == "4:64");
  host.On(Blocked{{4}});  // with the four that it shares with 5
  host.On(Cancelled{{2}});
  CHECK(host.Step() == "5:64");  // it needs four of six; before, seven did not suffice
}

TEST_CASE("a row without memory does not fail if another reached its cap") {
  SchedulerOptions options = Blocks16(2);
  options.preempt = PreemptMode::kOff;
  Host host(options);
  host.Arrive(1, 16);
  Request last = Prompt(2, 16);
  last.max_output_tokens = {1};
  host.Arrive(last);
  CHECK(host.Step() == "1:16 2:16");
  const StepPlan& plan = host.Plan();  // 1 is tried first; 2 has all its output, which is not reported yet
  CHECK(plan.failed.empty());
  CHECK(plan.released == Released{{2}});
  CHECK(Shape(plan) == "1:1");
}

// A host that owns its KV: 4 blocks of 16, late frees, and refusals on demand.
class Oracle : public KvOracle {
 public:
  Tokens block_tokens() const override { return {block}; }
  KvSnapshot Snapshot() const override { return {{4}, {free}, {pending}}; }
  void CachedTokens(std::span<KvHit> hits) override {
    for (KvHit& hit : hits) hit.tokens = {cached};
  }
  void Reserve(StepId, std::span<KvReservation> wishes) override {
    ++reserves;
    for (KvReservation& wish : wishes) {
      const std::int32_t blocks = (wish.want - wish.have).value / 16;
      wish.granted = !refuse && wish.request != refused && blocks <= free;
      if (wish.granted) free -= blocks, held[wish.request.value] += blocks;
    }
  }
  Blocks Release(RequestId request, KvAction) override {
    const std::int32_t blocks = std::exchange(held[request.value], 0);
    (defer ? pending : free) += blocks;
    return {defer ? 0 : blocks};
  }

  std::int32_t block = 16, free = 4, pending = 0, cached = 0, reserves = 0;
  std::int32_t held[10] = {};
  bool refuse = false, defer = false;
  RequestId refused = {};  // for reasons of the host's own
};

TEST_CASE("an oracle without a block size is refused") {
  Oracle oracle;
  oracle.block = 0;
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  const auto made = BasicScheduler<Fcfs>::Create(options, Fcfs{}, {}, &oracle);
  REQUIRE_FALSE(made.ok());
  CHECK(made.status().message() == "oracle: block_tokens() is 0: must be 1 to 1048576");
}

TEST_CASE("with host-owned KV, a plan asks once and survives refusals") {
  Oracle oracle;
  oracle.cached = 16;
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  Host<Fcfs> host(options, {}, {}, &oracle);
  host.Arrive(1, 32);
  host.Arrive(2, 32);
  CHECK(host.Step() == "1:16 2:16");  // half of each prompt was cached
  CHECK(oracle.reserves == 1);
  CHECK((oracle.held[1] == 2 && oracle.held[2] == 2));
  oracle.defer = true;
  const StepPlan& plan = host.Plan();  // 1 needs a third block; 2 is preempted, but its blocks come later
  CHECK(plan.run.empty());
  CHECK(plan.idle == Idle::kKvPending);
  CHECK(plan.preempted.size() == 1);
  CHECK(host.scheduler.stats().kv_stalls == 2);  // before that, and after
  CHECK(host.Plan().preempted.empty());  // no other row is preempted meanwhile
  oracle.free = std::exchange(oracle.pending, 0);
  host.On(KvFreed{});
  CHECK(host.Step() == "1:1");
  oracle.defer = false;
  oracle.refuse = true;
  host.Arrive(3, 8);
  CHECK(host.Step({1}) == "1:1");
  CHECK(host.Plan().idle == Idle::kKvHeld);
  oracle.refuse = false;
  CHECK(host.Step() == "2:17 3:1");  // all but the last token of 3's prompt was cached
}

TEST_CASE("with host-owned KV, turns add cache hints and change no plan") {
  for (const bool reports_turns : {false, true}) {
    CAPTURE(reports_turns);
    Oracle oracle;
    SchedulerOptions options;
    options.kv = KvMode::kOracle;
    Host<Fcfs> host(options, {}, {}, &oracle);
    if (reports_turns) host.On(TurnEnded{{9}, 0, TurnWhy::kTool});
    Request turn = Prompt(1, 32);
    turn.workflow = {7}, turn.branch = 2;
    host.Arrive(turn);
    CHECK(host.Step({1}) == "1:32");
    const StepPlan& after = host.Plan();
    REQUIRE(after.hints.size() == (reports_turns ? 1 : 0));
    if (!reports_turns) continue;
    CHECK(after.hints[0] == CacheHint{.workflow = {7}, .branch = 2, .priority = 35, .tokens = {33}});
    host.On(TurnEnded{{7}, 2, TurnWhy::kUser});
    host.On(TurnExpected{{7}, 2, Ms(host.now + 2000)});
    host.On(WorkflowEnded{{7}});
    std::vector<CacheAction> actions;
    for (const CacheHint& hint : host.Plan().hints) actions.push_back(hint.action);
    CHECK(actions == std::vector{CacheAction::kHold, CacheAction::kFetch, CacheAction::kDrop});
    CHECK(host.Plan().hints.empty());
  }
}

TEST_CASE("with host-owned KV, KV of an ended workflow is dropped") {
  for (const bool all : {false, true}) {
    CAPTURE(all);
    Oracle oracle;
    SchedulerOptions options;
    options.kv = KvMode::kOracle;
    Host<Fcfs> host(options, {}, {}, &oracle);
    host.On(TurnEnded{{9}, 0, TurnWhy::kTool});
    for (std::uint64_t id = 1; id <= 2; ++id) {
      Request turn = Prompt(id, 16);
      turn.workflow = {7}, turn.branch = id;
      host.Arrive(turn);
    }
    const StepPlan& running = host.Plan();
    if (all) host.On(WorkflowEnded{{7}});
    else host.On(TurnEnded{{7}, 1, TurnWhy::kOver});
    host.Commit(running, {1, 2});
    const auto last = [&, hints = host.Plan().hints](std::uint64_t branch) {
      CacheAction action = CacheAction::kFetch;
      for (const CacheHint& hint : hints) {
        if (hint.branch == branch) action = hint.action;
      }
      return action;
    };
    CHECK(last(1) == CacheAction::kDrop);
    CHECK(last(2) == (all ? CacheAction::kDrop : CacheAction::kHold));
  }
}

TEST_CASE("a preempting row that must wait leaves its step share") {
  Oracle oracle;
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  Host<Priority> host(options, {}, {}, &oracle);
  const auto arrive = [&](std::uint64_t id, std::int32_t tokens, std::int32_t sequences) {
    Request r = Prompt(id, tokens);
    r.priority = 9 - static_cast<std::int32_t>(id);
    r.sequences = sequences;
    host.Arrive(r);
    host.Step();
  };
  arrive(1, 8, 1);
  arrive(2, 8, 2);
  arrive(3, 16, 1);
  CHECK(oracle.free == 0);
  oracle.defer = true;
  host.limits.tokens = {2};
  const StepPlan& plan = host.Plan();  // 1 takes one token, 2 needs two, and 3 a block that comes later
  CHECK(plan.preempted == std::vector<Preemption>{{{1}, KvAction::kDrop}});
  CHECK(Shape(plan) == "2:2");
}

// A host whose memory is large, immediate and correct. It may refuse nevertheless.
class Pool : public KvOracle {
 public:
  explicit Pool(std::int32_t blocks) : total(blocks), free(blocks) {}

  Tokens block_tokens() const override { return {16}; }
  KvSnapshot Snapshot() const override { return {{total}, {free}, {0}}; }
  void CachedTokens(std::span<KvHit>) override {}
  void Reserve(StepId, std::span<KvReservation> wishes) override {
    ++reserves;
    std::int32_t blocks = 0;
    for (KvReservation& wish : wishes) {
      blocks += BlocksOf(wish);
      wish.granted = !refuses(wish);
      if (wish.granted) free -= BlocksOf(wish), Held(wish.request) += BlocksOf(wish), blocks -= BlocksOf(wish);
      if (wish.request.value == never) wish.refusal = KvRefusal::kForEver;
    }
    CHECK(blocks <= free);  // the allocations together fit
  }
  Blocks Release(RequestId request, KvAction) override {
    const std::int32_t blocks = std::exchange(Held(request), 0);
    free += blocks;
    return {blocks};
  }

  static std::int32_t BlocksOf(const KvReservation& wish) { return (wish.want - wish.have).value / 16; }
  std::int32_t& Held(RequestId id) {
    if (id.value >= held.size()) held.resize(id.value + 1);
    return held[id.value];
  }

  std::int32_t total, free;
  std::int64_t reserves = 0;
  std::uint64_t never = 0;  // always refused
  std::vector<std::int32_t> held = {};
  std::function<bool(const KvReservation&)> refuses = [](const KvReservation&) { return false; };
};

// `rows` running requests, each with full blocks, so that each needs another block.
Host<Priority> Running(Pool& pool, std::int32_t rows, PreemptMode preempt) {
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  options.max_running = rows + 1;
  options.reserve_requests = 2 * rows;
  options.preempt = preempt;
  Host<Priority> host(options, {.tokens = {1 << 20}, .max_seqs = rows}, {}, &pool);
  for (int id = 1; id <= rows; ++id) host.scheduler.On(Arrived{Prompt(static_cast<std::uint64_t>(id), 16)}, Ms(0));
  const StepPlan& plan = host.Plan();
  REQUIRE(plan.run.size() == static_cast<std::size_t>(rows));
  host.Commit(plan);
  return host;
}

TEST_CASE("a refusal while memory is free preempts no row") {
  const auto preempt = GENERATE(PreemptMode::kOff, PreemptMode::kOnMemory, PreemptMode::kByRank);
  const std::int32_t rows = GENERATE(1, 256, 2048);
  Pool pool(4 * rows);
  Host<Priority> host = Running(pool, rows, preempt);
  const auto nothing_lost = [&](const StepPlan& plan) {
    CHECK((plan.preempted.empty() && plan.failed.empty() && plan.released.empty()));
    CHECK(host.scheduler.running() == rows);
  };
  pool.reserves = 0;
  pool.refuses = [](const KvReservation&) { return true; };
  for (int i = 1; i <= 20; ++i) {
    const StepPlan& plan = host.Plan();
    CHECK(plan.run.empty());
    CHECK(plan.idle == Idle::kKvHeld);
    nothing_lost(plan);
    CHECK(pool.reserves == i);  // one question a plan, for all of them
    CHECK(pool.free == 3 * rows);
  }
  pool.refuses = [](const KvReservation& wish) { return wish.request.value % 3 == 1; };
  const StepPlan& some = host.Plan();
  CHECK(some.run.size() == static_cast<std::size_t>(rows - (rows + 2) / 3));
  nothing_lost(some);
  if (!some.run.empty()) host.Commit(some);
  pool.refuses = [](const KvReservation&) { return false; };
  const StepPlan& all = host.Plan();
  CHECK(all.run.size() == static_cast<std::size_t>(rows));
  nothing_lost(all);
  host.Commit(all);
  for (std::uint64_t id = 1; id <= static_cast<std::uint64_t>(rows); ++id) {
    if (host.scheduler.Explain({id}).generated != Tokens{id % 3 == 1 ? 2 : 3}) FAIL("request " << id);
  }
  CHECK(pool.reserves == 22);
}

TEST_CASE("rows are preempted and fail if the oracle counts full memory") {
  const auto preempt = GENERATE(PreemptMode::kOff, PreemptMode::kOnMemory, PreemptMode::kByRank);
  Pool pool(4);
  Host<Priority> host = Running(pool, 4, preempt);
  pool.reserves = 0;
  const StepPlan& plan = host.Plan();
  CHECK(plan.preempted.size() == (preempt == PreemptMode::kOff ? 1 : 2));
  CHECK(plan.run.size() == (preempt == PreemptMode::kOff ? 1 : 2));
  CHECK(plan.failed.empty());
  CHECK(pool.reserves == 1);
  Pool small(1);
  Host<Priority> one = Running(small, 1, preempt);
  CHECK(one.Plan().failed == Failed{{{1}, FailReason::kKvExhausted}});
}

TEST_CASE("while a row is refused, others run and are admitted") {
  Pool pool(40);
  Host<Priority> host = Running(pool, 2, PreemptMode::kOnMemory);
  host.limits.max_seqs = 3;
  host.Arrive(3, 16);
  pool.refuses = [](const KvReservation& wish) { return wish.request == RequestId{1}; };
  CHECK(host.Step() == "2:1 3:16");
  CHECK(host.Step() == "2:1 3:1");
  CHECK(host.scheduler.stats().oracle_refused == 2);
  pool.refuses = [](const KvReservation&) { return false; };
  CHECK(host.Step() == "1:1 2:1 3:1");
}

TEST_CASE("a refused row comes first in the next step") {
  Pool pool(40);
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  options.order = StepOrder::kPrefillFirst;
  Host<Fcfs> host(options, {.tokens = {16}}, {}, &pool);
  host.Arrive(1, 16);
  CHECK(host.Step() == "1:16");
  pool.refuses = [](const KvReservation&) { return true; };
  CHECK(host.Step().empty());
  host.Arrive(2, 16);
  pool.refuses = [](const KvReservation&) { return false; };
  CHECK(host.Step() == "1:1 2:15");
}

TEST_CASE("KV kept during a tool call survives a refusal") {
  Pool pool(40);
  Host<Priority> host = Running(pool, 1, PreemptMode::kOnMemory);
  host.On(ToolCalled{.request = {1}});
  host.Arrive(2, 16);
  pool.refuses = [](const KvReservation&) { return true; };
  for (int i = 0; i < 3; ++i) CHECK(host.Plan().idle == Idle::kKvHeld);
  CHECK(pool.Held({1}) == 1);
  CHECK(host.scheduler.stats().kv_reclaimed == 0);
}

TEST_CASE("kept KV survives a refusal when memory has just become free") {
  Pool pool(2);
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  options.order = StepOrder::kPrefillFirst;
  Host<Fcfs> host(options, {}, {}, &pool);
  host.Arrive(1, 16);
  Request last = Prompt(2, 15);
  last.max_output_tokens = {1};
  host.Arrive(last);
  CHECK(host.Step() == "1:16 2:15");
  host.On(Blocked{{1}});
  host.Arrive(3, 16);
  pool.refuses = [](const KvReservation&) { return true; };
  const StepPlan& plan = host.Plan();  // 2 has all its output, but 3 was tried before
  CHECK((plan.released == Released{{2}} && plan.idle == Idle::kKvHeld));
  CHECK(pool.Held({1}) == 1);
  CHECK(host.scheduler.stats().kv_reclaimed == 0);
}

TEST_CASE("a request that outgrew an oracle's total fails, later ones run") {
  Pool pool(8);
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  Host<Fcfs> host(options, {}, {}, &pool);
  host.Arrive(1, 48);
  CHECK(host.Step() == "1:48");
  host.Arrive(2, 100);  // seven blocks: it waits for 1 to end
  host.Arrive(3, 16);
  pool.total -= 2, pool.free -= 2;
  const StepPlan& plan = host.Plan();
  CHECK(Shape(plan) == "1:1 3:16");
  CHECK(plan.failed == std::vector<Failure>{{.request = {2}, .reason = FailReason::kNeverFits}});
  CHECK(plan.released == Released{{2}});
  host.Commit(plan);
  pool.total -= 1;  // 1 and 3 free nothing: they run until they need more
  CHECK(host.Step() == "1:1 3:1");
}

TEST_CASE("a swapped-out request fails if it exceeds the oracle's total") {
  Pool pool(8);
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  options.cpu_blocks = {8};
  Host<Fcfs, SwapAll> host(options, {.swap_out = {8}, .swap_in = {8}}, {}, &pool);
  host.Arrive(1, 100);
  CHECK(host.Step() == "1:100");
  host.On(ToolCalled{.request = {1}});
  const StepPlan& out = host.Plan();
  REQUIRE(out.moves.size() == 1);
  host.On(MoveDone{out.moves[0].id});
  host.On(ToolReturned{.request = {1}});
  pool.total = pool.free = 6;
  CHECK(host.Plan().failed.size() == 1);
  CHECK(host.scheduler.kv().cpu_used == Blocks{0});
  CHECK(host.scheduler.alive() == 0);
}

TEST_CASE("a search that an oracle stopped continues and wraps around") {
  Pool pool(6);
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  options.admission_window = 3;
  Host<Fcfs> host(options, {.tokens = {64}}, {}, &pool);
  host.Arrive(1, 32);
  CHECK(host.Step() == "1:32");
  host.On(Blocked{{1}});  // with two blocks
  host.Arrive(2, 96);     // too few blocks for it next to them
  for (std::uint64_t id : {3u, 5u, 6u, 7u}) host.Arrive(id, 8);
  Request whole = Prompt(4, 8);
  whole.chunkable = false;
  host.Arrive(whole);
  pool.refuses = [](const KvReservation&) { return true; };
  CHECK(host.Plan().idle == Idle::kKvHeld);  // three were asked
  pool.refuses = [](const KvReservation&) { return false; };
  for (std::uint64_t id : {3u, 5u, 6u, 7u}) host.On(Cancelled{{id}});
  host.limits.chunk_tokens = {0};
  CHECK(host.Step() == "4:8");
}

TEST_CASE("a plan rebuilt after shedding still reports the oracle's refusal") {
  Pool pool(6);
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  options.admission_window = 1;
  options.max_waiting = 2;
  Host<Priority> host(options, {.tokens = {8}, .chunk_align = {16}}, {}, &pool);
  Request newest = Prompt(3, 8);
  newest.priority = -1;
  newest.arrival = Ms(5);
  host.Arrive(newest);
  const StepPlan& first = host.Plan();
  host.On(Blocked{{3}});  // before it has run, with one block
  host.Commit(first);
  host.Arrive(1, 32);  // no chunk of 8 tokens may be computed of it
  host.Arrive(2, 8);
  host.On(Unblocked{{3}});
  bool all = true;
  pool.refuses = [&all](const KvReservation& wish) { return all || wish.request == RequestId{3}; };
  const StepPlan& plan = host.Plan();
  CHECK(Told(plan) == Failed{{{3}, FailReason::kShed}});
  CHECK(pool.Held({3}) == 0);
  CHECK(plan.idle == Idle::kKvHeld);  // 2 was refused, although 1 waits for a larger step
  CHECK(host.scheduler.stats().oracle_refused == 3);  // 2 again after 3 was shed
  all = false;
  CHECK(host.Step({2}) == "2:8");
  CHECK(host.Plan().idle == Idle::kNoBudget);
}

// Request 1 must be computed whole: 64 tokens, of which 48 are cached, in steps of at most 17. It loses that KV on its
// way back from the host's memory. It then waits with five blocks and can never fit. `first`: the next move.
template <class Host>
void LoseKvOfWhole(Host& host, std::uint64_t first) {
  Request whole = Prompt(1, 64);
  whole.chunkable = false;
  whole.priority = 9;
  whole.prefix = testing::Prefix(16, {1, 2, 3});
  host.Arrive(whole);
  host.Step();
  host.On(ToolCalled{{1}});
  host.Step();
  host.On(MoveDone{{first}});
  host.On(ToolReturned{{1}});
  host.Step();
  host.On(Blocked{{1}});
  host.On(MoveDone{{first + 1}, true});
  host.On(Unblocked{{1}});
  CHECK(host.scheduler.Explain({1}).kv_blocks == Blocks{5});
}

TEST_CASE("blocks of a request that never fits are reused at once") {
  struct Cached : Pool {
    using Pool::Pool;
    void CachedTokens(std::span<KvHit> hits) override {
      for (KvHit& hit : hits) hit.tokens = {hit.request->id.value == 1 ? 48 : 0};
    }
  } pool(8);
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  options.cpu_blocks = {8};
  options.max_step_tokens = {17};
  Host<Priority, SwapAll> host(options, {.tokens = {17}}, {}, &pool);
  host.Arrive(2, 16);
  CHECK(host.Step() == "2:16");
  host.On(ToolCalled{{2}});  // its block is being swapped out throughout
  LoseKvOfWhole(host, 2);
  host.Arrive(3, 128);  // the first; it needs all blocks
  host.Arrive(4, 48);  // three, of two that are free
  const StepPlan& plan = host.Plan();
  CHECK(plan.failed == Failed{{{1}, FailReason::kNeverFits}});
  CHECK(Shape(plan) == "4:17");
}

TEST_CASE("blocks of a request that never fits go to the first") {
  SchedulerOptions options = Blocks16(8);
  options.prefix_cache = true;
  options.cpu_blocks = {8};
  options.max_step_tokens = {17};
  Host<Priority, SwapAll> host(options, {.tokens = {17}});
  host.Arrive(Alike(9, 48));  // leaves three chunks in the cache
  for (int step = 0; step < 3; ++step) host.Step();
  host.Step({9});
  host.Arrive(2, 8);
  CHECK(host.Step() == "2:8");
  LoseKvOfWhole(host, 1);
  host.Arrive(3, 112);  // seven, of two that are free
  const StepPlan& plan = host.Plan();
  CHECK(plan.failed == Failed{{{1}, FailReason::kNeverFits}});
  CHECK(Shape(plan) == "2:1 3:16");
}

TEST_CASE("of many refused requests, a few are asked in turn") {
  Pool pool(1000);
  Host<Priority> host = Running(pool, 1, PreemptMode::kOnMemory);
  host.On(Cancelled{{1}});
  for (std::uint64_t id = 2; id <= 401; ++id) host.Arrive(id, 16);
  pool.refuses = [](const KvReservation& wish) { return wish.request != RequestId{400}; };
  int plans = 0;
  for (std::string shape; shape.empty() && plans < 100; ++plans) {
    pool.reserves = 0;
    shape = host.Step();
    CHECK(pool.reserves <= 1 + 16);
    CHECK((shape.empty() || shape == "400:16"));
  }
  CHECK(plans <= 400 / 15 + 1);
}

TEST_CASE("a refused request displaces a row once") {
  Pool pool(40);
  Host<Priority> host = Running(pool, 1, PreemptMode::kByRank);
  pool.refuses = [](const KvReservation& wish) { return wish.request == RequestId{2}; };
  Request urgent = Prompt(2, 16);
  urgent.priority = -1;
  host.Arrive(urgent);
  for (int i = 0; i < 20; ++i) CHECK(host.Step().starts_with("1:"));
  CHECK(host.scheduler.stats().preempted_by_rank == 1);
  pool.refuses = [](const KvReservation&) { return false; };
  host.On(KvFreed{});  // the host's report that it may ask again
  CHECK(host.Step() == "2:16");
}

// A host that has cached a part of some prompts.
class Finding : public Pool {
 public:
  using Pool::Pool;
  void CachedTokens(std::span<KvHit> hits) override {
    for (KvHit& hit : hits) hit.tokens = {found[hit.request->id.value]};
  }
  std::int32_t found[10] = {};
};

TEST_CASE("an oracle's hits are asked in doubling batches, never twice") {
  struct Asked : Pool {
    using Pool::Pool;
    void CachedTokens(std::span<KvHit> hits) override {
      sizes.push_back(hits.size());
      for (KvHit& hit : hits) {
        CHECK(about.insert(hit.request->id.value).second);
        hit.tokens = {static_cast<std::int32_t>(hit.request->id.value % 2) * 16};
      }
    }
    std::vector<std::size_t> sizes;
    std::set<std::uint64_t> about;
  } pool(1000);
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  Host<Fcfs> host(options, {.tokens = {100'000}}, {}, &pool);
  for (std::uint64_t id = 1; id <= 20; ++id) host.Arrive(id, 40);
  CHECK(host.Step().starts_with("1:24 2:40 3:24 "));
  CHECK(host.scheduler.running() == 20);
  CHECK(pool.sizes == std::vector<std::size_t>{1, 2, 4, 8, 5});
}

TEST_CASE("a call asks an oracle for its counts once") {
  struct Counted : Pool {
    using Pool::Pool;
    KvSnapshot Snapshot() const override { return ++snapshots, Pool::Snapshot(); }
    mutable int snapshots = 0;
  } pool(100);
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  Host<Fcfs> host(options, {}, {}, &pool);
  for (std::uint64_t id : {1u, 2u}) host.Arrive(id, 20);
  pool.snapshots = 0;
  const StepPlan& plan = host.Plan();  // not even after it has reserved
  CHECK((pool.snapshots == 1 && pool.reserves == 1));
  host.Commit(plan);
  pool.snapshots = 0;
  host.On(ToolCalled{{1}});
  CHECK(pool.snapshots == 1);
  host.scheduler.kv();
  CHECK(pool.snapshots == 2);
}

TEST_CASE("a request that an oracle refuses for ever fails") {
  Pool pool(100);
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  Host<Fcfs> host(options, {}, {}, &pool);
  pool.never = 1;
  for (std::uint64_t id : {1u, 2u}) host.Arrive(id, 16);
  pool.refuses = [](const KvReservation& wish) { return wish.request == RequestId{1} || wish.want > Tokens{16}; };
  const StepPlan& first = host.Plan();
  CHECK(first.failed == Failed{{{1}, FailReason::kNeverFits}});
  CHECK(Shape(first) == "2:16");
  host.Commit(first);
  CHECK(host.Plan().failed.empty());  // its second block is refused, for now
  pool.never = 2;
  const StepPlan& last = host.Plan();
  CHECK(last.failed == Failed{{{2}, FailReason::kKvExhausted}});
  CHECK(last.released == Released{{2}});
}

TEST_CASE("a request cached by the host is retried after any report") {
  const bool freed = GENERATE(true, false), committed = GENERATE(true, false);
  Finding pool(100);
  SchedulerOptions options{.kv = KvMode::kOracle, .admission_window = 1};
  Host<Fcfs> host(options, {.tokens = {64}, .max_seqs = 1, .adapters = 0}, {}, &pool);
  for (std::uint64_t id : {1u, 2u}) {  // all that are considered past the first
    Request adapted = Prompt(id, 8);
    adapted.adapter = {7};
    host.Arrive(adapted);
  }
  for (std::uint64_t id : {3u, 4u, 5u}) {
    Request whole = Prompt(id, 100);
    whole.chunkable = false;
    host.Arrive(whole);
  }
  CHECK(host.Step().empty());
  CHECK(host.Step().empty());
  CHECK(host.scheduler.stats().searched == 6);  // the first, and then all; there was no report since
  pool.found[5] = 48;
  if (freed) host.On(KvFreed{});
  if (committed) host.scheduler.Commit({{999}, {}}, Ms(2));
  CHECK(host.Step() == (freed || committed ? "5:52" : ""));
}

TEST_CASE("a request that the host refuses takes no budget from others") {
  Oracle oracle;
  oracle.refused = {1};
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  Host<Fcfs> host(options, {.tokens = {16}}, {}, &oracle);
  host.Arrive(1, 16);
  host.Arrive(2, 8);
  CHECK(host.Step() == "2:8");
  CHECK(host.Step({2}) == "2:1");
  CHECK(host.Plan().idle == Idle::kKvHeld);
  oracle.refused = {};
  host.On(KvFreed{});
  CHECK(host.Step() == "1:16");
}

// ---- waiting ----------------------------------------------------------------------------------------------------

Request With(std::uint64_t id, std::int32_t tokens, std::uint64_t adapter) {
  Request r = Prompt(id, tokens);
  r.adapter = {adapter};
  return r;
}

// Requests for adapter 10 keep coming, and two of them always run. Request 2 waits for adapter 20. Returns the number
// of requests that were admitted past it; -1: it never ran.
template <class Policy>
int OvertakenFor(Host<Policy>& host, int steps) {
  std::uint64_t next = 3;
  int overtaken = 0;
  for (int i = 0; i < steps; ++i) {
    host.Arrive(With(next++, 8, 10));
    const StepPlan& plan = host.Plan();
    std::vector<std::uint64_t> finished;
    for (const PlanEntry& e : plan.run) {
      if (e.request.value == 2) return overtaken;
      overtaken += e.admitted() && e.request.value > 2 ? 1 : 0;
      if (!e.admitted()) finished.push_back(e.request.value);
    }
    host.Commit(plan, finished);
  }
  return -1;
}

TEST_CASE("at most admission_window others overtake a request without adapter") {
  for (const std::int32_t window : {1, 3, 16}) {
    SchedulerOptions options = Blocks16(100);
    options.admission_window = window;
    Host host(options, {.adapters = 1});
    host.Arrive(With(1, 8, 10));
    host.Step();
    host.Arrive(With(2, 8, 20));
    // With a window of one only this request is considered.
    CHECK(OvertakenFor(host, 60) == (window == 1 ? 0 : window));
  }
}

TEST_CASE("at most admission_window others overtake each request without adapter") {
  SchedulerOptions options = Blocks16(100);
  options.admission_window = 3;
  Host host(options, {.adapters = 1});
  host.Arrive(With(1, 8, 10));
  host.Step();
  host.Arrive(With(2, 8, 20));
  host.Arrive(With(3, 8, 30));
  for (std::uint64_t id : {4u, 5u, 6u}) host.Arrive(With(id, 8, 10));
  CHECK(host.Step() == "1:1 4:8");
  CHECK(host.Step() == "1:1 4:1 5:8");
  CHECK(host.Step({1, 4, 5, 6}) == "1:1 4:1 5:1 6:8");
  host.Arrive(With(7, 8, 20));  // another might pass 2, but none may pass 3
  CHECK(host.Step() == "2:8");
  CHECK(host.Step({2}) == "2:1");
  CHECK(host.Step({3}) == "3:8");
  CHECK(host.Step() == "7:8");
}

TEST_CASE("promotion does not lengthen the wait for an adapter") {
  SchedulerOptions options = Blocks16(100);
  options.admission_window = 4;
  Host<Aged<Priority>> host(options, {.adapters = 1}, Aged(Priority{}, {.threshold = 2}));
  host.Arrive(With(1, 8, 10));
  host.Step();
  Request worst = With(2, 8, 20);
  worst.priority = 9;
  host.Arrive(worst);
  const int overtaken = OvertakenFor(host, 60);
  CHECK((overtaken >= 4 && overtaken <= 6));  // two before its promotion ranked before it
}

TEST_CASE("a request without adapter may pass one that waits for its own") {
  SchedulerOptions options = Blocks16(100);
  options.admission_window = 2;
  Host host(options, {.adapters = 1});
  host.Arrive(With(1, 8, 10));
  host.Step();
  host.Arrive(With(2, 8, 20));
  host.Arrive(With(3, 8, 10));
  CHECK(host.Step({3}) == "1:1 3:8");
  host.Arrive(With(4, 8, 10));
  CHECK(host.Step({4}) == "1:1 4:8");
  host.Arrive(With(5, 8, 10));
  CHECK(host.Step() == "1:1");
  host.On(Cancelled{{5}});
  host.Arrive(With(6, 8, 0));
  CHECK(host.Step({1}) == "1:1 6:8");
  CHECK(host.scheduler.Explain({2}).waits_for == WaitsFor::kAdapter);
  CHECK(host.Step() == "6:1 2:8");
}

TEST_CASE("if no adapter may run, a waiter keeps none from others") {
  SchedulerOptions options = Blocks16(100);
  options.admission_window = 2;
  Host host(options, {.adapters = 1});
  host.Arrive(With(1, 8, 10));
  host.Step();
  host.limits.adapters = 0;  // 1 continues, and so may others with the present adapter
  host.Arrive(With(2, 8, 20));
  for (std::uint64_t id = 3; id < 9; ++id) {
    host.Arrive(With(id, 8, 10));
    const StepPlan& plan = host.Plan();
    REQUIRE(plan.run.size() == 2);
    CHECK(plan.run[1].request == RequestId{id});
    host.Commit(plan, {id});
  }
  host.Arrive(With(9, 8, 0));
  CHECK(host.Step({1, 9}) == "1:1 9:8");
  CHECK(host.Plan().idle == Idle::kNoBudget);
  CHECK(host.scheduler.Explain({2}).waits_for == WaitsFor::kAdapter);
  host.limits.adapters = 1;
  CHECK(host.Step() == "2:8");
}

TEST_CASE("by rank, the next displaces if the first waits for an adapter") {
  SchedulerOptions options = Blocks16(100);
  options.preempt = PreemptMode::kByRank;
  Host<Priority> host(options, {.max_seqs = 2, .adapters = 1});
  Request running = With(1, 8, 10);
  host.Arrive(running);
  running = Prompt(2, 8);
  running.priority = 5;
  host.Arrive(running);
  host.Step();
  host.Step();
  Request first = With(3, 8, 20);
  first.priority = -2;
  host.Arrive(first);
  Request next = Prompt(4, 8);
  next.priority = 3;
  host.Arrive(next);
  CHECK(host.Step() == "1:1 4:8");
  CHECK(host.scheduler.stats().preempted_by_rank == 1);
}

TEST_CASE("requests that need a larger step do not stop later ones") {
  const bool many_sequences = GENERATE(true, false);
  Host host(Blocks16(1000), {.tokens = {100}, .max_seqs = 20});
  for (std::uint64_t id = 1; id <= 40; ++id) {
    Request large = Prompt(id, many_sequences ? 8 : 300);
    large.chunkable = false;
    if (many_sequences) large.sequences = 30;
    host.Arrive(large);
  }
  for (std::uint64_t id = 41; id <= 44; ++id) host.Arrive(id, 8);
  CHECK(host.Step() == "41:8 42:8 43:8 44:8");
  host.Arrive(45, 8);
  CHECK(host.Step() == "41:1 42:1 43:1 44:1 45:8");
}

TEST_CASE("a request that needs a larger step waits while others pass") {
  Host host(Blocks16(100), {.tokens = {20}, .max_seqs = 2});
  Request whole = Prompt(1, 30);
  whole.chunkable = false;
  host.Arrive(whole);
  Request many = Prompt(2, 8);
  many.sequences = 3;
  host.Arrive(many);
  host.Arrive(3, 8);
  const StepPlan& small = host.Plan();
  CHECK(Shape(small) == "3:8");
  CHECK(small.failed.empty());
  CHECK(host.scheduler.Explain({2}).waits_for == WaitsFor::kItsTurn);
  host.Commit(small, {3});
  CHECK(host.Plan().idle == Idle::kNoBudget);
  host.limits.tokens = {30};
  CHECK(host.Step({1}) == "1:30");
  CHECK(host.Plan().run.empty());
  CHECK(host.scheduler.Explain({2}).waits_for == WaitsFor::kSequences);
  host.limits.max_seqs = 3;
  CHECK(host.Step() == "2:8");
}

TEST_CASE("a request above the host's reported maximum fails") {
  SchedulerOptions options = Blocks16(100);
  options.max_step_tokens = {64};
  options.max_step_seqs = 4;
  Host host(options, {.tokens = {20}, .max_seqs = 1});
  for (std::uint64_t id : {1u, 2u}) {
    Request whole = Prompt(id, id == 1 ? 64 : 65);
    whole.chunkable = false;
    host.Arrive(whole);
  }
  for (std::uint64_t id : {3u, 4u}) {
    Request many = Prompt(id, 8);
    many.sequences = id == 3 ? 4 : 5;
    host.Arrive(many);
  }
  CHECK(host.Plan().failed == Failed{{{4}, FailReason::kNeverFits}, {{2}, FailReason::kNeverFits}});
  host.limits = {.tokens = {64}, .max_seqs = 4};
  CHECK(host.Step({1}) == "1:64");
  CHECK(host.Step() == "3:8");
}

TEST_CASE("a request that can run at once is not shed") {
  SchedulerOptions options = Blocks16(100);
  options.max_waiting = 0;
  for (const Shed shed : {Shed::kNewest, Shed::kWorst}) {
    options.shed = shed;
    Host host(options, {.max_seqs = 2});
    for (std::uint64_t id : {1u, 2u, 3u}) host.Arrive(id, 8);
    const StepPlan& plan = host.Plan();
    CHECK(Shape(plan) == "1:8 2:8");
    CHECK(Told(plan) == Failed{{{3}, FailReason::kShed}});
    CHECK(plan.released == Released{{3}});
    host.Commit(plan, {1});
    host.Arrive(4, 8);
    CHECK(host.Step() == "2:1 4:8");
    CHECK(host.scheduler.stats().failed_shed == 1);
  }
}

TEST_CASE("an answer that has begun is never shed") {
  SchedulerOptions options = Blocks16(4);
  options.max_waiting = 1;
  options.shed = Shed::kWorst;
  Host<Priority> host(options, {.max_seqs = 2});
  for (std::uint64_t id : {1u, 2u}) {
    Request r = Prompt(id, 32);
    r.priority = id == 2 ? 9 : 0;
    host.Arrive(r);
  }
  CHECK(host.Step() == "1:32 2:32");
  CHECK(host.Step() == "1:1");  // 2, the last by rank, is preempted after a reported token
  host.Arrive(3, 32);
  host.Arrive(4, 32);  // both rank before 2; one may wait next to it
  CHECK(Told(host.Plan()) == Failed{{{4}, FailReason::kShed}});
  CHECK(host.scheduler.Explain({2}).status == RequestStatus::kWaiting);
  CHECK(host.scheduler.Explain({3}).status == RequestStatus::kWaiting);
}

TEST_CASE("a host that does not plan still gets shed requests") {
  SchedulerOptions options = Blocks16(100);
  options.max_running = 2;
  options.max_waiting = 3;
  Host host(options);
  for (std::uint64_t id = 1; id <= 50; ++id) {
    host.Arrive(id, 8);
    CHECK(host.scheduler.waiting() <= 5);  // the sum of the waiting bound and the next plan's admissions
  }
  const StepPlan& plan = host.Plan();
  CHECK(Shape(plan) == "1:8 2:8");
  CHECK(host.scheduler.waiting() == 3);
  CHECK(plan.failed.size() == 45);
}

TEST_CASE("promoted requests are shed last, and still count") {
  SchedulerOptions options = Blocks16(100);
  options.max_waiting = 1;
  options.shed = Shed::kWorst;
  Host<Aged<Priority>> host(options, {.max_seqs = 1}, Aged(Priority{}, {.threshold = 1}));
  host.Arrive(1, 8);
  host.Step();
  Request worst = Prompt(2, 8);
  worst.priority = 9;
  host.Arrive(worst);
  host.Step();
  host.Step();  // 2 is promoted
  host.Arrive(3, 8);
  CHECK(Told(host.Plan()) == Failed{{{3}, FailReason::kShed}});
  CHECK(host.scheduler.Explain({2}).promoted);
}

// Its KV is on the way to the host's memory, so no request waits for anything else.
void FillAndMoveOut(Host<Fcfs, SwapAll>& host, std::int32_t tokens) {
  host.Arrive(1, tokens);
  host.Step();
  host.On(ToolCalled{{1}});
  host.Plan();
}

TEST_CASE("a queue in which no request fits is searched once") {
  SchedulerOptions options = Blocks16(10);
  options.cpu_blocks = {10};
  Host<Fcfs, SwapAll> host(options);
  FillAndMoveOut(host, 144);  // one block is left
  for (std::uint64_t id = 10; id < 1010; ++id) {
    host.scheduler.On(Arrived{Prompt(id, 32)}, Ms(1));
    CHECK(host.scheduler.Plan(Ms(1), host.limits).run.empty());
  }
  CHECK(host.scheduler.stats().searched <= 1010);
  // One request fits. Its run leaves no more room than before.
  for (std::uint64_t id = 2000; id < 2050; ++id) {
    host.scheduler.On(Arrived{Prompt(id, 16)}, Ms(1));
    const StepPlan& plan = host.scheduler.Plan(Ms(1), host.limits);
    REQUIRE(Shape(plan) == std::to_string(id) + ":16");
    host.scheduler.Commit({plan.id, Host<>::Answer(plan, {id})}, Ms(1));
    CHECK(host.scheduler.Plan(Ms(1), host.limits).run.empty());
  }
  CHECK(host.scheduler.stats().searched <= 1010 + 200);
  host.On(MoveDone{{1}});
  CHECK(Shape(host.Plan()).substr(0, 12) == "10:32 11:32 ");
}

TEST_CASE("requests larger than free memory are searched once, despite other reasons") {
  const bool gate = GENERATE(true, false), tier = GENERATE(true, false);
  SchedulerOptions options = Blocks16(10);
  options.prefix_cache = gate || tier;
  options.cpu_blocks = {20};
  options.prefix_cpu_blocks = {tier ? 10 : 0};
  Host<Fcfs, SwapAll> host(options);
  if (gate) host.On(TurnEnded{.workflow = {7}});
  FillAndMoveOut(host, 144);  // one block is left
  for (std::uint64_t id = 10; id < 1010; ++id) {
    host.scheduler.On(Arrived{Prompt(id, 32)}, Ms(1));
    CHECK(host.scheduler.Plan(Ms(1), host.limits).run.empty());
  }
  CHECK(host.scheduler.stats().searched <= 1010);
  host.scheduler.On(Arrived{Prompt(2000, 16)}, Ms(1));
  CHECK(Shape(host.scheduler.Plan(Ms(1), host.limits)) == "2000:16");
  host.On(MoveDone{{1}});
  CHECK(Shape(host.Plan()).substr(0, 12) == "2000:1 10:32");
}

TEST_CASE("among new requests, the first by rank that fits runs") {
  SchedulerOptions options = Blocks16(10);
  options.cpu_blocks = {10};
  Host<Fcfs, SwapAll> host(options);
  FillAndMoveOut(host, 144);
  host.Arrive(2, 32);
  CHECK(host.Plan().run.empty());
  for (std::uint64_t id : {5u, 4u, 3u}) {
    Request r = Prompt(id, id == 3 ? 17 : 16);
    r.arrival = Ms(static_cast<std::int64_t>(id));
    host.Arrive(r);
  }
  CHECK(host.Step() == "4:16");
}

TEST_CASE("a request whose KV is loading blocks no other behind the first") {
  SchedulerOptions options = Blocks16(10);
  options.cpu_blocks = {10};
  Host<Priority, SwapAll> host(options);
  const auto arrive = [&](std::uint64_t id, std::int32_t tokens, std::int32_t priority) {
    Request r = Prompt(id, tokens);
    r.priority = priority;
    host.Arrive(r);
  };
  arrive(1, 32, 1);
  arrive(4, 48, 1);
  CHECK(host.Step() == "1:32 4:48");
  host.On(Blocked{{4}});  // it keeps its three blocks
  host.On(ToolCalled{{1}});
  host.Plan();
  host.On(MoveDone{{1}});
  host.On(ToolReturned{{1}, {0}});
  arrive(2, 160, 0);
  arrive(3, 16, 2);
  const StepPlan& plan = host.Plan();
  CHECK(plan.moves == std::vector<KvMove>{{{2}, {1}, KvAction::kIn, {0}, {2}}});
  CHECK(Shape(plan) == "3:16");
}

// Counts how often its key is read.
struct Counting {
  std::shared_ptr<std::int64_t> asked = std::make_shared<std::int64_t>(0);
  RankKey Key(const RequestState& r) const {
    ++*asked;
    return {static_cast<double>(r.request.priority)};
  }
};

TEST_CASE("dropping the KV of many requests costs the same per request") {
  constexpr std::int32_t kHolders = 1000;
  for (const bool answered : {true, false}) {
    SchedulerOptions options = Blocks16(kHolders);
    options.max_running = kHolders;
    const Counting policy;
    auto made = BasicScheduler<Counting>::Create(options, policy);
    REQUIRE(made.ok());
    BasicScheduler<Counting>& scheduler = *made;
    const StepLimits limits = {.tokens = {16 * kHolders}, .max_seqs = kHolders};
    for (std::uint64_t id = 1; id <= kHolders; ++id) scheduler.On(Arrived{Prompt(id, 15)}, Ms(0));
    const StepPlan& plan = scheduler.Plan(Ms(1), limits);
    REQUIRE(plan.run.size() == kHolders);
    scheduler.Commit({plan.id, Host<>::Answer(plan)}, Ms(1));
    for (std::uint64_t id = 1; id <= kHolders; ++id) {
      scheduler.On(ToolCalled{{id}}, Ms(1));
      if (answered) scheduler.On(ToolReturned{{id}, {16}}, Ms(1));
    }
    Request all = Prompt(9999, 16 * kHolders);
    all.priority = -1;
    scheduler.On(Arrived{all}, Ms(2));
    *policy.asked = 0;
    CHECK(Shape(scheduler.Plan(Ms(2), limits)) == "9999:16000");
    CHECK(scheduler.stats().kv_reclaimed == kHolders);
    CHECK(*policy.asked <= 3 * kHolders);
    CHECK(scheduler.Inconsistency() == nullptr);
  }
}

Request Shared(std::uint64_t id, std::int32_t tokens, std::int32_t chunk, std::vector<std::uint64_t> hashes) {
  Request r = Prompt(id, tokens);
  r.prefix = testing::Prefix(chunk, std::move(hashes));
  return r;
}

TEST_CASE("prefixes in chunks of unlike sizes are shared independently") {
  SchedulerOptions options = Blocks16(12);
  options.prefix_cache = true;
  Host host(options);
  host.Arrive(Shared(1, 40, 16, {7, 8}));
  CHECK(host.Step({1}) == "1:40");
  host.Arrive(Shared(2, 70, 32, {7, 8}));  // the same hashes for other chunks
  CHECK(host.Step({2}) == "2:70");
  CHECK(host.used() == 0);
  CHECK(host.scheduler.kv().cached == Blocks{6});
  host.Arrive(Shared(3, 70, 32, {7, 8}));
  host.Arrive(Shared(4, 40, 16, {7, 8}));
  CHECK(host.Step() == "3:6 4:8");
  CHECK(host.used() == 8);
  CHECK(host.scheduler.stats().tokens_cached == 96);
  CHECK(host.Step({3}) == "3:1 4:1");
  CHECK(host.scheduler.kv().cached == Blocks{4});
  host.Arrive(5, 16 * 7);  // next to the three blocks of 4: idle chunks are evicted, the larger ones are older
  host.Step({4, 5});
  CHECK(host.used() == 0);
  CHECK(host.scheduler.kv().cached <= Blocks{4});
}

}  // namespace
}  // namespace takt
