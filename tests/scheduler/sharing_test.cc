// How rows, prompts and drafts share the tokens and the memory of a step.
#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/host.h"

namespace takt {
namespace {

using testing::Host;
using testing::Prompt;
using testing::Shape;

// Blocks of 16 tokens, without a watermark.
SchedulerOptions Blocks16(std::int32_t blocks) { return {.kv_blocks = {blocks}, .kv_watermark = 0}; }

// One step; each row that samples has one token, accepts no draft, and offers `drafts`.
template <class H>
std::string Step(H& host, std::uint8_t drafts, const std::function<void(const StepPlan&)>& look = {}) {
  const StepPlan& plan = host.Plan();
  const std::string shape = Shape(plan);
  if (look) look(plan);
  if (plan.run.empty()) return shape;
  std::vector<RowResult> rows = Host<>::Answer(plan);
  for (RowResult& row : rows) row.drafts = row.tokens > 0 ? drafts : std::uint8_t{0};
  host.CommitRows(plan, rows);
  return shape;
}

TEST_CASE("each row gets its own token first, then rows share drafts") {
  const std::int32_t tokens = GENERATE(4, 5, 6, 7, 8, 13, 31, 100);
  const StepOrder order = GENERATE(StepOrder::kRunningFirst, StepOrder::kPrefillFirst);
  CAPTURE(tokens);
  SchedulerOptions options = Blocks16(1000);
  options.order = order;
  Host host(options, {.tokens = {tokens}, .max_seqs = 4});
  for (std::uint64_t id = 1; id <= 4; ++id) host.Arrive(id, 1);
  host.Step();
  std::array<std::int32_t, 4> own = {}, drafts = {};
  for (int i = 0; i < 120; ++i) {
    std::int32_t least = 7, most = 0;
    Step(host, 7, [&](const StepPlan& plan) {
      CHECK(plan.tokens.value == std::min(tokens, i == 0 ? 4 : 32));
      for (const PlanEntry& entry : plan.run) {
        own[entry.request.value - 1] += entry.tokens;
        drafts[entry.request.value - 1] += entry.speculative;
        least = std::min(least, +entry.speculative), most = std::max(most, +entry.speculative);
      }
    });
    CHECK(most - least <= 1);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(own[i] == 120);
    CHECK(std::abs(drafts[i] - drafts[0]) <= 1);
  }
}

TEST_CASE("rows that come or go do not deprive another of drafts") {
  Host host(Blocks16(1000), {.tokens = {5}, .max_seqs = 4});
  host.Arrive(1, 1);
  host.Step();
  std::int32_t drafts = 0;
  for (std::uint64_t i = 0; i < 90; ++i) {
    host.Arrive(2 + i, 1);  // a new row each step, and each ends after three
    const StepPlan& plan = host.Plan();
    for (const PlanEntry& entry : plan.run) drafts += entry.request == RequestId{1} ? entry.speculative : 0;
    std::vector<RowResult> rows =
        Host<>::Answer(plan, i > 2 ? std::vector<std::uint64_t>{i - 1} : std::vector<std::uint64_t>{});
    for (RowResult& row : rows) row.drafts = 3;
    if (i < 3) rows[0].flags = 0;
    host.CommitRows(plan, rows);
  }
  CHECK(drafts >= 90 / 4);
}

TEST_CASE("prompts, started or new, come before drafts") {
  Host host(Blocks16(1000), {.tokens = {16}, .max_seqs = 4});
  host.Arrive(1, 1);
  host.Arrive(2, 1);
  Step(host, 7);
  CHECK(Step(host, 7) == "1:1+7 2:1+7");
  host.Arrive(3, 30);
  CHECK(Step(host, 7) == "1:1 2:1 3:14");
  CHECK(Step(host, 7) == "1:1 2:1 3:14");
  CHECK(Step(host, 7) == "1:1+6 2:1+6 3:2");
  CHECK(Step(host, 7) == "1:1+5 2:1+4 3:1+4");
}

TEST_CASE("drafts use tokens that prompts may not") {
  Host host(Blocks16(1000), {.tokens = {16}, .max_seqs = 4, .prefill_tokens = {10}});
  host.Arrive(1, 1);
  Step(host, 7);
  host.Arrive(2, 30);
  CHECK(Step(host, 7) == "1:1+5 2:10");
  host.limits = {.tokens = {16}, .max_seqs = 4, .chunk_align = {8}};
  CHECK(Step(host, 7) == "1:1+1 2:14");
}

TEST_CASE("a row's own block comes before drafts of earlier rows") {
  Host host(Blocks16(3));
  host.Arrive(1, 14);
  host.Arrive(2, 15);
  Step(host, 7);
  // Row 1 has room for two tokens, row 2 for one.
  CHECK(Step(host, 7) == "1:1+7 2:1");  // a draft of either needs the free block
  const StepPlan& plan = host.Plan();
  CHECK(plan.preempted.size() == 1);  // row 2 itself needs a block
}

TEST_CASE("too few blocks for all drafts are shared in turn") {
  Host host(Blocks16(3), {.max_seqs = 2});
  host.Arrive(1, 4);
  host.Arrive(2, 4);
  Step(host, 0);
  std::array<std::int32_t, 2> most = {};
  for (int i = 0; i < 4; ++i) {
    Step(host, 20, [&](const StepPlan& plan) {
      for (const PlanEntry& e : plan.run)
        most[e.request.value - 1] = std::max(most[e.request.value - 1], +e.speculative);
    });
  }
  CHECK(most == std::array<std::int32_t, 2>{20, 10});  // the block stays with the first, whose next tokens it holds
}

TEST_CASE("drafts leave the watermark and the first request's memory") {
  SchedulerOptions options = Blocks16(10);
  options.kv_watermark = 0.2;
  Host host(options);
  host.Arrive(1, 100);  // 7 blocks of 10, with place for 12 tokens
  Step(host, 40);
  CHECK(Step(host, 40) == "1:1+27");  // one more block
  options.kv_watermark = 0;
  Host other(options);
  other.Arrive(1, 100);
  Step(other, 40);
  other.Arrive(2, 64);
  CHECK(Step(other, 40) == "1:1+11");
  CHECK(other.scheduler.Explain({2}).waits_for == WaitsFor::kKv);
  CHECK(other.used() == 7);
  other.On(Cancelled{{2}});
  CHECK(Step(other, 40) == "1:1+40");
}

// A host's memory that grants the amounts in `grants`.
class Pool : public KvOracle {
 public:
  Tokens block_tokens() const override { return {16}; }
  KvSnapshot Snapshot() const override { return {{100}, {free}, {0}}; }
  void CachedTokens(std::span<KvHit>) override {}
  void Reserve(StepId, std::span<KvReservation> wishes) override {
    ++asked;
    for (KvReservation& wish : wishes) {
      wish.granted = grants(wish);
      if (wish.granted) free -= (wish.want - wish.have).value / 16;
      wish.refusal = KvRefusal::kForEver;
    }
  }
  Blocks Release(RequestId, KvAction) override { return {0}; }

  std::int32_t free = 100, asked = 0;
  std::function<bool(const KvReservation&)> grants = [](const KvReservation&) { return true; };
};

TEST_CASE("an oracle that refuses draft memory does not stop the row") {
  Pool pool;
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  Host<Fcfs> host(options, {}, {}, &pool);
  host.Arrive(1, 14);
  host.Arrive(2, 2);
  Step(host, 7);
  CHECK(pool.asked == 1);
  pool.grants = [](const KvReservation& wish) { return wish.request != RequestId{1}; };
  CHECK(Step(host, 7) == "1:1+1 2:1+7");
  CHECK(pool.asked == 2);
  pool.grants = [](const KvReservation&) { return true; };
  CHECK(Step(host, 7) == "1:1+7 2:1+7");
  CHECK(host.scheduler.stats().failed_kv_exhausted == 0);
}

TEST_CASE("an oracle is asked once for a row's block, including drafts") {
  Pool pool;
  SchedulerOptions options;
  options.kv = KvMode::kOracle;
  Host<Fcfs> host(options, {}, {}, &pool);
  host.Arrive(1, 16);
  Step(host, 40);
  CHECK(Step(host, 40) == "1:1+15");
  CHECK(pool.asked == 2);
}

// ---- long prompts

TEST_CASE("a single prompt uses the whole step") {
  Host host(Blocks16(10'000), {.tokens = {1000}});
  host.Arrive(1, 8000);
  for (int i = 0; i < 8; ++i) CHECK(host.Step() == "1:1000");
}

TEST_CASE("short prompts start at once next to a long one") {
  const StepOrder order = GENERATE(StepOrder::kRunningFirst, StepOrder::kPrefillFirst);
  SchedulerOptions options = Blocks16(100'000);
  options.order = order;
  Host host(options, {.tokens = {1000}});
  host.Arrive(1, 100'000);
  CHECK(host.Step() == "1:1000");
  for (std::uint64_t id = 2; id <= 4; ++id) host.Arrive(id, 200);
  CHECK(host.Step() == "2:200 3:200 4:100 1:500");  // half of it belongs to them if they need it
  CHECK(host.Step({2, 3}) == (order == StepOrder::kRunningFirst ? "2:1 3:1 4:100 1:898" : "4:100 1:900"));
}

TEST_CASE("decoding rows come before an earlier long prompt") {
  Host host(Blocks16(10'000), {.tokens = {10}});
  host.Arrive(1, 8000);
  host.Step();
  host.Arrive(2, 4);
  CHECK(host.Step() == "2:4 1:6");
  for (int i = 0; i < 20; ++i) CHECK(host.Step() == "2:1 1:9");
}

TEST_CASE("a flood of short prompts leaves a long one its share") {
  Host host(Blocks16(100'000), {.tokens = {1000}, .max_seqs = 4});
  host.Arrive(1, 100'000);
  host.Step();
  std::uint64_t next = 2;
  for (int i = 0; i < 50; ++i) {
    while (next < 2 + 5 * (static_cast<std::uint64_t>(i) + 1)) host.Arrive(next++, 250);
    const StepPlan& plan = host.Plan();
    std::int32_t tokens = 0;
    std::vector<std::uint64_t> others;
    for (const PlanEntry& e : plan.run) {
      (e.request == RequestId{1} ? tokens = e.tokens : (others.push_back(e.request.value), 0));
    }
    CHECK(tokens >= 499);
    host.Commit(plan, others);
  }
}

TEST_CASE("of equal prompts the first ends before the next starts") {
  Host host(Blocks16(100'000), {.tokens = {1000}});
  for (std::uint64_t id = 1; id <= 3; ++id) host.Arrive(id, 2500);
  CHECK(host.Step() == "1:1000");
  CHECK(host.Step() == "1:1000");
  CHECK(host.Step() == "1:500 2:500");
  CHECK(host.Step() == "1:1 2:999");
  CHECK(host.Step() == "1:1 2:999");
}

TEST_CASE("a prompt at most half as long starts next to another") {
  Host host(Blocks16(100'000), {.tokens = {1000}});
  host.Arrive(1, 9000);
  CHECK(host.Step() == "1:1000");
  host.Arrive(2, 7000);  // more than half of what 1 lacks: sharing would delay both ends
  host.Arrive(3, 3000);
  host.Arrive(4, 100);
  CHECK(host.Step() == "3:500 1:500");
  CHECK(host.Step() == "4:100 1:567 3:333");
  CHECK(host.scheduler.Explain({2}).waits_for == WaitsFor::kBudget);
  CHECK(host.Step({4}) == "4:1 1:666 3:333");
}

TEST_CASE("long prompts that start together share equally") {
  Host host(Blocks16(100'000), {.tokens = {1000}, .chunk_tokens = {500}});
  host.Arrive(1, 10'000);
  host.Arrive(2, 10'000);
  CHECK(host.Step() == "1:500 2:500");
  host.limits.chunk_tokens = {900};  // a host that bounds chunks decides by itself
  CHECK(host.Step() == "1:900 2:100");
  host.limits.chunk_tokens = Tokens::Max();
  CHECK(host.Step() == "2:500 1:500");
  host.Arrive(3, 10);
  CHECK(host.Step() == "3:10 1:657 2:333");
}

TEST_CASE("a share of an aligned prompt is a chunk at least") {
  Host host(Blocks16(100'000), {.tokens = {512}, .chunk_align = {512}});
  host.Arrive(1, 10'000);
  CHECK(host.Step() == "1:512");
  host.Arrive(2, 10);
  CHECK(host.Step() == "1:512");
  host.limits = {.tokens = {600}, .chunk_align = {256}};
  CHECK(host.Step() == "2:10 1:512");
  host.limits.tokens = {100};  // 1 can then compute nothing
  host.Arrive(3, 90);
  CHECK(host.Step() == "2:1 3:90");
}

TEST_CASE("fitting requests pass a whole prompt until a step has room") {
  Host host(Blocks16(1000), {.tokens = {100}});
  host.Arrive(1, 1000);
  host.Step();
  Request whole = Prompt(2, 90);
  whole.chunkable = false;
  host.Arrive(whole);
  host.Arrive(3, 10);
  CHECK(host.Step() == "3:10 1:90");  // 2 waits for a step that has room
  std::string step;
  for (int i = 0; i < 10 && step.find("2:") == std::string::npos; ++i) step = host.Step();
  CHECK(step == "1:1 3:1 2:90");
}

}  // namespace
}  // namespace takt
