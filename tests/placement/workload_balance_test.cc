// Equation 4 with its edge cases, and its accounts.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/placement/least_outstanding_tokens.h"
#include "takt/placement/random.h"
#include "takt/placement/workload_balance.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"

namespace takt {
namespace {

using std::chrono::seconds;
using TestRouter = BasicRouter<Fcfs, WorkloadBalance>;

// A stage s takes s seconds on "one", twice that on "two".
std::shared_ptr<const StageTimes> Costs() {
  auto costs = std::make_shared<StageTimes>();
  for (std::uint64_t s = 1; s <= 100; ++s) {
    costs->Set({s}, "one", seconds(s));
    costs->Set({s}, "two", seconds(2 * s));
  }
  return costs;
}

WorkloadBalance Balance(double alpha, QueueWork queue = QueueWork::kOutstanding) {
  WorkloadBalance balance(Costs());
  balance.alpha = alpha;
  balance.queue = queue;
  return balance;
}

InstanceState InstanceAt(std::uint32_t slot, const std::string& profile) {
  static std::deque<InstanceProfile> kept;
  return {.instance = {.id = {slot + 1u}}, .profile = &kept.emplace_back(InstanceProfile{profile}), .slot = slot};
}

RequestState RequestAt(std::uint32_t slot, std::uint64_t stage) {
  RequestState r{.slot = slot};
  r.request.id = {slot + 1u};
  r.request.stage = {stage};
  r.request.prompt_tokens = {10};
  return r;
}

// Places a request on an instance against any scores.
void Put(WorkloadBalance& balance, const RequestState& r, const InstanceState& i, TimePoint now = {}) {
  balance.Prepare(r, now);
  balance.Placed(r, i, now);
}

double Score(WorkloadBalance& balance, const RequestState& r, const InstanceState& i, TimePoint now = {}) {
  balance.Prepare(r, now);
  return balance.Score(r, i, now);
}

TEST_CASE("equation 4 sums waiting work and the rest of running work") {
  WorkloadBalance balance = Balance(0.25);
  const InstanceState one = InstanceAt(0, "one"), two = InstanceAt(1, "two");
  balance.Up(one, {});
  balance.Up(two, {});
  const RequestState a = RequestAt(0, 5), b = RequestAt(1, 7), c = RequestAt(2, 3);
  Put(balance, a, one);
  Put(balance, b, two);
  CHECK(Score(balance, c, one) == Approx(0.75 * 100 / 5 - 0.25 * 3));
  CHECK(Score(balance, c, two) == Approx(0.75 * 100 / 14 - 0.25 * 6));
  balance.Started(a, one, {});
  CHECK(Score(balance, c, one, TimePoint(seconds(2))) == Approx(0.75 * 100 / 3 - 0.25 * 3));
  balance.beta = 7;
  CHECK(Score(balance, c, one, TimePoint(seconds(2))) == Approx(0.75 * 7 / 3 - 0.25 * 3));
  balance.queue = QueueWork::kWaiting;
  CHECK(Score(balance, c, one, TimePoint(seconds(2))) > 1e200);  // no request waits there
  CHECK(Score(balance, c, two, TimePoint(seconds(2))) == Approx(0.75 * 7 / 14 - 0.25 * 6));
}

TEST_CASE("an empty queue ranks first, then speed, then less running work") {
  WorkloadBalance balance = Balance(0.5, QueueWork::kWaiting);
  std::vector<InstanceState> instances;
  for (std::uint32_t i = 0; i < 4; ++i) {
    instances.push_back(InstanceAt(i, i == 0 ? "two" : "one"));
    balance.Up(instances.back(), {});
  }
  const RequestState r = RequestAt(0, 1), other = RequestAt(1, 10), third = RequestAt(2, 1);
  CHECK(Score(balance, r, instances[1]) > Score(balance, r, instances[0]));
  CHECK(Score(balance, r, instances[1]) == Score(balance, r, instances[2]));
  Put(balance, other, instances[1]);
  balance.Started(other, instances[1], {});
  CHECK(Score(balance, r, instances[2]) > Score(balance, r, instances[1]));
  CHECK(Score(balance, r, instances[1]) > Score(balance, r, instances[0]));
  Put(balance, third, instances[2]);  // it waits
  CHECK(Score(balance, r, instances[0]) > Score(balance, r, instances[2]));
  CHECK(std::isfinite(Score(balance, r, instances[0])));
}

TEST_CASE("alpha 1 uses speed alone, and shares among equals by work") {
  WorkloadBalance balance = Balance(1);
  std::vector<InstanceState> instances;
  for (std::uint32_t i = 0; i < 3; ++i) {
    instances.push_back(InstanceAt(i, i == 0 ? "two" : "one"));
    balance.Up(instances.back(), {});
  }
  const RequestState r = RequestAt(0, 2);
  Put(balance, RequestAt(1, 50), instances[1]);
  CHECK(Score(balance, r, instances[2]) > Score(balance, r, instances[1]));
  CHECK(Score(balance, r, instances[1]) > Score(balance, r, instances[0]));  // empty, but slow
}

TEST_CASE("alpha 0 uses work alone") {
  WorkloadBalance balance = Balance(0);
  const InstanceState one = InstanceAt(0, "one"), two = InstanceAt(1, "two");
  balance.Up(one, {});
  balance.Up(two, {});
  Put(balance, RequestAt(1, 3), one);
  Put(balance, RequestAt(2, 1), two);
  CHECK(Score(balance, RequestAt(0, 100), two) > Score(balance, RequestAt(0, 100), one));
}

TEST_CASE("an epoch sets alpha if it is valid") {
  WorkloadBalance balance;
  CHECK(balance.alpha == 0);
  balance.Observe(Epoch{.alpha = 0.3}, {});
  for (const double wrong : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    balance.Observe(Epoch{.alpha = wrong}, {});
  }
  balance.Observe(Epoch{}, {});
  CHECK(balance.alpha == 0.3);
}

TEST_CASE("impossible estimates are cut, and unknown stages and instances computed") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double alpha : {0.0, 0.5, 1.0}) {
    WorkloadBalance balance = Balance(alpha);
    const InstanceState plain = InstanceAt(0, ""), one = InstanceAt(1, "one");
    balance.Up(plain, {});
    balance.Up(one, {});
    std::uint32_t slot = 0;
    for (const double mean : {kNan, 1e300, -5.0, 0.0, 1e15, 3.0}) {
      RequestState r = RequestAt(slot++, 12345);
      r.request.output_tokens.mean = mean;
      r.request.prompt_tokens = Tokens::Max();
      for (const InstanceState& i : {plain, one}) {
        CHECK(std::isfinite(Score(balance, r, i)));
        Put(balance, r, i);
      }
    }
    CHECK(std::isfinite(balance.Score({}, InstanceAt(7, "never up"), {})));
  }
}

// The sums of eq. 3, computed again: the router knows the place of each request.
struct Shadow {
  struct Call {
    double comp = 0;
    std::uint64_t instance = 0;  // 0: in the router's queue
    std::optional<TimePoint> began = {};
  };
  std::vector<std::optional<Call>> calls;

  double Before(std::uint64_t instance, TimePoint now, bool running) const {
    double sum = 0;
    for (const auto& c : calls) {
      if (!c || c->instance != instance) continue;
      if (!c->began) sum += c->comp;
      else if (running) sum += std::max(0.0, c->comp - ToSeconds(now - *c->began));
    }
    return sum;
  }
};

TEST_CASE("no work is lost or counted twice under random events") {
  for (int seed = 1; seed <= Scaled(20); ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const QueueWork queue = seed % 2 == 0 ? QueueWork::kOutstanding : QueueWork::kWaiting;
    auto made = TestRouter::Create({.max_outstanding = 40}, Fcfs{}, Balance(0.3, queue));
    REQUIRE(made.ok());
    TestRouter& router = *made;
    Shadow shadow;
    std::vector<std::string> up(5);  // profile by instance id
    TimePoint now{};
    // The score by eq. 4; none if it exceeds all numbers.
    const auto expected = [&](std::uint64_t stage, std::uint64_t instance) -> std::optional<double> {
      const double before = shadow.Before(instance, now, queue == QueueWork::kOutstanding);
      if (before < 1e-8) return std::nullopt;
      return 0.7 * 100 / before - 0.3 * static_cast<double>(stage) * (up[instance] == "two" ? 2 : 1);
    };
    for (int step = 0; step < 2000; ++step) {
      now += std::chrono::milliseconds(random.Below(2000));
      const std::uint64_t instance = 1 + random.Below(4);
      const std::uint64_t request = shadow.calls.empty() ? 1 : 1 + random.Below(shadow.calls.size());
      auto* call = shadow.calls.empty() ? nullptr : &shadow.calls[request - 1];
      switch (random.Below(8)) {
        case 0:
          router.On(InstanceDown{{instance}}, now);
          up[instance].clear();
          for (auto& c : shadow.calls) {
            if (c && c->instance == instance) c = Shadow::Call{};
          }
          break;
        case 1:
          // Down without notice, and up again with another speed or as new.
          up[instance] = random.Chance(0.5) ? "one" : "two";
          router.On(InstanceUp{{.id = {instance}, .profile = router.AddProfile({up[instance]})}}, now);
          break;
        case 2:
          if (call != nullptr && *call) {
            router.On(RequestStarted{{request}, {(*call)->instance}}, now);
            if ((*call)->instance != 0 && !(*call)->began) (*call)->began = now;
          }
          break;
        case 3:
          router.On(RequestEnded{{request}, {}}, now);
          if (call != nullptr) call->reset();
          break;
        case 4:
          router.On(Cancelled{{request}}, now);
          if (call != nullptr) call->reset();
          break;
        default:
          shadow.calls.emplace_back(Shadow::Call{});
          router.On(Arrived{{.id = {shadow.calls.size()}, .stage = {1 + random.Below(100)}, .prompt_tokens = {9}}},
                    now);
      }
      for (const Placement& p : router.Place(now)) {
        const std::uint64_t stage = router.Find(p.request)->request.stage.value;
        const std::optional<double> chosen = expected(stage, p.instance.value);
        for (const InstanceState& i : router.instances()) {
          const std::uint64_t id = i.instance.id.value;
          const auto theirs =
              std::ranges::count_if(shadow.calls, [&](const auto& c) { return c && c->instance == id; });
          if (theirs >= 40) continue;
          const std::optional<double> other = expected(stage, id);
          const bool fine = !chosen || (other && *chosen >= *other - 1e-6 * std::abs(*other));
          if (!fine) FAIL("seed " << seed << " step " << step << ": " << id << " was better");
        }
        const double comp = static_cast<double>(stage) * (up[p.instance.value] == "two" ? 2 : 1);
        REQUIRE(shadow.calls[p.request.value - 1]);
        REQUIRE(shadow.calls[p.request.value - 1]->instance == 0);  // placed once
        shadow.calls[p.request.value - 1] = Shadow::Call{comp, p.instance.value, {}};
      }
    }
  }
}

TEST_CASE("random shares evenly by seed, and moves only a lost share") {
  const RandomPlacement random{.seed = 5};
  const auto choose = [](const RandomPlacement& p, std::uint64_t request, std::uint64_t without) {
    std::uint64_t best = 0;
    double best_score = -1;
    for (std::uint64_t i = 1; i <= 4; ++i) {
      InstanceState state;
      state.instance.id = {i};
      RequestState r;
      r.request.id = {request};
      const double score = p.Score(r, state, {});
      if (i != without && score > best_score) best = i, best_score = score;
    }
    return best;
  };
  std::vector<int> shares(5);
  int same = 0;
  for (std::uint64_t r = 1; r <= 40'000; ++r) {
    const std::uint64_t chosen = choose(random, r, 0);
    ++shares[chosen];
    same += chosen == choose(RandomPlacement{.seed = 6}, r, 0) ? 1 : 0;
    const std::uint64_t other = choose(random, r, 2);
    if (chosen == 2 ? other == 2 : other != chosen) FAIL(r);
  }
  for (int i = 1; i <= 4; ++i) CHECK(std::abs(shares[static_cast<std::size_t>(i)] - 10'000) < 400);
  CHECK(std::abs(same - 10'000) < 400);
}

TEST_CASE("least_outstanding_tokens counts prompt and estimate until the call ends") {
  LeastOutstandingTokens policy;
  const InstanceState a = InstanceAt(0, ""), b = InstanceAt(1, "");
  RequestState r = RequestAt(0, 0);
  r.request.output_tokens = Estimate::Exact(90);
  policy.Placed(r, a, {});
  CHECK(policy.Score({}, a, {}) == -100);
  CHECK(policy.Score({}, b, {}) == 0);
  RequestState capped = RequestAt(1, 0);
  capped.request.max_output_tokens = {20};
  policy.Placed(capped, b, {});
  CHECK(policy.Score({}, b, {}) == -30);
  policy.Released(r, a, {});
  policy.Released(r, a, {});
  CHECK(policy.Score({}, a, {}) == 0);
}

}  // namespace
}  // namespace takt
