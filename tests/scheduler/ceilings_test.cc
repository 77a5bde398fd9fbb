// Ceilings of classes: room that stays free for more urgent classes. Shares of tenants.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/priority.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

// A scheduler whose requests each run for a given number of steps.
struct Engine {
  explicit Engine(SchedulerOptions options, const AnyPolicy& policy = AnyPolicy(Fcfs{}))
      : scheduler(*Scheduler::Create(Whole(options), policy)) {}

  Scheduler scheduler;
  StepLimits limits{.tokens = {100'000}};
  std::map<std::uint64_t, std::int32_t> left = {};
  std::uint64_t next = 0;
  TimePoint wake = kNever;

  static SchedulerOptions Whole(SchedulerOptions o) {
    if (o.kv_blocks.value == 0) o.kv_blocks = {10'000};
    o.kv_watermark = 0;
    return o;
  }
  std::uint64_t Arrive(std::int32_t priority, std::int32_t prompt = 16, std::int32_t output = 1000, double now = 0,
                       std::int32_t sequences = 1, std::uint64_t tenant = 0) {
    Request r;
    r.tenant = {tenant};
    r.id = {++next}, r.priority = priority, r.prompt_tokens = {prompt}, r.sequences = sequences;
    left[next] = output;
    scheduler.On(Arrived{r}, At(now));
    return next;
  }
  // Runs one step and returns its requests.
  std::vector<std::uint64_t> Step(double now = 0) {
    const StepPlan& plan = scheduler.Plan(At(now), limits);
    wake = plan.wake_at;
    std::vector<std::uint64_t> ran;
    std::vector<RowResult> rows;
    for (const PlanEntry& e : plan.run) {
      ran.push_back(e.request.value);
      const bool ends = e.samples() && --left[e.request.value] <= 0;
      rows.push_back({e.request, e.lane, static_cast<std::uint16_t>(e.samples()), 0,
                      static_cast<std::uint8_t>(ends ? RowResult::kFinished : 0)});
    }
    scheduler.Commit({plan.id, rows}, At(now));
    CHECK(scheduler.Inconsistency() == nullptr);
    return ran;
  }
  std::uint64_t ArriveOf(std::uint64_t tenant, std::int32_t prompt = 160, std::int32_t output = 1000) {
    return Arrive(0, prompt, output, 0, 1, tenant);
  }
  WaitsFor waits_for(std::uint64_t id) const { return scheduler.Explain({id}).waits_for; }
};

using Ids = std::vector<std::uint64_t>;

TEST_CASE("sequences that have ended leave room under a ceiling") {
  Engine engine({.class_limits = {{.priority = 0}, {.priority = 5, .ceiling = 0.5}}});
  engine.limits.max_seqs = 8;
  const std::uint64_t four = engine.Arrive(7, 16, 1000, 0, 4);
  CHECK(engine.Step() == Ids{four});
  const std::uint64_t other = engine.Arrive(7);
  CHECK(engine.Step() == Ids{four});
  CHECK(engine.waits_for(other) == WaitsFor::kCeiling);
  engine.scheduler.On(Revised{.request = {four}, .sequences = 3}, At(0));
  engine.Step();
  CHECK(engine.Step() == Ids{four, other});
}

TEST_CASE("a ceiling leaves rows for a burst of a more urgent class") {
  Engine engine({.max_running = 10, .class_limits = {{.priority = 0}, {.priority = 5, .ceiling = 0.6}}});
  for (int i = 0; i < 40; ++i) engine.Arrive(7);
  CHECK(engine.Step() == Ids{1, 2, 3, 4, 5, 6});
  CHECK(engine.waits_for(7) == WaitsFor::kCeiling);
  CHECK(engine.waits_for(40) == WaitsFor::kCeiling);
  // All of the burst pass 34 waiting requests at once, also under fcfs.
  for (int i = 0; i < 4; ++i) engine.Arrive(0);
  CHECK(engine.Step() == Ids{1, 2, 3, 4, 5, 6, 41, 42, 43, 44});
  engine.Arrive(0);
  engine.Step();
  CHECK(engine.waits_for(45) == WaitsFor::kItsTurn);
  // A row of the class that ends makes room for one more of it.
  for (const std::uint64_t id : {41u, 42u, 43u, 44u, 45u}) engine.scheduler.On(Cancelled{{id}}, At(0));
  engine.left[3] = 1;
  engine.Step();
  CHECK(engine.Step() == Ids{1, 2, 4, 5, 6, 7});
  CHECK(engine.scheduler.stats().preempted_recompute == 0);
}

TEST_CASE("stepped ceilings hold for each class and all later ones") {
  Engine engine({.max_running = 10,
                 .class_limits = {{.priority = 0}, {.priority = 1, .ceiling = 0.7}, {.priority = 2, .ceiling = 0.3}}},
                AnyPolicy(Priority{}));
  for (int i = 0; i < 20; ++i) engine.Arrive(2);
  CHECK(engine.Step().size() == 3);
  for (int i = 0; i < 20; ++i) engine.Arrive(1);
  CHECK(engine.Step().size() == 7);
  for (int i = 0; i < 20; ++i) engine.Arrive(0);
  CHECK(engine.Step().size() == 10);
  // Requests below the first class have none, and no ceiling.
  Engine none({.max_running = 10, .class_limits = {{.priority = 0, .ceiling = 0.1}}});
  for (int i = 0; i < 20; ++i) none.Arrive(-1);
  CHECK(none.Step().size() == 10);
}

TEST_CASE("a ceiling never stops a class for good") {
  Engine engine({.max_running = 10, .class_limits = {{.priority = 0, .ceiling = 0}, {.priority = 1, .ceiling = 0}}});
  for (int i = 0; i < 5; ++i) engine.Arrive(1, 16, 2);
  engine.Arrive(0, 16, 2, 0, 4);
  Ids order;
  for (int i = 0; i < 30 && engine.scheduler.alive() > 0; ++i) {
    const Ids ran = engine.Step();
    CHECK(ran.size() <= 2);
    for (const std::uint64_t id : ran) {
      if (std::ranges::find(order, id) == order.end()) order.push_back(id);
    }
  }
  CHECK(order.size() == 6);
}

TEST_CASE("a ceiling holds for KV blocks with the ledger") {
  Engine engine(
      {.max_running = 100, .kv_blocks = {100}, .class_limits = {{.priority = 0}, {.priority = 1, .ceiling = 0.5}}});
  for (int i = 0; i < 10; ++i) engine.Arrive(1, 160);
  CHECK(engine.Step() == Ids{1, 2, 3, 4, 5});
  CHECK(engine.waits_for(6) == WaitsFor::kCeiling);
  for (int i = 0; i < 4; ++i) engine.Arrive(0, 160);
  CHECK(engine.Step().size() == 9);
  // The rows have grown to 11 blocks, so one end is not enough.
  engine.scheduler.On(Cancelled{{1}}, At(0));
  CHECK(engine.Step().size() == 8);
  engine.Arrive(1, 16 * 6);
  CHECK(engine.Step().back() == 15);
}

TEST_CASE("without a ledger a ceiling counts sequences") {
  Engine engine({.max_running = 10, .kv = KvMode::kNone, .class_limits = {{.priority = 0, .ceiling = 0.5}}});
  engine.Arrive(0, 1'000'000, 10, 0, 3);
  engine.Arrive(0, 16, 10, 0, 3);
  engine.Arrive(0, 16, 10, 0, 2);
  engine.limits.tokens = {2'000'000};
  CHECK(engine.Step() == Ids{1, 3});
  CHECK(engine.waits_for(2) == WaitsFor::kCeiling);
  // The limit of a step counts if it is smaller than max_running.
  engine.limits.max_seqs = 5;
  engine.Arrive(0, 16, 10);
  engine.Step();
  CHECK(engine.waits_for(4) == WaitsFor::kCeiling);
}

TEST_CASE("a soft ceiling ends some time after the last urgent arrival, and a plan names that time") {
  Engine engine({.max_running = 10, .class_limits = {{.priority = 0}, {.priority = 5, .ceiling = 0.5, .soft = 2}}});
  for (int i = 0; i < 8; ++i) engine.Arrive(5);
  CHECK(engine.Step(0).size() == 8);  // no urgent request has arrived
  CHECK(engine.wake == kNever);
  engine.Arrive(0, 16, 1, 10);
  CHECK(engine.Step(10).size() == 9);
  CHECK(engine.wake == kNever);  // no request waits
  const std::uint64_t waits = engine.Arrive(5, 16, 1000, 10.5);
  CHECK(engine.Step(10.5).size() == 8);
  CHECK(engine.waits_for(waits) == WaitsFor::kCeiling);
  CHECK(engine.wake == At(12));
  engine.Arrive(-3, 16, 1, 11);  // without a class: more urgent than all
  engine.Step(11);
  CHECK(engine.wake == At(13));
  CHECK(engine.Step(12.9).size() == 8);
  CHECK(engine.Step(13).size() == 9);
  CHECK(engine.wake == kNever);
  engine.Arrive(5, 16, 1000, 14);
  CHECK(engine.Step(14).size() == 10);
  engine.Arrive(0, 16, 1, 15);
  engine.Step(15);
  CHECK(engine.Step(15.1).size() == 10);  // it preempts nothing
}

TEST_CASE("a revised priority moves a waiting request past its ceiling") {
  Engine engine({.max_running = 10, .class_limits = {{.priority = 0}, {.priority = 5, .ceiling = 0.2}}});
  for (int i = 0; i < 5; ++i) engine.Arrive(5);
  CHECK(engine.Step().size() == 2);
  engine.scheduler.On(Revised{.request = {4}, .priority = 1}, At(0));
  CHECK(engine.Step() == Ids{1, 2, 4});
  engine.scheduler.On(Revised{.request = {1}, .priority = 1}, At(0));  // a row stays in the class of its admission
  CHECK(engine.Step() == Ids{1, 2, 4});
}

TEST_CASE("smaller requests of a class pass one that its ceiling keeps out at most admission_window times") {
  for (const bool by_kv : {false, true}) {
    CAPTURE(by_kv);
    Engine engine({.max_running = 10,
                   .kv_blocks = {100},
                   .admission_window = 4,
                   .class_limits = {{.priority = 0}, {.priority = 5, .ceiling = 0.5}, {.priority = 9}}});
    for (int i = 0; i < 2; ++i) engine.Arrive(5, 160, 12);
    engine.Step();
    const std::uint64_t large = by_kv ? engine.Arrive(5, 480, 1) : engine.Arrive(5, 16, 1, 0, 4);
    // Small requests of its class and of a later one never end to arrive, and one urgent request.
    int passes = 0, urgent = 0, steps = 0;
    for (bool ran = false; !ran && steps < 60; ++steps) {
      engine.Arrive(steps % 2 == 0 ? 5 : 9, 16, 3);
      const std::uint64_t first = engine.Arrive(0, 16, 1);
      Ids before;
      for (const auto& [id, left] : engine.left) {
        if (engine.scheduler.Explain({id}).status == RequestStatus::kWaiting) before.push_back(id);
      }
      const Ids now = engine.Step();
      ran = std::ranges::find(now, large) != now.end();
      for (const std::uint64_t id : now) {
        passes += id > large && id != first && !ran && std::ranges::find(before, id) != before.end() ? 1 : 0;
      }
      urgent += std::ranges::find(now, first) != now.end() ? 1 : 0;
      if (!ran) CHECK(engine.waits_for(large) == WaitsFor::kCeiling);
    }
    CHECK(passes == 4);
    CHECK(urgent == steps);
    CHECK(steps < 20);
  }
}

TEST_CASE("a large request that leaves the queue no longer keeps others out") {
  Engine engine(
      {.max_running = 10, .admission_window = 1, .class_limits = {{.priority = 0}, {.priority = 5, .ceiling = 0.5}}});
  engine.Arrive(5), engine.Arrive(5);
  engine.Step();
  const std::uint64_t large = engine.Arrive(5, 16, 10, 0, 4), one = engine.Arrive(5), two = engine.Arrive(5);
  CHECK(engine.Step() == Ids{1, 2, one});
  CHECK(engine.Step() == Ids{1, 2, one});
  CHECK(engine.waits_for(two) == WaitsFor::kCeiling);
  SECTION("cancelled") { engine.scheduler.On(Cancelled{{large}}, At(0)); }
  SECTION("blocked") { engine.scheduler.On(Blocked{{large}}, At(0)); }
  CHECK(engine.Step() == Ids{1, 2, one, two});
}

TEST_CASE("a large request keeps its passes when options or its priority change within its class") {
  for (const bool revises : {false, true}) {
    CAPTURE(revises);
    Engine engine(
        {.max_running = 10, .admission_window = 4, .class_limits = {{.priority = 0}, {.priority = 5, .ceiling = 0.5}}});
    for (int i = 0; i < 3; ++i) engine.Arrive(5, 16, 6);
    engine.Step();
    const std::uint64_t large = engine.Arrive(5, 16, 1, 0, 4);
    int steps = 0;
    for (bool ran = false; !ran && steps < 100; ++steps) {
      engine.Arrive(5, 16, 3);
      if (revises) {
        engine.scheduler.On(Revised{.request = {large}, .priority = 5 + steps % 3}, At(0));
      } else {
        SchedulerOptions options = engine.scheduler.options();
        options.least_prefill = {1 + steps};
        REQUIRE(engine.scheduler.SetOptions(options, At(0)).ok());
      }
      const Ids now = engine.Step();
      ran = std::ranges::find(now, large) != now.end();
    }
    CHECK(steps < 20);
  }
}

TEST_CASE("a request that waits for sequences of a step does not hold the place of the first") {
  Engine engine(
      {.max_running = 16, .admission_window = 4, .class_limits = {{.priority = 0}, {.priority = 5, .ceiling = 0.5}}});
  engine.limits.max_seqs = 10;
  for (int i = 0; i < 3; ++i) engine.Arrive(5, 16, 6);
  engine.Step();
  engine.Arrive(5, 16, 1, 0, 12);
  const std::uint64_t large = engine.Arrive(5, 16, 1, 0, 4);
  int steps = 0;
  for (bool ran = false; !ran && steps < 100; ++steps) {
    engine.Arrive(5, 16, 3);
    const Ids now = engine.Step();
    ran = std::ranges::find(now, large) != now.end();
  }
  CHECK(steps < 20);
}

TEST_CASE("the running requests of a tenant keep its share") {
  Engine engine({.max_running = 20, .kv_blocks = {100}, .tenant_kv_share = 0.5});
  for (int i = 0; i < 8; ++i) engine.ArriveOf(1);
  engine.ArriveOf(2), engine.ArriveOf(2);
  CHECK(engine.Step() == Ids{1, 2, 3, 4, 5, 9, 10});  // the prompts have 10 blocks
  CHECK(engine.waits_for(6) == WaitsFor::kCeiling);
  CHECK(engine.waits_for(8) == WaitsFor::kCeiling);
  CHECK(engine.Step() == Ids{1, 2, 3, 4, 5, 9, 10});
  engine.scheduler.On(Cancelled{{5}}, At(0));
  CHECK(engine.Step() == Ids{1, 2, 3, 4, 9, 10});  // four rows have 44 blocks
  const std::uint64_t small = engine.ArriveOf(1, 64);
  CHECK(engine.Step() == Ids{1, 2, 3, 4, 9, 10, small});
  CHECK(engine.scheduler.stats().preempted_recompute == 0);
}

TEST_CASE("a tenant without running requests is not kept out") {
  Engine engine({.max_running = 20, .kv_blocks = {100}, .tenant_kv_share = 0});
  for (std::uint64_t tenant = 1; tenant <= 3; ++tenant) {
    for (int i = 0; i < 2; ++i) engine.ArriveOf(tenant, 160, 3);
  }
  CHECK(engine.Step() == Ids{1, 3, 5});
  std::size_t steps = 0;
  while (engine.scheduler.running() + engine.scheduler.waiting() > 0 && steps < 20) engine.Step(), ++steps;
  CHECK(steps < 20);
}

TEST_CASE("a share makes no preemption by rank in vain") {
  Engine engine({.max_running = 20, .preempt = PreemptMode::kByRank, .kv_blocks = {100}, .tenant_kv_share = 0.5},
                Priority{});
  for (int i = 0; i < 3; ++i) engine.Arrive(1, 320, 1000, 0, 1, 1);
  engine.Step();
  engine.Arrive(5, 160, 1000, 0, 1, 2);
  engine.Step();
  engine.Arrive(0, 480, 1000, 0, 1, 1);
  for (int step = 0; step < 40; ++step) engine.Step();
  CHECK(engine.scheduler.stats().preempted_recompute <= 1);
}

TEST_CASE("a share changes while requests run") {
  Engine engine({.max_running = 100, .kv_blocks = {100}});
  for (int i = 0; i < 6; ++i) engine.ArriveOf(1);
  CHECK(engine.Step().size() == 6);
  SchedulerOptions options = engine.scheduler.options();
  options.tenant_kv_share = 0.2;
  REQUIRE(engine.scheduler.SetOptions(options, At(0)).ok());
  const std::uint64_t kept = engine.ArriveOf(1, 16);
  engine.ArriveOf(2, 1520);  // waits for memory
  CHECK(engine.Step().size() == 6);
  CHECK(engine.waits_for(kept) == WaitsFor::kCeiling);
  options.tenant_kv_share = 1;
  REQUIRE(engine.scheduler.SetOptions(options, At(0)).ok());
  CHECK(engine.waits_for(kept) != WaitsFor::kCeiling);
  options.tenant_kv_share = 1.5;
  CHECK(!engine.scheduler.SetOptions(options, At(0)).ok());
}

TEST_CASE("admissions keep the shares of tenants, by a recount") {
  std::int64_t over = 0, kept = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const double share = 0.1 * static_cast<double>(random.Below(8));
    const auto most = static_cast<std::int64_t>(share * 200 + 1e-6);
    const bool plain = random.Chance(0.7);
    Engine engine({.max_running = 30, .kv_blocks = {200}, .tenant_kv_share = share},
                  plain ? AnyPolicy(Fcfs{}) : AnyPolicy(Priority{}));
    struct Life {
      std::uint64_t tenant = 0;
      std::int64_t tokens = 0;
      std::int64_t blocks() const { return (tokens + 15) / 16; }
    };
    std::map<std::uint64_t, Life> waiting, running;
    for (int step = 0; step < 300; ++step) {
      for (std::uint64_t n = random.Below(3); n > 0; --n) {
        const std::uint64_t tenant = random.Chance(0.6) ? 1 : random.Below(4);
        const auto prompt = static_cast<std::int32_t>(1 + random.Below(400));
        const auto output = static_cast<std::int32_t>(1 + random.Below(20));
        const auto priority = static_cast<std::int32_t>(random.Below(3));
        waiting[engine.Arrive(priority, prompt, output, 0, 1, tenant)] = {tenant, prompt};
      }
      const Ids ran = engine.Step();
      for (auto it = running.begin(); it != running.end();) {  // preempted for memory
        const bool waits = std::ranges::find(ran, it->first) == ran.end();
        if (waits) waiting[it->first] = it->second;
        it = waits ? running.erase(it) : std::next(it);
      }
      for (const std::uint64_t id : ran) {
        if (running.contains(id)) continue;
        const Life life = waiting.at(id);
        std::map<std::uint64_t, std::int64_t> held;
        for (const auto& [other, of] : running) held[of.tenant] += of.blocks();
        const std::int64_t own = held[life.tenant];
        CHECK((own == 0 || own + life.blocks() <= most));
        over += own + life.blocks() > most ? 1 : 0;
        running[id] = life;
        waiting.erase(id);
      }
      for (const auto& [id, life] : waiting) kept += engine.waits_for(id) == WaitsFor::kCeiling ? 1 : 0;
      for (auto it = running.begin(); it != running.end();) {
        it->second.tokens += 1;
        it = engine.left[it->first] <= 0 ? running.erase(it) : std::next(it);
      }
    }
  }
  CHECK(over > 100);
  CHECK(kept > 1'000);
}

// No request is passed so often that others wait for it.
TEST_CASE("admissions under ceilings are those of a walk over all waiting requests") {
  std::int64_t at_ceiling = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    ClassLimitsList classes;
    for (std::int32_t priority = 0; priority < 3; ++priority) {
      const double ceiling = 0.1 * static_cast<double>(random.Below(11));
      classes.push_back({.priority = priority, .ceiling = ceiling, .soft = random.Chance(0.3) ? 0.5 : 0.0});
    }
    const bool by_priority = random.Chance(0.5);
    Engine engine({.max_running = 12, .kv_blocks = {400}, .admission_window = 10'000, .class_limits = classes},
                  by_priority ? AnyPolicy(Priority{}) : AnyPolicy(Fcfs{}));
    std::map<std::uint64_t, std::pair<std::int32_t, std::int32_t>> lives;  // priority and sequences
    std::map<std::uint64_t, int> running;  // and class
    std::map<std::uint64_t, int> admitted;  // order of admission
    int admissions = 0;
    std::vector<double> urgent(3, -100);
    for (int step = 0; step < 400; ++step) {
      const double now = 0.125 * step;
      for (std::uint64_t n = random.Below(3); n > 0; --n) {
        const auto priority = static_cast<std::int32_t>(random.Below(4)) - 1;
        const std::int32_t sequences = random.Chance(0.2) ? 4 : 1 + static_cast<std::int32_t>(random.Below(2));
        const auto output = static_cast<std::int32_t>(1 + random.Below(15));
        lives[engine.Arrive(priority, 16, output, now, sequences)] = {priority, sequences};
        for (std::int32_t i = priority + 1; i < 3; ++i) urgent[static_cast<std::size_t>(i)] = now;
      }
      const auto no_room = [&](int its, std::int32_t sequences) {  // with the rows in `running`
        bool same_or_later = false, over = false;
        for (int i = 0; i <= its; ++i) {
          const ClassLimits& c = classes[static_cast<std::size_t>(i)];
          std::int32_t seqs = sequences;
          for (const auto& [other, of] : running) {
            seqs += of >= i ? lives[other].second : 0;
            same_or_later |= of >= its;
          }
          const bool holds = c.soft == 0 || At(now) < At(urgent[static_cast<std::size_t>(i)] + c.soft);
          over |= holds && c.ceiling < 1 && seqs > static_cast<std::int32_t>(c.ceiling * 12);
        }
        return over && same_or_later;
      };
      const auto barred = [&](std::uint64_t id) { return no_room(classes.IndexOf(lives[id].first), lives[id].second); };
      // A walk over all waiting requests in order: the ceilings keep some out, and the first that lacks a row ends it.
      Ids expected, order;
      for (const auto& [id, life] : lives) order.push_back(id);
      if (by_priority) std::ranges::stable_sort(order, {}, [&](std::uint64_t id) { return lives[id].first; });
      for (const auto& [id, of] : running) expected.push_back(id);
      std::ranges::sort(expected, {}, [&](std::uint64_t id) { return admitted[id]; });
      for (const std::uint64_t id : order) {
        if (running.contains(id)) continue;
        if (barred(id)) {
          ++at_ceiling;
          continue;
        }
        if (running.size() == 12) break;
        running[id] = classes.IndexOf(lives[id].first);
        expected.push_back(id), admitted[id] = ++admissions;
      }
      REQUIRE(engine.Step(now) == expected);
      for (auto it = running.begin(); it != running.end();) {
        const bool ended = engine.left[it->first] <= 0;
        if (ended) lives.erase(it->first);
        it = ended ? running.erase(it) : std::next(it);
      }
    }
  }
  CHECK(at_ceiling > 10'000);
}

}  // namespace
}  // namespace takt
