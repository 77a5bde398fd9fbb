// Bug reports of other engines as scenarios for takt, one case per report. Each names its thread, in our own words.
#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engines/engine.h"
#include "takt/placement/least_loaded.h"
#include "takt/policy/room_to_pass.h"
#include "takt/policy/sjf.h"
#include "takt/turns/retention/lru.h"
#include "takt/router.h"

namespace takt::testing {
namespace {

constexpr std::int32_t kForEver = 1'000'000;

SchedulerOptions Ledger(std::int32_t blocks, bool prefix_cache = false) {
  return {.max_running = 64, .kv_blocks = {blocks}, .prefix_cache = prefix_cache};
}
SchedulerOptions Exact(std::int32_t blocks, bool prefix_cache = false) {
  SchedulerOptions options = Ledger(blocks, prefix_cache);
  options.kv_watermark = 0;
  return options;
}

// FastDeploy#7438, TensorRT-LLM#16101: drafts of one row took the budget of the others.
TEST_CASE("every row gets its own token before any row gets drafts") {
  Engine e(Ledger(1000), {.tokens = {8}, .max_seqs = 4});
  e.drafts = 7;
  for (std::uint64_t id = 1; id <= 4; ++id) e.Arrive(id, 1, 1000);
  e.Run(200);
  for (std::uint64_t id = 1; id <= 4; ++id) CHECK(e.of[id].tokens == 200);
}

// FastDeploy#7499: drafts of one row took the prompts' budget.
TEST_CASE("a prompt is computed next to rows that draft") {
  Engine e(Ledger(1000), {.tokens = {16}, .max_seqs = 4});
  e.drafts = 7;
  e.Arrive(1, 1, 1000), e.Arrive(2, 1, 1000);
  e.Run(5);
  e.Arrive(3, 64, 5);
  e.Run(100);
  CHECK(e.of[3].tokens == 5);
  CHECK(e.of[1].tokens == 105);
}

// local-inference-lab/vllm#394: an aligned chunk never fit next to a decode, and nothing passed it.
TEST_CASE("a prompt whose aligned chunk does not fit blocks no other") {
  Engine e(Ledger(100'000), {.tokens = {512}, .max_seqs = 64, .chunk_align = {512}});
  e.Arrive(1, 10, kForEver);
  e.Run(3);
  e.Arrive(2, 2000, 5);
  e.Run(1);
  e.Arrive(3, 10, 5);
  e.Run(1000);
  CHECK(e.of[3].tokens == 5);
  CHECK(e.of[3].first < 10);
}

struct Fleet {
  explicit Fleet(std::uint64_t instances) {
    for (std::uint64_t id = 1; id <= instances; ++id) router.On(InstanceUp{{.id = {id}}}, At(0));
  }
  template <class E>
  void On(std::int64_t ms, const E& event) {
    router.On(event, At(ms));
  }
  // Requests from `first` to `last` arrive and are placed. Returns the numbers on each instance.
  std::map<std::uint64_t, int> Place(std::int64_t ms, std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t id = first; id <= last; ++id) On(ms, Arrived{{.id = {id}, .prompt_tokens = {100}}});
    std::map<std::uint64_t, int> placed;
    for (const Placement& p : router.Place(At(ms))) ++placed[p.instance.value];
    return placed;
  }
  static TimePoint At(std::int64_t ms) { return TimePoint(std::chrono::milliseconds(ms)); }

  Router router = *Router::Create({}, Fcfs{}, LeastLoaded{});
};

// llm-d-router#2066, aibrix#2422, dynamo#7753: a report erased placements made after it had been read.
TEST_CASE("a stale report erases no placement that it has not seen") {
  const bool dated = GENERATE(false, true);
  Fleet f(2);
  const InstanceReport read{.as_of = dated ? Fleet::At(0) : kUnset};
  f.On(0, InstanceReported{{1}, read}), f.On(0, InstanceReported{{2}, read});
  CHECK(f.Place(1, 1, 10) == std::map<std::uint64_t, int>{{1, 5}, {2, 5}});
  f.On(2, InstanceReported{{1}, read});
  CHECK(f.Place(3, 11, 20) == std::map<std::uint64_t, int>{{1, 5}, {2, 5}});
  // A report that includes these placements replaces them.
  f.On(4, InstanceReported{{1}, {.running = 10, .as_of = dated ? Fleet::At(4) : kUnset}});
  f.On(4, InstanceReported{{2}, {.running = 40, .as_of = dated ? Fleet::At(4) : kUnset}});
  CHECK(f.Place(5, 21, 24) == std::map<std::uint64_t, int>{{1, 4}});
}

// aibrix#2421: an instance returned under its name. A late end of its first life counted against the second.
TEST_CASE("a late end of an instance's earlier life ends nothing") {
  const std::uint64_t named = GENERATE(0u, 77u);  // lives that the router or the host numbers
  Fleet f(0);
  f.On(0, InstanceUp{{.id = {1}, .life = named}});
  f.On(0, Arrived{{.id = {7}, .prompt_tokens = {100}}});
  const auto place = [&f](std::int64_t ms) {
    const auto placed = f.router.Place(Fleet::At(ms));
    REQUIRE(placed.size() == 1);
    return placed[0].life;
  };
  const std::uint64_t first = place(0);
  f.On(1, InstanceDown{{1}});
  f.On(2, InstanceUp{{.id = {1}, .life = named == 0 ? 0 : named + 1}});
  const std::uint64_t second = place(2);
  REQUIRE(first != second);
  f.On(3, RequestEnded{.request = {7}, .instance = {1}, .failed = true, .life = first});
  CHECK(f.router.stats().reported_late == 1);
  CHECK(f.router.InstanceOf({7}) == InstanceId{1});
  f.On(4, RequestEnded{.request = {7}, .instance = {1}, .failed = true, .life = second});
  CHECK(f.router.stats().reported_late == 1);
  CHECK(f.router.InstanceOf({7}) == InstanceId{});
}

// vllm#25787: a request returned after a preemption and found its own blocks, which counted as hits.
TEST_CASE("a preempted request's own blocks are no cache hits") {
  Engine e(Exact(60, true), {.tokens = {512}, .max_seqs = 8});
  for (std::uint64_t id = 1; id <= 4; ++id) e.Arrive(id, 200, 400, Family(id, 12));
  e.Run(4000);
  CHECK(e.scheduler.stats().preempted_recompute > 0);
  CHECK(e.scheduler.stats().tokens_cached == 0);
  for (std::uint64_t id = 1; id <= 4; ++id) CHECK(e.of[id].tokens == 400);
}

// sglang#34623, vllm#57413: short prompts waited behind the chunks of a long one.
TEST_CASE("short prompts start soon next to a long one") {
  const bool fcfs = GENERATE(false, true);
  for (const bool alone : {false, true}) {
    CAPTURE(fcfs, alone);
    Engine e(Ledger(100'000), {.tokens = {8192}, .max_seqs = 64}, fcfs ? AnyPolicy(Fcfs{}) : AnyPolicy(RoomToPass{}));
    e.Arrive(1, 800'000, 2);
    for (std::uint64_t id = 101; id <= 120; ++id) {
      e.Run(1);
      if (!alone) e.Arrive(id, 200, 2);
    }
    e.Run(200);
    for (std::uint64_t id = 101; id <= 120 && !alone; ++id) CHECK(e.of[id].first - e.of[id].arrived <= 4);
    if (alone) CHECK(e.of[1].first == 800'000 / 8192);
    CHECK(e.of[1].tokens == 2);
  }
}

// sglang#28530, vllm#31731, vllm#36390: a margin refused a request that fits exactly, and all later ones waited.
TEST_CASE("a request without memory is passed, and an exact fit is admitted") {
  Engine e(Ledger(1000), {.tokens = {8192}, .max_seqs = 8});
  e.Arrive(1, 10, kForEver);
  e.Run(3);
  e.Arrive(2, 995 * 16, 2);
  e.Run(1);
  e.Arrive(3, 100, 2);
  e.Run(100);
  CHECK(e.of[3].tokens == 2);
  CHECK(e.of[2].tokens == 2);
}

// TRT-LLM, SGLang, llm-d: equal prompts that arrived together were computed once each.
TEST_CASE("a prompt that another request computes is not computed again") {
  struct Step {
    std::int32_t tokens;
    Tokens chunk;
  };
  for (const Step& step : {Step{65536, Tokens::Max()}, Step{8192, {2048}}, Step{2048, Tokens::Max()}}) {
    CAPTURE(step.tokens);
    Engine e(Ledger(10'000, true), {.tokens = {step.tokens}, .max_seqs = 64, .chunk_tokens = step.chunk});
    for (std::uint64_t id = 1; id <= 8; ++id) e.Arrive(id, 8001, 1, Family(1, 500));
    e.Run(60);
    CHECK(e.scheduler.stats().tokens_prefill <= 8801);
    for (std::uint64_t id = 1; id <= 8; ++id) CHECK(e.of[id].tokens == 1);
  }
}

// sglang#34149: a request aborted after the launch of its last chunk leaked a token and its memory.
TEST_CASE("a request cancelled in flight yields nothing and is released once") {
  Engine e(Ledger(100), {.tokens = {32}, .max_seqs = 4});
  e.depth = 3;
  e.Arrive(1, 64, 10);
  e.Plan();
  e.Plan();
  e.On(Cancelled{{1}});
  e.of[1].void_through = StepId{2};
  CHECK(e.Plan().released.empty());
  e.Commit(), e.Commit();
  e.Run(2);
  CHECK(e.of[1].released == 1);
  CHECK(e.of[1].tokens == 0);
  CHECK(e.scheduler.stats().tokens_output == 0);
  CHECK(e.scheduler.kv().used == Blocks{0});
}

// sglang#38319, sglang#36926: chunks of a request retracted in flight were found by later readers.
TEST_CASE("only committed chunks of a request preempted in flight are found") {
  for (const bool lost : {true, false}) {
    CAPTURE(lost);
    Engine e(Exact(100, true), {.tokens = {64}, .max_seqs = 4});
    e.depth = 3;
    e.Arrive(1, 256, 10, Family(1, 16));
    e.Plan(), e.Plan(), e.Plan();  // three chunks of four blocks are in flight
    e.Commit();                    // the first counts
    if (lost) {
      e.On(KvLost{{1}, {64}});
    } else {
      e.On(Cancelled{{1}});
    }
    e.of[1].void_through = StepId{3};
    e.Arrive(2, 256, 10, Family(1, 16));
    if (lost) e.On(Cancelled{{1}});
    std::int32_t start = -1;
    for (int i = 0; i < 8 && start < 0; ++i) {
      for (const PlanEntry& entry : e.Plan().run) {
        if (entry.request == RequestId{2}) start = entry.position;
      }
    }
    CHECK(start >= 0);
    CHECK(start <= 64);
    e.Run(30);
    CHECK(e.of[2].tokens == 10);
  }
}

// A host that counts blocks.
class Counter : public KvOracle {
 public:
  explicit Counter(std::int32_t blocks) : total_(blocks), free_(blocks) {}
  Tokens block_tokens() const override { return {16}; }
  KvSnapshot Snapshot() const override { return {{total_}, {free_}, {0}}; }
  void CachedTokens(std::span<KvHit>) override {}
  void Reserve(StepId, std::span<KvReservation> wishes) override {
    for (KvReservation& wish : wishes) {
      std::int32_t& held = held_[wish.request.value];
      const std::int32_t more = (wish.want.value + 15) / 16 - held;
      wish.granted = more <= free_;
      if (wish.granted) held += more, free_ -= more;
    }
  }
  Blocks Release(RequestId request, KvAction) override {
    const std::int32_t given_back = std::exchange(held_[request.value], 0);
    free_ += given_back;
    return {given_back};
  }

 private:
  std::int32_t total_, free_;
  std::map<std::uint64_t, std::int32_t> held_;
};

// sglang#25865, sglang#23141, tokenspeed#268: the adapter of a started chunk was not counted, or that of a refused
// request was. Tested with takt's count of KV and with a host's.
TEST_CASE("adapters stay within the limit, also around refused requests") {
  const bool oracle = GENERATE(false, true);
  CAPTURE(oracle);
  Counter counter(80);
  SchedulerOptions options = Ledger(80);
  if (oracle) options.kv = KvMode::kOracle;
  Engine e(options, {.tokens = {64}, .max_seqs = 8, .adapters = 2}, Fcfs{}, oracle ? &counter : nullptr);
  const auto arrive = [&e](std::uint64_t id, std::int32_t prompt, std::uint64_t adapter) {
    Request r;
    r.id = {id};
    r.prompt_tokens = {prompt};
    r.adapter = {adapter};
    e.Arrive(r, 20);
  };
  arrive(1, 1000, 1);
  e.Run(2);
  arrive(2, 600, 2);  // lacks memory
  arrive(3, 30, 3), arrive(4, 30, 4), arrive(5, 30, 0);
  for (int i = 0; i < 400; ++i) {
    std::vector<std::uint64_t> adapters;
    for (const PlanEntry& entry : e.Plan().run) {
      if (entry.request.value <= 4) adapters.push_back(entry.request.value);
    }
    CHECK(adapters.size() <= 2);
  }
  for (std::uint64_t id = 1; id <= 5; ++id) CHECK(e.of[id].tokens == 20);
}

// vllm#48245, vllm-gaudi#1794: counts fell below zero if output was in flight at a preemption.
TEST_CASE("a preemption with three plans in flight keeps the token count") {
  Engine e(Exact(20), {.tokens = {256}, .max_seqs = 8});
  e.depth = 3;
  e.Arrive(1, 120, 100), e.Arrive(2, 120, 100);
  e.Run(500);
  CHECK(e.scheduler.stats().preempted_recompute > 0);
  for (std::uint64_t id = 1; id <= 2; ++id) CHECK(e.of[id].tokens == 100);
  CHECK(e.scheduler.stats().tokens_output == 200);
  CHECK(e.scheduler.kv().used == Blocks{0});
}

// unslothai/llama.cpp#184: a large slot was parked while small ones were admitted, grew, and were parked in its place.
TEST_CASE("under fcfs no later request passes a swapped-out one") {
  SchedulerOptions options = Exact(512);
  options.cpu_blocks = {4096};
  options.preempt_action = KvAction::kOut;
  Engine e(options, {.tokens = {2048}, .max_seqs = 64});
  for (std::uint64_t id = 1; id <= 4; ++id) e.Arrive(id, 1800, 2000);
  std::vector<std::uint64_t> parked;
  for (std::uint64_t id = 5; e.step < 20'000;) {
    if (e.step % 40 == 0 && id < 100) e.Arrive(id++, 300, 200);
    const StepPlan& plan = e.Plan();
    for (const KvMove& move : plan.moves) {
      if (move.action == KvAction::kIn) std::erase(parked, move.request.value);
    }
    for (const PlanEntry& entry : plan.run) {
      if (!entry.admitted()) continue;
      std::erase(parked, entry.request.value);
      for (const std::uint64_t waiting : parked) CHECK(waiting > entry.request.value);
    }
    for (const KvMove& move : plan.moves) {
      if (move.action == KvAction::kOut) parked.push_back(move.request.value);
    }
  }
  CHECK(e.scheduler.stats().preempted_swap > 0);
  for (std::uint64_t id = 1; id < 100; ++id) CHECK(e.of[id].tokens == (id <= 4 ? 2000 : 200));
}

// Mooncake#2187, Mooncake#3028: look-ups renewed cached blocks, and nothing was evicted any more.
TEST_CASE("a look-up keeps nothing in the cache") {
  Engine e(Exact(60, true), {.tokens = {2048}, .max_seqs = 8});
  REQUIRE(e.scheduler.SetRetention(Lru{}).ok());
  for (std::uint64_t workflow = 1; workflow <= 2; ++workflow) {
    Request r;
    r.id = {workflow};
    r.workflow = {workflow};
    r.prompt_tokens = {20 * 16};
    const std::vector<std::uint64_t> hashes = Family(workflow, 20);
    r.prefix = {{16}, hashes};
    e.Arrive(r, 1);
    e.Run(2);
    e.On(TurnEnded{{workflow}, 0, TurnWhy::kTool});
  }
  for (int i = 0; i < 1000; ++i) CHECK(e.scheduler.ExplainHeld({1}).tokens == Tokens{320});
  e.Run(50);
  e.Arrive(3, 40 * 16, 1, Family(3, 40));
  e.Run(2);
  CHECK(e.scheduler.ExplainHeld({1}).tokens < Tokens{320});
  CHECK(e.scheduler.ExplainHeld({2}).tokens == Tokens{320});
}

}  // namespace
}  // namespace takt::testing
