// Compares the authors' dispatch rule with the decisions that their simulator logged.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "takt/placement/any_placement.h"
#include "takt/rivals/placement/code_ratio.h"
#include "takt/placement/round_robin.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"
#include "text2sql.h"

namespace takt {
namespace {

std::shared_ptr<const StageTimes> CostsOf(const std::vector<std::array<double, 3>>& seconds) {
  auto costs = std::make_shared<StageTimes>();
  for (std::size_t s = 0; s < seconds.size(); ++s) {
    for (std::size_t g = 0; g < text2sql::kGpus.size(); ++g) {
      costs->Set({s + 1}, text2sql::kGpus[g], FromSeconds(seconds[s][g]));
    }
  }
  return costs;
}

using TestRouter = BasicRouter<Fcfs, AnyPlacement>;

TestRouter RouterOf(AnyPlacement placement, const std::vector<std::string>& profiles) {
  auto router = TestRouter::Create({}, Fcfs{}, std::move(placement));
  REQUIRE(router.ok());
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    router->On(InstanceUp{{.id = {i + 1}, .profile = router->AddProfile({profiles[i]})}}, TimePoint{});
  }
  return *std::move(router);
}

// Returns the instance of a call of this stage.
std::uint64_t Send(TestRouter& router, std::uint64_t request, std::uint64_t stage) {
  router.On(Arrived{{.id = {request}, .stage = {stage}, .prompt_tokens = {100}}}, TimePoint{});
  const auto placed = router.Place(TimePoint{});
  REQUIRE(placed.size() == 1);
  return placed[0].instance.value;
}

TEST_CASE("dispatch equals every logged decision of the authors' simulator") {
  const std::vector<std::array<double, 3>> seconds = text2sql::StepSeconds();
  if (seconds.empty()) {
    WARN("skipped: no text2sql/latency_rps.csv; TAKT_DATA names the folder above text2sql/");
    return;
  }
  struct Run {
    const char* name;
    AnyPlacement placement;
  };
  const auto ratio = [&](double alpha) { return AnyPlacement(CodeRatio(alpha, CostsOf(seconds))); };
  std::vector<std::string> profiles;
  for (const std::size_t gpu : text2sql::kHetero2) profiles.emplace_back(text2sql::kGpus[gpu]);
  std::size_t decisions = 0;
  for (const Run& run :
       {Run{"oct_t1_hetero2_r0.5_wb+pq_a0.2", ratio(0.2)}, Run{"oct_t1_hetero2_r1.0_wb+pq_a0.2", ratio(0.2)},
        Run{"oct_t2_hetero2_r0.5_wb+pq_a0.2", ratio(0.2)}, Run{"oct_t1_hetero2_r0.5_wb+pq_a0.0", ratio(0)},
        Run{"oct_t1_hetero2_r0.5_wb+fcfs_a0.2", ratio(0.2)}, Run{"oct_t1_hetero2_r0.5_rr+fcfs", RoundRobin{}},
        Run{"oct_t1_hetero2_r0.5_rr+pq", RoundRobin{}}}) {
    INFO(run.name);
    const std::vector<std::string> lines =
        text2sql::LinesOf(text2sql::PathOf("golden/" + std::string(run.name) + ".dispatch.csv.gz"));
    REQUIRE(lines.size() > 1000);
    TestRouter router = RouterOf(run.placement, profiles);
    std::size_t wrong = 0;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const std::vector<std::string> cells = text2sql::Cells(lines[i]);
      const std::size_t step = text2sql::StepNumber(cells[3]);
      REQUIRE(step > 0);
      if (Send(router, i, step) != std::stoull(cells.back())) ++wrong;
      ++decisions;
    }
    CHECK(wrong == 0);
  }
  CHECK(decisions == 12376);
}

TEST_CASE("without measured stages the cost model decides") {
  auto router = RouterOf(CodeRatio(0), {"x", "x", "x"});
  std::array<int, 4> sent{};
  for (std::uint64_t r = 1; r <= 300; ++r) ++sent[Send(router, r, 0)];
  CHECK(sent[1] == 100);
  CHECK(sent[2] == 100);
  CHECK(sent[3] == 100);
}

TEST_CASE("at alpha 1 all go to the first of the fastest instances") {
  auto costs = std::make_shared<StageTimes>();
  costs->Set({1}, "slow", std::chrono::seconds(2));
  costs->Set({1}, "fast", std::chrono::seconds(1));
  auto router = RouterOf(CodeRatio(1, costs), {"slow", "fast", "fast"});
  CHECK(Send(router, 1, 1) == 1);  // until a request is sent to the first
  for (std::uint64_t r = 2; r < 20; ++r) CHECK(Send(router, r, 1) == 2);
}

TEST_CASE("the score compares speed and work with the smallest id's instance") {
  auto costs = std::make_shared<StageTimes>();
  costs->Set({1}, "one", std::chrono::seconds(1));
  costs->Set({1}, "two", std::chrono::seconds(2));
  costs->Set({1}, "RTX A6000", std::chrono::seconds(4));
  CodeRatio policy(0.25, costs);
  const auto up = [&](std::uint32_t slot, std::uint64_t id, const char* profile) {
    const InstanceProfile named{profile};
    const InstanceState state{.instance = {.id = {id}}, .profile = &named, .slot = slot};
    policy.Up(state, {});
    return state;
  };
  const InstanceState a = up(0, 5, "two"), first = up(1, 3, "one"), halved = up(2, 9, "RTX A6000");
  RequestState r;
  r.request.stage = {1};
  policy.Prepare(r, {});
  CHECK(policy.Score(r, first, {}) == 1);  // no request was sent there so far
  CHECK(policy.Score(r, a, {}) == 0);
  policy.Placed(r, a, {});
  CHECK(policy.Score(r, first, {}) == 1);
  policy.Placed(r, first, {});
  policy.Placed(r, first, {});
  policy.Placed(r, halved, {});
  CHECK(policy.Score(r, first, {}) == 0.25 - 0.75);
  CHECK(policy.Score(r, a, {}) == 0.25 / 2 - 0.75 * (2.0 / 2));
  CHECK(policy.Score(r, halved, {}) == 0.25 / 4 - 0.75 * 0.5 * (4.0 / 2));
  policy.Observe(InstanceDown{{3}}, {});
  policy.Prepare(r, {});
  CHECK(policy.Score(r, a, {}) == 0.25 - 0.75);  // it is the reference now
  CHECK(policy.Score(r, halved, {}) == 0.25 / 2 - 0.75 * 0.5 * (4.0 / 2));
}

TEST_CASE("A6000 and L40 count half in any spelling") {
  for (const auto& [profile, halved] : std::vector<std::pair<const char*, bool>>{{"A6000", true},
                                                                                 {"nvidia-a6000-48gb", true},
                                                                                 {"L40S", true},
                                                                                 {"l40", true},
                                                                                 {"H100", false},
                                                                                 {"A100", false},
                                                                                 {"", false}}) {
    CodeRatio policy(0);
    const InstanceProfile named{profile};
    const InstanceState i{.instance = {.id = {1}}, .profile = &named};
    policy.Up(i, {});
    policy.Prepare({}, {});
    policy.Placed({}, i, {});
    CHECK(policy.Score({}, i, {}) == (halved ? -0.5 : -1));
  }
}

TEST_CASE("a lost instance is forgotten, and the next is the reference") {
  auto router = RouterOf(CodeRatio(0), {"x", "x"});
  for (std::uint64_t r = 1; r <= 10; ++r) Send(router, r, 0);
  router.On(InstanceDown{{1}}, TimePoint{});
  CHECK(router.Place(TimePoint{}).size() == 5);  // its five returned, and there is one instance
  router.On(InstanceUp{{.id = {1}, .profile = router.AddProfile({"x"})}}, TimePoint{});
  for (std::uint64_t r = 100; r < 110; ++r) CHECK(Send(router, r, 0) == 1);  // 10 were sent to the other
}

TEST_CASE("an epoch sets alpha if it is valid") {
  CodeRatio policy;
  policy.Observe(Epoch{.alpha = 0.7}, {});
  CHECK(policy.alpha == 0.7);
  policy.Observe(Epoch{.alpha = 1.5}, {});
  policy.Observe(Epoch{.alpha = -0.5}, {});
  policy.Observe(Epoch{.alpha = std::numeric_limits<double>::quiet_NaN()}, {});
  policy.Observe(Epoch{}, {});
  CHECK(policy.alpha == 0.7);
  for (const double end : {0.0, 1.0}) {
    policy.Observe(Epoch{.alpha = end}, {});
    CHECK(policy.alpha == end);
  }
  CHECK(policy.Score({}, {}, {}) == 0);  // also without instances
}

}  // namespace
}  // namespace takt
