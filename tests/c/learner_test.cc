// Ranks learned through C equal those of C++.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "c/told.h"
#include "catch.h"
#include "takt/base/random.h"
#include "takt/c/takt.h"
#include "takt/learning/agent_learner.h"

namespace takt {
namespace {

takt_agent_learner* Make() {
  takt_agent_learner_options options;
  takt_agent_learner_options_init(&options, sizeof options);
  takt_agent_learner* learner = nullptr;
  REQUIRE(takt_agent_learner_create(&options, &learner, nullptr) == TAKT_OK);
  return learner;
}

void CheckSame(const takt_epoch& epoch, const AgentRanks& table) {
  REQUIRE(epoch.fields == TAKT_EPOCH_AGENT_RANKS);
  REQUIRE(epoch.n_ranks == table.ranks.size());
  for (std::size_t i = 0; i < epoch.n_ranks; ++i) {
    CHECK(AgentRank{
              {epoch.ranks[i].agent}, epoch.ranks[i].rank, epoch.ranks[i].execution_s, epoch.ranks[i].stages_left} ==
          table.ranks[i]);
  }
  CHECK(epoch.otherwise.rank == table.otherwise.rank);
}

TEST_CASE("a learner through C is the learner of C++") {
  AgentLearner cxx;
  AgentNames names(CallGraphOptions{}.max_agents);
  takt_agent_learner* c = Make();
  auto epoch = Sized<takt_epoch>();
  CHECK(takt_agent_learner_epoch(c, &epoch) == TAKT_OK);
  CHECK(epoch.fields == 0);
  constexpr std::array<std::string_view, 3> kAgents = {"router", "expert", "writer"};
  Random random(1);
  std::int64_t now = 0;
  for (std::uint64_t workflow = 1; workflow <= 50; ++workflow) {
    std::uint64_t before = 0;
    for (const std::string_view name : kAgents) {
      std::uint64_t agent = 0;
      REQUIRE(takt_agent_learner_agent(c, name.data(), name.size(), &agent) == TAKT_OK);
      CHECK(agent == names.Intern(name).value);
      const std::int64_t start = now;
      now += static_cast<std::int64_t>(1'000'000 * (1 + random.Below(1000)));
      const takt_call_record call = {workflow, agent, before, start, now};
      std::size_t kept = 0;
      REQUIRE(takt_agent_learner_add(c, &call, 1, now, &kept) == TAKT_OK);
      CHECK(kept == 1);
      cxx.Add({{workflow}, {agent}, {before}, TimePoint(Duration(start)), TimePoint(Duration(now))},
              TimePoint(Duration(now)));
      before = agent;
    }
    CHECK(takt_agent_learner_close(c, workflow) == TAKT_OK);
    CHECK(takt_agent_learner_close(c, workflow) == TAKT_E_INVALID);
    CHECK(takt_agent_learner_forget(c, workflow) == TAKT_E_INVALID);
    cxx.Close({workflow});
  }
  REQUIRE(takt_agent_learner_epoch(c, &epoch) == TAKT_OK);
  const auto table = cxx.Table();
  REQUIRE(table != nullptr);
  CheckSame(epoch, *table);
  CHECK(epoch.ranks[2].rank < epoch.ranks[0].rank);  // the writer's workflows end soonest

  const char* text = nullptr;
  std::size_t n = 0;
  REQUIRE(takt_agent_learner_save(c, &text, &n) == TAKT_OK);
  const std::string saved(text, n);
  CHECK(saved == cxx.Save(names));
  takt_agent_learner* loaded = Make();
  auto error = Sized<takt_error>();
  CHECK(takt_agent_learner_load(loaded, saved.data(), n / 2, &error) == TAKT_E_INVALID);
  CHECK(error.text[0] != '\0');
  REQUIRE(takt_agent_learner_load(loaded, saved.data(), n, &error) == TAKT_OK);
  REQUIRE(takt_agent_learner_epoch(loaded, &epoch) == TAKT_OK);
  CHECK(epoch.n_ranks == kAgents.size());
  CHECK(takt_agent_learner_destroy(loaded) == TAKT_OK);
  CHECK(takt_agent_learner_destroy(c) == TAKT_OK);
}

TEST_CASE("a learner refuses invalid options") {
  takt_agent_learner* learner = nullptr;
  const auto refused = [&](auto&& set) {
    takt_agent_learner_options options;
    takt_agent_learner_options_init(&options, sizeof options);
    set(options);
    auto error = Sized<takt_error>();
    return takt_agent_learner_create(&options, &learner, &error) == TAKT_E_INVALID && error.text[0] != '\0';
  };
  CHECK(refused([](auto& o) { o.order = 4; }));
  CHECK(refused([](auto& o) { o.wall_clock = 2; }));
  CHECK(refused([](auto& o) { o.max_agents = 0; }));
  CHECK(refused([](auto& o) { o.max_workflows = 0; }));
  CHECK(refused([](auto& o) { o.retire_after = 0; }));
  CHECK(refused([](auto& o) { o.converged_only = 2; }));
  CHECK(takt_agent_learner_create(nullptr, &learner, nullptr) == TAKT_E_NULL);
}

TEST_CASE("a cascade router through C") {
  const std::array<takt_cascade_stage, 2> stages = {takt_cascade_stage{70, 0.5, 1, 0}, takt_cascade_stage{0, 0, 1, 0}};
  takt_cascade_options options;
  takt_cascade_options_init(&options, sizeof options);
  options.stages = stages.data(), options.n_stages = stages.size();
  takt_cascade_router* router = nullptr;
  REQUIRE(takt_cascade_router_create(&options, &router, nullptr) == TAKT_OK);
  takt_cascade_action action;
  REQUIRE(takt_cascade_router_arrived(router, 7, &action) == TAKT_OK);
  CHECK(action.kind == TAKT_CASCADE_SEND);
  REQUIRE(takt_cascade_router_answered(router, 7, 0, 1, &action) == TAKT_OK);
  CHECK(action.kind == TAKT_CASCADE_JUDGE);
  REQUIRE(takt_cascade_router_judged(router, 7, 0, 60, 2, &action) == TAKT_OK);
  CHECK((action.kind == TAKT_CASCADE_SEND && action.model == 1));
  std::int32_t model = -1;
  CHECK(takt_cascade_router_model_of(router, 7, &model) == TAKT_OK);
  CHECK(model == 1);
  REQUIRE(takt_cascade_router_failed(router, 7, 1, &action) == TAKT_OK);
  CHECK((action.kind == TAKT_CASCADE_ACCEPT && action.model == 0 && action.request == 7));
  // A score that never comes: the request is decided at wake_at.
  takt_cascade_router_arrived(router, 8, &action);
  takt_cascade_router_answered(router, 8, 0, 10, &action);
  std::int64_t wake_at = 0;
  CHECK(takt_cascade_router_wake_at(router, &wake_at) == TAKT_OK);
  CHECK(wake_at == 10 + options.judge_timeout);
  const takt_cascade_action* late = nullptr;
  std::size_t n = 0;
  CHECK(takt_cascade_router_expire(router, wake_at, &late, &n) == TAKT_OK);
  CHECK((n == 1 && late[0].request == 8));
  CHECK(takt_cascade_router_cancelled(router, 99) == TAKT_E_INVALID);
  CHECK(takt_cascade_router_replan(router, stages.data(), 1, nullptr) == TAKT_E_INVALID);
  CHECK(takt_cascade_router_replan(router, stages.data(), 2, nullptr) == TAKT_OK);
  CHECK(StatsOf<takt_cascade_router>(takt_cascade_router_stats, router).size() == 10);
  CHECK(takt_cascade_router_destroy(router) == TAKT_OK);
  options.n_stages = 0;
  CHECK(takt_cascade_router_create(&options, &router, nullptr) == TAKT_E_INVALID);
  options.n_stages = 2, options.on_late = 3;
  CHECK(takt_cascade_router_create(&options, &router, nullptr) == TAKT_E_INVALID);
}

TEST_CASE("the tail test through C") {
  std::array<double, 40> before{}, worse{};
  for (std::size_t i = 0; i < before.size(); ++i)
    before[i] = 1 + 0.01 * static_cast<double>(i), worse[i] = 2 * before[i];
  double p = -1;
  CHECK(takt_tail_test(before.data(), 40, worse.data(), 40, 0.75, &p) == TAKT_OK);
  CHECK(p < 0.01);
  CHECK(takt_tail_test(worse.data(), 40, before.data(), 40, 0.75, &p) == TAKT_OK);
  CHECK(p > 0.9);
  CHECK(takt_tail_test(worse.data(), 40, before.data(), 40, 1, &p) == TAKT_E_INVALID);
  CHECK(takt_tail_test(nullptr, 1, before.data(), 40, 0, &p) == TAKT_E_NULL);
}

}  // namespace
}  // namespace takt
