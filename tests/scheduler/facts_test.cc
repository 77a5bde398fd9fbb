// Facts that engines report at any time: arrived, lost and pinned KV, rows that are not ready, chunk alignment, and the
// host's own fault codes.
#include <memory>
#include <string>
#include <vector>

#include "scheduler/host.h"

namespace takt {
namespace {

using testing::Host;
using testing::Prompt;
using testing::Shape;
using Released = std::vector<RequestId>;

SchedulerOptions Blocks16(std::int32_t blocks) { return {.kv_blocks = {blocks}, .kv_watermark = 0}; }

TEST_CASE("arrived KV is not recomputed, except for the last token") {
  const bool unblocks = GENERATE(true, false);
  Host host(Blocks16(10));
  host.Arrive(1, 40);
  host.On(Blocked{{1}});
  CHECK(host.Step().empty());
  CHECK(host.used() == 0);
  if (!unblocks) host.On(KvArrived{{1}, {32}});
  host.On(Unblocked{{1}, {unblocks ? 32 : 0}});
  CHECK(host.used() == 0);
  const StepPlan& plan = host.Plan();
  CHECK(Shape(plan) == "1:8");
  CHECK(plan.run[0].position == 32);
  CHECK(host.used() == 3);
  host.Commit(plan);
  CHECK(host.Step() == "1:1");
  host.Arrive(2, 20);
  host.On(KvArrived{{2}, {1000}});
  CHECK(host.Step() == "1:1 2:1");
}

TEST_CASE("KV of a failed load is computed; running requests accept none") {
  Host host(Blocks16(10));
  host.Arrive(1, 40);
  host.On(Blocked{{1}});
  host.On(KvArrived{{1}, {32}});
  host.On(KvLost{{1}});
  host.On(Unblocked{{1}});
  CHECK(host.Step() == "1:40");
  host.On(KvArrived{{1}, {8}});
  host.On(KvArrived{{7}, {8}});
  host.On(KvLost{{1}, {-1}});
  CHECK(host.scheduler.stats().events_out_of_place == 2);
  CHECK(host.scheduler.stats().events_unknown == 1);
}

TEST_CASE("lost KV is recomputed in place, and steps in flight are void") {
  Host host(Blocks16(10));
  host.Arrive(1, 32);
  host.Arrive(2, 16);
  CHECK(host.Step() == "1:32 2:16");
  const StepPlan& flying = host.Plan();
  host.On(KvLost{{1}, {16}});
  host.On(KvLost{{2}, {16}});  // none of its tokens from there on was computed
  host.Commit(flying);
  CHECK(host.scheduler.stats().kv_lost == 1);
  CHECK(host.scheduler.stats().rows_dead == 1);
  CHECK(host.Step() == "2:1 1:17");  // the second half and the known token
  CHECK(host.scheduler.stats().tokens_recomputed == 16);
  CHECK(host.Step() == "1:1 2:1");
}

TEST_CASE("a finished request computes nothing, even if a late step loses KV") {
  Host host(Blocks16(10), {.tokens = {10}});
  Request request = Prompt(1, 12);
  request.max_output_tokens = {1};
  host.Arrive(request);
  const StepPlan &first = host.Plan(), &second = host.Plan();
  REQUIRE(Shape(first) == "1:10");
  REQUIRE(Shape(second) == "1:2");
  host.Commit(second);
  host.On(KvLost{{1}});
  CHECK(Shape(host.Plan()).empty());
  host.Commit(first);
  const StepPlan& last = host.Plan();
  CHECK(Shape(last).empty());
  CHECK(Released(last.released.begin(), last.released.end()) == Released{{1}});
  CHECK(host.scheduler.stats().tokens_output == 1);
  CHECK(host.used() == 0);
}

TEST_CASE("a loss of all KV includes waiting requests and cached prefixes") {
  SchedulerOptions options = Blocks16(20);
  options.prefix_cache = true;
  Host host(options);
  const auto alike = [](std::uint64_t id) {
    Request r = Prompt(id, 64);
    r.prefix = testing::Prefix(16, {1, 2, 3});
    return r;
  };
  for (std::uint64_t id : {1u, 2u}) host.Arrive(alike(id)), host.Step();
  CHECK(host.used() == 6);
  host.On(Blocked{{1}});
  host.On(KvLost{});
  CHECK(host.used() == 4);  // for 2, which recomputes everything
  host.Arrive(alike(3));
  CHECK(host.Step() == "2:65 3:64");
  CHECK(host.used() == 9);
  const StepPlan& plan = host.Plan();
  host.Commit(plan, {2, 3});
  const StepPlan& next = host.Plan();  // the lost chunks left with their last user
  REQUIRE(next.dropped.size() == 3);
  std::uint64_t hashes = 0;
  for (const DroppedPrefix& chunk : next.dropped) {
    hashes += chunk.hash;
    CHECK(chunk.blocks == Blocks{1});
  }
  CHECK(hashes == 1 + 2 + 3);
}

TEST_CASE("a plan names the evicted chunks") {
  SchedulerOptions options = Blocks16(4);
  options.prefix_cache = true;
  Host host(options);
  Request first = Prompt(1, 48);
  first.prefix = testing::Prefix(16, {71, 72});
  host.Arrive(first);
  CHECK(host.Step({1}) == "1:48");
  CHECK(host.Plan().dropped.empty());
  host.Arrive(2, 40);
  const StepPlan& plan = host.Plan();
  CHECK(plan.dropped == std::vector<DroppedPrefix>{{72, {1}}});  // the deepest first
  CHECK(host.Plan().dropped.empty());
}

TEST_CASE("a row that is not ready misses one plan, keeping its place") {
  Host host(Blocks16(10));
  for (std::uint64_t id : {1u, 2u}) host.Arrive(id, 8);
  CHECK(host.Step() == "1:8 2:8");
  host.On(NotReady{{1}});
  host.On(NotReady{{1}});
  CHECK(host.Step() == "2:1");
  CHECK(host.Step() == "1:1 2:1");
  for (std::uint64_t id : {1u, 2u}) host.On(NotReady{{id}});
  const StepPlan& plan = host.Plan();
  CHECK(plan.run.empty());
  CHECK(plan.idle == Idle::kBlocked);
  CHECK(host.Step() == "1:1 2:1");
  host.Arrive(3, 8);
  host.On(NotReady{{3}});  // it is waiting
  CHECK(host.scheduler.stats().events_out_of_place == 1);
  host.On(NotReady{{1}});
  host.On(Blocked{{1}});
  CHECK(host.Step() == "2:1 3:8");
  host.On(Cancelled{{2}});
  host.On(Cancelled{{3}});
  host.Plan();
  CHECK(host.Plan().idle == Idle::kBlocked);
}

// TensorRT-LLM#17379, sglang#30033: a rank short of KV planned nothing, and all ranks stopped.
TEST_CASE("a rank short of KV reports that, so its host can pad it while another rank runs") {
  Host first(Blocks16(4)), second(Blocks16(4));
  second.Arrive(1, 32);
  second.On(KvPinned{{1}});  // the first rank reads this KV
  CHECK(second.Step({1}) == "1:32");
  second.Arrive(2, 48);  // needs three blocks; two are pinned
  first.Arrive(1, 16);
  for (const std::string tokens : {"1:16", "1:1", "1:1"}) {
    CHECK(second.Plan().idle == Idle::kKvPending);  // an empty batch on this rank
    CHECK(first.Step() == tokens);
  }
  second.On(KvFreed{{1}});
  CHECK(second.Step() == "2:48");
  CHECK(second.Step({2}) == "2:1");
  CHECK(second.Plan().idle == Idle::kNoRequests);  // also padded, as long as the first rank runs
}

TEST_CASE("pinned KV stays after its request until it is freed") {
  Host host(Blocks16(4));
  host.Arrive(1, 32);
  host.On(KvPinned{{1}});
  CHECK(host.Step({1}) == "1:32");
  CHECK(host.used() == 2);
  CHECK(host.Plan().released.empty());
  CHECK(host.Plan().idle == Idle::kKvPending);
  host.Arrive(2, 48);
  CHECK(host.Step().empty());  // it waits for pinned KV
  host.On(KvFreed{{1}});
  const StepPlan& plan = host.Plan();
  CHECK(plan.released == Released{{1}});
  CHECK(Shape(plan) == "2:48");
  host.Commit(plan);
  host.On(KvFreed{{2}});  // never pinned
  host.On(KvPinned{{1}});  // gone
  CHECK(host.scheduler.stats().events_out_of_place == 1);
  CHECK(host.scheduler.stats().events_unknown == 1);
}

TEST_CASE("a row waiting for pinned KV gets blocks freed later") {
  const int sequences = GENERATE(2, 3);  // the later row is preempted, or can never have enough
  Host host(Blocks16(3));
  host.Arrive(1, 8);
  host.Arrive(2, 16);
  Request r = Prompt(3, 16);
  r.sequences = sequences;
  host.Arrive(r);
  host.On(KvPinned{{1}});
  CHECK(host.Step({1}) == "1:8 2:16 3:16");
  CHECK(host.used() == 3);
  const StepPlan& plan = host.Plan();
  CHECK(Shape(plan) == "2:1");
  CHECK(plan.preempted.size() == (sequences == 2 ? 1 : 0));
  CHECK(plan.failed.size() == (sequences == 3 ? 1 : 0));
}

TEST_CASE("a row waiting for pinned KV gets kept blocks if others cannot") {
  SchedulerOptions options = Blocks16(5);
  options.kv_block_tokens = {1};
  options.preempt = PreemptMode::kOff;
  Host host(options, {.max_seqs = 5});
  host.Arrive(1, 1);
  host.Arrive(2, 2);
  host.On(KvPinned{{1}});
  CHECK(host.Step({1}) == "1:1 2:2");
  host.On(ToolCalled{{2}});
  host.Arrive(3, 1);
  Request r = Prompt(4, 1);
  r.sequences = 4;
  host.Arrive(r);
  CHECK(host.Step() == "3:1 4:1");
  CHECK(host.used() == 5);
  host.On(ToolReturned{{2}});  // it waits with two blocks; request 4 needs four more
  const StepPlan& plan = host.Plan();
  CHECK(Shape(plan) == "3:1");
  CHECK(host.scheduler.stats().kv_reclaimed == 1);
}

TEST_CASE("a prompt waiting for pinned KV does not block a longer one") {
  Host host(Blocks16(6));
  host.Arrive(1, 64);
  Request r = Prompt(2, 16);
  r.sequences = 4;
  host.Arrive(r);
  host.On(KvPinned{{1}});
  CHECK(host.Step({1}) == "1:64 2:16");
  host.On(KvLost{{2}});
  host.limits.tokens = {15};
  CHECK(host.Step() == "2:15");  // it lacks five tokens, of which four have no room
  host.limits.tokens = {3};
  host.Arrive(3, 8);
  CHECK(host.Step() == "3:3");
}

TEST_CASE("the share of a prompt waiting for pinned KV goes to others") {
  Host host(Blocks16(20));
  host.Arrive(1, 272);
  Request r = Prompt(2, 16);
  r.sequences = 16;
  host.Arrive(r);
  host.Arrive(3, 8);
  host.On(KvPinned{{1}});
  CHECK(host.Step({1}) == "1:272 2:16 3:8");
  host.On(KvLost{{2}});
  host.On(KvLost{{3}});
  host.limits.tokens = host.limits.chunk_align = {12};
  CHECK(host.Step() == "2:12");
  CHECK(host.Step() == "3:9");  // the other lacks twenty tokens, of which sixteen have no room
}

TEST_CASE("chunks end at a multiple of the alignment, or with the prompt") {
  Host host(Blocks16(100), {.tokens = {50}, .chunk_align = {16}});
  host.Arrive(1, 100);
  CHECK(host.Step() == "1:48");
  CHECK(host.Step() == "1:48");
  host.Arrive(2, 40);
  CHECK(host.Step() == "1:4 2:40");
  host.limits.tokens = {15};
  host.Arrive(3, 40);
  CHECK(host.Step() == "1:1 2:1");  // no multiple lies within 13 tokens
  host.limits.tokens = {18};
  CHECK(host.Step() == "1:1 2:1 3:16");
}

TEST_CASE("a row's fault code is passed on to its failure") {
  Host host(Blocks16(4));
  host.Arrive(1, 8);
  const StepPlan& plan = host.Plan();
  host.CommitRows(plan, {{{1}, plan.run[0].lane, 4711, 0, RowResult::kFailed}});
  const StepPlan& next = host.Plan();
  REQUIRE(next.failed.size() == 1);
  CHECK(next.failed[0].reason == FailReason::kHost);
  CHECK(next.failed[0].code == 4711);
}

TEST_CASE("a preempted row is swapped out if all its blocks may move") {
  for (const std::int32_t swap_out : {1, 2}) {
    CAPTURE(swap_out);
    SchedulerOptions options;
    options.preempt_action = KvAction::kOut;
    options.kv_block_tokens = {16}, options.kv_blocks = {4}, options.cpu_blocks = {10};
    options.kv_watermark = 0;
    Host<> host(options, {.tokens = {64}, .swap_out = {swap_out}});
    for (const std::uint64_t id : {1u, 2u}) host.Arrive(id, 30);
    std::vector<Preemption> preempted;
    for (int i = 0; i < 10 && preempted.empty(); ++i) {
      const StepPlan& plan = host.Plan();
      preempted.assign(plan.preempted.begin(), plan.preempted.end());
      host.Commit(plan);
    }
    REQUIRE(preempted.size() == 1);
    CHECK(preempted[0].action == (swap_out == 2 ? KvAction::kOut : KvAction::kDrop));
  }
}

}  // namespace
}  // namespace takt
