// A small engine behind a scheduler. It computes each plan and yields one token if an entry samples.
#ifndef TAKT_TESTS_ENGINES_ENGINE_H_
#define TAKT_TESTS_ENGINES_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "takt/policy/fcfs.h"
#include "takt/scheduler.h"

namespace takt::testing {

// Chained hashes of a prompt's blocks. Requests of one family share them all.
inline std::vector<std::uint64_t> Family(std::uint64_t family, std::size_t blocks) {
  std::vector<std::uint64_t> hashes(blocks);
  for (std::size_t i = 0; i < blocks; ++i) hashes[i] = family * 1'000'000 + i + 1;
  return hashes;
}

class Engine {
 public:
  // Counters of one request, by its id. Steps count from 0; -1: never.
  struct Life {
    std::int32_t need = 0;  // output tokens until it finishes
    std::int32_t tokens = 0;
    std::int32_t prefill = 0;  // tokens computed as prompt or as lost context
    std::int64_t arrived = -1, first = -1, ended = -1;  // steps: arrival, first token, release
    int released = 0, failed = 0;
    StepId void_through = {};  // results of plans up to this one are void
  };

  Engine(const SchedulerOptions& options, StepLimits allowed, AnyPolicy policy = Fcfs{}, KvOracle* oracle = nullptr)
      : limits(allowed), scheduler(Create(options, std::move(policy), oracle)) {}

  void Arrive(Request r, std::int32_t output) {
    r.max_output_tokens = {output};
    of[r.id.value].need = output;
    of[r.id.value].arrived = step;
    On(Arrived{r});
  }
  void Arrive(std::uint64_t id, std::int32_t prompt, std::int32_t output, std::vector<std::uint64_t> hashes = {}) {
    Request r;
    r.id = {id};
    r.prompt_tokens = {prompt};
    if (!hashes.empty()) r.prefix = {{16}, hashes_.emplace_back(std::move(hashes))};
    Arrive(r, output);
  }
  template <class E>
  void On(const E& event) {
    scheduler.On(event, Now());
  }

  // Makes one plan. If `depth` plans are in flight, it first commits the oldest.
  const StepPlan& Plan() {
    while (flying_.size() >= depth) Commit();
    const StepPlan& plan = scheduler.Plan(Now(), limits);
    ++step;
    for (const Failure& f : plan.failed) ++of[f.request.value].failed;
    for (const RequestId id : plan.released) ++of[id.value].released, of[id.value].ended = step - 1;
    for (const Preemption& p : plan.preempted) of[p.request.value].void_through = {plan.id.value - 1};
    for (const KvMove& move : plan.moves) moves_.push_back(move.id);
    if (!plan.run.empty()) flying_.push_back(&plan);
    if (plan.run.empty()) Commit();  // the plan waits for a step in flight
    Check();
    return plan;
  }
  // Commits the oldest plan in flight.
  void Commit() {
    if (flying_.empty()) return;
    const StepPlan& plan = *flying_.front();
    flying_.pop_front();
    std::vector<RowResult> rows;
    for (const PlanEntry& e : plan.run) {
      Life& life = of[e.request.value];
      RowResult row{e.request, e.lane};
      if (plan.id > life.void_through) {
        life.prefill += e.prefill() ? e.tokens : 0;
        if (e.samples()) {
          if (life.tokens++ == 0) life.first = step - 1;
          row.tokens = 1;
          row.drafts = drafts;
          if (life.tokens == life.need) row.flags = RowResult::kFinished;
        }
      }
      rows.push_back(row);
    }
    scheduler.Commit({plan.id, rows}, Now());
    for (const MoveId move : std::exchange(moves_, {})) On(MoveDone{move});
    Check();
  }
  // Plans and computes this many steps.
  void Run(std::int64_t steps) {
    for (const std::int64_t end = step + steps; step < end;) Plan();
    while (!flying_.empty()) Commit();
  }

  TimePoint Now() const { return TimePoint(std::chrono::milliseconds(step)); }
  void Check() { REQUIRE(std::string(scheduler.Inconsistency() == nullptr ? "" : scheduler.Inconsistency()).empty()); }
  WaitsFor waits_for(std::uint64_t id) { return scheduler.Explain({id}).waits_for; }

  StepLimits limits;
  Scheduler scheduler;
  std::uint8_t drafts = 0;  // drafts that each result asks to verify; none is accepted
  std::size_t depth = 1;  // plans in flight at once
  std::int64_t step = 0;
  std::map<std::uint64_t, Life> of;

 private:
  static Scheduler Create(const SchedulerOptions& options, AnyPolicy policy, KvOracle* oracle) {
    auto scheduler = Scheduler::Create(options, std::move(policy), {}, oracle);
    REQUIRE(scheduler.ok());
    return *std::move(scheduler);
  }

  std::deque<std::vector<std::uint64_t>> hashes_;
  std::deque<const StepPlan*> flying_;
  std::vector<MoveId> moves_;
};

}  // namespace takt::testing

#endif  // TAKT_TESTS_ENGINES_ENGINE_H_
