// One tool call: the scheduler decides about its KV when it starts, and ranks the request again when the tool answers.
// Very many others wait or are paused. Compares least waste and the memory integral with keeping and FCFS.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "counting_new.h"
#include "takt/base/random.h"
#include "takt/pause/least_waste.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/memory_integral.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

constexpr int kRunning = 256;
constexpr std::size_t kCalls = 8;  // that start, and that end, in a step

template <class SchedulerT>
class Host {
 public:
  Host(SchedulerT scheduler, std::int64_t waiting, std::int64_t paused) : scheduler_(std::move(scheduler)) {
    rows_.reserve(kRunning);
    paused_.reserve(static_cast<std::size_t>(paused) + kCalls);
    while (std::cmp_less(paused_.size(), paused)) {
      while (scheduler_.waiting() + scheduler_.running() < kRunning) Arrive();
      RunStep();
      while (std::cmp_less(paused_.size(), paused) && !runs_.empty()) Call();
    }
    for (std::int64_t i = 0; i < kRunning + waiting; ++i) Arrive();
  }

  // Time of starting kCalls calls and ending the same number, per call.
  std::chrono::duration<double> Step() {
    using Clock = std::chrono::steady_clock;
    RunStep();
    calls_.clear();
    returns_.clear();
    for (std::size_t i = 0; i < kCalls; ++i) {
      if (!runs_.empty()) calls_.push_back(NextCalled());
      if (!paused_.empty()) returns_.push_back(NextReturned());
    }
    const auto start = Clock::now();
    for (const ToolCalled& call : calls_) scheduler_.On(call, Same());
    for (const ToolReturned& answer : returns_) scheduler_.On(answer, Same());
    const std::chrono::duration<double> took = Clock::now() - start;
    for (const ToolCalled& call : calls_) paused_.push_back(call.request);
    return took / static_cast<double>(kCalls);
  }

 private:
  TimePoint Now() { return TimePoint(Duration(now_ += 10'000'000)); }
  TimePoint Same() const { return TimePoint(Duration(now_)); }

  NextCall Expected() {
    return {{1 + random_.Below(6)},
            {static_cast<std::int32_t>(8 + random_.Below(64))},
            {static_cast<std::int32_t>(1 + random_.Below(64))},
            FromSeconds(5 * random_.Uniform())};
  }

  void Arrive() {
    Arrived event;
    event.request.id = {++last_id_};
    event.request.prompt_tokens = {static_cast<std::int32_t>(16 + random_.Below(240))};
    event.request.output_tokens = Estimate::Exact(static_cast<double>(64 + random_.Below(512)));
    event.request.next_call = Expected();
    scheduler_.On(event, Same());
  }

  // All rows make progress; moves are done at once.
  void RunStep() {
    const StepPlan& plan = scheduler_.Plan(Now(), {.tokens = {8192}, .max_seqs = kRunning});
    rows_.clear();
    runs_.clear();
    for (const PlanEntry& e : plan.run) {
      rows_.push_back({e.request, e.lane, static_cast<std::uint16_t>(e.samples() ? 1 : 0), 0, 0});
      if (e.samples()) runs_.push_back(e.request);
    }
    moves_.assign(plan.moves.begin(), plan.moves.end());
    scheduler_.Commit({plan.id, rows_}, Same());
    for (const KvMove& move : moves_) scheduler_.On(MoveDone{move.id}, Same());
  }

  void Call() {
    const ToolCalled call = NextCalled();
    scheduler_.On(call, Same());
    paused_.push_back(call.request);
  }

  ToolCalled NextCalled() {
    const NextCall expected = Expected();
    return {Take(runs_), expected.duration, expected.returned, expected.tool};
  }
  ToolReturned NextReturned() { return {Take(paused_), {4}, Expected()}; }

  // Removes one of them.
  RequestId Take(std::vector<RequestId>& all) {
    std::swap(all[random_.Below(all.size())], all.back());
    const RequestId taken = all.back();
    all.pop_back();
    return taken;
  }

  SchedulerT scheduler_;
  std::vector<RowResult> rows_;
  std::vector<RequestId> runs_, paused_;
  std::vector<KvMove> moves_;
  std::vector<ToolCalled> calls_;      // of this step
  std::vector<ToolReturned> returns_;  // likewise
  Random random_{1};
  std::uint64_t last_id_ = 0;
  std::int64_t now_ = 0;
};

template <class Policy, class Pause>
void Calls(benchmark::State& state) {
  const std::int64_t waiting = state.range(0), paused = state.range(1);
  auto scheduler = BasicScheduler<Policy, Pause>::Create({.max_running = kRunning,
                                                          .reserve_requests = kRunning + waiting + paused + 1024,
                                                          .kv_blocks = {1 << 22},
                                                          .cpu_blocks = {1 << 22}},
                                                         Policy{}, Pause{});
  Host host(*std::move(scheduler), waiting, paused);
  for (int i = 0; i < 500; ++i) host.Step();
  const std::size_t before = allocations;
  std::uint64_t steps = 0;
  for (auto _ : state) {
    state.SetIterationTime(host.Step().count());
    ++steps;
  }
  state.counters["allocs_per_step"] = static_cast<double>(allocations - before) / static_cast<double>(steps);
}

void BM_ToolCall(benchmark::State& state) { Calls<MemoryIntegral, LeastWaste>(state); }
void BM_ToolCallFcfsKeepAll(benchmark::State& state) { Calls<Fcfs, KeepAll>(state); }

#define TAKT_TOOL_CALLS(name)           \
  BENCHMARK(name)                       \
      ->ArgNames({"waiting", "paused"}) \
      ->Args({1'000, 100})              \
      ->Args({100'000, 100})            \
      ->Args({1'000, 100'000})          \
      ->Iterations(20'000)              \
      ->UseManualTime()
TAKT_TOOL_CALLS(BM_ToolCallFcfsKeepAll);
TAKT_TOOL_CALLS(BM_ToolCall);
#undef TAKT_TOOL_CALLS

}  // namespace
}  // namespace takt
