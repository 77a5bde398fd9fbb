#include "takt/systems/hexgen_flow.h"

#include <cstdint>
#include <string>

#include "catch.h"
#include "counting_new.h"
#include "systems/router_host.h"
#include "takt/base/random.h"
#include "takt/sim/profiles.h"

namespace takt::systems {
namespace {

TimePoint At(double s) { return TimePoint(FromSeconds(s)); }

HexGenFlowOptions Tuned() {
  ReplayOptions cluster;
  cluster.profile = *FindProfile("aic/llama-3.1-70b/a100/bf16/tp4");
  cluster.instances = 2;
  return {.tuner = {.least = 4}, .cluster = cluster};
}

void Start(HexGenFlow& flow) {
  for (std::uint64_t i = 1; i <= 2; ++i) flow.On(InstanceUp{{.id = {i}}}, {});
}

// A declared workflow of two calls that takes 6 s.
void Serve(HexGenFlow& flow, std::uint64_t workflow, double at, bool told = true) {
  Workflow w{.id = {workflow}, .deadline = At(at + 60)};
  w.stages = {{.stage = {1}, .cost_s = 1}, {.stage = {2}, .after = {0}, .cost_s = 5}};
  flow.On(WorkflowDeclared{w}, At(at));
  for (std::uint64_t c = 0; c < 2; ++c) {
    flow.On(Arrived{{.id = {2 * workflow + c}, .workflow = w.id, .stage = {1 + c}, .prompt_tokens = {100}}}, At(at));
  }
  for (std::uint64_t c = 0; c < 2; ++c) {
    REQUIRE(flow.Place(At(at + static_cast<double>(c))).size() == 1);
    const auto served = told ? std::optional(TokensServed{{100}, {20}}) : std::nullopt;
    flow.On(RequestEnded{{2 * workflow + c}, {}, false, served}, At(at + (c == 0 ? 1 : 6)));
  }
  flow.Place(At(at + 6));
}

TEST_CASE("calls get budgets of their workflow's deadline, and the most urgent goes first") {
  HexGenFlow flow = *HexGenFlow::Create({.router = {.max_outstanding = 1, .budgets = BudgetOptions{}}});
  flow.On(InstanceUp{{.id = {1}}}, {});
  for (std::uint64_t w = 1; w <= 2; ++w) {
    Workflow workflow{.id = {w}, .deadline = At(w == 1 ? 100 : 10)};
    workflow.stages = {{.stage = {1}, .cost_s = 1}, {.stage = {2}, .after = {0}, .cost_s = 1}};
    flow.On(WorkflowDeclared{workflow}, {});
    flow.On(Arrived{{.id = {w}, .workflow = {w}, .stage = {1}, .prompt_tokens = {10}}}, {});
  }
  const auto placed = flow.Place({});
  REQUIRE(placed.size() == 1);
  CHECK(placed[0].request == RequestId{2});
  CHECK(flow.router().Find({2})->request.deadline < At(10));  // equation 5: a share of the rest
}

TEST_CASE("the first full window is searched on what was served, and alpha reaches the placement") {
  HexGenFlow flow = *HexGenFlow::Create(Tuned());
  Start(flow);
  CHECK_FALSE(flow.Advance({}));
  for (std::uint64_t w = 1; w <= 9; ++w) Serve(flow, w, 10.0 * static_cast<double>(w));
  CHECK_FALSE(flow.Advance(At(99)));
  CHECK(flow.wake_at() <= At(100));
  const std::optional<AlphaSearch> search = flow.Advance(At(100));
  REQUIRE(search);
  const Workload& w = search->workload;
  CHECK(w.workflows.size() == 9);
  CHECK(w.calls.size() == 18);
  CHECK(w.calls[1].predecessors == 1);
  CHECK(w.calls[1].output_tokens == 20);
  CHECK(w.workflows[0].deadline == std::chrono::seconds(60));
  CHECK(search->replay.placement.name() == "workload_balance");
  CHECK(search->replay.budgets);
  AlphaChoice choice;
  choice.alpha = 0.4;
  CHECK(flow.Finished(choice, At(101)));
  CHECK(flow.alpha() == 0.4);
  CHECK_FALSE(flow.Finished(choice, At(102)));  // no search is running
}

TEST_CASE("a learned workflow has at most 512 calls, each with its direct predecessors only") {
  HexGenFlow flow = *HexGenFlow::Create(Tuned());
  Start(flow);
  flow.Advance({});
  std::uint64_t id = 0;
  double now = 1;
  for (std::uint64_t w = 1; w <= 4; ++w) {
    for (int i = 0; i < (w == 1 ? 600 : 3); ++i) {
      flow.On(Arrived{{.id = {++id}, .workflow = {w}, .prompt_tokens = {10}}}, At(now));
      flow.Place(At(now));
      now += 0.01;
      flow.On(RequestEnded{{id}, {}, false, TokensServed{{10}, {5}}}, At(now));
    }
    flow.On(WorkflowEnded{{w}}, At(now));
  }
  const std::optional<AlphaSearch> search = flow.Advance(At(100));
  REQUIRE(search);
  const Workload& learned = search->workload;
  REQUIRE(learned.calls.size() == 512 + 3 * 3);
  std::uint64_t predecessors = 0;
  for (const WorkloadCall& call : learned.calls) predecessors += call.predecessors;
  CHECK(predecessors == 511 + 3 * 2);
  CHECK(flow.lessons_dropped() == 600 - 512);
}

TEST_CASE("ended calls of workflows that never end are limited") {
  HexGenFlowOptions options = Tuned();
  options.most_lessons = 64;
  HexGenFlow flow = *HexGenFlow::Create(options);
  Start(flow);
  for (std::uint64_t id = 1; id <= 200; ++id) {
    flow.On(Arrived{{.id = {id}, .workflow = {1 + id % 2}, .prompt_tokens = {10}}}, At(1));
    flow.Place(At(1));
    flow.On(RequestEnded{{id}, {}, false, TokensServed{{10}, {5}}}, At(1));
    flow.Advance(At(1));
  }
  CHECK(flow.lessons_dropped() == 192);
}

TEST_CASE("undeclared workflows are learned from WorkflowEnded; calls without tokens teach nothing") {
  HexGenFlow flow = *HexGenFlow::Create(Tuned());
  Start(flow);
  flow.Advance({});
  for (std::uint64_t id = 1; id <= 5; ++id) {
    flow.On(Arrived{{.id = {id}, .workflow = {id}, .prompt_tokens = {10}}}, At(1));
    flow.Place(At(1));
    flow.On(RequestEnded{{id}, {}, false, TokensServed{{10}, {5}}}, At(2));
    flow.On(WorkflowEnded{{id}, id == 5}, At(2));
  }
  Serve(flow, 20, 10, false);
  const auto search = flow.Advance(At(100));
  REQUIRE(search);
  CHECK(search->workload.workflows.size() == 4);
  CHECK(flow.lessons_dropped() == 1);
}

TEST_CASE("alpha survives; damaged text changes nothing") {
  HexGenFlow flow = *HexGenFlow::Create(Tuned());
  Start(flow);
  flow.Advance({});
  for (std::uint64_t w = 1; w <= 9; ++w) Serve(flow, w, 10.0 * static_cast<double>(w));
  REQUIRE(flow.Advance(At(100)));
  AlphaChoice choice;
  choice.alpha = 0.3;
  flow.Finished(choice, At(100));
  const std::string text = flow.Save();
  HexGenFlow other = *HexGenFlow::Create(Tuned());
  REQUIRE(other.Load(text, {}).ok());
  CHECK(other.alpha() == 0.3);
  for (std::size_t i = 0; i < text.size(); ++i) {
    HexGenFlow victim = *HexGenFlow::Create(Tuned());
    std::string damaged = text;
    damaged[i] ^= 1;
    CHECK_FALSE(victim.Load(damaged, {}).ok());
    CHECK_FALSE(victim.Load(text.substr(0, i), {}).ok());
    CHECK(victim.alpha() == 0);
  }
  CHECK_FALSE(HexGenFlow::Create()->Load(text, {}).ok());
}

TEST_CASE("options are checked") {
  CHECK_FALSE(HexGenFlow::Create({.router = {.max_outstanding = 0}}).ok());
  HexGenFlowOptions no_window = Tuned();
  no_window.tuner.window = Duration{0};
  CHECK_FALSE(HexGenFlow::Create(no_window).ok());
  CHECK_FALSE(HexGenFlow::Create({.cluster = ReplayOptions{}}).ok());
}

struct HexGenFlowHooks {
  HexGenFlow system;

  void Arrive(const Request& r, TimePoint t, Random&) { system.On(Arrived{r}, t); }
  void Act(TimePoint t, Random& random) {
    if (!system.Advance(t)) return;
    AlphaChoice choice;
    choice.alpha = random.Uniform();
    if (random.Chance(0.2)) system.Finished(absl::CancelledError("the search was stopped"), t);
    else system.Finished(choice, t);
  }
  std::int64_t held() const { return 0; }
  std::string Save() const { return system.Save(); }
  absl::Status Load(const std::string& text, TimePoint t) { return system.Load(text, t); }
  double learned() const { return system.alpha(); }
};

TEST_CASE("a random host loses nothing") {
  RunRouterHosts([](std::uint64_t hash_seed) {
    HexGenFlowOptions options = Tuned();
    options.router.max_outstanding = 4;
    options.router.hash_seed = hash_seed;
    options.most_lessons = 64;
    return HexGenFlowHooks{*HexGenFlow::Create(options)};
  });
}

TEST_CASE("after warm-up only Advance allocates") {
  HexGenFlow flow = *HexGenFlow::Create(Tuned());
  Start(flow);
  std::uint64_t id = 0;
  double now = 0;
  std::size_t advancing = 0;
  const auto round = [&] {
    const std::uint64_t first = id + 1;
    for (int i = 0; i < 20; ++i) {
      ++id;
      flow.On(Arrived{{.id = {id}, .workflow = {id}, .prompt_tokens = {100}}}, At(now));
    }
    flow.Place(At(now));
    for (std::uint64_t r = first; r <= id; ++r) {
      flow.On(RequestEnded{{r}, {}, false, TokensServed{{100}, {5}}}, At(now + 0.5));
      flow.On(WorkflowEnded{{r}}, At(now + 0.5));
    }
    now += 0.5;
    const std::size_t here = allocations;
    flow.Advance(At(now));
    advancing += allocations - here;
  };
  for (int i = 0; i < 50; ++i) round();
  const std::size_t before = allocations;
  advancing = 0;
  for (int i = 0; i < 100; ++i) round();
  CHECK(allocations - before == advancing);
  CHECK(flow.router().stats().ended == 3000);
}

}  // namespace
}  // namespace takt::systems
