// Scores minus prices: by hand, compared with the sums written out, and with any input.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/placement/any_placement.h"
#include "takt/placement/gain_slack.h"
#include "takt/placement/registry.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"

namespace takt {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TimePoint At(double s) { return TimePoint(FromSeconds(s)); }

RequestState Asking(std::uint32_t slot, std::vector<ModelScore> scores, std::uint64_t workflow = 0) {
  RequestState r;
  r.slot = slot;
  r.request.id = {slot + std::uint64_t{1}};
  r.request.workflow = {workflow};
  r.request.workflow_tokens_left = Estimate::Exact(100);
  static std::deque<std::vector<ModelScore>> kept;
  r.request.scores = kept.emplace_back(std::move(scores));
  return r;
}

// A router's part.
struct Cluster {
  GainSlack policy;
  std::vector<InstanceState> instances = {};

  explicit Cluster(GainSlack p = {}) : policy(std::move(p)) {}

  void Add(std::uint64_t model, double token_s = 0.01) {
    InstanceState i;
    i.slot = static_cast<std::uint32_t>(instances.size());
    i.instance = {.id = {i.slot + std::uint64_t{1}}, .model = {model}, .token_s = token_s};
    instances.push_back(i);
    policy.Up(i, {});
  }
  // Slot of the chosen instance; -1: none.
  int Choose(const RequestState& r, TimePoint now = {}) {
    policy.Prepare(r, now);
    int best = -1;
    double most = -std::numeric_limits<double>::infinity();
    for (const InstanceState& i : instances) {
      if (const double score = policy.Score(r, i, now); score > most) most = score, best = static_cast<int>(i.slot);
    }
    return best;
  }
  int Place(const RequestState& r, TimePoint now = {}) {
    const int best = Choose(r, now);
    for (const InstanceState& i : instances) {
      if (static_cast<int>(i.slot) == best) policy.Placed(r, i, now);
    }
    return best;
  }
  void End(const RequestState& r, TimePoint now = {}) { policy.Released(r, instances[0], now); }
};

TEST_CASE("latency has its price, for the request and for others") {
  GainSlack policy;
  policy.per_s = 0.1, policy.floor_s = 1e9;  // no slack binds
  Cluster c(policy);
  c.Add(1);
  c.Add(2);
  // 100 tokens of 10 ms: 1 s on either, and 2 s more for each present request.
  CHECK(c.Place(Asking(0, {{{1}, 0.2f, 100}, {{2}, 0.6f, 100}})) == 1);
  CHECK(c.Place(Asking(1, {{{1}, 0.2f, 100}, {{2}, 0.6f, 100}})) == 1);    // 0.6 - 0.3 > 0.2 - 0.1
  CHECK(c.Choose(Asking(2, {{{1}, 0.2f, 100}, {{2}, 0.55f, 100}})) == 0);  // 0.55 - 0.5 < 0.1
  CHECK(c.Choose(Asking(2, {{{1}, 0.2f, 100}, {{2}, 0.65f, 100}})) == 1);
  CHECK(c.policy.PriceOf({2}) == 0);
}

TEST_CASE("latency comes from a cost model") {
  InstanceProfile profile;
  CostModel cost;
  cost.served = {.constant_ms = 10, .per_decode_ms = 1, .per_context_ms = 0, .per_prefill_ms = 0.1};
  profile.cost = std::make_shared<const PreparedCostModel>(cost);
  InstanceState i;
  i.instance = {.id = {1}, .model = {1}, .token_s = 1};
  i.profile = &profile;
  ModelFleet fleet;
  fleet.Up(i);
  RequestState r = Asking(0, {{{1}, 0.5f, 100}});
  r.request.prompt_tokens = {100};
  const auto latency = [&] { return fleet.Latency(fleet.models()[0], 100, r.request); };
  CHECK(latency() == Approx(0.020 + 100 * 0.011));
  fleet.Placed(r, i, {}, 512);
  CHECK(latency() == Approx(0.010 + 100 * 0.012 + 1 * (0.010 + 100 * 0.001)));
  r.request.output_tokens = Estimate::Exact(50);  // two calls, so
  CHECK(latency() == Approx(0.020 + 100 * 0.012 + 1 * (0.020 + 100 * 0.001)));
}

TEST_CASE("prices follow loads, and the best gain per token pays them") {
  GainSlack policy;
  policy.tau = 0, policy.step = 0.1, policy.pull = 0, policy.unknown = 100;
  Cluster c(policy);
  c.Add(1);
  c.Add(2);
  // Both are idle: the higher score wins. Nothing is slow, and prices stay at 0.
  CHECK(c.Place(Asking(0, {{{1}, 0.2f, 100}, {{2}, 0.6f, 100}})) == 1);
  CHECK(c.policy.PriceOf({2}) == 0);
  CHECK(c.policy.MeanTokensOf({2}) == 100);
  // Loads of 0 and 1 s: (1 - 0) / (1 + 0) = 1 step for the second, which is still worth 0.4 points.
  CHECK(c.Place(Asking(1, {{{1}, 0.2f, 100}, {{2}, 0.6f, 300}})) == 1);
  CHECK(c.policy.PriceOf({1}) == 0);
  CHECK(c.policy.PriceOf({2}) == Approx(0.1));
  CHECK(c.policy.MeanTokensOf({1}) == 100);
  CHECK(c.policy.MeanTokensOf({2}) == 200);
  // 0.6 - 0.1 x 1000 / 200 = 0.1 < 0.2; 0.6 - 0.1 x 700 / 200 = 0.25.
  CHECK(c.Choose(Asking(2, {{{1}, 0.2f, 100}, {{2}, 0.6f, 1000}})) == 0);
  CHECK(c.Choose(Asking(2, {{{1}, 0.2f, 100}, {{2}, 0.6f, 700}})) == 1);
  // The first gets 6 s of work, and the second 4 s: only the first is slow, by (6 - 4) / (6 + 4).
  c.policy.Placed(Asking(3, {{{1}, 0, 600}}), c.instances[0], {});
  CHECK(c.Place(Asking(4, {{{1}, 0, 0}, {{2}, 0, 0}})) == 1);  // 0 on both: the smaller load
  CHECK(c.policy.PriceOf({1}) == Approx(0.02));
  CHECK(c.policy.PriceOf({2}) == Approx(0.1 - 0));
}

TEST_CASE("a model within the slack or the floor gets cheaper") {
  GainSlack policy;
  policy.tau = 1, policy.step = 0.5, policy.pull = 0;
  Cluster c(policy);
  c.Add(1);
  c.Add(2);
  c.policy.Placed(Asking(0, {{{1}, 0, 100}}), c.instances[0], {});
  c.policy.Placed(Asking(1, {{{2}, 0, 600}}), c.instances[1], {});
  const auto decide = [&] {
    const RequestState r = Asking(9, {{{1}, 1, 0}, {{2}, 0, 0}});
    c.Place(r);
    c.End(r);
    return c.policy.PriceOf({2});
  };
  CHECK(decide() == Approx(0.5 * (6 - 2) / (6 + 2)));
  c.policy.floor_s = 6;
  CHECK(decide() == Approx(0.25));  // at the bound: unchanged
  c.policy.floor_s = 18;
  CHECK(decide() == Approx(0.25 - 0.5 * 0.5));
  CHECK(decide() == 0);  // never below 0
}

TEST_CASE("the pull answers at once and has no memory") {
  GainSlack policy;
  policy.tau = 0, policy.step = 0, policy.pull = 1, policy.unknown = 100;
  Cluster c(policy);
  c.Add(1);
  c.Add(2);
  const RequestState first = Asking(0, {{{1}, 0, 100}, {{2}, 0.9f, 100}});
  CHECK(c.Place(first) == 1);
  CHECK(c.Choose(Asking(1, {{{1}, 0, 100}, {{2}, 0.9f, 100}})) == 0);  // 0.9 - 1
  CHECK(c.Choose(Asking(1, {{{1}, 0, 100}, {{2}, 0.9f, 50}})) == 1);   // 0.9 - 0.5
  c.End(first);
  CHECK(c.Choose(Asking(1, {{{1}, 0, 100}, {{2}, 0.9f, 100}})) == 1);
  CHECK(c.policy.PriceOf({2}) == 0);
}

TEST_CASE("prices are bounded, and fall again") {
  GainSlack policy;
  policy.tau = 0, policy.step = 1;
  Cluster c(policy);
  c.Add(1);
  c.Add(2);
  c.policy.Placed(Asking(0, {{{2}, 0, 1e6f}}), c.instances[1], {});
  const RequestState r = Asking(9, {{{1}, 1, 1}, {{2}, 0, 1}});
  for (int i = 0; i < 100; ++i) c.Place(r), c.End(r);
  CHECK(c.policy.PriceOf({2}) == GainSlack::kMostPrice);
  c.End(Asking(0, {}));
  for (int i = 0; i < 100; ++i) c.Place(r), c.End(r);
  CHECK(c.policy.PriceOf({2}) == 0);
}

TEST_CASE("one absurd prediction spoils no mean") {
  GainSlack policy;
  policy.unknown = 100;
  Cluster c(policy);
  c.Add(1);
  const auto load_with = [&](float tokens) {
    const RequestState r = Asking(9, {{{1}, 0, tokens}});
    c.Place(r);
    c.End(r);
    return c.policy.MeanTokensOf({1});
  };
  CHECK(load_with(1e30f) == 32 * 100);
  for (int i = 0; i < 64; ++i) load_with(100);
  CHECK(load_with(100) < 160);
  CHECK(load_with(kInf) < 300);
  CHECK(load_with(kNan) > 0);  // by the workflow's estimate
  for (int i = 0; i < 100'000; ++i) load_with(0);
  CHECK(c.policy.MeanTokensOf({1}) >= 1);
  CHECK(std::isfinite(c.policy.MeanTokensOf({1})));
}

TEST_CASE("NaN scores and missing scores are handled") {
  Cluster c;
  c.Add(1, 0.01);
  c.Add(2, 0.02);
  CHECK(c.Choose(Asking(0, {{{1}, 0.1f}, {{2}, kNan}})) == 0);
  CHECK(c.Choose(Asking(0, {{{1}, -kInf}, {{2}, 0.1f}})) == 1);
  CHECK(c.Choose(Asking(0, {{{1}, 0.1f}, {{2}, kInf}})) == 1);
  CHECK(c.Choose(Asking(0, {{{2}, 0.1f}, {{1}, 0.2f}})) == 0);  // in any order
  CHECK(c.Choose(Asking(0, {{{7}, 1}})) == 0);                   // a model without instances
  c.policy.Placed(Asking(5, {{{1}, 0, 100}}), c.instances[0], {});
  CHECK(c.Place(Asking(1, {})) == 1);  // without scores the fastest, and no price moves
  CHECK(c.policy.MeanTokensOf({2}) == c.policy.unknown);
}

// Prices and choices are computed again while instances come and go.
TEST_CASE("choices equal the written-out sums under random models and scores") {
  Random random(11);
  for (std::int64_t round = 0; round < Scaled(300); ++round) {
    GainSlack policy;
    policy.tau = 2 * random.Uniform(), policy.step = 0.3 * random.Uniform(), policy.pull = random.Uniform();
    policy.floor_s = random.Chance(0.3) ? random.Uniform() : 0;
    Cluster c(policy);
    const std::size_t models = 1 + random.Below(6);
    for (std::uint64_t m = 1; m <= models; ++m) c.Add(m, 0.001 * static_cast<double>(1 + random.Below(9)));
    std::vector<double> price(models), mean(models, policy.unknown), count(models), load(models);
    std::vector<bool> up(models, true);
    std::vector<std::pair<RequestState, std::pair<std::size_t, double>>> alive;
    for (std::uint32_t step = 0; step < 200; ++step) {
      if (random.Chance(0.05) && alive.empty()) {
        const std::size_t m = random.Below(models);
        if (up[m]) {
          c.policy.Observe(InstanceDown{{m + 1}}, {});
        } else {
          c.policy.Up(c.instances[m], {});
          price[m] = 0, mean[m] = policy.unknown, count[m] = 0;
        }
        up[m] = !up[m];
      }
      if (!alive.empty() && random.Chance(0.5)) {
        const std::size_t at = random.Below(alive.size());
        c.End(alive[at].first);
        load[alive[at].second.first] -= alive[at].second.second;
        alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(at));
        continue;
      }
      std::vector<ModelScore> load_with;
      for (std::uint64_t m = 1; m <= models; ++m) {
        load_with.push_back({{m}, static_cast<float>(random.Below(32)) / 32, static_cast<float>(random.Below(2000))});
      }
      std::size_t fast = models, best = models;
      const auto seconds = [&](std::size_t m) { return load[m] * c.instances[m].instance.token_s; };
      for (std::size_t m = 0; m < models; ++m) {
        if (up[m] && (fast == models || seconds(m) < seconds(fast))) fast = m;
      }
      const RequestState r = Asking(step, load_with);
      if (fast == models) {
        REQUIRE(c.Place(r) == -1);
        continue;
      }
      const double bound = std::max((1 + policy.tau) * seconds(fast), policy.floor_s);
      const auto excess = [&](std::size_t m) {
        return seconds(m) + bound > 0 ? (seconds(m) - bound) / (seconds(m) + bound) : -1;
      };
      double most = 0;
      for (std::size_t m = 0; m < models; ++m) {
        if (!up[m]) continue;
        const double value =
            static_cast<double>(load_with[m].score) -
            std::max(0.0, price[m] + policy.pull * excess(m)) * static_cast<double>(load_with[m].tokens) / mean[m];
        if (best == models || value > most + 1e-12 || (std::abs(value - most) <= 1e-12 && seconds(m) < seconds(best))) {
          best = m, most = value;
        }
      }
      REQUIRE(c.Place(r) == static_cast<int>(best));
      for (std::size_t m = 0; m < models; ++m) {
        if (!up[m]) continue;
        price[m] = std::clamp(price[m] + policy.step * excess(m), 0.0, GainSlack::kMostPrice);
        count[m] = std::min(count[m] + 1, GainSlack::kMemory);
        mean[m] += (std::min(static_cast<double>(load_with[m].tokens), 32 * mean[m]) - mean[m]) / count[m];
        mean[m] = std::max(mean[m], 1.0);
        REQUIRE(c.policy.PriceOf({m + 1}) == Approx(price[m]));
        REQUIRE(c.policy.MeanTokensOf({m + 1}) == Approx(mean[m]));
        REQUIRE(c.policy.PriceOf({m + 1}) >= 0);
        REQUIRE(c.policy.PriceOf({m + 1}) <= GainSlack::kMostPrice);
      }
      load[best] += static_cast<double>(load_with[best].tokens);
      alive.push_back({r, {best, static_cast<double>(load_with[best].tokens)}});
    }
  }
}

// Purpose of the price: the maximum sum of scores within a limit on the expensive model's work, a knapsack.
TEST_CASE("an overload of the expensive model is solved nearly optimally") {
  Random random(3);
  GainSlack policy;
  policy.tau = 0, policy.step = 0.02;
  Cluster c(policy);
  c.Add(1, 0.001);
  c.Add(2, 0.003);
  struct Item {
    double gain, tokens;
  };
  std::vector<Item> all;
  std::deque<RequestState> alive;
  double gained = 0, used = 0;
  constexpr int kItems = 20'000, kSettled = 2'000;
  for (int i = 0; i < kItems; ++i) {
    const double gain = random.Uniform(), most = 2000 * random.Uniform(), tokens = 20 + most * random.Uniform();
    alive.push_back(
        Asking(static_cast<std::uint32_t>(i % 4096),
               {{{1}, 0, static_cast<float>(tokens)}, {{2}, static_cast<float>(gain), static_cast<float>(tokens)}}));
    const bool dear = c.Place(alive.back()) == 1;
    if (alive.size() > 200) c.End(alive.front()), alive.pop_front();
    if (i < kSettled) continue;
    all.push_back({gain, tokens});
    if (dear) gained += gain, used += tokens;
  }
  std::ranges::sort(all, [](const Item& a, const Item& b) { return a.gain / a.tokens > b.gain / b.tokens; });
  double best = 0, by_score = 0, room = used;
  for (const Item& item : all) {
    if (item.tokens > room) break;
    room -= item.tokens, best += item.gain;
  }
  std::ranges::sort(all, std::greater<>(), &Item::gain);
  room = used;
  for (const Item& item : all) {
    if (item.tokens > room) break;
    room -= item.tokens, by_score += item.gain;
  }
  CHECK(gained > 0.95 * best);
  CHECK(gained > 1.2 * by_score);
}

TEST_CASE("a model's load is its least loaded replica's") {
  Random random(5);
  for (std::int64_t round = 0; round < Scaled(100); ++round) {
    Cluster c;
    for (std::uint64_t i = 0; i < 6; ++i) {
      const std::uint64_t model = 1 + random.Below(3);
      c.Add(model, 0.001 * static_cast<double>(1 + random.Below(9)));
    }
    std::vector<bool> up(6, true);
    std::vector<double> work(6);
    std::vector<std::pair<std::size_t, double>> at(16, {6, 0.0});  // instance and tokens of each request
    for (int step = 0; step < 200; ++step) {
      const std::size_t i = random.Below(6);
      const auto r = static_cast<std::uint32_t>(random.Below(at.size()));
      const auto leave = [&] {
        if (at[r].first < 6) work[at[r].first] -= at[r].second;
        at[r] = {6, 0.0};
      };
      if (random.Chance(0.1)) {
        if (up[i]) c.policy.Observe(InstanceDown{c.instances[i].instance.id}, {});
        else c.policy.Up(c.instances[i], {});
        up[i] = !up[i];
      } else if (random.Chance(0.4)) {
        c.End(Asking(r, {}));
        leave();
      } else if (up[i]) {  // also one that is placed already
        const auto tokens = static_cast<float>(random.Below(2000));
        c.policy.Placed(Asking(r, {{c.instances[i].instance.model, 0, tokens}}), c.instances[i], {});
        leave();
        at[r] = {i, static_cast<double>(tokens)};
        work[i] += at[r].second;
      }
      for (std::uint64_t m = 1; m <= 3; ++m) {
        double least = std::numeric_limits<double>::infinity();
        for (std::size_t k = 0; k < 6; ++k) {
          const Instance& instance = c.instances[k].instance;
          if (up[k] && instance.model == ModelId{m}) least = std::min(least, work[k] * instance.token_s);
        }
        REQUIRE(c.policy.LoadOf({m}) == (std::isinf(least) ? 0 : least));
      }
    }
  }
}

TEST_CASE("a workflow keeps its model and moves prices once") {
  Cluster c;
  c.policy.tau = 0;
  c.Add(1);
  c.Add(2);
  CHECK(c.Place(Asking(0, {{{1}, 0}, {{2}, 1}}, 7)) == 1);
  const double price = c.policy.PriceOf({2}), mean = c.policy.MeanTokensOf({2});
  CHECK(c.Place(Asking(1, {{{1}, 1, 900}, {{2}, 0, 900}}, 7)) == 1);
  CHECK(c.policy.PriceOf({2}) == price);
  CHECK(c.policy.MeanTokensOf({2}) == mean);
  CHECK(c.policy.programs() == 1);
  c.policy.Observe(InstanceDown{{2}}, {});
  c.instances.pop_back();
  CHECK(c.Place(Asking(2, {{{1}, 0}, {{2}, 1}}, 7)) == 0);
  CHECK(c.policy.PriceOf({2}) == 0);
}

TEST_CASE("a scored request that is not placed changes nothing") {
  Cluster c;
  c.Add(1);
  c.Add(2);
  c.Place(Asking(0, {{{1}, 0, 500}, {{2}, 1, 500}}));
  const double mean = c.policy.MeanTokensOf({2});
  for (int i = 0; i < 10; ++i) c.Choose(Asking(1, {{{1}, 0, 900}, {{2}, 1, 900}}));
  CHECK(c.policy.MeanTokensOf({2}) == mean);
  AnyPlacement kept{c.policy};
  {
    const AnyPlacement copied = kept;
    kept = copied;
  }
  const RequestState r = Asking(2, {{{1}, 1, 900}, {{2}, 0, 900}});
  kept.Prepare(r, {});
  kept.Placed(r, c.instances[0], {});
  CHECK(kept.Score(r, c.instances[0], {}) < 0);
}

TEST_CASE("a model whose instances have too little KV for a prompt is not chosen") {
  for (const char* name : {"gain_slack", "confidence_slack"}) {
    CAPTURE(name);
    auto router = Router::Create({}, AnyPolicy(Fcfs{}), *MakePlacement(name));
    REQUIRE(router.ok());
    router->On(InstanceUp{{.id = {1}, .kv_tokens = {8'000}, .model = {1}, .token_s = 0.001}}, At(0));
    router->On(InstanceUp{{.id = {2}, .kv_tokens = {128'000}, .model = {2}, .token_s = 0.001}}, At(0));
    Request r = Asking(0, {{{1}, 0.9f, 10}, {{2}, 0.2f, 10}}).request;
    r.workflow = {7};
    r.id = {1}, r.prompt_tokens = {10};
    router->On(Arrived{r}, At(1));
    REQUIRE(router->Place(At(1)).size() == 1);
    CHECK(router->InstanceOf({1}) == InstanceId{1});
    r.id = {2}, r.prompt_tokens = {20'000};  // too long for the model that the workflow keeps
    router->On(Arrived{r}, At(2));
    r.id = {3}, r.workflow = {}, r.scores = {};
    router->On(Arrived{r}, At(2));
    REQUIRE(router->Place(At(2)).size() == 2);
    CHECK(router->InstanceOf({2}) == InstanceId{2});
    CHECK(router->InstanceOf({3}) == InstanceId{2});
  }
}

TEST_CASE("a router places each request once, with options by name") {
  absl::StatusOr<AnyPlacement> placement = MakePlacement("gain_slack(tau=1,step=0.1,pull=0.2,floor_s=0.5)");
  REQUIRE(placement.ok());
  CHECK(placement->spec() == "gain_slack(tau=1,step=0.1,pull=0.2,floor_s=0.5)");
  CHECK_FALSE(MakePlacement("gain_slack(step=2)").ok());
  CHECK_FALSE(MakePlacement("gain_slack(tau=-1)").ok());
  auto router = Router::Create({}, AnyPolicy(Fcfs{}), *placement);
  REQUIRE(router.ok());
  router->On(InstanceUp{{.id = {1}, .model = {1}, .token_s = 0.001}}, At(0));
  router->On(InstanceUp{{.id = {2}, .model = {2}, .token_s = 0.001}}, At(0));
  for (std::uint64_t id = 1; id <= 20; ++id) {
    const RequestState r = Asking(0, {{{1}, 0.2f, 10}, {{2}, id % 2 == 0 ? 0.9f : 0.1f, 10}});
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
  router->On(InstanceUp{{.id = {2}, .model = {2}, .token_s = 0.001}}, At(3));
  Request request = Asking(0, {{{1}, 0.2f, 10}, {{2}, 0.9f, 10}}).request;
  request.prompt_tokens = {10};
  request.id = {21};
  router->On(Arrived{request}, At(3));
  REQUIRE(router->Place(At(3)).size() == 1);
  CHECK(router->InstanceOf({21}) == InstanceId{2});
}

}  // namespace
}  // namespace takt
