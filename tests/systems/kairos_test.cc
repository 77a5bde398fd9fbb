#include "takt/systems/kairos.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "takt/base/random.h"
#include "takt/scheduler.h"

namespace takt::systems {
namespace {

TimePoint At(double s) { return TimePoint(FromSeconds(s)); }

KairosOptions Eager() {
  KairosOptions options;
  options.learner.profile.latency.first_samples = 4;
  options.learner.profile.latency.converged_below = 0.5;
  return options;
}

// A workflow of one "plan" call and one "write" call, which take 1 s and 5 s.
void Serve(Kairos& kairos, std::uint64_t workflow, double at) {
  const AgentId plan = kairos.Agent("plan"), write = kairos.Agent("write");
  for (const auto& [id, agent, upstream, from, to] :
       {std::tuple{2 * workflow, plan, AgentId{}, at, at + 1}, {2 * workflow + 1, write, plan, at + 1, at + 6}}) {
    kairos.On(Arrived{{.id = {id}, .workflow = {workflow}, .agent = agent, .prompt_tokens = {10}}}, At(from), upstream);
    REQUIRE(kairos.Place(At(from)).size() == 1);
    kairos.On(RequestEnded{{id}, {}}, At(to));
  }
  kairos.On(WorkflowEnded{{workflow}}, At(at + 6));
}

TEST_CASE("ranks come only from converged distributions") {
  Kairos kairos = *Kairos::Create(Eager());
  kairos.On(InstanceUp{{.id = {1}}}, {});
  std::uint64_t workflow = 1;
  for (; workflow <= 4; ++workflow) Serve(kairos, workflow, 10.0 * static_cast<double>(workflow));
  const std::optional<Epoch> early = kairos.Advance(At(60));
  CHECK((!early || early->agent_ranks->ranks.empty()));
  for (; workflow <= 16; ++workflow) Serve(kairos, workflow, 20 + 10.0 * static_cast<double>(workflow));
  const std::optional<Epoch> epoch = kairos.Advance(At(300));
  REQUIRE(epoch);
  const AgentRank plan = epoch->agent_ranks->Of(kairos.Agent("plan"));
  const AgentRank write = epoch->agent_ranks->Of(kairos.Agent("write"));
  CHECK(write.rank < plan.rank);  // 5 s remain instead of 6
  CHECK(plan.execution_s > 0.9);
  CHECK(plan.execution_s < 1.1);

  KairosOptions soon = Eager();
  soon.learner.converged_only = false;
  Kairos other = *Kairos::Create(soon);
  other.On(InstanceUp{{.id = {1}}}, {});
  Serve(other, 1, 10);
  CHECK(other.Advance(At(60))->agent_ranks->ranks.size() == 2);
}

TEST_CASE("the router and engines serve the agent that ends its workflow sooner") {
  Kairos kairos = *Kairos::Create(Eager());
  kairos.On(InstanceUp{{.id = {1}, .capacity = 1}}, {});
  for (std::uint64_t w = 1; w <= 16; ++w) Serve(kairos, w, 10.0 * static_cast<double>(w));
  const std::optional<Epoch> epoch = kairos.Advance(At(300));
  REQUIRE(epoch);
  auto engine = *Scheduler::Create({.kv_blocks = {100}}, kairos.policy());
  engine.On(*epoch, At(300));
  for (const auto& [id, agent] : {std::pair{100u, "plan"}, {101u, "write"}}) {
    const Arrived arrived{{.id = {id}, .workflow = {id}, .agent = kairos.Agent(agent), .prompt_tokens = {10}}};
    kairos.On(arrived, At(300));
    engine.On(arrived, At(300));
  }
  REQUIRE(kairos.Place(At(300)).size() == 1);
  CHECK(kairos.router().InstanceOf({101}) == InstanceId{1});
  CHECK(engine.Plan(At(300), {.tokens = {100}, .max_seqs = 1}).run.front().request == RequestId{101});
}

TEST_CASE("what was learned survives; damaged files change nothing") {
  Kairos kairos = *Kairos::Create(Eager());
  kairos.On(InstanceUp{{.id = {1}}}, {});
  for (std::uint64_t w = 1; w <= 16; ++w) Serve(kairos, w, 10.0 * static_cast<double>(w));
  const std::optional<Epoch> epoch = kairos.Advance(At(300));
  REQUIRE(epoch);
  const std::string text = kairos.Save();

  Kairos loaded = *Kairos::Create(Eager());
  CHECK(loaded.Advance(At(0)) == std::nullopt);
  REQUIRE(loaded.Load(text).ok());
  const std::optional<Epoch> again = loaded.Advance(At(0));
  REQUIRE(again);
  CHECK(again->agent_ranks->Of(loaded.Agent("plan")).rank == epoch->agent_ranks->Of(kairos.Agent("plan")).rank);

  Random random(1);
  for (int i = 0; i < 200; ++i) {
    std::string damaged = text;
    damaged[random.Below(damaged.size())] ^= static_cast<char>(1 + random.Below(255));
    if (i % 2 == 0) damaged.resize(random.Below(damaged.size()));
    Kairos victim = *Kairos::Create(Eager());
    if (victim.Load(damaged).ok()) continue;
    CHECK(victim.names().size() == 0);
    CHECK(victim.Advance(At(0)) == std::nullopt);
  }
}

TEST_CASE("a cancelled workflow teaches nothing") {
  Kairos kairos = *Kairos::Create(Eager());
  kairos.On(InstanceUp{{.id = {1}}}, {});
  kairos.On(Arrived{{.id = {1}, .workflow = {1}, .agent = {1}, .prompt_tokens = {10}}}, At(1));
  kairos.Place(At(1));
  kairos.On(RequestEnded{{1}, {}}, At(2));
  kairos.On(WorkflowEnded{{1}, true}, At(2));
  kairos.Advance(At(3));
  CHECK(kairos.learner().graph().stats().forgotten == 1);
  CHECK(kairos.learner().graph().open() == 0);
  CHECK(kairos.learner().profile().all().remaining.observed() == 0);
}

TEST_CASE("options are checked") {
  CHECK_FALSE(Kairos::Create({.refresh = std::chrono::seconds(-1)}).ok());
  CHECK_FALSE(Kairos::Create({.router = {.max_outstanding = 0}}).ok());
}

// Events in any order, unknown ids, agents without names, instances that die. Each accepted request is placed or still
// alive, and ends once.
TEST_CASE("a random host loses nothing") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    KairosOptions options = Eager();
    options.router.max_outstanding = 4;
    options.most_lessons = 64;
    Kairos kairos = *Kairos::Create(options);
    std::map<std::uint64_t, bool> alive;
    std::uint64_t next = 1;
    double now = 0;
    const auto anyone = [&] {
      if (alive.empty() || random.Chance(0.1)) return 1 + random.Below(next + 3);
      return std::next(alive.begin(), static_cast<std::ptrdiff_t>(random.Below(alive.size())))->first;
    };
    for (int i = 0; i < 3000; ++i) {
      now += random.Chance(0.02) ? -random.Uniform() : random.Uniform() * 0.2;
      const TimePoint t = At(now);
      switch (random.Below(9)) {
        case 0:
        case 1: {
          const std::uint64_t id = random.Chance(0.05) ? anyone() : next++;
          Request r{.id = {id}, .workflow = {random.Below(next / 3 + 1)}, .agent = {random.Below(5)}};
          r.prompt_tokens = {static_cast<int>(random.Below(200))};
          const bool fresh = kairos.router().Find({id}) == nullptr;
          kairos.On(Arrived{r}, t, {random.Below(9)});
          if (fresh && r.prompt_tokens.value >= 1) alive[id] = true;
          break;
        }
        case 2: kairos.On(RequestStarted{{anyone()}, {random.Below(4)}}, t); break;
        case 3: {
          const std::uint64_t id = anyone();
          const InstanceId where = random.Chance(0.2) ? InstanceId{random.Below(4)} : InstanceId{};
          kairos.On(RequestEnded{{id}, where, random.Chance(0.1)}, t);
          if (kairos.router().Find({id}) == nullptr) alive.erase(id);
          break;
        }
        case 4: {
          const std::uint64_t id = anyone();
          if (random.Chance(0.3)) kairos.On(Cancelled{{id}}, t), alive.erase(id);
          break;
        }
        case 5: kairos.On(WorkflowEnded{{random.Below(next)}, random.Chance(0.3)}, t); break;
        case 6:
          if (random.Chance(0.3)) kairos.On(InstanceDown{{random.Below(4)}}, t);
          else kairos.On(InstanceUp{{.id = {random.Below(4)}, .kv_tokens = {1000}}}, t);
          break;
        case 7:
          kairos.On(
              InstanceReported{{random.Below(4)}, {.preempted = 1, .kv_used = {static_cast<int>(random.Below(1200))}}},
              t);
          break;
        case 8: kairos.Advance(t); break;
      }
      kairos.Place(t);
      REQUIRE(kairos.router().alive() == static_cast<std::int64_t>(alive.size()));
    }
    kairos.On(InstanceUp{{.id = {9}}}, At(now + 1000));
    for (int i = 0; i < 10'000 && !alive.empty(); ++i) {
      now += 1;
      for (const Placement& p : kairos.Place(At(now + 1000))) CHECK(alive.contains(p.request.value));
      for (auto it = alive.begin(); it != alive.end();) {
        const RequestId id{it->first};
        const bool placed = static_cast<bool>(kairos.router().InstanceOf(id));
        if (placed) kairos.On(RequestEnded{id, {}}, At(now + 1000));
        it = placed ? alive.erase(it) : std::next(it);
      }
    }
    CHECK(alive.empty());
    CHECK(kairos.router().alive() == 0);
  }
}

TEST_CASE("after warm-up only learning allocates") {
  Kairos kairos = *Kairos::Create(Eager());
  for (std::uint64_t id = 1; id <= 4; ++id) kairos.On(InstanceUp{{.id = {id}, .kv_tokens = {10'000}}}, {});
  std::uint64_t id = 0;
  double now = 0;
  const auto round = [&] {
    const std::uint64_t first = id + 1;
    for (int i = 0; i < 20; ++i) {
      ++id;
      kairos.On(Arrived{{.id = {id}, .workflow = {id}, .agent = {1 + id % 3}, .prompt_tokens = {100}}}, At(now));
    }
    now += 0.05;
    kairos.Place(At(now));
    for (std::uint64_t r = first; r <= id; ++r) {
      kairos.On(RequestStarted{{r}, {}}, At(now));
      kairos.On(RequestEnded{{r}, {}}, At(now + 0.5));
      kairos.On(WorkflowEnded{{r}}, At(now + 0.5));
    }
    now += 0.5;
  };
  std::size_t learning = 0;
  for (int i = 0; i < 50; ++i) round(), kairos.Advance(At(now));
  const std::size_t before = allocations;
  for (int i = 0; i < 200; ++i) {
    round();
    const std::size_t here = allocations;
    kairos.Advance(At(now));
    learning += allocations - here;
  }
  CHECK(allocations - before == learning);
  CHECK(kairos.router().stats().ended > 4000);
}

}  // namespace
}  // namespace takt::systems
