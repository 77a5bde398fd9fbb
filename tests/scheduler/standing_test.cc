// Rows that stand: what is planned and committed for all of them at once is what is planned for each alone.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/policy/priority.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

TimePoint Ms(std::int64_t n) { return TimePoint(std::chrono::milliseconds(n)); }

// The same order by a policy that is told of each step: under it no row stands.
struct Watching {
  RankKey Key(const RequestState& r) const { return Priority{}.Key(r); }
  void Scheduled(const RequestState&, Tokens, Tokens) {}
};

bool Same(const StepPlan& a, const StepPlan& b) {
  return a.id == b.id && std::ranges::equal(a.run, b.run) && a.moves == b.moves && a.preempted == b.preempted &&
         a.failed == b.failed && a.released == b.released && a.tokens == b.tokens && a.idle == b.idle &&
         a.wake_at == b.wake_at;
}

// Of these rows, those that did not go as planned.
std::vector<RowResult> Exceptions(const StepPlan& plan, std::vector<RowResult> rows) {
  std::erase_if(rows, [&](const RowResult& r) {
    const auto e = std::ranges::find(plan.run, r.lane, &PlanEntry::lane);
    return r.tokens == (e->samples() ? 1 : 0) && r.drafts == 0 && r.flags == 0;
  });
  return rows;
}

// Three schedulers decide the same: where rows stand, where they do and results come by exception, where none stands.
void Agree(std::uint64_t seed, SchedulerOptions options, int depth, double churn) {
  CAPTURE(seed, depth, churn, options.kv_blocks.value, options.max_running);
  options.preempt = PreemptMode::kByRank;
  std::vector<Scheduler> schedulers;
  for (int i = 0; i < 2; ++i) schedulers.push_back(*Scheduler::Create(options, AnyPolicy(Priority{})));
  schedulers.push_back(*Scheduler::Create(options, AnyPolicy(Watching{})));
  Random random(seed);
  std::uint64_t last = 0;
  std::int64_t now = 0;
  std::vector<std::vector<const StepPlan*>> flying;  // by step, of each scheduler
  std::size_t widest = 0;
  const auto on = [&](const auto& event) {
    for (Scheduler& s : schedulers) s.On(event, Ms(now));
  };
  for (int step = 0; step < 400; ++step) {
    ++now;
    while (schedulers[0].alive() < options.max_running + 8) {
      Arrived a;
      a.request.id = {++last};
      a.request.prompt_tokens = {static_cast<std::int32_t>(1 + random.Below(40))};
      if (random.Chance(0.3)) a.request.max_output_tokens = {static_cast<std::int32_t>(1 + random.Below(90))};
      if (random.Chance(0.02)) a.request.sequences = 2;
      a.request.priority = static_cast<std::int32_t>(random.Below(random.Chance(0.05) ? 9 : 2));
      on(a);
    }
    if (random.Chance(0.1)) on(Cancelled{{1 + random.Below(last)}});
    if (random.Chance(0.05)) on(Revised{.request = {1 + random.Below(last)}, .sequences = 1});
    if (random.Chance(0.05)) on(Blocked{{1 + random.Below(last)}});
    if (random.Chance(0.1)) on(Unblocked{{1 + random.Below(last)}});
    if (random.Chance(0.02)) {  // as many at once as there may be
      for (int i = 0; i < 40; ++i) on(Cancelled{{1 + random.Below(last)}});
    }
    StepLimits limits{.tokens = {random.Chance(0.03) ? 20 : 4096}, .max_seqs = options.max_running};
    if (random.Chance(0.02)) limits.max_seqs /= 2;
    std::vector<const StepPlan*> plans;
    for (Scheduler& s : schedulers) plans.push_back(&s.Plan(Ms(now), limits));
    for (std::size_t i : {1u, 2u}) REQUIRE(Same(*plans[0], *plans[i]));
    widest = std::max(widest, plans[0]->run.size());
    if (!plans[0]->run.empty()) flying.push_back(plans);
    while (std::ssize(flying) >= depth || (!flying.empty() && plans[0]->run.empty())) {
      const std::size_t which = random.Chance(0.05) ? random.Below(flying.size()) : 0;
      const std::vector<const StepPlan*> done = flying[which];
      flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(which));
      std::vector<RowResult> rows;
      for (const PlanEntry& e : done[0]->run) {
        RowResult r{e.request, e.lane, static_cast<std::uint16_t>(e.samples() ? 1 : 0), 0, 0};
        if (random.Chance(churn)) r.flags |= random.Chance(0.9) ? RowResult::kFinished : RowResult::kFailed;
        if (e.samples() && random.Chance(0.002)) r.drafts = 3;
        rows.push_back(r);
      }
      const std::vector<RowResult> exceptions = Exceptions(*done[1], rows);
      schedulers[0].Commit({done[0]->id, rows}, Ms(now));
      schedulers[1].Commit({done[1]->id, exceptions, true}, Ms(now));
      schedulers[2].Commit({done[2]->id, rows}, Ms(now));
      if (random.Chance(0.1)) break;
    }
    for (const Scheduler& s : schedulers) {
      const char* fault = s.Inconsistency();
      CHECK(std::string(fault == nullptr ? "" : fault).empty());
    }
    Stats first = schedulers[0].stats();
    for (std::size_t i : {1u, 2u}) REQUIRE(schedulers[i].stats() == first);
  }
  CHECK(std::cmp_greater(widest, options.max_running / 2));
}

TEST_CASE("whether rows stand or not, and results come whole or by exception, the plans are the same") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(2)); ++seed) {
    for (const int depth : {1, 2, 3}) {
      Agree(seed, {.max_running = 200, .kv_block_tokens = {16}, .kv_blocks = {4000}}, depth, 0.005);
      Agree(seed, {.max_running = 100, .kv_block_tokens = {1}, .kv_blocks = {3500}}, depth, 0.01);  // too little memory
      Agree(seed, {.max_running = 150, .kv = KvMode::kNone}, depth, 0.1);
      Agree(seed, {.max_running = 60, .kv_block_tokens = {8}, .kv_blocks = {400}}, depth, 0.02);
    }
  }
}

// Notes of each row what it is told.
struct Noting {
  std::shared_ptr<std::vector<std::array<std::int64_t, 3>>> notes =
      std::make_shared<std::vector<std::array<std::int64_t, 3>>>();

  RankKey Key(const RequestState& r) const { return Priority{}.Key(r); }
  void Scheduled(const RequestState& r, Tokens, Tokens output) {
    notes->push_back({static_cast<std::int64_t>(r.request.id.value), r.generated.value, output.value});
  }
};

TEST_CASE("a policy that is told of steps from here on counts each row's tokens, in whatever order results come") {
  std::vector<std::vector<std::array<std::int64_t, 3>>> noted;
  for (const bool stand : {true, false}) {
    Scheduler scheduler =
        *Scheduler::Create({.kv = KvMode::kNone}, stand ? AnyPolicy(Priority{}) : AnyPolicy(Watching{}));
    for (std::uint64_t id : {1u, 2u, 3u}) scheduler.On(Arrived{{.id = {id}, .prompt_tokens = {8}}}, Ms(1));
    const auto commit = [&](const StepPlan& plan) {
      std::vector<RowResult> rows;
      for (const PlanEntry& e : plan.run) rows.push_back({e.request, e.lane, 1, 0, 0});
      scheduler.Commit({plan.id, rows}, Ms(4));
    };
    commit(scheduler.Plan(Ms(2), {}));
    const StepPlan& decodes = scheduler.Plan(Ms(2), {});
    const StepPlan& stands = scheduler.Plan(Ms(2), {});
    commit(stands);
    const Noting noting;
    scheduler.ChangePolicy(noting, Ms(3));
    commit(decodes);
    noted.push_back(*noting.notes);
    CHECK(noted.back().size() == 3);
  }
  CHECK(noted[0] == noted[1]);
}

}  // namespace
}  // namespace takt
