#include "takt/learning/latency_profile.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/learning/agent_order.h"
#include "takt/numeric/quantile.h"

namespace takt {
namespace {

constexpr AgentId kCoder{1}, kTester{2};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("an empty profile knows nothing") {
  const LatencyProfile profile;
  CHECK(profile.Find(kCoder) == nullptr);
  CHECK(profile.all().execution.count() == 0);
  CHECK(profile.all().execution.mode() == 0);
  CHECK_FALSE(profile.all().execution.converged());
}

TEST_CASE("quantiles match the samples to within a bin") {
  Random random(1);
  LatencyDistribution learnt;
  std::vector<double> samples;
  for (int i = 0; i < 4000; ++i) {
    samples.push_back(random.LogNormal(2, 0.6));
    CHECK(learnt.Observe(samples.back()));
  }
  CHECK(learnt.converged());
  CHECK(learnt.drifts() == 0);
  for (std::size_t k = 0; k < LatencyDistribution::kLevels; ++k) {
    const double level = (static_cast<double>(k) + 0.5) / LatencyDistribution::kLevels;
    CHECK(static_cast<double>(learnt.curve()[k]) == Approx(Quantile(samples, level)).epsilon(0.08));
  }
  CHECK(learnt.mode() == Approx(std::exp(2 - 0.36)).epsilon(0.2));
}

TEST_CASE("convergence is checked at doubled sample sizes") {
  LatencyDistribution constant;
  for (int i = 1; i <= 63; ++i) {
    constant.Observe(3);
    CHECK_FALSE(constant.converged());
  }
  constant.Observe(3);
  CHECK(constant.converged());  // at 64 as at 32
  LatencyDistribution growing({.keep = 1024});
  for (int i = 1; i <= 600; ++i) growing.Observe(0.1 * i);
  CHECK_FALSE(growing.converged());
  for (int i = 601; i <= 1024; ++i) growing.Observe(0.1 * i);
  CHECK(growing.converged());  // the best possible with the kept samples
}

TEST_CASE("a change is detected, with few false alarms") {
  Random random(2);
  LatencyDistribution learnt;
  const std::int64_t windows = Scaled(4000);
  for (std::int64_t i = 0; i < windows * 50; ++i) learnt.Observe(random.LogNormal(1, 0.5));
  CHECK(learnt.drifts() <= 1 + windows / 1000);
  const std::int64_t before = learnt.drifts();
  int until = 0;
  for (; learnt.drifts() == before && until < 1000; ++until) learnt.Observe(2 * random.LogNormal(1, 0.5));
  CHECK(until <= 150);
  CHECK_FALSE(learnt.converged());
  for (int i = 0; i < 1000; ++i) learnt.Observe(2 * random.LogNormal(1, 0.5));
  CHECK(learnt.converged());
  CHECK(learnt.mean() == Approx(2 * std::exp(1.125)).epsilon(0.1));
}

TEST_CASE("a million samples, zero latencies and invalid ones are handled") {
  LatencyProfile profile({.max_agents = 2});
  for (int i = 0; i < Scaled(1'000'000); ++i) profile.ObserveExecution(kCoder, 4 + i % 3);
  const LatencyDistribution& coder = profile.Find(kCoder)->execution;
  CHECK(coder.count() <= 4096);
  CHECK(coder.observed() == Scaled(1'000'000));
  CHECK(coder.mean() == Approx(5).epsilon(0.01));
  CHECK(coder.drifts() == 0);
  CHECK(static_cast<double>(coder.curve()[0]) >= 4);
  CHECK(static_cast<double>(coder.curve()[31]) <= 6);
  for (int i = 0; i < 200; ++i) profile.ObserveRemaining(kTester, 0);
  CHECK(profile.Find(kTester)->remaining.mean() == 0);
  CHECK(profile.Find(kTester)->remaining.mode() == 0);
  CHECK(profile.Find(kTester)->remaining.converged());
  for (const double none : {-1.0, kNan, -std::numeric_limits<double>::infinity()})
    profile.ObserveExecution(kCoder, none);
  CHECK(profile.refused() == 3);
  profile.ObserveExecution(kTester, std::numeric_limits<double>::infinity());
  CHECK(profile.Find(kTester)->execution.mean() == 1e5);
  for (std::uint64_t agent = 10; agent < 5000; ++agent) profile.ObserveExecution({agent}, 1);
  CHECK(profile.agents().size() == 2);
  CHECK(profile.unplaced() == 4990);
  CHECK(profile.all().execution.observed() == Scaled(1'000'000) + 1 + 4990);
}

AgentCurve CurveOf(AgentId agent, double mu, double sigma, Random& random) {
  LatencyDistribution learnt;
  for (int i = 0; i < 200; ++i) learnt.Observe(random.LogNormal(mu, sigma));
  return {agent, learnt.curve()};
}

double RankOf(const AgentOrder& order, AgentId agent) {
  for (const RankedAgent& r : order.ranked()) {
    if (r.agent == agent) return r.rank;
  }
  return kNan;
}

TEST_CASE("agents are ordered by their distance from zero time") {
  Random random(3);
  std::vector<AgentCurve> curves;
  for (std::uint64_t a = 40; a > 0; --a) curves.push_back(CurveOf({a}, 0.1 * static_cast<double>(a), 0.3, random));
  for (const AgentOrderBy by :
       {AgentOrderBy::kClassical, AgentOrderBy::kSmacof, AgentOrderBy::kMean, AgentOrderBy::kMedian}) {
    AgentOrder order;
    order.Fit(curves, {.by = by});
    for (std::uint64_t a = 2; a <= 40; ++a) CHECK(RankOf(order, {a}) > RankOf(order, {a - 1}) * 0.97);
    CHECK(order.median() == Approx(RankOf(order, {21})).epsilon(0.15));
    // An agent whose latency changes, and a new agent.
    order.Place(CurveOf({1}, 3.05, 0.3, random));
    CHECK(RankOf(order, {1}) > RankOf(order, {28}));
    CHECK(RankOf(order, {1}) < RankOf(order, {33}));
    order.Place(CurveOf({99}, -2, 0.3, random));
    CHECK(order.ranked().size() == 41);
    CHECK(RankOf(order, {99}) < RankOf(order, {2}));
  }
}

TEST_CASE("equal, empty and single distributions are ordered stably") {
  AgentOrder order;
  CHECK(order.median() == 0);
  CHECK(order.Place({kCoder, {}}) == 0);
  order.Fit({});
  CHECK(order.ranked().empty());
  Random random(4);
  const AgentCurve one = CurveOf({7}, 1, 0.5, random);
  std::vector<AgentCurve> same(50, one);
  for (std::size_t i = 0; i < same.size(); ++i) same[i].agent = {50 - i};
  for (const AgentOrderBy by :
       {AgentOrderBy::kClassical, AgentOrderBy::kSmacof, AgentOrderBy::kMean, AgentOrderBy::kMedian}) {
    order.Fit(same, {.by = by});
    for (const RankedAgent& r : order.ranked()) {
      CHECK(r.rank == Approx(order.ranked()[0].rank));
      CHECK(std::isfinite(r.rank));
    }
    AgentOrder again;
    again.Fit(same, {.by = by});
    CHECK(std::ranges::equal(order.ranked(), again.ranked()));
    std::vector<AgentCurve> zeros(3);
    for (std::size_t i = 0; i < 3; ++i) zeros[i].agent = {i + 1};
    order.Fit(zeros, {.by = by});
    for (const RankedAgent& r : order.ranked()) CHECK(r.rank == 0);
    order.Fit(std::vector{one}, {.by = by});
    CHECK(order.ranked()[0].rank > 0);
  }
  order.Fit(same);
}

}  // namespace
}  // namespace takt
