#include "takt/placement/time_slot_packer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/rivals/placement/best_fit.h"
#include "takt/policy/agent_priority.h"
#include "takt/rivals/policy/stage_depth.h"
#include "takt/router.h"

namespace takt {
namespace {

constexpr double kNotHere = -std::numeric_limits<double>::infinity();

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

Epoch Table(std::vector<AgentRank> ranks, AgentRank otherwise = {}) {
  return {.agent_ranks = std::make_shared<const AgentRanks>(AgentRanks{std::move(ranks), otherwise})};
}

RequestState Call(std::uint32_t slot, AgentId agent, int prompt) {
  RequestState r;
  r.request.id = {slot + 1u};
  r.request.agent = agent;
  r.request.prompt_tokens = {prompt};
  r.slot = slot;
  return r;
}

// A packer with instances of 1,000 tokens; agent 1 runs 2 s, agent 2 runs 4 s; 100 tokens a second.
struct Bench {
  explicit Bench(std::size_t n, bool late = false) {
    packer.decode_rate = 100;
    packer.late = late;
    for (std::uint32_t i = 0; i < n; ++i) {
      InstanceState state{.instance = {.id = {i + 1u}, .kv_tokens = {1000}}, .slot = i};
      state.outstanding = 1;
      instances.push_back(state);
      packer.Up(state, At(0));
    }
    packer.Observe(Table({{{1}, 0, 2.0}, {{2}, 0, 4.0}}), At(0));
  }
  double Score(const RequestState& r, std::size_t i, double now) {
    packer.Prepare(r, At(now));
    return packer.Score(r, instances[i], At(now));
  }

  TimeSlotPacker packer;
  std::vector<InstanceState> instances;
};

TEST_CASE("memory grows with time and is freed at the expected end") {
  Bench b(1);
  const RequestState r = Call(0, {1}, 200);
  CHECK(b.Score(r, 0, 10) == -400);  // 200 + 100/s for 2 s
  b.packer.Placed(r, b.instances[0], At(10));
  for (std::size_t k = 0; k < 4; ++k) CHECK(b.packer.Expected(0, k) == 250 + 50.0 * static_cast<double>(k));
  CHECK(b.packer.Expected(0, 4) == 0);
  b.packer.Prepare(r, At(11));
  CHECK(b.packer.Expected(0, 0) == 350);
  CHECK(b.packer.Expected(0, 1) == 400);
  CHECK(b.packer.Expected(0, 2) == 0);
  b.packer.Prepare(r, At(12));
  CHECK(b.packer.Expected(0, 0) == 0);
}

TEST_CASE("the lowest peak wins, and full slots are unavailable") {
  Bench b(3);
  b.packer.Placed(Call(0, {1}, 500), b.instances[0], At(0));  // 700 at 2 s
  b.packer.Placed(Call(1, {2}, 300), b.instances[1], At(0));  // 700 at 4 s
  const RequestState r = Call(2, {1}, 100);
  CHECK(b.Score(r, 0, 0) == -1000);
  CHECK(b.Score(r, 1, 0) == -800);
  CHECK(b.Score(r, 2, 0) == -300);
  const RequestState longer = Call(3, {2}, 101);
  CHECK(b.Score(longer, 0, 0) == kNotHere);  // 1,001 at 2 s
  CHECK(b.Score(longer, 1, 0) == kNotHere);
  CHECK(b.Score(longer, 0, 2.5) == -501);  // the calls there have ended
  b.instances[0].outstanding = 0;
  CHECK(b.Score(Call(4, {2}, 990), 0, 2.5) == -1390);  // an empty one takes a request that is too large for all
}

TEST_CASE("an early end frees coming slots, and a late start moves them") {
  Bench b(1);
  const RequestState r = Call(0, {2}, 300);
  b.packer.Placed(r, b.instances[0], At(0));
  b.packer.Released(r, b.instances[0], At(1));
  for (std::size_t k = 0; k < 20; ++k) CHECK(b.packer.Expected(0, k) == 0);
  b.packer.Released(r, b.instances[0], At(1));  // a second call has no effect
  b.packer.Placed(r, b.instances[0], At(1));
  b.packer.Started(r, b.instances[0], At(3));
  CHECK(b.packer.Expected(0, 0) == 350);
  CHECK(b.packer.Expected(0, 7) == 700);
  CHECK(b.packer.Expected(0, 8) == 0);
}

TEST_CASE("a request past its estimate counts now, if configured") {
  for (const bool late : {false, true}) {
    Bench b(1, late);
    const RequestState r = Call(0, {1}, 200);
    b.packer.Placed(r, b.instances[0], At(0));
    b.packer.Prepare(r, At(5));
    CHECK(b.packer.Expected(0, 0) == (late ? 750 : 0));
    CHECK(b.packer.Expected(0, 1) == 0);
    b.packer.Prepare(r, At(500));  // beyond the horizon
    CHECK(b.packer.Expected(0, 0) == (late ? 50'250 : 0));
    b.packer.Released(r, b.instances[0], At(500));
    CHECK(b.packer.Expected(0, 0) == 0);
  }
}

TEST_CASE("an instance in danger takes nothing until it has recovered") {
  Bench b(2);
  const RequestState r = Call(0, {1}, 100);
  const auto report = [&](int used, int preempted) {
    b.packer.Observe(InstanceReported{{1}, {.preempted = preempted, .kv_used = {used}}}, At(1));
    return b.Score(r, 0, 1) == kNotHere;
  };
  CHECK_FALSE(report(900, 0));
  CHECK(report(950, 0));
  CHECK(report(900, 0));  // no danger yet
  CHECK_FALSE(report(850, 0));
  CHECK(report(500, 1));  // it has preempted
  CHECK_FALSE(report(500, 1));
  CHECK(report(990, 1));
  CHECK(b.Score(r, 1, 1) == -300);
  b.instances[0].outstanding = 0;
  CHECK(b.Score(r, 0, 1) == -300);  // no request is left that could recover
}

TEST_CASE("an instance may vanish and return with another capacity") {
  Bench b(2);
  const RequestState r = Call(0, {2}, 300);
  b.packer.Placed(r, b.instances[0], At(0));
  b.packer.Observe(InstanceReported{{1}, {.kv_used = {999}}}, At(0));
  CHECK(b.packer.suspended(0));
  b.packer.Observe(InstanceDown{{1}}, At(1));
  b.packer.Released(r, b.instances[0], At(1));
  b.instances[0].instance.kv_tokens = {500};
  b.packer.Up(b.instances[0], At(2));
  CHECK_FALSE(b.packer.suspended(0));
  CHECK(b.packer.Expected(0, 0) == 0);
  CHECK(b.Score(Call(1, {2}, 100), 0, 2) == -500);
  CHECK(b.Score(Call(1, {2}, 101), 0, 2) == kNotHere);
  b.packer.Observe(InstanceReported{{1}, {.preempted = 3, .kv_used = {100}}}, At(2));
  CHECK(b.packer.suspended(0));
  b.packer.Observe(InstanceDown{{1}}, At(3));
  b.packer.Observe(InstanceReported{{1}, {.kv_used = {999}}}, At(3));  // for an instance that is not up
  b.packer.Up(b.instances[0], At(4));
  CHECK_FALSE(b.packer.suspended(0));
  b.packer.Observe(InstanceReported{{1}, {.preempted = 2, .kv_used = {100}}}, At(4));
  CHECK(b.packer.suspended(0));  // it counts from zero again
  b.packer.Up(b.instances[0], At(5));  // reported up again: unchanged
  CHECK(b.packer.suspended(0));
}

TEST_CASE("later instances change nothing for earlier ones") {
  Bench b(1);
  const RequestState r = Call(0, {2}, 300);
  b.packer.Placed(r, b.instances[0], At(0.5));
  std::vector<double> before;
  for (std::size_t k = 0; k < TimeSlotPacker::kHorizon; ++k) before.push_back(b.packer.Expected(0, k));
  for (std::uint32_t i = 1; i < 40; ++i) {
    b.packer.Up({.instance = {.id = {i + 1u}, .kv_tokens = {1000}}, .slot = i}, At(0.5));
    for (std::size_t k = 0; k < TimeSlotPacker::kHorizon; ++k) {
      REQUIRE(b.packer.Expected(0, k) == before[k]);
      REQUIRE(b.packer.Expected(i, k) == 0);
    }
  }
  CHECK(b.packer.Expected(0, 0) == 350);
  CHECK(b.packer.Expected(0, TimeSlotPacker::kHorizon) == 0);  // later times are not considered
}

TEST_CASE("a call's duration is its agent's, its estimate's, or the default") {
  Bench b(1);
  b.packer.unknown_s = 1;
  RequestState r = Call(0, {9}, 100);  // an agent that the table lacks
  CHECK(b.Score(r, 0, 0) == -200);
  r.request.output_tokens = Estimate::Exact(300);
  CHECK(b.Score(r, 0, 0) == -400);
  r.request.agent = {1};
  CHECK(b.Score(r, 0, 0) == -300);
  r.request.agent = {9};
  r.request.output_tokens = Estimate::Exact(1);
  CHECK(b.Score(r, 0, 0) == -150);  // at least one slot
  r.request.output_tokens = Estimate::Exact(1e9);
  CHECK(b.Score(r, 0, 0) == kNotHere);  // at most 240 slots
  b.instances[0].outstanding = 0;
  CHECK(b.Score(r, 0, 0) == -(100 + 240 * 50));

  TimeSlotPacker still;  // decodes nothing: the estimate has no time
  still.decode_rate = 0;
  still.Up(b.instances[0], At(0));
  still.Placed(r, b.instances[0], At(0));
  CHECK(still.Expected(0, 19) == 100);  // unknown_s is 10
  CHECK(still.Expected(0, 20) == 0);
}

TEST_CASE("absurd prompts and lengths are cut, so that sums stay exact") {
  Bench b(1);
  b.instances[0].outstanding = 0;
  CHECK(b.Score(Call(0, {1}, 1 << 30), 0, 0) == -((1 << 22) + 200));
  b.packer.Placed(Call(0, {1}, 1 << 30), b.instances[0], At(0));
  CHECK(b.packer.Expected(0, 0) == (1 << 22) + 50);
  b.packer.Released(Call(0, {1}, 1 << 30), b.instances[0], At(0));
  CHECK(b.packer.Expected(0, 0) == 0);
}

// Sums of ramps, slot by slot, by definition.
TEST_CASE("slots agree with brute force") {
  const bool late = GENERATE(false, true);
  Random random(1);
  struct Placed {
    RequestState r;
    std::uint32_t instance;
    std::int64_t begin, span;
  };
  Bench b(5, late);
  std::map<std::uint32_t, Placed> held;
  double now = 0;
  for (int step = 0; step < Scaled(20'000); ++step) {
    now += random.Chance(0.001) ? 200 * random.Uniform() : 0.3 * random.Uniform();
    const auto slot_now = static_cast<std::int64_t>(std::floor(now / 0.5));
    const auto slot = static_cast<std::uint32_t>(random.Below(40));
    if (held.contains(slot)) {
      Placed& p = held.at(slot);
      if (random.Chance(0.3)) {
        b.packer.Started(p.r, b.instances[p.instance], At(now));
        p.begin = slot_now;
      } else {
        b.packer.Released(p.r, b.instances[p.instance], At(now));
        held.erase(slot);
      }
    } else {
      const auto instance = static_cast<std::uint32_t>(random.Below(5));
      const bool longer = random.Chance(0.5);
      const RequestState r = Call(slot, {longer ? 2u : 1u}, 1 + static_cast<int>(random.Below(500)));
      b.packer.Placed(r, b.instances[instance], At(now));
      held[slot] = {r, instance, slot_now, longer ? 8 : 4};
    }
    for (std::uint32_t i = 0; i < 5; ++i) {
      for (std::int64_t k = 0; k < 10; ++k) {
        double sum = 0;
        for (const auto& [_, p] : held) {
          const std::int64_t age = slot_now + k - p.begin;
          if (p.instance == i && age >= 0 && (age < p.span || (late && k == 0))) {
            sum += p.r.request.prompt_tokens.value + 50 * static_cast<double>(age + 1);
          }
        }
        REQUIRE(b.packer.Expected(i, static_cast<std::size_t>(k)) == sum);
      }
    }
  }
}

// ---- behind a router -----------------------------------------------------------------------------------------------

TEST_CASE("a request that fits nowhere waits in the router, none lost") {
  Random random(2);
  TimeSlotPacker packer;
  packer.decode_rate = 100;
  auto router = BasicRouter<AgentPriority, TimeSlotPacker>::Create({}, AgentPriority{}, packer);
  REQUIRE(router.ok());
  std::map<std::uint64_t, InstanceId> on;   // instances of placed requests
  std::set<std::uint64_t> waiting;
  std::map<std::uint64_t, int> up;          // instances with their capacity
  double now = 0;
  std::uint64_t next = 1, stayed = 0;
  for (int step = 0; step < Scaled(20'000); ++step) {
    now += 0.2 * random.Uniform();
    const double what = random.Uniform();
    if (what < 0.5) {
      Request r{.id = {next}, .prompt_tokens = {1 + static_cast<int>(random.Below(400))}};
      r.agent = {random.Chance(0.1) ? 1000u + random.Below(5000) : random.Below(6)};
      router->On(Arrived{r}, At(now));
      waiting.insert(next++);
    } else if (what < 0.85 && !on.empty()) {
      auto at = on.begin();
      std::advance(at, static_cast<std::ptrdiff_t>(random.Below(on.size())));
      router->On(RequestEnded{{at->first}, at->second}, At(now));
      on.erase(at);
    } else if (what < 0.88) {
      const std::uint64_t id = 1 + random.Below(4);
      if (up.contains(id)) {
        router->On(InstanceDown{{id}}, At(now));
        up.erase(id);
        for (auto at = on.begin(); at != on.end();) {
          if (at->second == InstanceId{id}) waiting.insert(at->first), at = on.erase(at);
          else ++at;
        }
      } else {
        up[id] = 500 + static_cast<int>(random.Below(1000));
        router->On(InstanceUp{{.id = {id}, .kv_tokens = {up[id]}}}, At(now));
      }
    } else if (what < 0.9) {
      std::vector<AgentRank> ranks;
      for (std::uint64_t a = 0; a < 6; ++a) ranks.push_back({{a}, random.Uniform(), 10 * random.Uniform()});
      router->On(Table(ranks, {{}, 0.5, 3}), At(now));
    } else if (!up.empty()) {
      InstanceReport report{.preempted = static_cast<std::int64_t>(random.Below(2)),
                            .kv_used = {static_cast<int>(random.Below(1000))}};
      router->On(InstanceReported{{up.begin()->first}, report}, At(now));
    }
    for (const Placement& p : router->Place(At(now))) {
      REQUIRE(waiting.erase(p.request.value) == 1);
      REQUIRE(up.contains(p.instance.value));
      on[p.request.value] = p.instance;
    }
    REQUIRE(router->failed().empty());
    REQUIRE(router->waiting() == static_cast<std::int64_t>(waiting.size()));
    stayed += waiting.empty() ? 0u : 1u;
  }
  CHECK(stayed > 0);
  for (const std::uint64_t id : {1u, 2u, 3u, 4u}) {
    if (up.contains(id)) router->On(InstanceDown{{id}}, At(now));
  }
  for (const auto& [id, _] : on) waiting.insert(id);
  router->On(InstanceUp{{.id = {9}, .kv_tokens = {0}}}, At(now));  // unbounded
  for (const Placement& p : router->Place(At(now))) CHECK(waiting.erase(p.request.value) == 1);
  CHECK(waiting.empty());
}

TEST_CASE("best fit takes the smallest sufficient room") {
  BestFit fit;
  std::vector<InstanceState> instances;
  for (std::uint32_t i = 0; i < 3; ++i) {
    instances.push_back({.instance = {.id = {i + 1u}, .kv_tokens = {1000}}, .slot = i});
    instances[i].report.kv_used = {300 * static_cast<int>(i)};
  }
  RequestState r = Call(0, {1}, 300);
  r.request.output_tokens = Estimate::Exact(200);
  const auto best = [&] {
    std::size_t at = 0;
    for (std::size_t i = 1; i < 3; ++i) {
      if (fit.Score(r, instances[i], At(0)) > fit.Score(r, instances[at], At(0))) at = i;
    }
    return at;
  };
  CHECK(best() == 1);
  instances[1].tokens_since_report = 300;
  CHECK(best() == 0);
  instances[1].tokens_since_report = 0;
  CHECK(best() == 1);
  r.request.prompt_tokens = {1000};
  CHECK(best() == 0);  // none is sufficient: the one that lacks least
  instances[2].instance.kv_tokens = {0};
  CHECK(best() == 2);
}

TEST_CASE("best fit counts spare room to the token") {
  BestFit fit;
  InstanceState i{.instance = {.id = {1}, .kv_tokens = {1000}}};
  i.report.kv_used = {300};
  RequestState r = Call(0, {1}, 200);
  const auto score = [&] { return fit.Score(r, i, At(0)); };
  CHECK(score() == -300);  // 200 of output if nothing is known
  r.request.output_tokens = Estimate::Exact(100);
  CHECK(score() == -400);
  i.tokens_since_report = 200;
  CHECK(score() == -200);
  r.request.output_tokens = Estimate::Exact(300);
  CHECK(score() == 0);  // exactly enough suffices
  r.request.output_tokens = Estimate::Exact(301);
  const double lacks_one = score();
  r.request.output_tokens = Estimate::Exact(302);
  CHECK(lacks_one > score());
  CHECK(score() == lacks_one - 1);
  i.tokens_since_report = 0;
  CHECK(score() == -198);
  InstanceState unbounded{.instance = {.id = {2}}, .slot = 1};
  r.request.prompt_tokens = {1000};
  CHECK(fit.Score(r, unbounded, At(0)) > score());   // one that lacks room is worse
  r.request.prompt_tokens = {10};
  CHECK(fit.Score(r, unbounded, At(0)) < score());  // a known sufficient one is better
}

// ---- policies by agent ---------------------------------------------------------------------------------------------

TEST_CASE("agents are ordered by rank, then by their workflow's start") {
  internal::RankQueue<AgentPriority> queue{AgentPriority{}};
  std::vector<RequestState> states(4);
  const auto set = [&](std::uint32_t slot, AgentId agent, double began) {
    states[slot] = Call(slot, agent, 10);
    states[slot].request.arrival = At(10);
    states[slot].request.workflow_arrival = At(began);
    queue.Push(slot, states[slot], At(10));
  };
  const auto order = [&] {
    queue.BeginPlan(At(10), [&](Slot s) -> const RequestState& { return states[s]; });
    std::vector<Slot> slots;
    queue.ForEachInOrder([&](Slot s) { return slots.push_back(s), true; });
    return slots;
  };
  set(0, {1}, 5), set(1, {2}, 4), set(2, {1}, 3), set(3, {7}, 1);
  CHECK(order() == std::vector<Slot>{3, 2, 1, 0});  // no table yet: ordered by workflow
  queue.policy().Observe(Table({{{1}, 2.0}, {{2}, 1.0}}, {{}, 1.5}), At(10));
  CHECK(order() == std::vector<Slot>{1, 3, 2, 0});
  queue.policy().Observe(Table({{{1}, 0.5}, {{2}, 1.0}}, {{}, 9}), At(10));
  CHECK(order() == std::vector<Slot>{2, 0, 1, 3});
  queue.policy().Observe(Epoch{}, At(10));
  CHECK(order() == std::vector<Slot>{2, 0, 1, 3});
}

TEST_CASE("stage depth ranks in both directions, equal stages by arrival") {
  for (const bool fewest : {true, false}) {
    StageDepth policy;
    policy.fewest_first = fewest;
    policy.Observe(Table({{{1}, 0, 0, 3}, {{2}, 0, 0, 1}, {{3}, 0, 0, 1}}, {{}, 0, 0, 2}), At(0));
    internal::RankQueue<StageDepth> queue{policy};
    std::vector<RequestState> states;
    for (const std::uint64_t agent : {1u, 2u, 3u, 9u, 2u}) {
      states.push_back(Call(static_cast<std::uint32_t>(states.size()), {agent}, 10));
      states.back().request.arrival = At(static_cast<double>(states.size()));
    }
    for (Slot s = 0; s < states.size(); ++s) queue.Push(s, states[s], At(9));
    std::vector<Slot> slots;
    queue.ForEachInOrder([&](Slot s) { return slots.push_back(s), true; });
    CHECK(slots == (fewest ? std::vector<Slot>{1, 2, 4, 3, 0} : std::vector<Slot>{0, 3, 1, 2, 4}));
  }
}

// Six requests wait for one server that takes one after another, checked by hand. Each agent has the duration of a
// call, the remaining duration, and the stages left. Router (1) has 1, 5 and 2. Math (2) has 1, 1 and 1. Humanities (3)
// has 4, 4 and 1. Research (4) has 3, 7 and 2.
TEST_CASE("six requests wait as computed by arrival, stages and remaining time") {
  const std::vector<std::uint64_t> agents = {4, 3, 1, 2, 3, 2};
  const std::vector<double> runs = {0, 1, 1, 4, 3};
  const Epoch table = Table({{{1}, 5, 1, 2}, {{2}, 1, 1, 1}, {{3}, 4, 4, 1}, {{4}, 7, 3, 2}});
  const auto waits = [&](AnyPolicy policy) {
    internal::RankQueue<AnyPolicy> queue{std::move(policy)};
    queue.policy().Observe(table, At(0));
    std::vector<RequestState> states;
    for (const std::uint64_t agent : agents) {
      states.push_back(Call(static_cast<std::uint32_t>(states.size()), {agent}, 10));
      states.back().request.arrival = states.back().request.workflow_arrival = At(static_cast<double>(states.size()));
    }
    for (Slot s = 0; s < states.size(); ++s) queue.Push(s, states[s], At(9));
    double now = 0, sum = 0;
    while (!queue.empty()) {
      const Slot s = queue.Top();
      sum += now;
      now += runs[agents[s]];
      queue.Erase(s);
    }
    return sum;
  };
  CHECK(waits(AnyPolicy()) == 0 + 3 + 7 + 8 + 9 + 13);  // Research, Humanities, Router, Math, Humanities, Math
  CHECK(waits(AnyPolicy(StageDepth{})) ==
        0 + 4 + 5 + 9 + 10 + 13);  // Humanities, Math, Humanities, Math, Research, Router
  CHECK(waits(AnyPolicy(AgentPriority{})) ==
        0 + 1 + 2 + 6 + 10 + 11);  // Math, Math, Humanities, Humanities, Router, Research
}

}  // namespace
}  // namespace takt
