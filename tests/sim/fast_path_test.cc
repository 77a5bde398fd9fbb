#include "takt/sim/fast_path.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/numeric/quantile.h"
#include "takt/sim/replay.h"
#include "takt/workload/generate.h"
#include "takt/workload/read.h"

namespace takt {
namespace {

struct Both {
  double full = 0, fast = 0;              // p95 of end - arrival [s]
  double full_ttft = 0, fast_ttft = 0;    // p95
  std::int64_t full_steps = 0, fast_steps = 0;
  std::int64_t full_preemptions = 0, fast_preemptions = 0;
};

std::vector<FastRequest> RequestsOf(const Workload& w, double rate_scale) {
  std::vector<FastRequest> requests;
  for (const WorkloadWorkflow& f : w.workflows) {
    const WorkloadCall& call = w.calls[f.first_call];
    requests.push_back({ToSeconds(f.arrival) / rate_scale, call.prompt_tokens, call.output_tokens});
  }
  return requests;
}

// The fast path lacks two rules: prompts that leave room to others, and requests that pass one without memory. An
// explicit chunk_tokens disables the first. A window of one limits the second.
Both RunBoth(const Workload& w, ReplayOptions options) {
  options.engine.limits.chunk_tokens = options.engine.limits.tokens;
  options.scheduler.admission_window = 1;
  const absl::StatusOr<ReplayResult> full = Replay(w, options);
  REQUIRE(full.ok());
  Both both;
  both.full = full->metrics.e2e.p95;
  both.full_ttft = full->metrics.ttft.p95;
  both.full_steps = full->steps;
  both.full_preemptions = full->metrics.preemptions;

  const PreparedCostModel cost(options.profile.cost);
  const std::int64_t kv = options.kv_tokens > 0 ? options.kv_tokens : options.profile.kv_capacity_tokens;
  FastPath fast(cost, {.token_budget = options.engine.limits.tokens.value,
                       .max_seqs = options.engine.limits.max_seqs,
                       .kv_tokens = kv});
  const std::vector<FastRequest> requests = RequestsOf(w, options.cluster.rate_scale);
  std::vector<FastRecord> records(requests.size());
  const FastRun run = fast.Run(requests, records);
  std::vector<double> e2e, ttft;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    e2e.push_back(records[i].end - requests[i].arrival);
    ttft.push_back(records[i].first_token - requests[i].arrival);
  }
  both.fast = Quantile(e2e, 0.95);
  both.fast_ttft = Quantile(ttft, 0.95);
  both.fast_steps = run.steps;
  both.fast_preemptions = run.preemptions;
  return both;
}

Workload Poisson(std::int64_t requests, double rate, double prompt, double output, std::uint64_t seed) {
  GeneratorOptions options;
  options.workflows = requests;
  options.arrivals.rate = rate;
  options.seed = seed;
  StageTemplate stage;
  stage.prompt = Lengths::LogNormal(prompt, 0.8);
  stage.output = Lengths::LogNormal(output, 0.8);
  options.templates = {{.name = "chat", .stages = {stage}}};
  return *GenerateWorkload(options);
}

TEST_CASE("the fast path's p95 is within 2 % of the simulator's") {
  const std::int64_t n = Scaled(2000);
  // The rates range from an idle engine to an overloaded one.
  struct Case {
    const char* profile;
    double prompt, output;
    std::vector<double> rates;
  };
  const Case cases[] = {
      {"aic/llama-3.1-8b/h100/bf16/tp1", 400, 600, {0.5, 5, 10, 14, 20}},
      {"aic/llama-3.1-8b/a100/bf16/tp1", 3000, 100, {0.2, 1.5, 3, 5}},
      {"aic/llama-3.1-70b/h100/bf16/tp4", 400, 600, {0.2, 2, 6, 12}},
      {"aic/llama-3.1-70b/h100/bf16/tp2", 400, 600, {0.1, 0.4, 1}},  // memory for some 16,000 tokens
      {"aic/llama-3.1-70b/h100/bf16/tp2/pp2", 400, 600, {0.2, 3, 8}},
      {"aic/llama-3.1-70b/h100/bf16/tp4/pp4", 400, 600, {0.2, 3, 8}},
      {"e2e/deepseek-r1/h200/fp8/sglang/tp8", 400, 600, {0.2, 2, 5}},
  };
  for (const Case& c : cases) {
    for (const double rate : c.rates) {
      for (const int budget : {512, 2048}) {
        ReplayOptions options;
        options.profile = *FindProfile(c.profile);
        options.engine.limits.tokens = {budget};
        const Both both = RunBoth(Poisson(n, rate, c.prompt, c.output, 7), options);
        INFO(c.profile << " at " << rate << "/s, budget " << budget << ": p95 " << both.full << " s and " << both.fast
                       << " s; TTFT " << both.full_ttft << " s and " << both.fast_ttft << " s; steps "
                       << both.full_steps << " and " << both.fast_steps << "; preemptions " << both.full_preemptions
                       << " and " << both.fast_preemptions);
        CHECK(both.fast == Approx(both.full).epsilon(0.02));
        CHECK(both.fast_ttft == Approx(both.full_ttft).epsilon(0.05));
        CHECK(std::abs(static_cast<double>(both.fast_steps - both.full_steps)) <=
              0.02 * static_cast<double>(both.full_steps) + 5);
      }
    }
  }
}

TEST_CASE("without preemptions the fast path takes the simulator's steps") {
  const std::int64_t n = Scaled(500);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    ReplayOptions options;
    options.profile = *FindProfile("aic/llama-3.1-8b/h100/bf16/tp1");
    const Both both = RunBoth(Poisson(n, 4.0 * static_cast<double>(seed), 300, 200, seed), options);
    CHECK(both.full_preemptions == 0);
    CHECK(both.fast_preemptions == 0);
    CHECK(std::abs(both.fast_steps - both.full_steps) <= 2 + n / 200);
    CHECK(both.fast == Approx(both.full).epsilon(1e-4));
  }
}

TEST_CASE("the fast path preempts as the scheduler does") {
  ReplayOptions options;
  options.profile = *FindProfile("aic/llama-3.1-8b/h100/bf16/tp1");
  options.kv_tokens = 16'000;
  for (const double rate : {1.0, 2.0, 4.0}) {
    Workload w = Poisson(Scaled(1500), rate, 300, 900, 3);
    for (WorkloadCall& call : w.calls) call.output_tokens = std::min(call.output_tokens, 6000);
    const Both both = RunBoth(w, options);
    INFO("rate " << rate << ": " << both.full << " and " << both.fast << ", preemptions " << both.full_preemptions
                 << " and " << both.fast_preemptions);
    CHECK(both.fast == Approx(both.full).epsilon(0.02));
    CHECK(static_cast<double>(both.fast_preemptions) ==
          Approx(static_cast<double>(both.full_preemptions)).epsilon(0.1).margin(10));
  }
}

TEST_CASE("the fast path agrees on a conversation trace") {
  const char* data = std::getenv("TAKT_DATA");
  const std::string path =
      (data != nullptr ? data : TAKT_SOURCE_DIR "/../shared/data") + std::string("/traces/azure_llm_2023_conv.csv.gz");
  if (!std::filesystem::exists(path)) {
    WARN("skipped: no " << path << "; TAKT_DATA names the folder above traces/");
    return;
  }
  const absl::StatusOr<Workload> conv = ReadWorkload(path);
  REQUIRE(conv.ok());
  for (const double scale : {1.0, 3.0, 5.0}) {
    ReplayOptions options;
    options.profile = *FindProfile("aic/llama-3.1-8b/h100/bf16/tp1");
    options.cluster.rate_scale = scale;
    const Both both = RunBoth(*conv, options);
    INFO("rate_scale " << scale << ": " << both.full << " and " << both.fast);
    CHECK(both.fast == Approx(both.full).epsilon(0.02));
  }
}

double P95(std::vector<FastRequest> requests, const FastPathOptions& options) {
  const PreparedCostModel cost(FindProfile("aic/llama-3.1-8b/h100/bf16/tp1")->cost);
  FastPath fast(cost, options);
  std::vector<FastRecord> records(requests.size());
  fast.Run(requests, records);
  std::vector<double> e2e;
  for (std::size_t i = 0; i < requests.size(); ++i) e2e.push_back(records[i].end - requests[i].arrival);
  return Quantile(e2e, 0.95);
}

TEST_CASE("prefix hits are a reduction of the prefill") {
  const std::vector<FastRequest> requests = RequestsOf(Poisson(500, 4, 3000, 100, 1), 1);
  FastPathOptions options{.kv_tokens = 400'000};
  const double none = P95(requests, options);
  options.prefix_hit_rate = 0.5;
  const double half = P95(requests, options);
  options.prefix_hit_rate = 1;
  const double all = P95(requests, options);
  CHECK(half < none);
  CHECK(all < half);
  options.prefix_hit_rate = 7;
  CHECK(P95(requests, options) == all);
  options.prefix_hit_rate = std::numeric_limits<double>::quiet_NaN();
  CHECK(P95(requests, options) == none);
}

TEST_CASE("a repeated run is equal, and only impossible requests fail") {
  const PreparedCostModel cost(FindProfile("aic/llama-3.1-8b/h100/bf16/tp1")->cost);
  FastPath fast(cost, {.kv_tokens = 4096});
  std::vector<FastRequest> requests = RequestsOf(Poisson(300, 3, 200, 100, 5), 1);
  for (FastRequest& r : requests) r.output = std::min(r.output, 1500), r.prompt = std::min(r.prompt, 1500);
  std::vector<FastRecord> first(requests.size()), again(requests.size());
  fast.Run(requests, first);
  fast.Run(requests, again);
  CHECK(first == again);

  requests[7].prompt = 5000;
  requests[20].output = 1'000'000'000;
  requests[30] = {requests[30].arrival, -4, 0};  // each counts as one token
  const FastRun run = fast.Run(requests, again);
  CHECK(run.failed == 2);
  CHECK(std::isinf(again[7].end));
  CHECK(std::isinf(again[20].end));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (i == 7 || i == 20) continue;
    CHECK(std::isfinite(again[i].end));
    CHECK(again[i].first_token >= requests[i].arrival);
    CHECK(again[i].end >= again[i].first_token);
  }

  FastPath nothing(cost, {.kv_tokens = 0});
  CHECK(nothing.Run(requests, again).failed == static_cast<std::int64_t>(requests.size()));
  CHECK(fast.Run({}, {}).steps == 0);
}

TEST_CASE("no request is lost on any engine") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(300)); ++seed) {
    Random random(seed);
    const PreparedCostModel cost(FindProfile("aic/llama-3.1-8b/h100/bf16/tp1")->cost, 64, 64);
    FastPathOptions options;
    options.token_budget = 1 + static_cast<std::int32_t>(random.Below(600));
    options.max_seqs = 1 + static_cast<std::int32_t>(random.Below(40));
    options.kv_block_tokens = 1 + static_cast<std::int32_t>(random.Below(20));
    options.kv_tokens = static_cast<std::int64_t>(random.Below(3000));
    options.prefix_hit_rate = random.Uniform();
    std::vector<FastRequest> requests;
    double now = 0;
    for (int i = 0; i < 100; ++i) {
      now += random.Chance(0.3) ? 0 : 0.05 * random.Exponential();
      requests.push_back(
          {now, static_cast<std::int32_t>(random.Below(300)), static_cast<std::int32_t>(random.Below(200))});
    }
    std::vector<FastRecord> records(requests.size());
    FastPath fast(cost, options);
    const FastRun run = fast.Run(requests, records);
    std::int64_t failed = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      failed += std::isinf(records[i].end) ? 1 : 0;
      REQUIRE(records[i].first_token > requests[i].arrival);
      REQUIRE(records[i].end >= records[i].first_token);
    }
    REQUIRE(run.failed == failed);
  }
}

}  // namespace
}  // namespace takt
