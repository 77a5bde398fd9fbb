#include "takt/sim/replay.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "catch.h"
#include "sim/sim_workloads.h"
#include "takt/base/random.h"
#include "takt/placement/registry.h"
#include "takt/workload/generate.h"
#include "with_rivals.h"

namespace takt {
namespace {

using testing::AddWorkflow;
using testing::AtMs;
using testing::Call;
using testing::ConstantSteps;
using testing::LinearSteps;
using testing::Ms;
using testing::MustReplay;
using testing::PauseBy;
using testing::PolicyBy;
using testing::RandomWorkload;
using testing::Requests;

EstimateSpec Oracle() { return {EstimateKind::kOracle, 0}; }

TEST_CASE("two requests with 10 ms steps run as by hand") {
  // The second arrives during the second step and joins the third.
  const Workload w = Requests({{AtMs(0), {100, 3}}, {AtMs(15), {50, 2}}});
  const ReplayResult result = MustReplay(w, ConstantSteps());
  const RequestRecord& a = result.requests[0];
  CHECK(a.arrival == AtMs(0));
  CHECK(a.first_step == AtMs(0));
  CHECK(a.first_token == AtMs(10));
  CHECK(a.end == AtMs(30));
  CHECK(a.output_tokens == 3);
  CHECK(a.outcome == Outcome::kCompleted);
  const RequestRecord& b = result.requests[1];
  CHECK(b.arrival == AtMs(15));
  CHECK(b.first_step == AtMs(20));
  CHECK(b.first_token == AtMs(30));
  CHECK(b.end == AtMs(40));
  CHECK(result.steps == 4);
  CHECK(result.request_steps == 5);
  CHECK(result.metrics.completed == 2);
  CHECK(result.metrics.queue.max == Approx(0.005));
}

// The same requests with a common prefix of 48 tokens.
Workload WithSharedPrefix(Workload w) {
  w.prefix_block_tokens = 16;
  w.prefix_hashes = {1, 2, 3};
  for (WorkloadCall& call : w.calls) call.hashes = 3;
  return w;
}

TEST_CASE("a request that recomputes its lost KV in one step ends once") {
  const Workload w = WithSharedPrefix(Requests({{AtMs(0), {150, 9}}, {AtMs(0), {100, 12}}}));
  ReplayOptions options = ConstantSteps();
  options.engine.limits.tokens = {2048};
  options.scheduler.prefix_cache = true;
  options.cluster.cold_at = Ms(45);
  const ReplayResult result = MustReplay(w, options);
  CHECK(result.metrics.completed == 2);
  CHECK(result.requests[0].output_tokens == 9);
  CHECK(result.requests[1].output_tokens == 12);
  CHECK(result.stats.rows_unknown == 0);
}

TEST_CASE("an engine that loses all KV between steps recomputes it") {
  const Workload w = WithSharedPrefix(Requests({{AtMs(0), {150, 5}}, {AtMs(100), {150, 1}}, {AtMs(200), {150, 1}}}));
  ReplayOptions options = ConstantSteps();
  options.engine.limits.tokens = {64};
  options.scheduler.prefix_cache = true;
  const ReplayResult calm = MustReplay(w, options);
  options.cluster.cold_at = Ms(45);  // the step that ends at 50 yields the third token
  const ReplayResult cold = MustReplay(w, options);
  CHECK(calm.requests[0].end == AtMs(70));
  CHECK(cold.requests[0].end == AtMs(90));  // three steps for 152 tokens, of which the last yields a token
  CHECK(cold.requests[0].output_tokens == 5);
  CHECK(cold.requests[0].recomputed_tokens >= 150);
  CHECK(cold.requests[1].cached_tokens == 0);  // recomputed tokens belong to the request alone
  CHECK(cold.requests[2].cached_tokens == 48);
  options.cluster.cold_at = Ms(150);
  const ReplayResult lost = MustReplay(w, options);
  CHECK(lost.requests[1].cached_tokens == 48);
  CHECK(lost.requests[2].cached_tokens == 0);
  CHECK(calm.requests[2].cached_tokens == 48);
  options.engine.overlap = 1;
  CHECK_FALSE(Replay(w, options).ok());
}

TEST_CASE("a prompt beyond the token budget is computed in chunks") {
  ReplayOptions options = ConstantSteps();
  options.engine.limits.tokens = {64};
  const ReplayResult result = MustReplay(Requests({{AtMs(0), {150, 1}}}), options);
  CHECK(result.requests[0].first_token == AtMs(30));
  CHECK(result.requests[0].end == AtMs(30));
}

TEST_CASE("steps cost as modelled, and a lone request's latency follows") {
  // Prefill 1 + 10 ms, decodes 3 + 1.01 and 3 + 1.02 ms.
  const Workload w = Requests({{AtMs(0), {100, 3}}});
  const ReplayOptions options = LinearSteps();
  const ReplayResult result = MustReplay(w, options);
  CHECK(result.requests[0].first_token - AtMs(0) == FromSeconds(11e-3));
  CHECK(result.requests[0].end - AtMs(0) == FromSeconds(19.03e-3));
  CHECK(result.metrics.slowdown.max == Approx(1).epsilon(1e-6));
}

TEST_CASE("every workflow alone takes its isolated latency, unless its calls overlap") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Workload w = RandomWorkload(seed, 1, 1, true);
    // A chain: each call waits for the one before.
    w.predecessors.clear();
    for (std::uint32_t c = 0; c < w.calls.size(); ++c) {
      w.calls[c].first_predecessor = static_cast<std::uint32_t>(w.predecessors.size());
      w.calls[c].predecessors = c > 0 ? 1 : 0;
      if (c > 0) w.predecessors.push_back(c - 1);
    }
    ReplayOptions options = LinearSteps();
    options.engine.limits.tokens = {128};
    const ReplayResult result = MustReplay(w, options);
    INFO("seed " << seed);
    CHECK(result.metrics.slowdown.max == Approx(1).epsilon(1e-6));
    CHECK(result.metrics.slo_scale_95 == Approx(1).epsilon(1e-6));
  }
}

TEST_CASE("one engine serves by arrival, or shortest first") {
  const Workload w = Requests({{AtMs(0), {10, 4}}, {AtMs(1), {10, 3}}, {AtMs(2), {10, 1}}});
  ReplayOptions options = ConstantSteps();
  options.engine.limits.max_seqs = 1;
  ReplayResult result = MustReplay(w, options);
  CHECK(result.requests[0].end == AtMs(40));
  CHECK(result.requests[1].end == AtMs(70));
  CHECK(result.requests[2].end == AtMs(80));
  options.policy = PolicyBy("sjf");  // it knows the lengths by default
  result = MustReplay(w, options);
  CHECK(result.requests[0].end == AtMs(40));
  CHECK(result.requests[2].end == AtMs(50));
  CHECK(result.requests[1].end == AtMs(80));
  options.estimates = {EstimateKind::kNone, 0};
  result = MustReplay(w, options);
  CHECK(result.requests[1].end == AtMs(70));
  CHECK(result.requests[2].end == AtMs(80));
}

TEST_CASE("calls wait for their predecessors and their delay") {
  // 0 -> 1 (5 ms later), 0 -> 2, {1, 2} -> 3. Another workflow ends before.
  Workload w;
  AddWorkflow(w, AtMs(0), {{10, 1}});
  AddWorkflow(w, AtMs(13), {{10, 2}, {10, 1, {0}, Ms(5)}, {10, 4, {0}}, {10, 1, {1, 2}}});
  const ReplayResult result = MustReplay(w, ConstantSteps());
  CHECK(result.requests[1].end == AtMs(33));
  CHECK(result.requests[2].arrival == AtMs(38));
  CHECK(result.requests[2].first_step == AtMs(43));
  CHECK(result.requests[2].end == AtMs(53));
  CHECK(result.requests[3].arrival == AtMs(33));
  CHECK(result.requests[3].end == AtMs(73));
  CHECK(result.requests[4].arrival == AtMs(73));
  CHECK(result.requests[4].end == AtMs(83));
  CHECK(result.workflows[1].arrival == AtMs(13));
  CHECK(result.workflows[1].end == AtMs(83));
  CHECK(result.metrics.workflow.max == Approx(0.070));
}

TEST_CASE("a front end's delay per call and prompt counts in latencies") {
  Workload w;
  AddWorkflow(w, AtMs(0), {{100, 2}, {200, 1, {0}, Ms(30)}});
  ReplayOptions options = ConstantSteps();
  options.cluster.front_end = Ms(5);
  options.cluster.front_end_token = std::chrono::microseconds(20);
  const ReplayResult result = MustReplay(w, options);
  const RequestRecord &first = result.requests[0], &second = result.requests[1];
  CHECK(first.arrival == AtMs(0));
  CHECK(first.first_step == AtMs(7));  // 5 ms, and 100 tokens of 20 us
  CHECK(first.first_token == AtMs(17));
  CHECK(first.end == AtMs(27));
  CHECK(second.arrival == AtMs(57));
  CHECK(second.first_step == AtMs(66));
  CHECK(second.end == AtMs(76));
  CHECK(result.metrics.ttft.mean == Approx((0.017 + 0.019) / 2));
  CHECK(result.workflows[0].end == AtMs(76));

  options.cluster.front_end = Ms(-1);
  options.cluster.front_end_token = std::chrono::seconds(2);
  const absl::Status status = Replay(w, options).status();
  for (const char* field : {"front_end is", "front_end_token is"}) {
    CHECK(std::string(status.message()).find(field) != std::string::npos);
  }
}

TEST_CASE("a tool takes its time, and its answer is computed") {
  // Two tokens (0 .. 20 ms), the tool until 50 ms, its answer and two more tokens (50 .. 70 ms).
  const Workload w = Requests({{AtMs(0), {.prompt = 10, .output = 4, .tools = {{2, 30, Ms(30), 0}}}}});
  for (const char* pause : {"keep_all", "drop_all"}) {
    ReplayOptions options = ConstantSteps();
    options.pause = PauseBy(pause);
    const ReplayResult result = MustReplay(w, options);
    INFO(pause);
    CHECK(result.requests[0].first_token == AtMs(10));
    CHECK(result.requests[0].end == AtMs(70));
    CHECK(result.requests[0].output_tokens == 4);
    // Dropped: prompt and first token again. The second token had no KV.
    CHECK(result.requests[0].recomputed_tokens == (std::string_view(pause) == "keep_all" ? 0 : 11));
    CHECK(result.stats.tokens_recomputed == static_cast<std::uint64_t>(result.requests[0].recomputed_tokens));
  }
}

// Ten blocks of a request move out and back while another decodes.
TEST_CASE("moves run in parallel with steps, delay them, or partly both") {
  const Workload w = Requests(
      {{AtMs(0), {.prompt = 160, .output = 3, .tools = {{1, 0, Ms(50), 0}}}}, {AtMs(0), {.prompt = 10, .output = 20}}});
  ReplayOptions options = ConstantSteps();
  options.pause = PauseBy("swap_all");
  options.scheduler.cpu_blocks = {10};
  CostModel& cost = options.profile.cost;
  cost.kv_bytes_per_token = 1e6;
  cost.kv_bytes_per_token *= 0.007 / ToSeconds(cost.SwapTime(160));
  REQUIRE(ToSeconds(cost.SwapTime(160)) == Approx(0.007));
  const auto ends = [&](double overlap) {
    options.engine.swap_overlap = overlap;
    const ReplayResult result = MustReplay(w, options);
    CHECK(result.stats.moves_out == 1);
    CHECK(result.stats.moves_in == 1);
    CHECK(result.stats.tokens_recomputed == 0);
    return std::pair(ToSeconds(result.requests[0].end), ToSeconds(result.requests[1].end));
  };
  // The answer arrives at 60 ms, and a step begins. The KV arrives at 67 ms, and two steps follow from 70 ms on.
  const auto [beside, undisturbed] = ends(1);
  CHECK(beside == Approx(0.090));
  CHECK(undisturbed == Approx(0.200));
  // The second step begins at 17 ms; the answer waits until 67 ms, and the engine for the KV until 74 ms.
  const auto [first, second] = ends(0);
  CHECK(first == Approx(0.104));
  CHECK(second == Approx(0.214));
  CHECK(ends(0.5).second == Approx(0.207));
  options.engine.swap_overlap = 1.5;
  CHECK(Replay(w, options).status().message().find("swap_overlap is 1.5") != std::string::npos);
}

TEST_CASE("host memory and step limits bound moves, the rest is recomputed") {
  const Workload w = Requests({{AtMs(0), {.prompt = 160, .output = 3, .tools = {{1, 7, FromSeconds(50), 0}}}}});
  const auto recomputed = [&](const char* pause, std::int32_t cpu_blocks, std::int32_t swap_out) {
    ReplayOptions options = ConstantSteps();
    options.pause = PauseBy(pause);
    options.estimates = Oracle();
    options.scheduler.cpu_blocks = {cpu_blocks};
    options.engine.limits.swap_out = {swap_out};
    options.engine.limits.chunk_tokens = {64};
    std::vector<std::int32_t> chunks;
    options.cluster.on_step = [&](const VirtualStep& step) {
      if (step.start < AtMs(50'000)) return;
      for (const PlanEntry& e : step.plan.run) {
        if (e.prefill()) chunks.push_back(e.tokens);
      }
    };
    const ReplayResult result = MustReplay(w, options);
    CHECK(result.requests[0].output_tokens == 3);
    // 160 tokens of prompt are computed. One token of output and the answer follow.
    std::int32_t again = -8;
    for (const std::int32_t tokens : chunks) {
      CHECK(tokens <= 64);
      again += tokens;
    }
    CHECK(result.requests[0].recomputed_tokens == again);
    CHECK(chunks.size() == static_cast<std::size_t>((again + 8 + 63) / 64));
    return again;
  };
  CHECK(recomputed("swap_all", 10, 100) == 0);
  CHECK(recomputed("swap_all", 9, 100) == 160);
  CHECK(recomputed("swap_all", 0, 100) == 160);
  CHECK(recomputed("swap_all", 10, 9) == 160);
  CHECK(recomputed("infercept", 9, 100) == 16);
  CHECK(recomputed("infercept", 10, 4) == 96);
  CHECK(recomputed("infercept", 0, 100) == 160);
  CHECK(recomputed("keep_all", 0, 0) == 0);
}

TEST_CASE("a closed loop starts the next workflow when one ends") {
  const Workload w = Requests({{AtMs(0), {10, 3}}, {AtMs(0), {10, 1}}, {AtMs(0), {10, 1}}, {AtMs(0), {10, 1}}});
  ReplayOptions options = ConstantSteps();
  options.cluster.closed_loop = 2;
  const ReplayResult result = MustReplay(w, options);
  CHECK(result.requests[0].end == AtMs(30));
  CHECK(result.requests[1].end == AtMs(10));
  CHECK(result.requests[2].arrival == AtMs(10));
  CHECK(result.requests[3].arrival == AtMs(20));
  CHECK(result.requests[3].end == AtMs(30));
}

TEST_CASE("rates scale, and a limit takes the first workflows") {
  const Workload w = Requests({{AtMs(0), {10, 1}}, {AtMs(100), {10, 1}}, {AtMs(300), {10, 1}}});
  ReplayOptions options = ConstantSteps();
  options.cluster.rate_scale = 4;
  options.limit = 2;
  const ReplayResult result = MustReplay(w, options);
  REQUIRE(result.requests.size() == 2);
  CHECK(result.requests[1].arrival == AtMs(25));
  CHECK(RateScaleForLoad(w, 1, 20) == Approx(3));     // 2 requests in 300 ms are 6.67 per second
  CHECK(RateScaleForLoad(w, 0.5, 20) == Approx(1.5));
}

TEST_CASE("saturation is the rate with all work present at the start") {
  // Two at a time, each two steps.
  const Workload w = Requests({{AtMs(0), {10, 2}}, {AtMs(900), {10, 2}}, {AtMs(1800), {10, 2}}, {AtMs(9900), {10, 2}}});
  ReplayOptions options = ConstantSteps();
  options.engine.limits.max_seqs = 2;
  const absl::StatusOr<double> rate = MeasureSaturation(w, options);
  REQUIRE(rate.ok());
  CHECK(*rate == Approx(100));
}

TEST_CASE("an impossible request is named, and its dependants never arrive") {
  Workload w;
  AddWorkflow(w, AtMs(0), {{5000, 2}, {10, 1}, {10, 1, {0}}, {10, 1, {1, 2}}});
  AddWorkflow(w, AtMs(1), {{10, 1}});
  ReplayOptions options = ConstantSteps();
  options.kv_tokens = 1000;
  const ReplayResult result = MustReplay(w, options);
  CHECK(result.requests[0].outcome == Outcome::kFailed);
  CHECK(result.requests[0].reason == FailReason::kNeverFits);
  CHECK(result.requests[1].outcome == Outcome::kCompleted);
  CHECK(result.requests[2].outcome == Outcome::kNeverMade);
  CHECK(result.requests[3].outcome == Outcome::kNeverMade);
  CHECK(result.workflows[0].outcome == Outcome::kFailed);
  CHECK(result.workflows[1].outcome == Outcome::kCompleted);
  CHECK(result.metrics.failed == 1);
  CHECK(result.metrics.never_made == 2);

  options.instances = 2;
  const ReplayResult routed = MustReplay(w, options);
  CHECK(routed.requests[0].reason == FailReason::kNeverFits);
  CHECK(routed.metrics.completed == 2);
}

TEST_CASE("a closed loop over several instances keeps its concurrency") {
  Workload w = RandomWorkload(5, 60, 1, true);
  std::int64_t output = 0;
  for (WorkloadCall& call : w.calls) {
    call.delay = Duration{0};  // no timer wakes the cluster
    output += call.output_tokens;
  }
  for (const std::int32_t instances : {1, 2, 3}) {
    for (const char* placement : {"round_robin", "least_loaded", "workload_balance", "time_slot_packer"}) {
      for (const std::int64_t loop : {1, 4, 100}) {
        INFO(instances << " instances, " << placement << ", loop of " << loop);
        ReplayOptions options = LinearSteps();
        options.instances = instances;
        options.placement = *MakePlacement(placement);
        options.cluster.closed_loop = loop;
        options.engine.limits.max_seqs = 2;
        const ReplayResult result = MustReplay(w, options);
        CHECK(result.metrics.workflows_completed == static_cast<std::int64_t>(w.workflows.size()));
        CHECK(result.metrics.output_tokens == output);
        for (const WorkflowRecord& one : result.workflows) {
          const std::int64_t beside = std::ranges::count_if(result.workflows, [&one](const WorkflowRecord& other) {
            return other.arrival <= one.arrival && one.arrival < other.end;
          });
          CHECK(beside <= loop);
        }
      }
    }
  }
}

TEST_CASE("a failed call lets the next one continue at once") {
  // One fits nowhere, one outgrows its engine, and one is served.
  const Workload w = Requests({{AtMs(0), {5000, 2}}, {AtMs(0), {790, 30}}, {AtMs(0), {100, 2}}});
  ReplayOptions options = ConstantSteps();
  options.kv_tokens = 800;
  options.instances = 2;
  options.cluster.closed_loop = 1;
  const ReplayResult result = MustReplay(w, options);
  CHECK(result.requests[0].outcome == Outcome::kFailed);
  CHECK(result.requests[0].end == AtMs(0));
  CHECK(result.requests[1].outcome == Outcome::kFailed);
  CHECK(result.requests[2].arrival == result.requests[1].end);
  CHECK(result.requests[2].first_step == result.requests[2].arrival);
  CHECK(result.requests[2].outcome == Outcome::kCompleted);
}

TEST_CASE("a closed loop continues after failures") {
  const Workload w = Requests({{AtMs(0), {5000, 2}}, {AtMs(0), {5000, 1}}, {AtMs(0), {10, 1}}});
  ReplayOptions options = ConstantSteps();
  options.kv_tokens = 1000;
  options.cluster.closed_loop = 1;
  const ReplayResult result = MustReplay(w, options);
  CHECK(result.metrics.failed == 2);
  CHECK(result.requests[2].end == AtMs(10));
}

TEST_CASE("without memory the newest request is preempted and recomputed") {
  // Eight blocks of 16 tokens: at most 64 + 60 tokens fit.
  const Workload w = Requests({{AtMs(0), {60, 30}}, {AtMs(0), {60, 30}}});
  ReplayOptions options = ConstantSteps();
  options.kv_tokens = 128;
  options.scheduler.kv_watermark = 0;
  const ReplayResult result = MustReplay(w, options);
  CHECK(result.metrics.completed == 2);
  CHECK(result.requests[0].preemptions == 0);
  CHECK(result.requests[0].end == AtMs(300));
  CHECK(result.requests[1].preemptions == 1);
  CHECK(result.requests[1].recomputed_tokens > 60);
  CHECK(result.requests[1].output_tokens == 30);
  CHECK(result.requests[1].first_token == AtMs(10));
  CHECK(static_cast<std::uint64_t>(result.requests[1].recomputed_tokens) == result.stats.tokens_recomputed);
  CHECK(result.metrics.kv_peak == Approx(1));
}

TEST_CASE("a swap out and in takes the time of the link") {
  const Workload w = Requests({{AtMs(0), {60, 30}}, {AtMs(0), {60, 30}}});
  ReplayOptions options = ConstantSteps();
  options.kv_tokens = 128;
  options.scheduler.kv_watermark = 0;
  options.scheduler.preempt_action = KvAction::kOut;
  options.scheduler.cpu_blocks = {100};
  options.profile.cost.kv_bytes_per_token = 1e6;
  const ReplayResult result = MustReplay(w, options);
  CHECK(result.metrics.completed == 2);
  CHECK(result.stats.preempted_swap == 1);
  CHECK(result.stats.moves_out == 1);
  CHECK(result.stats.moves_in == 1);
  CHECK(result.requests[1].recomputed_tokens == 0);
}

// The simplest engine: FCFS without a KV limit. Decoding rows come first, then started prompts, then admissions.
std::vector<RequestRecord> PlainEngine(const Workload& w, const CostModel& cost, const StepLimits& limits) {
  struct Row {
    std::size_t call;
    std::int32_t context, left;  // computed tokens; remaining output tokens
  };
  std::vector<RequestRecord> records(w.calls.size());
  std::deque<std::size_t> waiting;
  std::vector<Row> running;
  std::size_t next = 0, over = 0;
  TimePoint now{};
  while (over < w.calls.size()) {
    if (running.empty() && waiting.empty()) now = std::max(now, w.workflows[next].arrival);
    for (; next < w.workflows.size() && w.workflows[next].arrival <= now; ++next) {
      records[next].arrival = w.workflows[next].arrival;
      waiting.push_back(next);
    }
    StepLoad load;
    std::int32_t budget = limits.tokens.value;
    std::vector<std::size_t> samples;  // rows
    const auto plan = [&](std::size_t i) {
      Row& row = running[i];
      const std::int32_t prompt = w.calls[row.call].prompt_tokens;
      if (row.context >= prompt) {
        if (budget < 1) return;
        --budget;
        load.AddDecode(++row.context);
        samples.push_back(i);
        return;
      }
      const std::int32_t chunk = std::min(prompt - row.context, budget);
      if (chunk < 1) return;
      budget -= chunk;
      load.AddPrefill(chunk, row.context, row.context + chunk == prompt);
      row.context += chunk;
      if (row.context == prompt) samples.push_back(i);
    };
    std::vector<std::size_t> prompts;
    for (std::size_t i = 0; i < running.size(); ++i) {
      if (running[i].context < w.calls[running[i].call].prompt_tokens) {
        prompts.push_back(i);
      } else {
        plan(i);
      }
    }
    for (const std::size_t i : prompts) plan(i);
    while (!waiting.empty() && budget > 0 && running.size() < static_cast<std::size_t>(limits.max_seqs)) {
      const std::size_t call = waiting.front();
      waiting.pop_front();
      records[call].first_step = now;
      running.push_back({call, 0, w.calls[call].output_tokens});
      plan(running.size() - 1);
    }
    now += cost.StepTime(load);
    for (const std::size_t i : samples) {
      RequestRecord& r = records[running[i].call];
      if (r.first_token == kNever) r.first_token = now;
      if (--running[i].left == 0) r.end = now, ++over;
    }
    std::erase_if(running, [](const Row& row) { return row.left == 0; });
  }
  return records;
}

TEST_CASE("with room for all, FCFS equals the simplest engine") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const Workload w = RandomWorkload(seed, 80, seed % 3 == 0 ? 2.0 : 40.0, false);
    Workload plain = w;
    for (WorkloadCall& call : plain.calls) call.delay = Duration{0};
    ReplayOptions options = LinearSteps();
    options.engine.limits.tokens = options.engine.limits.chunk_tokens = {seed % 2 == 0 ? 100 : 600};
    options.engine.limits.max_seqs = seed % 5 == 0 ? 4 : 64;
    const ReplayResult result = MustReplay(plain, options);
    const std::vector<RequestRecord> expected = PlainEngine(plain, options.profile.cost, options.engine.limits);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("seed " << seed << " request " << i);
      CHECK(result.requests[i].first_step == expected[i].first_step);
      CHECK(result.requests[i].first_token == expected[i].first_token);
      CHECK(result.requests[i].end == expected[i].end);
    }
  }
}

// Checks that times ascend, and that no request is lost or served twice.
void CheckSound(const Workload& w, const ReplayResult& result) {
  std::int64_t expected_tokens = 0;
  for (std::size_t i = 0; i < w.calls.size(); ++i) {
    const RequestRecord& r = result.requests[i];
    INFO("request " << i);
    REQUIRE(r.outcome == Outcome::kCompleted);
    CHECK(r.output_tokens == w.calls[i].output_tokens);
    CHECK(r.arrival <= r.first_step);
    CHECK(r.first_step < r.first_token);
    CHECK(r.first_token <= r.end);
    expected_tokens += w.calls[i].output_tokens;
  }
  CHECK(result.metrics.output_tokens == expected_tokens);
  CHECK(result.stats.finished == w.calls.size());
  CHECK(result.stats.rows_invalid == 0);
  CHECK(result.stats.rows_unknown == 0);
  CHECK(result.stats.commits_unknown == 0);
  CHECK(result.stats.events_unknown == 0);
  CHECK(result.stats.events_out_of_place == 0);
  CHECK(result.stats.clock_stepped_back == 0);
}

ReplayOptions Varied(std::uint64_t seed) {
  ReplayOptions options = LinearSteps();
  options.seed = seed;
  options.engine.limits.tokens = {seed % 2 == 0 ? 64 : 512};
  options.engine.limits.max_seqs = seed % 3 == 0 ? 4 : 32;
  options.kv_tokens = seed % 4 == 0 ? 100'000 : 900;
  options.engine.overlap = static_cast<int>(seed % 3);
  options.policy = PolicyBy(seed % 2 == 0 ? "fcfs" : "sjf");
  options.estimates = {seed % 5 == 0 ? EstimateKind::kNoise : EstimateKind::kClassMean, 0.5};
  options.scheduler.preempt = seed % 7 == 0 ? PreemptMode::kByRank : PreemptMode::kOnMemory;
  options.pause = PauseBy(seed % 3 == 1 ? "drop_all" : "keep_all");
  if (seed % 6 == 5) {
    options.scheduler.preempt_action = KvAction::kOut;
    options.scheduler.cpu_blocks = {40};
    options.profile.cost.kv_bytes_per_token = 1e6;
    options.pause = PauseBy("swap_all");
  }
  return options;
}

TEST_CASE("every request ends under any options, and runs repeat") {
  for (std::uint64_t seed = 1; seed <= 84; ++seed) {
    const Workload w = RandomWorkload(seed, 25, 60, true);
    ReplayOptions options = Varied(seed);
    if (seed % 4 == 3) options.cluster.closed_loop = 6;
    INFO("seed " << seed);
    const ReplayResult result = MustReplay(w, options);
    CheckSound(w, result);
    const ReplayResult again = MustReplay(w, options);
    CHECK(again.requests == result.requests);
    CHECK(again.workflows == result.workflows);
    CHECK(again.series == result.series);
    CHECK(again.stats == result.stats);
  }
}

// The cost of each step of a run, counted entry by entry from the plans alone.
class StepsByHand {
 public:
  StepsByHand(const Workload& w, const PreparedCostModel& cost) : w_(w), cost_(cost), generated_(w.calls.size()) {}

  void Check(const VirtualStep& step) {
    StepLoad load;
    auto row = step.rows.begin();
    for (const PlanEntry& e : step.plan.run) {
      if (e.prefill()) {
        load.AddPrefill(e.tokens, e.position, e.samples());
      } else {
        load.AddDecode(e.position + e.tokens);
      }
      if (row == step.rows.end() || row->request != e.request) continue;  // the plan is void for it
      const std::uint32_t call = VirtualRequests::IndexOf(e.request);
      generated_[call] += row->tokens;
      CHECK(row->lane == e.lane);
      CHECK(row->tokens == (e.samples() ? 1 : 0));
      CHECK(row->finished() == (generated_[call] == w_.calls[call].output_tokens));
      ++row;
    }
    CHECK(row == step.rows.end());
    CHECK(step.end - step.start == VirtualStepTime(cost_, load));
    CHECK(step.start >= end_);
    end_ = step.end;
  }

 private:
  const Workload& w_;
  const PreparedCostModel& cost_;
  std::vector<std::int32_t> generated_;
  TimePoint end_{};
};

TEST_CASE("a step costs as its plan, and observation changes no run") {
  for (std::uint64_t seed = 1; seed <= 48; ++seed) {
    const Workload w = RandomWorkload(seed, 25, 60, true);
    ReplayOptions options = Varied(seed);
    // Rows displaced by prompts miss steps. Plans made ahead have rows of requests that have stopped.
    if (seed % 3 == 1) options.engine.limits.tokens = {8}, options.scheduler.order = StepOrder::kPrefillFirst;
    INFO("seed " << seed);
    const ReplayResult unwatched = MustReplay(w, options);
    const PreparedCostModel cost(options.profile.cost);
    StepsByHand by_hand(w, cost);
    options.cluster.on_step = [&](const VirtualStep& step) { by_hand.Check(step); };
    const ReplayResult watched = MustReplay(w, options);
    CHECK(watched.requests == unwatched.requests);
    CHECK(watched.request_steps == unwatched.request_steps);
    CHECK(watched.series == unwatched.series);
  }
}

TEST_CASE("several instances serve everything, and runs repeat") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Workload w = RandomWorkload(seed, 40, 20, true);
    ReplayOptions options = Varied(seed);
    options.instances = 2 + static_cast<std::int32_t>(seed % 3);
    options.placement = *MakePlacement(seed % 2 == 0 ? "round_robin" : "least_loaded");
    if (seed % 4 >= 2) options.cluster.closed_loop = 6;
    INFO("seed " << seed);
    const ReplayResult result = MustReplay(w, options);
    CheckSound(w, result);
    std::vector<int> served(static_cast<std::size_t>(options.instances));
    for (const RequestRecord& r : result.requests) ++served[r.instance];
    CHECK(*std::min_element(served.begin(), served.end()) > 0);
    CHECK(MustReplay(w, options).requests == result.requests);
  }
}

TEST_CASE("every compiler makes the same plans at every optimisation level") {
  // The hash identifies the present decisions. A change that intends other plans changes it. A preset must not.
  constexpr std::uint64_t kExpected = 0xbb95fa08080311a0;
  constexpr const char* kPolicies[] = {"fcfs", "sjf", "aged(stjf,threshold=20)", "hrrn", "edf", "aged(fair_share)"};
  std::uint64_t digest = 0;
  const auto take = [&digest](auto value) { digest = Mix64(digest ^ static_cast<std::uint64_t>(value)); };
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    // Without logarithms, whose last bit depends on the C library: no gaps and no noise.
    if (seed % 5 == 0) continue;
    Workload w = RandomWorkload(seed, 40, 0, true);
    for (std::size_t i = 0; i < w.workflows.size(); ++i) {
      w.workflows[i].arrival = AtMs(static_cast<std::int64_t>(30 * i));
      w.workflows[i].deadline = Ms(static_cast<std::int64_t>(1000 + 37 * (i % 9)));
      w.workflows[i].tenant = static_cast<std::uint32_t>(1 + i % 3);
    }
    ReplayOptions options = Varied(seed);
    options.policy = PolicyBy(kPolicies[seed % std::size(kPolicies)]);
    options.cluster.on_step = [&](const VirtualStep& step) {
      take(step.end.time_since_epoch().count());
      for (const PlanEntry& e : step.plan.run) take(e.request.value), take(e.tokens), take(e.position), take(e.flags);
    };
    MustReplay(w, options);
  }
  CHECK(digest == kExpected);
}

TEST_CASE("round_robin distributes requests in turn") {
  const Workload w = Requests({{AtMs(0), {10, 3}}, {AtMs(1), {10, 3}}, {AtMs(2), {10, 3}}, {AtMs(3), {10, 3}}});
  ReplayOptions options = ConstantSteps();
  options.instances = 2;
  options.placement = *MakePlacement("round_robin");
  const ReplayResult result = MustReplay(w, options);
  for (std::size_t i = 0; i < 4; ++i) CHECK(result.requests[i].instance == i % 2);
  CHECK(result.requests[1].end == AtMs(31));
}

TEST_CASE("a step waits for the adapters that it must load") {
  Workload w = Requests({{AtMs(0), {10, 3}}, {AtMs(0), {10, 3}}, {AtMs(100), {10, 3}}});
  w.calls[0].adapter = w.calls[2].adapter = 1;
  w.calls[1].adapter = 2;
  ReplayOptions options = ConstantSteps();
  options.engine.adapter_load = Ms(5);
  SECTION("two loads delay one step, and both stay loaded") {
    options.engine.limits.adapters = 2;
    const ReplayResult result = MustReplay(w, options);
    CHECK(result.requests[0].first_token == AtMs(20));
    CHECK(result.requests[1].end == AtMs(40));
    CHECK(result.requests[2].end == AtMs(130));
    CHECK(result.metrics.adapter_loads == 2);
  }
  SECTION("with room for one, adapters take turns, and the first must be loaded again") {
    options.engine.limits.adapters = 1;
    const ReplayResult result = MustReplay(w, options);
    CHECK(result.requests[0].end == AtMs(35));
    CHECK(result.requests[1].first_token == AtMs(50));
    CHECK(result.requests[1].end == AtMs(70));
    CHECK(result.requests[2].end == AtMs(135));
    CHECK(result.metrics.adapter_loads == 3);
  }
}

TEST_CASE("adapter_affinity keeps adapters on their instances") {
  Workload w = RandomWorkload(3, 200, 20, false);
  for (std::size_t i = 0; i < w.workflows.size(); ++i) {
    for (std::uint32_t c = 0; c < w.workflows[i].calls; ++c) {
      w.calls[w.workflows[i].first_call + c].adapter = static_cast<std::uint32_t>(i % 4) + 1;
    }
  }
  ReplayOptions options = LinearSteps();
  options.instances = 4;
  options.engine.limits.adapters = 2;
  options.engine.adapter_load = Ms(50);
  options.placement = *MakePlacement("adapter_affinity");
  const std::int64_t kept = MustReplay(w, options).metrics.adapter_loads;
  options.placement = *MakePlacement("random");
  CHECK(2 * kept < MustReplay(w, options).metrics.adapter_loads);
}

TEST_CASE("a tenant that floods two instances delays itself under fair_share") {
  Workload w = Requests(std::vector<std::pair<TimePoint, Call>>(24, {AtMs(0), {10, 6}}));  // 60 ms each, 4 at a time
  for (std::size_t i = 0; i < 24; ++i) w.workflows[i].tenant = i < 20 ? 1 : 2;
  ReplayOptions options = ConstantSteps();
  options.instances = 2;
  options.placement = *MakePlacement("round_robin");
  options.max_outstanding = 2;
  options.router_policy = PolicyBy("fair_share");
  const ReplayResult result = MustReplay(w, options);
  for (std::size_t i = 20; i < 24; ++i) CHECK(result.requests[i].end <= AtMs(120));
  options.router_policy = PolicyBy("fcfs");
  CHECK(MustReplay(w, options).requests[20].end == AtMs(360));
}

TEST_CASE("a plan made ahead costs no time when no request arrives") {
  const Workload w = Requests({{AtMs(0), {100, 20}}, {AtMs(0), {50, 10}}});
  ReplayOptions options = ConstantSteps();
  const ReplayResult plain = MustReplay(w, options);
  for (options.engine.overlap = 1; options.engine.overlap <= 2; ++options.engine.overlap) {
    const ReplayResult ahead = MustReplay(w, options);
    CHECK(ahead.requests[0].end == plain.requests[0].end);
    CHECK(ahead.requests[1].end == plain.requests[1].end);
    // The step after the last one was planned before the ends of its requests were known.
    CHECK(ahead.stats.tokens_output == plain.stats.tokens_output);
  }
}

TEST_CASE("a pipeline's step is its slowest stage, once per stage") {
  ReplayOptions options = LinearSteps();
  CHECK(ShareOf(StepLoad{10, 31, 5, 7, 6}, 2) == StepLoad{5, 15.5, 3, 4, 3});
  options.profile.cost.pp = 2;
  const PreparedCostModel cost(options.profile.cost);
  StepLoad load;
  load.AddPrefill(100, 0, true);
  CHECK(VirtualStepTime(cost, load) == FromSeconds(12e-3));  // two stages of 1 + 0.1 * 50 ms
}

// All planned entries of a run up to the first end of a request.
std::vector<std::vector<PlanEntry>> PlansUntilFirstEnd(const Workload& w, ReplayOptions options) {
  std::vector<std::vector<PlanEntry>> plans;
  bool ended = false;
  options.cluster.on_step = [&](const VirtualStep& step) {
    if (!ended) plans.emplace_back(step.plan.run.begin(), step.plan.run.end());
    for (const RowResult& row : step.rows) ended = ended || row.finished();
  };
  MustReplay(w, options);
  return plans;
}

TEST_CASE("a true length stays hidden until it is observed") {
  Random random(9);
  Workload a = RandomWorkload(4, 60, 5, false);
  for (WorkloadCall& call : a.calls) call.output_tokens = 40 + static_cast<std::int32_t>(random.Below(100));
  Workload b = a;
  for (WorkloadCall& call : b.calls) call.output_tokens = 40 + static_cast<std::int32_t>(random.Below(100));
  for (const EstimateKind kind : {EstimateKind::kNone, EstimateKind::kClassMean}) {
    for (const char* policy : {"fcfs", "sjf", "stjf"}) {
      ReplayOptions options = LinearSteps();
      options.policy = PolicyBy(policy);
      options.estimates = {kind, 0};
      options.engine.limits.max_seqs = 8;
      const auto of_a = PlansUntilFirstEnd(a, options), of_b = PlansUntilFirstEnd(b, options);
      const std::size_t common = std::min(of_a.size(), of_b.size());
      CHECK(common >= 40);
      CHECK(std::equal(of_a.begin(), of_a.begin() + static_cast<std::ptrdiff_t>(common), of_b.begin()));
    }
  }
}

TEST_CASE("shared prefixes are computed once") {
  Workload w = Requests({{AtMs(0), {100, 5}}, {AtMs(100), {100, 5}}});
  w.prefix_block_tokens = 32;
  w.prefix_hashes = {11, 12, 13};
  for (WorkloadCall& call : w.calls) call.first_hash = 0, call.hashes = 3;
  ReplayOptions options = LinearSteps();
  CHECK(MustReplay(w, options).requests[1].cached_tokens == 0);
  options.scheduler.prefix_cache = true;
  const ReplayResult result = MustReplay(w, options);
  CHECK(result.requests[0].cached_tokens == 0);
  CHECK(result.requests[1].cached_tokens == 96);
  CHECK(result.requests[1].first_token - AtMs(100) == FromSeconds(1.4e-3));
}

// Two turns, 100 ms apart: 3 blocks of 32 tokens, then the same and another.
Workload TwoTurns() {
  Workload w;
  AddWorkflow(w, AtMs(0), {{100, 2}, {140, 2, {0}, Ms(100)}});
  w.prefix_block_tokens = 32;
  w.prefix_runs = {{7, 3}, {7, 3}, {40, 1}};
  w.calls[0].runs = 1;
  w.calls[1].first_run = 1, w.calls[1].runs = 2;
  return w;
}

TEST_CASE("a turn on another instance counts as moved and uncached") {
  Workload w = TwoTurns();
  ReplayOptions options = LinearSteps();
  options.scheduler.prefix_cache = true;
  options.instances = 2;
  options.placement = *MakePlacement("round_robin");
  const SessionFigures moved = *MustReplay(w, options).metrics.sessions;
  CHECK(moved.moved_share == 1);
  CHECK(moved.cached_share == 0);
  for (const char* placement : {"session", "cached_cost"}) {
    options.placement = *MakePlacement(placement);
    const SessionFigures stays = *MustReplay(w, options).metrics.sessions;
    CHECK(stays.moved_share == 0);
    CHECK(stays.cached_share == Approx(96.0 / 240));
  }
}

TEST_CASE("a turn finds KV of its own session alone") {
  Workload w = TwoTurns();
  AddWorkflow(w, AtMs(50), {{100, 2}});
  w.calls[2].runs = 1;
  ReplayOptions options = LinearSteps();
  options.scheduler.prefix_cache = true;
  const ReplayResult result = MustReplay(w, options);
  CHECK(result.requests[0].cached_tokens == 0);
  CHECK(result.requests[1].cached_tokens == 96);
  CHECK(result.requests[2].cached_tokens == 0);
  REQUIRE(result.metrics.sessions.has_value());
  const SessionFigures& s = *result.metrics.sessions;
  CHECK(s.turns == 3);
  CHECK(s.sessions == 2);
  CHECK(s.cached_share == Approx(96.0 / 340));
  CHECK(s.prefill_excess == Approx(1));
  CHECK(s.gate_wait.max == 0);
  CHECK(s.moved_share == 0);
  options.scheduler.prefix_cache = false;
  const SessionFigures cold = *MustReplay(w, options).metrics.sessions;
  CHECK(cold.cached_share == 0);
  CHECK(cold.prefill_excess == Approx(340.0 / (340 - 96)).epsilon(0.05));  // in addition to the usual cost of a step
  CHECK_FALSE(MustReplay(Requests({{AtMs(0), {10, 1}}}), options).metrics.sessions.has_value());
}

TEST_CASE("a gate delays a session until another ends, and reports it") {
  Workload w = TwoTurns();
  AddWorkflow(w, AtMs(50), {{100, 2}});
  w.calls[2].runs = 1;
  ReplayOptions options = LinearSteps();
  options.scheduler.prefix_cache = true;
  options.kv_tokens = 192;  // enough for one at a time
  options.retention = *MakeRetentionFactory("lru");
  const ReplayResult crowded = MustReplay(w, options);
  CHECK(crowded.requests[1].cached_tokens < 96);
  CHECK_FALSE(crowded.requests[2].gated);
  options.gate = *MakeGateFactory("lease(seconds=100)");
  const ReplayResult result = MustReplay(w, options);
  CHECK(result.requests[1].cached_tokens == 96);
  CHECK(result.requests[2].gated);
  CHECK(result.requests[2].first_step >= result.requests[1].end);  // its session's last turn
  CHECK(result.metrics.sessions->gate_wait.max == Approx(ToSeconds(result.requests[2].first_step - AtMs(50))));
  CHECK(result.stats.gate_refused > 0);
}

TEST_CASE("a horizon ends the run, and figures start after warm-up") {
  const Workload w = Requests({{AtMs(0), {10, 3}}, {AtMs(20), {10, 2}}, {AtMs(45), {10, 9}}, {AtMs(90), {10, 1}}});
  ReplayOptions options = ConstantSteps();
  options.cluster.horizon = Ms(64);
  options.warm_up = Ms(20);
  const ReplayResult result = MustReplay(w, options);
  CHECK_FALSE(result.stopped);
  CHECK(result.window == Window{AtMs(20), AtMs(64)});
  CHECK(result.requests[0].end == AtMs(30));
  CHECK(result.requests[2].outcome == Outcome::kPending);
  CHECK(result.requests[3].arrival == kNever);
  CHECK(result.metrics.requests == 2);
  CHECK(result.metrics.completed == 1);
  CHECK(result.metrics.pending == 1);
  CHECK(result.metrics.sessions->turns == 2);  // completed within it, at any arrival
  options.cluster.horizon = Ms(1000);
  CHECK(MustReplay(w, options).metrics.completed == 3);
  options.warm_up = Ms(1000);
  CHECK_FALSE(Replay(w, options).ok());
}

TEST_CASE("a run can be observed and stopped") {
  const Workload w = RandomWorkload(1, 3000, 1, false);
  ReplayOptions options = LinearSteps();
  double last = 0;
  options.cluster.progress = [&](double share) {
    CHECK(share >= last);
    last = share;
    return true;
  };
  std::vector<RunState> states;
  options.cluster.watch = [&](const RunState& state) { states.push_back(state); };
  const ReplayResult watched = MustReplay(w, options);
  CHECK_FALSE(watched.stopped);
  CHECK(last > 0);
  REQUIRE_FALSE(states.empty());
  CHECK(std::ranges::is_sorted(states, {}, [](const RunState& s) { return std::pair(s.ended, s.at.time); }));
  const RunState& end = states.back();
  CHECK(end.ended > 0);
  CHECK(end.ended < w.calls.size());
  CHECK(end.kv_blocks == watched.kv_blocks);
  CHECK(end.at.kv_blocks <= end.kv_blocks);
  CHECK(end.output_tokens > 0);
  CHECK(end.output_tokens < watched.stats.tokens_output);
  options.cluster.watch = {};
  CHECK(MustReplay(w, options).metrics.e2e.mean == watched.metrics.e2e.mean);
  options.cluster.progress = [](double) { return false; };
  const ReplayResult stopped = MustReplay(w, options);
  CHECK(stopped.stopped);
  CHECK(stopped.metrics.pending > 0);
}

TEST_CASE("budgets give deadlines to workflows or learned shares to calls") {
  Workload w = RandomWorkload(5, 400, 20, true);
  Random random(1);
  for (WorkloadWorkflow& workflow : w.workflows) workflow.deadline = Ms(static_cast<std::int64_t>(random.Below(3000)));
  w.names.push_back("first"), w.names.push_back("later");
  for (WorkloadCall& call : w.calls) call.stage = call.predecessors == 0 ? 2 : 3;
  const auto ends = [&](std::int32_t instances, std::optional<BudgetOptions> budgets) {
    ReplayOptions options = LinearSteps();
    options.policy = PolicyBy("edf");
    options.engine.limits.max_seqs = 4;
    options.estimates = Oracle();
    options.instances = instances;
    options.placement = *MakePlacement("round_robin");
    options.router_policy = PolicyBy("fcfs");
    options.budgets = budgets;
    const ReplayResult result = MustReplay(w, options);
    CHECK(result.metrics.completed == static_cast<std::int64_t>(w.calls.size()));
    std::vector<TimePoint> times;
    for (const RequestRecord& r : result.requests) times.push_back(r.end);
    return times;
  };
  for (const std::int32_t instances : {1, 3}) {
    CAPTURE(instances);
    const std::vector<TimePoint> none = ends(instances, {}), whole = ends(instances, BudgetOptions{BudgetRule::kWhole});
    CHECK(whole == none);
    CHECK(ends(instances, BudgetOptions{BudgetRule::kShare}) != none);
  }
}

TEST_CASE("all faults of the options are named at once") {
  const Workload w = Requests({{AtMs(0), {10, 1}}});
  ReplayOptions options = ConstantSteps();
  options.instances = 0;
  options.cluster.rate_scale = -1;
  options.kv_tokens = 0;
  const absl::Status status = Replay(w, options).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  for (const char* field : {"instances", "rate_scale", "kv_tokens"}) {
    CHECK(std::string(status.message()).find(field) != std::string::npos);
  }
  CHECK_FALSE(Replay(Requests({{AtMs(0), {10, 0}}}), ConstantSteps()).ok());
  options = ConstantSteps();
  options.cluster.rate_scale = 1e-300;
  const Workload two = Requests({{AtMs(0), {10, 1}}, {AtMs(100), {10, 1}}});
  CHECK(std::string(Replay(two, options).status().message()).find("rate_scale is 1e-300") != std::string::npos);
  options.cluster.closed_loop = 1;
  CHECK(Replay(two, options).ok());
  options = ConstantSteps();
  options.pause = nullptr;
  CHECK_FALSE(Replay(w, options).ok());
  CHECK_FALSE(MakePolicyFactory("no_such_policy").ok());
  CHECK_FALSE(MakePauseFactory("no_such_pause").ok());
}

}  // namespace
}  // namespace takt
