// Which requests pass which others at admission, and at what cost, worked out by hand.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "scheduler/host.h"

namespace takt {
namespace {

using testing::Host;
using testing::Prompt;
using testing::Shape;

// Blocks of 16 tokens, and no watermark, so that counts are easy to follow.
SchedulerOptions Blocks16(std::int32_t blocks) { return {.kv_blocks = {blocks}, .kv_watermark = 0}; }

// Returns the first step that runs the request; -1: no step does.
template <class AHost>
int FirstStepOf(AHost& host, std::uint64_t id, int steps, const std::vector<std::uint64_t>& finished = {}) {
  for (int i = 0; i < steps; ++i) {
    if ((" " + host.Step(finished)).find(" " + std::to_string(id) + ":") != std::string::npos) return i;
  }
  return -1;
}

// ---- aligned chunks

TEST_CASE("an aligned chunk gets its turn next to a decode, others pass") {
  Host host(Blocks16(100'000), {.tokens = {512}, .max_seqs = 64, .chunk_align = {512}});
  host.Arrive(1, 10);
  host.Step();
  host.Arrive(2, 2000);
  host.Arrive(3, 10);
  CHECK(host.Step() == "1:1 3:10");
  CHECK(host.scheduler.Explain({2}).waits_for == WaitsFor::kBudget);
  std::map<std::string, int> steps;
  for (int i = 0; i < 20; ++i) ++steps[host.Step({3})];
  CHECK(steps["2:512"] == 3);  // the decoding row misses these steps
  CHECK(host.scheduler.Explain({2}).generated.value > 0);
  CHECK(host.scheduler.Explain({1}).generated.value > 15);
  CHECK(host.scheduler.stats().faults() == 0);
}

TEST_CASE("a whole prompt gets its turn next to decodes, and others pass") {
  Host host(Blocks16(100'000), {.tokens = {512}, .max_seqs = 64});
  host.Arrive(1, 10);
  host.Step();
  Request whole = Prompt(2, 512);
  whole.chunkable = false;
  host.Arrive(whole);
  host.Arrive(3, 10);
  CHECK(host.Step() == "1:1 3:10");
  CHECK(FirstStepOf(host, 2, 10) == 3);
}

TEST_CASE("a chunk of a started prompt gets its turn, too") {
  Host host(Blocks16(100'000), {.tokens = {64}, .max_seqs = 64, .chunk_align = {64}});
  host.Arrive(1, 128);
  CHECK(host.Step() == "1:64");
  host.limits.tokens = {128};
  host.Arrive(2, 8);
  CHECK(host.Step() == "1:64 2:8");
  host.Arrive(3, 200);
  CHECK(host.Step() == "1:1 2:1 3:64");
  host.limits.tokens = {65};
  for (int i = 0; i < 4; ++i) CHECK(host.Step() == "1:1 2:1");
  CHECK(host.Step() == "3:64 1:1");
}

TEST_CASE("an alignment above the largest chunk is a fault; other prompts run") {
  const StepLimits limits = GENERATE(StepLimits{.tokens = {32}, .chunk_align = {64}},
                                     StepLimits{.tokens = {32}, .chunk_tokens = {16}, .chunk_align = {32}},
                                     StepLimits{.prefill_tokens = {32}, .chunk_align = {33}});
  SchedulerOptions options = Blocks16(10'000);
  options.admission_window = 1;
  Host host(options, limits);
  host.Arrive(1, 1);
  host.Step();
  for (std::uint64_t id = 2; id < 40; ++id) host.Arrive(id, 100);
  host.Arrive(40, 10);
  CHECK(host.Step() == "1:1 40:10");
  CHECK(host.scheduler.stats().limits_misaligned == 2);
  CHECK(host.scheduler.last_fault().kind == FaultKind::kChunkAlign);
  CHECK(host.scheduler.last_fault().received == limits.chunk_align.value);
  CHECK(host.scheduler.last_fault().expected ==
        std::min({limits.tokens, limits.prefill_tokens, limits.chunk_tokens}).value);
  host.limits = {.tokens = {80}, .chunk_align = {64}};
  CHECK(host.Step() == "1:1 40:1 2:64");
  CHECK(host.scheduler.stats().limits_misaligned == 2);
}

TEST_CASE("limits without prompt tokens are no fault at any alignment") {
  Host host(Blocks16(100), {.prefill_tokens = {0}, .chunk_align = {64}});
  host.Arrive(1, 100);
  CHECK(host.Step().empty());
  host.limits = {.tokens = {0}, .chunk_align = {64}};
  CHECK(host.Step().empty());
  CHECK(host.scheduler.stats().faults() == 0);
}

TEST_CASE("at most admission_window others pass a request without step room") {
  SchedulerOptions options = Blocks16(1000);
  options.admission_window = 2;
  Host host(options, {.tokens = {512}, .max_seqs = 64, .chunk_align = {512}});
  host.Arrive(1, 10);
  host.Step();
  host.Arrive(2, 600);
  for (std::uint64_t id = 3; id < 9; ++id) host.Arrive(id, 4);
  CHECK(host.Step() == "1:1 3:4 4:4");
  CHECK(host.Step() == "1:1 3:1 4:1");
  CHECK(host.Step() == "1:1 3:1 4:1");
  CHECK(host.Step() == "1:1 3:1 4:1");
  CHECK(host.Step() == "2:512");
}

// ---- memory

TEST_CASE("a request is admitted below the watermark if memory stays free") {
  const std::int32_t need = GENERATE(990, 995, 996);
  Host host({.kv_blocks = {1000}}, {.tokens = {8192}, .max_seqs = 8});
  host.Arrive(1, 10);
  host.Step();
  host.Arrive(2, need * 16);
  CHECK(FirstStepOf(host, 2, 40) == 16);
  host.Step();
  host.Step();
  host.Step({2});
  CHECK(host.scheduler.stats().finished == 1);
  CHECK(host.scheduler.stats().preempted_recompute == 0);
}

TEST_CASE("without a block for each sequence the watermark keeps a request out") {
  Host host({.kv_blocks = {1000}}, {.tokens = {8192}, .max_seqs = 8});
  host.Arrive(1, 10);
  host.Step();
  host.Arrive(2, 998 * 16);
  CHECK(FirstStepOf(host, 2, 40) == -1);
  host.Step({1});
  CHECK(FirstStepOf(host, 2, 1) == 0);
}

TEST_CASE("only the first of the queue takes of the watermark") {
  Host host({.kv_blocks = {100}, .kv_watermark = 0.1, .admission_window = 2});
  host.Arrive(1, 10);
  host.Step();
  host.Arrive(2, 99 * 16 + 1);
  host.Arrive(3, 95 * 16);
  CHECK(FirstStepOf(host, 3, 40) == -1);
}

TEST_CASE("at most admission_window others pass a request without memory") {
  Host host({.kv_blocks = {100}, .kv_watermark = 0, .admission_window = 3});
  host.Arrive(1, 50 * 16 - 8);
  host.Step();
  host.Arrive(2, 60 * 16);
  for (std::uint64_t id = 3; id < 12; ++id) host.Arrive(id, 5);
  CHECK(host.Step() == "1:1 3:5 4:5 5:5");
  const Explanation why = host.scheduler.Explain({2});
  CHECK(why.waits_for == WaitsFor::kKv);
  CHECK(why.passed == 3);
  CHECK(host.Step({3, 4, 5}) == "1:1 3:1 4:1 5:1");
  CHECK(host.Step() == "1:1");
  CHECK(host.Step({1}) == "1:1");
  CHECK(host.Step() == "2:960 6:5 7:5 8:5 9:5 10:5 11:5");
  CHECK(host.scheduler.Explain({2}).passed == 0);
}

TEST_CASE("each request without memory counts the requests that pass it") {
  Host host({.kv_blocks = {100}, .kv_watermark = 0, .admission_window = 4});
  host.Arrive(1, 50 * 16 - 8);
  host.Step();
  host.Arrive(2, 60 * 16);
  host.Arrive(3, 5);
  host.Arrive(4, 70 * 16);
  host.Arrive(5, 5);
  CHECK(host.Step() == "1:1 3:5 5:5");
  CHECK(host.scheduler.Explain({2}).passed == 2);
  CHECK(host.scheduler.Explain({4}).passed == 1);
}

TEST_CASE("a request that never fits leaves its memory to the first") {
  SchedulerOptions options = Blocks16(6);
  options.max_step_tokens = {60};
  Host host(options);
  Request whole = Prompt(3, 64);
  whole.chunkable = false;
  host.Arrive(2, 64);
  host.On(Blocked{{2}});
  host.Arrive(1, 16);
  host.Arrive(whole);
  host.On(KvArrived{{3}, {32}});
  host.limits.tokens = {60};
  CHECK(host.Step() == "1:16 3:32");
  host.On(ToolCalled{{3}});
  CHECK(host.Step() == "1:1");
  host.On(Unblocked{{2}});
  host.On(ToolReturned{{3}, {1}, {}});
  host.On(KvLost{{3}, {1}});  // without the arrived KV no step computes its prompt
  host.Arrive(4, 16);
  const StepPlan& plan = host.Plan();
  CHECK(Shape(plan) == "1:1 2:59");
  REQUIRE(plan.failed.size() == 1);
  CHECK(plan.failed[0].reason == FailReason::kNeverFits);
}

TEST_CASE("no request passes one that lost its place or takes its memory") {
  SchedulerOptions options{.kv_blocks = {8}, .kv_watermark = 0};
  Host host(options);
  host.Arrive(1, 60);
  host.Arrive(2, 63);
  host.Step();
  host.Step();
  host.Step();
  CHECK(host.Step() == "1:1");  // 2 has lost its place
  CHECK(host.scheduler.stats().preempted_recompute == 1);
  host.Arrive(3, 5);
  CHECK(host.Step() == "1:1");
  CHECK(host.scheduler.Explain({2}).waits_for == WaitsFor::kKv);
  CHECK(host.scheduler.Explain({2}).passed == 0);
}

// ---- hits

Request Turn(std::uint64_t id, std::int32_t tokens, std::uint64_t first_hash) {
  Request r = Prompt(id, tokens);
  std::vector<std::uint64_t> hashes;
  for (std::int32_t i = 0; i < tokens / 16; ++i) hashes.push_back(first_hash + static_cast<std::uint64_t>(i));
  r.prefix = testing::Prefix(16, hashes);
  return r;
}

TEST_CASE("a preempted request's own blocks are recovered and are no hits") {
  Host host({.kv_blocks = {60}, .kv_watermark = 0, .prefix_cache = true}, {.tokens = {512}, .max_seqs = 8});
  for (std::uint64_t id = 1; id <= 4; ++id) {
    Request r = Turn(id, 200, 1000 * id);
    r.max_output_tokens = {400};
    host.Arrive(r);
  }
  for (int i = 0; i < 3000 && host.scheduler.alive() > 0; ++i) host.Step();
  const Stats& stats = host.scheduler.stats();
  CHECK(host.scheduler.alive() == 0);
  CHECK(stats.preempted_recompute > 0);
  CHECK(stats.tokens_cached == 0);
  CHECK(stats.tokens_recovered > 0);
}

TEST_CASE("KV that returns from the host after a preemption counts as recovered") {
  Host host(
      {.kv_blocks = {60}, .cpu_blocks = {200}, .kv_watermark = 0, .prefix_cache = true, .prefix_cpu_blocks = {200}},
      {.tokens = {512}, .max_seqs = 8});
  for (std::uint64_t id = 1; id <= 4; ++id) {
    Request r = Turn(id, 200, 1000 * id);
    r.max_output_tokens = {400};
    host.Arrive(r);
  }
  for (int i = 0; i < 3000 && host.scheduler.alive() > 0; ++i) {
    const StepPlan& plan = host.Plan();
    const std::vector<KvMove> moves(plan.moves.begin(), plan.moves.end());
    if (!plan.run.empty()) host.Commit(plan);
    for (const KvMove& move : moves) host.On(MoveDone{move.id});
  }
  const Stats& stats = host.scheduler.stats();
  CHECK(host.scheduler.alive() == 0);
  CHECK(stats.tokens_loaded > 0);
  CHECK(stats.tokens_cached == 0);
  CHECK(stats.tokens_recovered >= stats.tokens_loaded);
}

TEST_CASE("shared KV counts once for any reason to wait afterwards") {
  Host host({.kv_blocks = {60}, .kv_watermark = 0, .prefix_cache = true});
  host.Arrive(Turn(1, 200, 1));
  host.Step();
  host.Arrive(Turn(2, 200, 1));
  host.Step();
  CHECK(host.scheduler.stats().tokens_cached == 192);
  host.On(Blocked{{2}});
  host.On(Unblocked{{2}});
  host.Step();
  host.On(KvLost{{2}});
  host.On(Blocked{{2}});
  host.On(Unblocked{{2}});
  for (int i = 0; i < 5; ++i) host.Step();
  CHECK(host.scheduler.stats().tokens_cached == 192);
}

// ---- equal prompts

SchedulerOptions Cached(std::int32_t blocks = 10'000) {
  return {.kv_blocks = {blocks}, .kv_watermark = 0, .prefix_cache = true};
}

TEST_CASE("equal prompts are computed once, at any size of the step") {
  const StepLimits limits = GENERATE(StepLimits{.tokens = {65536}, .max_seqs = 64},
                                     StepLimits{.tokens = {8192}, .max_seqs = 64, .chunk_tokens = {2048}},
                                     StepLimits{.tokens = {2048}, .max_seqs = 64}, StepLimits{.tokens = {100}});
  const std::size_t overlap = GENERATE(1U, 3U);
  Host host(Cached(), limits);
  for (std::uint64_t id = 1; id <= 8; ++id) {
    Request r = Turn(id, 8001, 1);
    r.max_output_tokens = {1};
    host.Arrive(r);
  }
  std::vector<const StepPlan*> flying;
  for (int i = 0; i < 400 && host.scheduler.alive() > 0; ++i) {
    const StepPlan& plan = host.Plan();
    if (!plan.run.empty()) flying.push_back(&plan);
    if (flying.empty() || (flying.size() < overlap && !plan.run.empty())) continue;
    host.Commit(*flying.front());
    flying.erase(flying.begin());
  }
  CHECK(host.scheduler.alive() == 0);
  CHECK(host.scheduler.stats().tokens_prefill == 8001 + 7);
  CHECK(host.scheduler.stats().tokens_cached == 7 * 8000);
}

TEST_CASE("others pass requests that wait for a prefix, and Explain agrees") {
  Host host(Cached(), {.tokens = {1000}, .max_seqs = 64, .chunk_tokens = {512}});
  for (std::uint64_t id = 1; id <= 40; ++id) host.Arrive(Turn(id, 1024, 1));
  host.Arrive(Turn(50, 64, 7000));
  CHECK(host.Step() == "1:512");  // 16 are considered
  CHECK(host.scheduler.Explain({2}).waits_for == WaitsFor::kPrefix);
  CHECK(host.scheduler.Explain({40}).waits_for == WaitsFor::kItsTurn);
  host.limits.chunk_tokens = {64};
  CHECK(host.Step() == "1:64");
  CHECK(host.Step() == "1:64 50:64");
  host.limits.chunk_tokens = {1000};
  CHECK(host.Step().starts_with("50:1 1:384"));
  CHECK(host.Step().starts_with("1:1 50:1 2:16 3:16 4:16"));
  CHECK(host.scheduler.Explain({2}).waits_for == WaitsFor::kNothing);
}

TEST_CASE("waiting requests continue at once if the prefix's request goes") {
  const int how = GENERATE(0, 1, 2, 3);
  Host host(Cached(), {.tokens = {256}, .max_seqs = 64, .chunk_tokens = {128}});
  host.Arrive(Turn(1, 1024, 1));
  host.Arrive(Turn(2, 1024, 1));
  const StepPlan& plan = host.Plan();
  CHECK(Shape(plan) == "1:128");
  if (how == 0) host.On(Cancelled{{1}});
  if (how == 1) host.On(Blocked{{1}});
  if (how == 2) {
    host.CommitRows(plan, {{{1}, plan.run[0].lane, 0, 0, RowResult::kFailed}});
    CHECK(host.Step() == "2:128");  // a failed request's KV is in no cache
    return;
  }
  if (how == 3) host.On(NotReady{{1}});
  const StepPlan& next = host.Plan();
  CHECK(Shape(next) == (how == 3 ? "" : "2:128"));
  host.Commit(plan);
  if (how == 3) CHECK(host.Step() == "1:128");
}

TEST_CASE("waiting requests continue if the prefix's request misses a step") {
  Host host(Cached(), {.tokens = {256}, .max_seqs = 64, .chunk_tokens = {128}});
  host.Arrive(Turn(1, 1024, 1));
  host.Arrive(Turn(2, 1024, 1));
  CHECK(host.Step() == "1:128");
  host.On(NotReady{{1}});
  CHECK(host.Step() == "2:128");
}

TEST_CASE("the wait for a prefix ends after prefix_wait steps without progress") {
  SchedulerOptions options = Cached();
  options.prefix_wait = GENERATE(0, 1, 3);
  Host host(options, {.tokens = {256}, .max_seqs = 64, .chunk_tokens = {128}});
  host.Arrive(Turn(1, 1024, 1));
  host.Arrive(Turn(2, 1024, 1));
  for (int i = 0; i < options.prefix_wait; ++i) {
    const StepPlan& plan = host.Plan();
    CHECK(Shape(plan) == "1:128");
    host.CommitRows(plan, {});  // the step is lost
  }
  CHECK(host.Step() == "1:128 2:128");
}

TEST_CASE("a request waits only for a worthwhile prefix before it runs") {
  Host host(Cached(), {.tokens = {8192}, .max_seqs = 64, .chunk_tokens = {128}});
  Request large = Turn(2, 4096, 1);
  large.prefix = testing::Prefix(16, {1, 2, 3, 4});
  host.Arrive(Turn(1, 1024, 1));
  host.Arrive(large);
  Request other = Turn(3, 1024, 1);
  other.prefix = testing::Prefix(32, {1, 2, 3, 4});  // other chunks with the same hashes
  host.Arrive(other);
  CHECK(host.Step() == "1:128 2:128 3:128");
}

TEST_CASE("requests with a common beginning wait for that part alone") {
  Host host(Cached(), {.tokens = {8192}, .max_seqs = 64, .chunk_tokens = {128}});
  Request second = Turn(2, 1024, 1);
  std::vector<std::uint64_t> hashes;
  for (std::uint64_t i = 0; i < 64; ++i) hashes.push_back(i < 16 ? 1 + i : 900 + i);
  second.prefix = testing::Prefix(16, hashes);
  host.Arrive(Turn(1, 1024, 1));
  host.Arrive(second);
  CHECK(host.Step() == "1:128");
  CHECK(host.Step() == "1:128");
  CHECK(host.Step() == "1:128 2:128");
  CHECK(host.scheduler.stats().tokens_cached == 256);
}

}  // namespace
}  // namespace takt
