// Standing rows: planning and committing all of them at once gives the same plans as planning each row alone.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "scheduler/host.h"
#include "takt/base/random.h"
#include "takt/policy/bands.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/metered.h"
#include "takt/policy/priority.h"
#include "takt/rivals/policy/mlfq.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

TimePoint Ms(std::int64_t n) { return TimePoint(std::chrono::milliseconds(n)); }

// Records the calls for each row.
struct Noting {
  std::shared_ptr<std::vector<std::array<std::int64_t, 4>>> notes =
      std::make_shared<std::vector<std::array<std::int64_t, 4>>>();

  RankKey Key(const RequestState& r) const { return Priority{}.Key(r); }
  void Scheduled(const RequestState& r, Tokens prefill, Tokens output) {
    notes->push_back({static_cast<std::int64_t>(r.request.id.value), r.generated.value, prefill.value, output.value});
  }
};

// A host's memory that refuses some requests and records all questions.
class Memory final : public KvOracle {
 public:
  Memory(Tokens block_tokens, Blocks total) : block_tokens_(block_tokens), total_(total) {}

  std::vector<std::array<std::int64_t, 5>> asked;

  Tokens block_tokens() const override { return block_tokens_; }
  KvSnapshot Snapshot() const override { return {total_, total_ - used_, {0}}; }
  void CachedTokens(std::span<KvHit>) override {}
  void Reserve(StepId step, std::span<KvReservation> wishes) override {
    for (KvReservation& w : wishes) {
      asked.push_back({static_cast<std::int64_t>(step.value), static_cast<std::int64_t>(w.request.value), w.have.value,
                       w.want.value, w.admission});
      w.granted = Mix64(step.value * 1'000'003 + w.request.value) % 200 != 0;
      Blocks& held = held_[w.request.value];
      CHECK(held.value * block_tokens_.value == w.have.value);
      if (!w.granted) continue;
      used_ -= held;
      held = {w.want.value / block_tokens_.value};
      used_ += held;
    }
    CHECK(used_ <= total_);
  }
  Blocks Release(RequestId request, KvAction) override {
    const Blocks held = std::exchange(held_[request.value], Blocks{0});
    used_ -= held;
    return held;
  }

 private:
  Tokens block_tokens_;
  Blocks total_, used_{0};
  std::map<std::uint64_t, Blocks> held_;
};

bool Same(const StepPlan& a, const StepPlan& b) {
  return a.id == b.id && std::ranges::equal(a.run, b.run) && a.moves == b.moves && a.preempted == b.preempted &&
         a.failed == b.failed && a.released == b.released && a.tokens == b.tokens && a.idle == b.idle &&
         a.wake_at == b.wake_at;
}

// Returns the exceptions to the plan among these rows.
std::vector<RowResult> Exceptions(const StepPlan& plan, std::vector<RowResult> rows) {
  std::erase_if(rows, [&](const RowResult& r) {
    const auto e = std::ranges::find(plan.run, r.lane, &PlanEntry::lane);
    return r.tokens == (e->samples() ? 1 : 0) && r.drafts == 0 && r.flags == 0;
  });
  return rows;
}

// Three schedulers must decide the same: with standing rows, with standing rows and results by exception, and with each
// row planned anew. With options.kv, an oracle counts memory.
void Agree(
    std::uint64_t seed, SchedulerOptions options, int depth, double churn,
    const std::function<AnyPolicy()>& policy = [] { return AnyPolicy(Priority{}); }) {
  CAPTURE(seed, depth, churn, options.kv_blocks.value, options.max_running);
  options.preempt = PreemptMode::kByRank;
  const bool asks = options.kv == KvMode::kOracle;
  const Tokens block_tokens = options.kv_block_tokens;
  const Blocks blocks = options.kv_blocks;
  if (asks) options.kv_block_tokens = SchedulerOptions{}.kv_block_tokens, options.kv_blocks = {0};
  std::vector<Scheduler> schedulers;
  std::vector<std::unique_ptr<Memory>> memories;
  for (int i = 0; i < 3; ++i) {
    memories.push_back(std::make_unique<Memory>(block_tokens, blocks));
    schedulers.push_back(*Scheduler::Create(options, policy(), {}, asks ? memories.back().get() : nullptr));
  }
  Random random(seed);
  std::uint64_t last = 0;
  std::int64_t now = 0;
  std::vector<std::vector<const StepPlan*>> flying;  // by step, of each scheduler
  std::size_t widest = 0, most_standing = 0;
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
      a.request.tenant = {1 + random.Below(3)};
      a.request.priority = static_cast<std::int32_t>(random.Below(random.Chance(0.05) ? 9 : 2));
      on(a);
    }
    if (random.Chance(0.1)) on(Cancelled{{1 + random.Below(last)}});
    if (random.Chance(0.05)) on(Revised{.request = {1 + random.Below(last)}, .sequences = 1});
    if (random.Chance(0.1)) {
      on(Revised{.request = {1 + random.Below(last)}, .priority = static_cast<std::int32_t>(random.Below(4))});
    }
    if (random.Chance(0.05)) on(Blocked{{1 + random.Below(last)}});
    if (random.Chance(0.1)) on(Unblocked{{1 + random.Below(last)}});
    if (random.Chance(0.02)) {  // all that are possible at once
      for (int i = 0; i < 40; ++i) on(Cancelled{{1 + random.Below(last)}});
    }
    StepLimits limits{.tokens = {random.Chance(0.03) ? 20 : 4096}, .max_seqs = options.max_running};
    if (random.Chance(0.02)) limits.max_seqs /= 2;
    std::vector<const StepPlan*> plans;
    most_standing = std::max(most_standing, SchedulerCounters::Standing(schedulers[0]));
    SchedulerCounters::StandNoMore(schedulers[2]);
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
    for (std::size_t i : {1u, 2u}) REQUIRE(memories[i]->asked == memories[0]->asked);
    for (const auto& memory : memories) memory->asked.clear();
  }
  CHECK(std::cmp_greater(most_standing, options.max_running / 4));
  CHECK(std::cmp_greater(widest, options.max_running / 2));
}

TEST_CASE("plans are the same with and without standing rows") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(2)); ++seed) {
    for (const int depth : {1, 2, 3}) {
      Agree(seed, {.max_running = 200, .kv_block_tokens = {16}, .kv_blocks = {4000}}, depth, 0.005);
      Agree(seed, {.max_running = 100, .kv_block_tokens = {1}, .kv_blocks = {3500}}, depth, 0.01);  // too little memory
      Agree(seed, {.max_running = 150, .kv = KvMode::kNone}, depth, 0.1);
      Agree(seed, {.max_running = 60, .kv_block_tokens = {8}, .kv_blocks = {400}}, depth, 0.02);
    }
  }
}

TEST_CASE("an oracle gets the same questions with standing rows") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(2)); ++seed) {
    for (const int depth : {1, 2, 3}) {
      const auto agree = [&](std::int32_t rows, std::int32_t block_tokens, std::int32_t blocks) {
        Agree(seed,
              {.max_running = rows, .kv = KvMode::kOracle, .kv_block_tokens = {block_tokens}, .kv_blocks = {blocks}},
              depth, 0.01);
      };
      agree(200, 16, 4000);
      agree(40, 1, 10'000);
      agree(60, 7, 700);
    }
  }
}

TEST_CASE("a policy that charges tokens gets the same calls with standing rows") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(2)); ++seed) {
    for (const int depth : {1, 2, 3}) {
      const SchedulerOptions options = {.max_running = 100, .kv_block_tokens = {16}, .kv_blocks = {1500}};
      std::vector<Noting> noting;
      Agree(seed, options, depth, 0.01, [&] { return AnyPolicy(noting.emplace_back()); });
      for (std::size_t i : {1u, 2u}) CHECK(*noting[i].notes == *noting[0].notes);
      Agree(seed, options, depth, 0.01, [] { return AnyPolicy(FairShare{}); });
      Agree(seed, options, depth, 0.01, [] { return AnyPolicy(Mlfq{}); });
      Agree(seed, options, depth, 0.01, [] { return AnyPolicy(Bands({.bands = {{{0, 0.1}, {2, 0.1}}}})); });
      Agree(seed, options, depth, 0.01, [] { return AnyPolicy(Metered(Priority{}, {.rate = 3000, .burst = 900})); });
    }
  }
}

TEST_CASE("a policy set later counts each row's tokens in any order") {
  std::vector<std::vector<std::array<std::int64_t, 4>>> noted;
  for (const bool stand : {true, false}) {
    Scheduler scheduler = *Scheduler::Create({.kv = KvMode::kNone}, AnyPolicy(Priority{}));
    for (std::uint64_t id : {1u, 2u, 3u}) scheduler.On(Arrived{{.id = {id}, .prompt_tokens = {8}}}, Ms(1));
    const auto commit = [&](const StepPlan& plan) {
      std::vector<RowResult> rows;
      for (const PlanEntry& e : plan.run) rows.push_back({e.request, e.lane, 1, 0, 0});
      scheduler.Commit({plan.id, rows}, Ms(4));
    };
    commit(scheduler.Plan(Ms(2), {}));
    const StepPlan& decodes = scheduler.Plan(Ms(2), {});
    if (!stand) SchedulerCounters::StandNoMore(scheduler);
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
