// A host for tests. It makes requests and answers plans as an engine does.
#ifndef TAKT_TESTS_SCHEDULER_HOST_H_
#define TAKT_TESTS_SCHEDULER_HOST_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/priority.h"
#include "takt/scheduler.h"
#include "takt/scheduler/loop_parts.h"

namespace takt {

// Tests change standing rows and the planning clock directly.
struct SchedulerCounters {
  // Acts as if the host had requested this many plans without rows.
  template <class Scheduler>
  static void SkipPlans(Scheduler& scheduler, std::uint64_t plans) {
    scheduler.loop_.parts_->state.steps.last_ += plans;
  }
  // Returns the number of rows at the front of the order that are or were standing.
  template <class Scheduler>
  static std::size_t Standing(const Scheduler& scheduler) {
    return scheduler.loop_.parts_->state.running.front();
  }
  // Makes the next plan plan each row anew.
  template <class Scheduler>
  static void StandNoMore(Scheduler& scheduler) {
    scheduler.loop_.parts_->state.running.StandNoMoreFrom(0);
  }
};

}  // namespace takt

namespace takt::testing {

inline TimePoint Ms(std::int64_t ms) { return TimePoint(std::chrono::milliseconds(ms)); }

// Hashes that live as long as the tests run.
inline PrefixBlocks Prefix(std::int32_t block_tokens, std::vector<std::uint64_t> hashes) {
  static std::deque<std::vector<std::uint64_t>> kept;
  return {{block_tokens}, kept.emplace_back(std::move(hashes))};
}

inline Request Prompt(std::uint64_t id, std::int32_t tokens) {
  Request r;
  r.id = {id};
  r.prompt_tokens = {tokens};
  return r;
}

// "1:16 2:1": request and number of its known tokens; "1:1+3" with drafts.
inline std::string Shape(const StepPlan& plan) {
  std::string text;
  for (const PlanEntry& e : plan.run) {
    text += (text.empty() ? "" : " ") + std::to_string(e.request.value) + ":" + std::to_string(e.tokens);
    if (e.speculative > 0) text += "+" + std::to_string(e.speculative);
  }
  return text;
}

template <class Policy = Fcfs, class Pause = KeepAll>
class Host {
 public:
  explicit Host(SchedulerOptions options, StepLimits allowed = {}, Policy policy = {}, KvOracle* oracle = nullptr)
      : scheduler(Create(options, std::move(policy), oracle)), limits(allowed) {}

  template <class E>
  void On(const E& event) {
    scheduler.On(event, Ms(now));
    Check();
  }
  void Arrive(const Request& request) { On(Arrived{request}); }
  void Arrive(std::uint64_t id, std::int32_t tokens) { Arrive(Prompt(id, tokens)); }

  const StepPlan& Plan() {
    ++now;
    const StepPlan& plan = scheduler.Plan(Ms(now), limits);
    Check();
    for (const PlanEntry& e : plan.run) lane_of[e.request.value] = e.lane;
    return plan;
  }

  // An engine's answer: a token for each row that samples. The named rows have finished.
  static std::vector<RowResult> Answer(const StepPlan& plan, std::vector<std::uint64_t> finished = {}) {
    std::vector<RowResult> rows;
    for (const PlanEntry& e : plan.run) {
      const bool ends = std::ranges::find(finished, e.request.value) != finished.end();
      rows.push_back({e.request, e.lane, static_cast<std::uint16_t>(e.samples()), 0,
                      static_cast<std::uint8_t>(ends ? RowResult::kFinished : 0)});
    }
    return rows;
  }
  void CommitRows(const StepPlan& plan, const std::vector<RowResult>& rows) {
    scheduler.Commit({plan.id, rows}, Ms(now));
    Check();
  }
  void Commit(const StepPlan& plan, std::vector<std::uint64_t> finished = {}) {
    CommitRows(plan, Answer(plan, finished));
  }

  // One whole step.
  std::string Step(std::vector<std::uint64_t> finished = {}) {
    const StepPlan& plan = Plan();
    const std::string shape = Shape(plan);
    if (!plan.run.empty()) Commit(plan, finished);
    return shape;
  }

  void Check() { REQUIRE(std::string(scheduler.Inconsistency() == nullptr ? "" : scheduler.Inconsistency()).empty()); }
  std::int32_t used() const { return scheduler.kv().used.value; }

  BasicScheduler<Policy, Pause> scheduler;
  StepLimits limits;
  std::int64_t now = 0;
  std::uint32_t lane_of[10'000] = {};

 private:
  static BasicScheduler<Policy, Pause> Create(const SchedulerOptions& options, Policy policy, KvOracle* oracle) {
    auto scheduler = BasicScheduler<Policy, Pause>::Create(options, std::move(policy), {}, oracle);
    REQUIRE(scheduler.ok());
    return *std::move(scheduler);
  }
};

}  // namespace takt::testing

#endif  // TAKT_TESTS_SCHEDULER_HOST_H_
