// Steps of an engine under LAMPS and under Kairos, against sjf; and a placement of Kairos' router.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <utility>

#include "counting_new.h"
#include "step_hosts.h"
#include "takt/policy/agent_priority.h"
#include "takt/policy/sjf.h"
#include "takt/systems/kairos.h"
#include "takt/systems/lamps.h"

namespace takt {
namespace {

constexpr int kRunning = 256;
constexpr std::int64_t kWaiting = 10'000;
constexpr SchedulerOptions kEngine = {
    .max_running = kRunning, .reserve_requests = kRunning + kWaiting + 64, .kv_blocks = {1 << 20}};

template <class SchedulerT>
void Steps(benchmark::State& state, SchedulerT scheduler) {
  ChurnHost host(std::move(scheduler), kRunning, kWaiting);
  for (int i = 0; i < 2000; ++i) host.Step();
  const std::size_t before = allocations;
  for (auto _ : state) state.SetIterationTime(host.Step().count());
  state.counters["allocations"] = static_cast<double>(allocations - before);
}

void BM_StepSjf(benchmark::State& state) { Steps(state, *Scheduler::Create(kEngine, AnyPolicy(Sjf{}))); }
void BM_StepLamps(benchmark::State& state) { Steps(state, *systems::Lamps::Create({.scheduler = kEngine})); }
// The requests have no agents, so the order is that of workflows.
void BM_StepKairos(benchmark::State& state) {
  Steps(state, *Scheduler::Create(kEngine, AnyPolicy(systems::Kairos::Create()->policy())));
}
BENCHMARK(BM_StepSjf)->UseManualTime();
BENCHMARK(BM_StepLamps)->UseManualTime();
BENCHMARK(BM_StepKairos)->UseManualTime();

// A call arrives, is placed, starts and ends; 32 calls run on each instance.
void BM_KairosPlace(benchmark::State& state) {
  const auto instances = static_cast<std::uint64_t>(state.range(0));
  systems::KairosOptions options;
  options.router.reserve_requests = static_cast<std::int64_t>(33 * instances);
  systems::Kairos kairos = *systems::Kairos::Create(options);
  for (std::uint64_t i = 1; i <= instances; ++i) kairos.On(InstanceUp{{.id = {i}, .kv_tokens = {1 << 20}}}, {});
  const AgentId agent = kairos.Agent("writer");
  std::uint64_t id = 0;
  std::int64_t ms = 0;
  const auto place = [&] {
    const TimePoint now{std::chrono::milliseconds(++ms)};
    Request r{.id = {++id}, .workflow = {id}, .agent = agent, .prompt_tokens = {512}};
    r.output_tokens = Estimate::Exact(static_cast<double>(32 + id % 400));
    kairos.On(Arrived{r}, now);
    const std::span<const Placement> placed = kairos.Place(now);
    for (const Placement& p : placed) kairos.On(RequestStarted{p.request, p.instance}, now);
    return placed.empty() ? Placement{} : placed[0];
  };
  std::vector<Placement> running;
  for (std::uint64_t i = 0; i < 32 * instances; ++i) running.push_back(place());
  std::size_t next = 0;
  for (auto _ : state) {
    const Placement ended = std::exchange(running[next], place());
    const TimePoint now{std::chrono::milliseconds(ms)};
    kairos.On(RequestEnded{ended.request, ended.instance}, now);
    kairos.On(WorkflowEnded{{ended.request.value}}, now);
    next = (next + 1) % running.size();
  }
}
BENCHMARK(BM_KairosPlace)->ArgName("instances")->Arg(4)->Arg(64);

}  // namespace
}  // namespace takt
