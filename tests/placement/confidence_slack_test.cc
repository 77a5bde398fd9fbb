// Algorithm 1 of Chimera: by hand, against the literal pseudocode, and with workflows that keep their model.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/placement/confidence_slack.h"
#include "takt/placement/registry.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"

namespace takt {
namespace {

TimePoint At(double s) { return TimePoint(FromSeconds(s)); }

RequestState Asking(std::uint32_t slot, std::vector<ModelScore> scores, double tokens = 100,
                    std::uint64_t workflow = 0) {
  RequestState r;
  r.slot = slot;
  r.request.id = {slot + std::uint64_t{1}};
  r.request.workflow = {workflow};
  r.request.workflow_tokens_left = Estimate::Exact(tokens);
  static std::deque<std::vector<ModelScore>> kept;
  r.request.scores = kept.emplace_back(std::move(scores));
  return r;
}

// The part of a router: instances, and placements of requests.
struct Cluster {
  ConfidenceSlack policy;
  std::vector<InstanceState> instances = {};

  void Add(std::uint64_t model, double token_s) {
    InstanceState i;
    i.slot = static_cast<std::uint32_t>(instances.size());
    i.instance = {.id = {i.slot + std::uint64_t{1}}, .model = {model}, .token_s = token_s};
    instances.push_back(i);
    policy.Up(i, {});
  }

  // Slot of the chosen instance; -1: none.
  int Place(const RequestState& r, TimePoint now = {}) {
    policy.Prepare(r, now);
    const InstanceState* best = nullptr;
    double most = -std::numeric_limits<double>::infinity();
    for (const InstanceState& i : instances) {
      if (const double score = policy.Score(r, i, now); score > most) most = score, best = &i;
    }
    if (best == nullptr) return -1;
    policy.Placed(r, *best, now);
    return static_cast<int>(best->slot);
  }
  void End(const RequestState& r, TimePoint now = {}) { policy.Released(r, instances[0], now); }
};

TEST_CASE("the best score within the slack wins by the margin") {
  Cluster c;
  c.policy.tau = 0.5;
  c.policy.delta_s = 0.1;
  for (std::uint64_t model = 1; model <= 3; ++model) c.Add(model, 0.01);
  // Loads of 1.0, 1.4 and 1.6 s.
  CHECK(c.Place(Asking(0, {{{1}, 1}}, 100)) == 0);
  CHECK(c.Place(Asking(1, {{{2}, 1}}, 140)) == 1);
  CHECK(c.Place(Asking(2, {{{3}, 1}}, 160)) == 2);
  CHECK(c.policy.LoadOf(ModelId{2}) == Approx(1.4));
  const auto place = [&](std::vector<ModelScore> scores) {
    const RequestState r = Asking(9, std::move(scores), 0);
    const int at = c.Place(r);
    c.End(r);
    return at;
  };
  CHECK(place({{{1}, 0.3f}, {{2}, 0.5f}, {{3}, 0.9f}}) == 1);   // the third is too slow
  CHECK(place({{{1}, 0.3f}, {{2}, 0.35f}, {{3}, 0.9f}}) == 0);  // the second is not better by the margin
  CHECK(place({{{3}, 0.9f}, {{2}, 0.5f}, {{1}, 0.3f}}) == 1);   // in any order
  CHECK(place({}) == 0);
  CHECK(place({{{2}, NAN}, {{1}, -INFINITY}}) == 0);
  c.policy.tau = 0.7;
  CHECK(place({{{1}, 0.3f}, {{2}, 0.5f}, {{3}, 0.9f}}) == 2);
}

TEST_CASE("next to an idle model others are too slow without a floor") {
  Cluster c;
  c.Add(1, 0.01);
  c.Add(2, 0.01);
  CHECK(c.Place(Asking(0, {{{1}, 0.1f}, {{2}, 0.9f}}, 1)) == 1);  // both idle: within the slack
  CHECK(c.Place(Asking(1, {{{1}, 0.1f}, {{2}, 0.9f}}, 1)) == 0);
  c.End(Asking(1, {}));
  c.policy.floor_s = 0.02;
  CHECK(c.Place(Asking(1, {{{1}, 0.1f}, {{2}, 0.9f}}, 1)) == 1);
}

TEST_CASE("the least loaded replica is used, with each model's own prediction") {
  Cluster c;
  c.Add(1, 0.01);
  c.Add(2, 0.01);
  c.Add(2, 0.02);
  c.policy.tau = 1e9;
  CHECK(c.Place(Asking(0, {{{2}, 1, 300}})) == 1);
  CHECK(c.policy.LoadOf(ModelId{2}) == 0);
  CHECK(c.Place(Asking(1, {{{1}, 0, 1}})) == 0);
  CHECK(c.Place(Asking(2, {{{1}, 0, 7}, {{2}, 1, 100}})) == 2);
  CHECK(c.policy.LoadOf(ModelId{2}) == Approx(2));
  CHECK(c.Place(Asking(3, {{{2}, 1, 100}})) == 2);  // 2 s of earlier work, against 3 s
}

TEST_CASE("a workflow keeps its model until it is silent or unavailable") {
  Cluster c;
  c.policy.sticky_s = 10;
  c.Add(1, 0.01);
  c.Add(2, 0.01);
  const RequestState first = Asking(0, {{{1}, 0}, {{2}, 1}}, 100, 7);
  CHECK(c.Place(first, At(0)) == 1);
  CHECK(c.Place(Asking(1, {{{1}, 1}, {{2}, 0}}, 900, 7), At(9)) == 1);  // although the other is better now
  c.End(first, At(18));
  c.End(Asking(1, {}, 900, 7), At(18));
  CHECK(c.Place(Asking(2, {{{1}, 1}, {{2}, 0}}, 1, 7), At(27)) == 1);
  c.End(Asking(2, {}, 1, 7), At(27));
  CHECK(c.Place(Asking(3, {{{1}, 1}, {{2}, 0}}, 1, 7), At(38)) == 0);  // forgotten
  CHECK(c.policy.programs() == 1);
  c.policy.Observe(WorkflowEnded{{7}}, At(38));
  c.policy.Observe(WorkflowEnded{{8}}, At(38));  // nothing is known of it
  CHECK(c.policy.programs() == 0);
  c.policy.Observe(InstanceDown{{1}}, At(39));
  c.instances.erase(c.instances.begin());
  CHECK(c.Place(Asking(4, {{{1}, 1}, {{2}, 0}}, 1, 7), At(39)) == 1);  // no other is available
}

TEST_CASE("a workflow whose model is gone takes another") {
  Cluster c;
  for (std::uint64_t model = 1; model <= 3; ++model) c.Add(model, 0.01);
  const std::vector<ModelScore> scores = {{{1}, 0.1f}, {{2}, 0.9f}, {{3}, 0.8f}};
  CHECK(c.Place(Asking(0, scores, 0, 7)) == 1);
  CHECK(c.Place(Asking(1, {{{1}, 1}}, 0, 8)) == 0);  // two workflows keep two models
  CHECK(c.Place(Asking(2, scores, 0, 8)) == 0);
  CHECK(c.Place(Asking(3, {{{1}, 1}}, 0, 7)) == 1);
  CHECK(c.policy.programs() == 2);
  c.policy.Observe(InstanceDown{{2}}, {});
  c.instances.erase(c.instances.begin() + 1);
  CHECK(c.Place(Asking(4, scores, 0, 7)) == 2);
  CHECK(c.Place(Asking(5, {{{1}, 1}}, 0, 7)) == 2);  // it keeps this one
}

TEST_CASE("a slot for a workflow is reused for one workflow") {
  Cluster c;
  for (std::uint64_t model = 1; model <= 3; ++model) c.Add(model, 0.01);
  const auto keep = [&](std::uint64_t workflow, std::uint64_t model) {
    return c.Place(Asking(static_cast<std::uint32_t>(workflow), {{{model}, 1}}, 0, workflow));
  };
  keep(1, 1);
  c.policy.Observe(WorkflowEnded{{1}}, {});
  keep(2, 2);
  keep(3, 3);
  keep(4, 1);
  c.policy.Observe(WorkflowEnded{{3}}, {});
  keep(5, 3);
  for (const auto& [workflow, kept] : {std::pair{2, 1}, {4, 0}, {5, 2}}) {
    CHECK(c.Place(Asking(99, {}, 0, static_cast<std::uint64_t>(workflow))) == kept);
  }
  CHECK(c.policy.programs() == 3);
}

TEST_CASE("work is the best available estimate, of model, workflow or call") {
  Cluster c;
  c.policy.unknown = 50;
  c.Add(1, 1);
  const auto load_of = [&](const RequestState& r) {
    c.policy.Placed(r, c.instances[0], {});
    const double load = c.policy.LoadOf(ModelId{1});
    c.End(r);
    return load;
  };
  CHECK(load_of(Asking(0, {{{2}, 1, 7}, {{1}, 1, 30}}, 100)) == 30);
  CHECK(load_of(Asking(0, {{{1}, 1, 0}}, 100)) == 0);
  CHECK(load_of(Asking(0, {{{1}, 1, 0.6f}}, 100)) == 1);
  CHECK(load_of(Asking(0, {{{1}, 1}}, 100)) == 100);
  CHECK(load_of(Asking(0, {{{2}, 1, 7}}, 100)) == 100);
  RequestState r = Asking(0, {}, 0);
  r.request.workflow_tokens_left = {};
  CHECK(load_of(r) == 50);
  r.request.output_tokens = Estimate::Exact(8);
  CHECK(load_of(r) == 8);
  CHECK(c.policy.LoadOf(ModelId{1}) == 0);
  CHECK(c.policy.LoadOf(ModelId{9}) == 0);  // no instance has it
}

TEST_CASE("the replica with the least work counts and takes the request") {
  Cluster c;
  c.policy.tau = 0;
  c.policy.floor_s = 0.5;
  c.Add(1, 0.01);
  c.Add(2, 0.02);
  c.Add(2, 0.01);
  c.Add(3, 0);  // no estimate: a millisecond
  c.policy.Placed(Asking(0, {}, 100), c.instances[0], {});
  c.policy.Placed(Asking(1, {}, 10), c.instances[1], {});
  c.policy.Placed(Asking(2, {}, 30), c.instances[2], {});
  c.policy.Placed(Asking(3, {}, 200), c.instances[3], {});
  CHECK(c.policy.LoadOf(ModelId{1}) == Approx(1));
  CHECK(c.policy.LoadOf(ModelId{2}) == Approx(0.2));
  CHECK(c.policy.LoadOf(ModelId{3}) == Approx(0.2));
  const auto place = [&](std::vector<ModelScore> scores) {
    const RequestState r = Asking(9, std::move(scores), 0);
    const int at = c.Place(r);
    c.End(r);
    return at;
  };
  CHECK(place({{{2}, 1}}) == 1);
  CHECK(place({{{1}, 1}}) == 1);           // 1 s is too slow, and the smaller id wins equal loads
  CHECK(place({{{2}, 0.5f}, {{3}, 1}}) == 3);
  c.policy.floor_s = 1.0;
  CHECK(place({{{1}, 1}}) == 0);           // within the floor
  CHECK(place({{{2}, 0.5f}, {{3}, 0.5f}}) == 1);  // equal scores: the fastest
  c.policy.delta_s = 0;
  CHECK(place({{{1}, 0.5f}, {{2}, 0.5f}, {{3}, 0.5f}}) == 1);
}

TEST_CASE("a reused slot belongs to its new instance; NaN scores are none") {
  Cluster c;
  c.Add(1, 0.01);
  c.Add(2, 0.01);
  c.policy.Observe(InstanceDown{{2}}, {});
  c.instances[1].instance = {.id = {7}, .model = {3}, .token_s = 0.01};
  c.policy.Up(c.instances[1], {});
  c.policy.Observe(InstanceDown{{2}}, {});  // again: it is not 7
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  CHECK(c.Place(Asking(0, {{{3}, 1}}, 0)) == 1);
  CHECK(c.Place(Asking(1, {{{3}, kNan}}, 0)) == 0);
  CHECK(c.Place(Asking(2, {{{3}, -1}, {{2}, 1}}, 0)) == 0);
}

// Algorithm 1, lines 7 to 22, literally. `break_within`: the break of line 22 belongs to the test of line 18.
std::size_t Literal(const std::vector<double>& loads, const std::vector<double>& scores, double tau, double delta_s,
                    bool break_within) {
  const auto fast = static_cast<std::size_t>(std::ranges::min_element(loads) - loads.begin());
  std::vector<std::size_t> order(loads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : loads[a] < loads[b];
  });
  for (const std::size_t m : order) {
    if (loads[m] > (1 + tau) * loads[fast]) continue;
    if (scores[m] >= scores[fast] + delta_s) return m;
    if (break_within) break;
  }
  return fast;
}

TEST_CASE("placements equal the paper's loop for both readings of its break") {
  Random random(5);
  for (std::int64_t round = 0; round < Scaled(20'000); ++round) {
    Cluster c;
    c.policy.tau = random.Uniform() * 2;
    c.policy.delta_s = random.Uniform() * 0.3;
    const std::size_t models = 1 + random.Below(8);
    std::vector<double> loads, scores;
    std::vector<ModelScore> given;
    for (std::uint64_t m = 1; m <= models; ++m) {
      const auto tokens = static_cast<double>(random.Below(200));
      c.Add(m, 0.01);
      const auto slot = static_cast<std::uint32_t>(m);
      c.policy.Placed(Asking(slot, {}, tokens), c.instances.back(), {});
      loads.push_back(tokens * 0.01);
      given.push_back({{m}, static_cast<float>(random.Below(20)) / 20});
      scores.push_back(static_cast<double>(given.back().score));
    }
    const std::size_t within = Literal(loads, scores, c.policy.tau, c.policy.delta_s, true);
    REQUIRE(within == Literal(loads, scores, c.policy.tau, c.policy.delta_s, false));
    REQUIRE(c.Place(Asking(100, given)) == static_cast<int>(within));
  }
}

TEST_CASE("sums return to zero after 50,000 requests") {
  Random random(1);
  Cluster c;
  for (std::uint64_t m = 1; m <= 4; ++m) c.Add(m, 0.001 * static_cast<double>(m));
  std::vector<RequestState> alive;
  for (std::uint32_t i = 0; i < 50'000; ++i) {
    if (alive.size() > 500 || (!alive.empty() && random.Chance(0.45))) {
      std::swap(alive[random.Below(alive.size())], alive.back());
      c.End(alive.back());
      alive.pop_back();
    } else {
      const ModelId model{1 + random.Below(4)};
      const double tokens = 1e4 * random.Uniform();
      alive.push_back(Asking(i % 60'000, {{model, 0.5f}}, tokens, random.Below(50)));
      c.Place(alive.back());
    }
  }
  for (const RequestState& r : alive) c.End(r);
  for (std::uint64_t m = 1; m <= 4; ++m) CHECK(c.policy.LoadOf(ModelId{m}) == 0);
}

TEST_CASE("a router places each request once while instances come and go") {
  absl::StatusOr<AnyPlacement> placement = MakePlacement("confidence_slack(tau=1,delta_s=0.1,floor_s=0.5)");
  REQUIRE(placement.ok());
  CHECK(placement->spec() == "confidence_slack(tau=1,delta_s=0.1,floor_s=0.5)");
  CHECK_FALSE(MakePlacement("confidence_slack(delta_s=2)").ok());
  auto router = Router::Create({}, AnyPolicy(Fcfs{}), *placement);
  REQUIRE(router.ok());
  router->On(InstanceUp{{.id = {1}, .model = {1}, .token_s = 0.001}}, At(0));
  router->On(InstanceUp{{.id = {2}, .model = {2}, .token_s = 0.001}}, At(0));
  for (std::uint64_t id = 1; id <= 20; ++id) {
    const RequestState r = Asking(0, {{{1}, 0.2f}, {{2}, id % 2 == 0 ? 0.9f : 0.1f}}, 10);
    Request request = r.request;
    request.prompt_tokens = {10};
    request.id = {id};
    router->On(Arrived{request}, At(1));
  }
  std::size_t on_two = 0, all = 0;
  for (const auto& placed : router->Place(At(1))) ++all, on_two += placed.instance == InstanceId{2} ? 1u : 0u;
  CHECK(all == 20);
  CHECK(on_two == 10);
  router->On(InstanceDown{{2}}, At(2));
  std::size_t moved = 0;
  for (const auto& placed : router->Place(At(2))) moved += placed.instance == InstanceId{1} ? 1u : 0u;
  CHECK(moved == 10);
}

}  // namespace
}  // namespace takt
