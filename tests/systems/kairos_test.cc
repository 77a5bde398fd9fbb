#include "takt/systems/kairos.h"

#include <cstdint>
#include <string>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "systems/router_host.h"
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

struct KairosHooks {
  Kairos system;

  void Arrive(const Request& r, TimePoint t, Random& random) { system.On(Arrived{r}, t, {random.Below(9)}); }
  void Act(TimePoint t, Random& random) {
    const char* const names[] = {"plan", "write", "", "\xff\n", "a name with spaces"};
    system.Agent(names[random.Below(5)]);
    if (random.Chance(0.5)) {
      system.Advance(t);
    } else if (const auto lessons = system.TakeLessons(t)) {
      const auto epoch = system.Learn(*lessons, t);
      if (epoch && random.Chance(0.9)) system.Publish(*epoch, t);
    }
  }
  std::int64_t held() const { return 0; }
  std::string Save() const { return system.Save(); }
  absl::Status Load(const std::string& text, TimePoint) { return system.Load(text); }
  double learned() const { return static_cast<double>(system.lessons_dropped()); }
};

TEST_CASE("a random host loses nothing") {
  RunRouterHosts([](std::uint64_t hash_seed) {
    KairosOptions options = Eager();
    options.router.max_outstanding = 4;
    options.router.hash_seed = hash_seed;
    options.most_lessons = 64;
    return KairosHooks{*Kairos::Create(options)};
  });
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
