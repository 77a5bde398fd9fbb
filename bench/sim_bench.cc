// The simulator with the real scheduler: requests per second of wall time on a real trace, on one thread.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "takt/rivals/pause/infercept.h"
#include "takt/pause/least_waste.h"
#include "takt/policy/aged.h"
#include "takt/policy/any_policy.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/memory_integral.h"
#include "takt/policy/sjf.h"
#include "takt/scheduler.h"
#include "takt/sim/fast_path.h"
#include "takt/sim/profiles.h"
#include "takt/sim/replay.h"
#include "takt/sim/virtual_cluster.h"
#include "takt/workload/generate.h"
#include "takt/workload/read.h"

namespace takt {
namespace {

std::string DataDir() {
  const char* dir = std::getenv("TAKT_DATA");
  return dir != nullptr ? dir : TAKT_SOURCE_DIR "/../shared/data";
}

// The trace at five times its speed: 27.6 requests per second.
absl::StatusOr<Workload> AzureConv() { return ReadWorkload(DataDir() + "/traces/azure_llm_2023_conv.csv.gz"); }

ReplayOptions OptionsFor(EstimateSpec estimates) {
  ReplayOptions options;
  options.profile = *FindProfile("aic/llama-3.1-8b/h100/bf16/tp1");
  options.cluster.rate_scale = 5;
  options.estimates = estimates;
  return options;
}

void Count(benchmark::State& state, std::int64_t requests, std::int64_t request_steps) {
  const auto done = static_cast<double>(state.iterations());
  state.counters["requests"] = benchmark::Counter(done * static_cast<double>(requests), benchmark::Counter::kIsRate);
  state.counters["per_request_step"] = benchmark::Counter(done * static_cast<double>(request_steps),
                                                          benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// The run alone; the compiler knows the scheduler's policy, or does not.
template <class Policy>
void Run(benchmark::State& state, Policy policy, EstimateSpec estimates) {
  const absl::StatusOr<Workload> workload = AzureConv();
  if (!workload.ok()) return state.SkipWithError(std::string(workload.status().message()).c_str());
  const ReplayOptions options = OptionsFor(estimates);
  const PreparedCostModel cost(options.profile.cost);
  using Engine = BasicScheduler<Policy>;
  SchedulerOptions scheduler_options;
  scheduler_options.max_running = options.engine.limits.max_seqs;
  scheduler_options.kv_blocks = {static_cast<std::int32_t>(options.profile.kv_capacity_tokens / 16)};
  std::int64_t request_steps = 0;
  for (auto _ : state) {
    VirtualCluster<Engine> cluster(*workload, options.estimates, 1, options.cluster);
    cluster.AddEngine(*Engine::Create(scheduler_options, policy), cost, options.engine);
    if (!cluster.Run()) return state.SkipWithError("the run did not end");
    request_steps = cluster.engines()[0].request_steps();
  }
  Count(state, static_cast<std::int64_t>(workload->calls.size()), request_steps);
}

void BM_ReplayAzureConv_fcfs_static(benchmark::State& state) { Run(state, Fcfs{}, {}); }
void BM_ReplayAzureConv_fcfs_erased(benchmark::State& state) { Run(state, AnyPolicy(Fcfs{}), {}); }
void BM_ReplayAzureConv_sjf_static(benchmark::State& state) { Run(state, Sjf{}, {EstimateKind::kOracle, 0}); }
void BM_ReplayAzureConv_sjf_erased(benchmark::State& state) {
  Run(state, AnyPolicy(Sjf{}), {EstimateKind::kOracle, 0});
}
BENCHMARK(BM_ReplayAzureConv_fcfs_static)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ReplayAzureConv_fcfs_erased)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ReplayAzureConv_sjf_static)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ReplayAzureConv_sjf_erased)->Unit(benchmark::kMillisecond);

// Requests that call tools, as `takt-lab scenario lamps` runs them: the workload's 397 drawn fifty times over. The
// argument is their arrival rate [1/s]. Each makes about five calls and as many returns.
template <class Policy, class Pause>
void Tools(benchmark::State& state, Policy policy, Pause pause) {
  const absl::StatusOr<Workload> all = ReadWorkload(DataDir() + "/tools/infercept_multi_api.jsonl");
  if (!all.ok()) return state.SkipWithError(std::string(all.status().message()).c_str());
  const Workload drawn = *Draw(*all, 20'000, Arrivals{}, 1);
  const Profile profile = *FindProfile("lamps/gpt-j-6b/a100-40gb/fp16/tp1");
  const PreparedCostModel cost(profile.cost);
  const MemoryPace pace = MemoryPace::From(profile.cost, 32, 1024, 512);
  if constexpr (requires { pause.costs; }) pause.costs.pace = pace;
  using Engine = BasicScheduler<Policy, Pause>;
  const SchedulerOptions options{.kv_blocks = {static_cast<std::int32_t>(profile.kv_capacity_tokens / 16)},
                                 .cpu_blocks = {2000}};
  std::int64_t request_steps = 0;
  for (auto _ : state) {
    VirtualCluster<Engine> cluster(drawn, {EstimateKind::kOracle, 0}, 1,
                                   {.rate_scale = static_cast<double>(state.range(0))});
    cluster.AddEngine(*Engine::Create(options, policy, pause), cost, {});
    if (!cluster.Run()) return state.SkipWithError("the run did not end");
    request_steps = cluster.engines()[0].request_steps();
  }
  Count(state, static_cast<std::int64_t>(drawn.calls.size()), request_steps);
}

void BM_ReplayTools_lamps(benchmark::State& state) {
  MemoryIntegral integral;
  integral.pace = MemoryPace::From(FindProfile("lamps/gpt-j-6b/a100-40gb/fp16/tp1")->cost, 32, 1024, 512);
  Tools(state,
        Aged(integral, {.threshold = 100,
                        .quantum = kForever,
                        .count_from = AgingOptions::CountFrom::kFirstRun,
                        .at_tool_call = AgingOptions::AtToolCall::kResetCount}),
        LeastWaste{});
}
void BM_ReplayTools_infercept(benchmark::State& state) { Tools(state, Fcfs{}, InferCept{}); }
void BM_ReplayTools_vllm(benchmark::State& state) { Tools(state, Fcfs{}, DropAll{}); }
BENCHMARK(BM_ReplayTools_lamps)->ArgName("rate")->Arg(3)->Arg(10)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ReplayTools_infercept)->ArgName("rate")->Arg(3)->Arg(10)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ReplayTools_vllm)->ArgName("rate")->Arg(3)->Arg(10)->Unit(benchmark::kMillisecond);

// The same run for tables: no scheduler, and a request is touched only at its events.
void BM_FastPathAzureConv(benchmark::State& state) {
  const absl::StatusOr<Workload> workload = AzureConv();
  if (!workload.ok()) return state.SkipWithError(std::string(workload.status().message()).c_str());
  const ReplayOptions options = OptionsFor({});
  const PreparedCostModel cost(options.profile.cost);
  std::vector<FastRequest> requests;
  for (const WorkloadWorkflow& w : workload->workflows) {
    const WorkloadCall& call = workload->calls[w.first_call];
    requests.push_back(
        {ToSeconds(w.arrival) / static_cast<double>(state.range(0)), call.prompt_tokens, call.output_tokens});
  }
  std::vector<FastRecord> records(requests.size());
  FastPath fast(cost, {.kv_tokens = options.profile.kv_capacity_tokens});
  FastRun run;
  for (auto _ : state) {
    run = fast.Run(requests, records);
    benchmark::DoNotOptimize(records.data());
  }
  const auto done = static_cast<double>(state.iterations());
  state.counters["requests"] =
      benchmark::Counter(done * static_cast<double>(requests.size()), benchmark::Counter::kIsRate);
  state.counters["steps"] = benchmark::Counter(done * static_cast<double>(run.steps), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_FastPathAzureConv)->ArgName("rate_scale")->Arg(1)->Arg(5)->Unit(benchmark::kMillisecond);

// All of `takt replay` except reading the trace: metrics included.
void BM_ReplayAzureConv_with_metrics(benchmark::State& state) {
  const absl::StatusOr<Workload> workload = AzureConv();
  if (!workload.ok()) return state.SkipWithError(std::string(workload.status().message()).c_str());
  ReplayOptions options = OptionsFor({});
  options.cluster.rate_scale = static_cast<double>(state.range(0));
  std::int64_t request_steps = 0;
  for (auto _ : state) {
    const absl::StatusOr<ReplayResult> result = Replay(*workload, options);
    if (!result.ok()) return state.SkipWithError(std::string(result.status().message()).c_str());
    request_steps = result->request_steps;
  }
  Count(state, static_cast<std::int64_t>(workload->calls.size()), request_steps);
}
BENCHMARK(BM_ReplayAzureConv_with_metrics)->ArgName("rate_scale")->Arg(1)->Arg(5)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace takt
