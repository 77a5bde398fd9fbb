// Times at and near both ends of the clock. Each policy, pause policy, retention policy and gate continues to plan, and
// nothing is lost.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.h"
#include "takt/turns/gates/registry.h"
#include "takt/pause/registry.h"
#include "takt/policy/registry.h"
#include "takt/turns/retention/registry.h"
#include "takt/scheduler.h"
#include "with_rivals.h"

namespace takt {
namespace {

constexpr StepLimits kLimits{.tokens = {64}, .max_seqs = 4};
constexpr Duration kOne(1), kSoon = std::chrono::milliseconds(1);

SchedulerOptions Options() {
  SchedulerOptions options;
  options.max_running = 4;
  options.kv_blocks = {64};
  options.prefix_cache = true;
  options.cpu_blocks = {16};
  return options;
}

// A request runs and calls a tool, and its turn ends. Then one of these steps reaches the end of the clock.
void RunAt(TimePoint start, TimePoint end, const std::string& policy, const std::string& pause,
           const std::string& retention, const std::string& gate) {
  INFO(policy << ", " << pause << ", " << retention << ", " << gate << ", from " << start.time_since_epoch().count()
              << " to " << end.time_since_epoch().count());
  Scheduler scheduler = *Scheduler::Create(Options(), *MakePolicy(policy), *MakePause(pause));
  REQUIRE(scheduler.SetRetention(*MakeRetention(retention), *MakeGate(gate)).ok());
  const std::uint64_t hashes[] = {77, 78};
  const auto arrive = [&](std::uint64_t id, TimePoint now) {
    Request r{.id = {id}, .workflow = {5}, .prompt_tokens = {40}, .prefix = {{16}, hashes}};
    r.arrival = id % 2 == 0 ? kUnset : Before(now, Duration::max());
    r.deadline = id % 3 == 0 ? After(now, kOne) : kUnset;
    r.next_call = {.after = {1}, .returned = {1}, .duration = id % 2 == 0 ? Duration::max() : kSoon};
    r.compute = Duration::max();
    scheduler.On(Arrived{r}, now);
  };
  const auto step = [&](TimePoint now) {
    const StepPlan& plan = scheduler.Plan(now, kLimits);
    std::vector<RowResult> rows;
    for (const PlanEntry& e : plan.run) rows.push_back({.request = e.request, .lane = e.lane, .tokens = e.samples()});
    const std::vector<KvMove> moves(plan.moves.begin(), plan.moves.end());
    if (!plan.run.empty()) scheduler.Commit({plan.id, rows}, now);
    for (const KvMove& move : moves) scheduler.On(MoveDone{move.id}, now);
    REQUIRE(scheduler.Inconsistency() == nullptr);
  };
  arrive(1, start), arrive(2, start);
  step(start);
  scheduler.On(TurnEnded{.workflow = {5}, .expected = Duration::max(), .pin = Duration::max()}, start);
  scheduler.On(TurnExpected{{5}, 0, kUnset}, start);
  scheduler.On(ToolCalled{{1}, kSoon, {4}}, start);
  for (const TimePoint now : {After(start, kOne), Before(end, kSoon), Before(end, kOne), end}) {
    arrive(static_cast<std::uint64_t>(scheduler.stats().arrived) + 1, now);
    step(now);
    scheduler.On(TurnEnded{.workflow = {5}, .expected = kSoon, .pin = kSoon}, now);
    scheduler.On(ToolCalled{{2}, Duration::max(), {4}}, now);
    step(now);
  }
  scheduler.On(ToolReturned{{1}, {4}}, kUnset);
  for (std::uint64_t id = 1; id < 20; ++id) scheduler.On(Cancelled{{id}}, kUnset);
  step(end), step(end);
  CHECK(scheduler.alive() == 0);
}

TEST_CASE("a plan at the end of the clock ends no missing pin") {
  RunAt(TimePoint{}, kNever, "fcfs", "keep_all", "hold_value", "price");
}

TEST_CASE("a review near the end of the clock is the last") {
  Scheduler scheduler = *Scheduler::Create(Options(), *MakePolicy("fcfs"), *MakePause("infercept(elapsed=true)"));
  scheduler.On(Arrived{{.id = {1}, .prompt_tokens = {17}}}, TimePoint{});
  const StepPlan first = scheduler.Plan(TimePoint{}, kLimits);
  scheduler.Commit({first.id, std::vector<RowResult>{{.request = {1}, .lane = first.run[0].lane, .tokens = 1}}}, {});
  scheduler.Plan(TimePoint{}, kLimits);  // in flight
  scheduler.On(ToolCalled{{1}, std::chrono::seconds(1)}, TimePoint{});
  CHECK(scheduler.Plan(Before(kNever, kOne), kLimits).wake_at == kNever);
  CHECK(scheduler.Inconsistency() == nullptr);
}

TEST_CASE("every policy and gate plans at both ends of the clock") {
  const std::vector<PolicyInfo> policies = PolicyInfos();
  const std::vector<PauseInfo> pauses = PauseInfos();
  const std::vector<RetentionInfo> retentions = RetentionInfos();
  const std::vector<GateInfo> gates = GateInfos();
  for (std::size_t i = 0; i < policies.size() * 2; ++i) {
    const auto name = [i](const auto& all) {
      const std::string& one = all[i % all.size()].name;
      return one == "aged" || one == "metered" ? one + "(fcfs)" : one;
    };
    RunAt(kUnset, kNever, name(policies), name(pauses), name(retentions), name(gates));
    RunAt(Before(kNever, Times(kSoon, 3)), kNever, name(policies), name(pauses), name(retentions), name(gates));
    RunAt(TimePoint{}, kUnset, name(policies), name(pauses), name(retentions), name(gates));
  }
}

}  // namespace
}  // namespace takt
