// UniBoost, SageSched, Justitia and least slack of whole workflows, against calculations by hand and by brute force.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/policy/any_policy.h"
#include "takt/rivals/policy/justitia.h"
#include "takt/queue/rank_queue.h"
#include "takt/rivals/policy/sagesched.h"
#include "takt/rivals/policy/uniboost.h"
#include "takt/policy/urgency.h"

namespace takt {
namespace {

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

RequestState Some(std::uint64_t id, double arrival, double output, std::int32_t prompt = 100) {
  RequestState r;
  r.request.id = {id};
  r.request.arrival = r.request.workflow_arrival = At(arrival);
  r.request.prompt_tokens = {prompt};
  r.request.output_tokens = Estimate::Exact(output);
  r.slot = static_cast<std::uint32_t>(id);
  return r;
}

template <class P>
double KeyOf(P& policy, const RequestState& r, TimePoint now) {
  policy.Enters(r, now);
  return policy.Key(r).key;
}

// ---- uniboost ---------------------------------------------------------------------------------------------------

UniBoost BoostOf(double gamma) {
  UniBoost policy;
  policy.pace = {.decode_s = 0.01, .forward_s = 0.01};
  policy.kv_tokens = 1e12;  // so that a token of prompt or output takes 10 ms
  policy.gamma = gamma;
  return policy;
}

TEST_CASE("uniboost boosts a known size as computed by hand") {
  UniBoost policy = BoostOf(0.5);
  // 2 s: M = e, 1/gamma ln(e / (e - 1))
  CHECK(KeyOf(policy, Some(1, 10, 200, 0), At(10)) == Approx(10 - 2 * std::log(std::exp(1) / (std::exp(1) - 1))));
  // The later, shorter one goes first if it arrives soon enough. A size of 0.2 s is boosted by 2 ln(1 / (1 - e^-0.1)) =
  // 4.70 s, 2 s by 0.92 s.
  CHECK(KeyOf(policy, Some(2, 13.7, 20, 0), At(13.7)) < policy.Key(Some(1, 10, 200, 0)).key);
  CHECK(KeyOf(policy, Some(3, 13.9, 20, 0), At(13.9)) > policy.Key(Some(1, 10, 200, 0)).key);
}

TEST_CASE("uniboost counts memory in the size") {
  UniBoost policy = BoostOf(0.5);
  policy.PlanEnds({.kv_tokens = {1000}}, At(0));
  // 1 s for 50 tokens of prompt and 50 of output; 0.01 (50 50 + 50 51 / 2) / 1000 of memory.
  CHECK(KeyOf(policy, Some(1, 0, 50, 50), At(0)) == Approx(2 * std::log1p(-std::exp(-0.5 * 1.03775))));
}

TEST_CASE("uniboost boosts an uncertain size by its distribution") {
  UniBoost policy = BoostOf(0.5);
  RequestState r = Some(1, 0, 0, 0);
  r.request.output_tokens = {300, {100, 100, 100, 900, 900}};
  const double grown = 0.625 * std::exp(0.5) + 0.375 * std::exp(4.5);
  CHECK(KeyOf(policy, r, At(0)) == Approx(-2 * std::log(grown / (grown - 1))).epsilon(1e-6));
}

TEST_CASE("uniboost ranges from first come first served to shortest first") {
  Random random(3);
  std::vector<RequestState> all;
  for (std::uint64_t id = 1; id <= 50; ++id) {
    const double arrival = 20 * random.Uniform();
    all.push_back(Some(id, arrival, std::floor(random.LogNormal(5, 1)), 0));
  }
  const auto order = [&](UniBoost policy) {
    std::vector<RequestState> sorted = all;
    for (const RequestState& r : sorted) policy.Enters(r, At(20));
    std::sort(sorted.begin(), sorted.end(),
              [&](const auto& a, const auto& b) { return policy.Key(a).key < policy.Key(b).key; });
    return sorted;
  };
  const std::vector<RequestState> first_come = order(BoostOf(1e5)), shortest = order(BoostOf(1e-6));
  for (std::size_t i = 1; i < all.size(); ++i) {
    CHECK(first_come[i - 1].request.arrival <= first_come[i].request.arrival);
    CHECK(shortest[i - 1].request.output_tokens.mean <= shortest[i].request.output_tokens.mean * 1.001);
  }
}

TEST_CASE("uniboost learns gamma from the costs of waits, and keys stay") {
  UniBoost policy = BoostOf(0);
  policy.memory = 10;
  CHECK(policy.Gamma() == 1);
  const RequestState waiting = Some(1, 0, 100);
  const double key = KeyOf(policy, waiting, At(0));
  for (std::uint64_t i = 0; i < 200; ++i) {
    RequestState r = Some(2, 100, 100, 0);
    r.has_run = true;
    r.generated = {100};
    policy.Ends(r, At(100 + 1 + 40));  // one of 41 s was its own
  }
  CHECK(policy.Gamma() == Approx(1 / 40.0));
  CHECK(policy.Key(waiting).key == key);
  CHECK(KeyOf(policy, waiting, At(0)) < key);  // it joins again with a larger boost
  // A request that never ran teaches nothing, and no wait counts as more than 10^6 s.
  policy.Ends(Some(3, 0, 1), At(1e9));
  CHECK(policy.Gamma() == Approx(1 / 40.0));
  RequestState absurd = Some(3, 0, 1);
  absurd.has_run = true;
  policy.Ends(absurd, At(9e9));
  CHECK(policy.Gamma() > 0.9e-5);
}

// ---- sagesched --------------------------------------------------------------------------------------------------

SageSched SageOf(double kv) {
  SageSched policy;
  policy.pace = {.decode_s = 0.02, .forward_s = 1e-4};
  policy.kv_tokens = kv;
  return policy;
}

TEST_CASE("sagesched computes the cost of a known length as by hand") {
  const SageSched policy = SageOf(1000);
  // Compute: 1e-4 (100 + 50). Memory: 0.02 (100 50 + 50 51 / 2) / 1000.
  CHECK(policy.Key(Some(1, 0, 50)).key == Approx(0.015 + 0.02 * 6.275));
  RequestState half = Some(1, 0, 50);
  half.generated = {20};
  half.computed = {110};
  // Ten of 120 must be computed again; 30 follow.
  CHECK(policy.Key(half).key == Approx(1e-4 * (10 + 30) + 0.02 * (120 * 30 + 30 * 31 / 2) / 1000));
  // A long prompt costs memory, even with a short answer.
  CHECK(policy.Key(Some(2, 0, 20, 2000)).key > policy.Key(Some(3, 0, 60, 20)).key);
}

TEST_CASE("sagesched uses the scheduler's cache size once it is known") {
  SageSched policy = SageOf(1000);
  policy.PlanEnds({.kv_tokens = {2000}}, At(0));
  CHECK(policy.Key(Some(1, 0, 50)).key == Approx(0.015 + 0.01 * 6.275));
  policy.PlanEnds({.kv_tokens = {0}}, At(0));
  CHECK(policy.Key(Some(1, 0, 50)).key == Approx(0.015 + 0.01 * 6.275));
}

TEST_CASE("sagesched ranks a possible early end before a certain late one") {
  const SageSched policy = SageOf(1000);
  RequestState gamble = Some(1, 0, 0);
  gamble.request.output_tokens = {300, {10, 10, 10, 10, 1400}};
  CHECK(policy.Key(gamble).key < policy.Key(Some(2, 0, 300)).key / 2);
  gamble.generated = {20};  // it was a long one
  CHECK(policy.Key(gamble).key > policy.Key(Some(2, 0, 300)).key);
}

// All stopping times, by the token, for a distribution of ten parts.
TEST_CASE("sagesched's index is the least over all stopping lengths") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(50)); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const SageSched policy = SageOf(5000);
    RequestState r = Some(1, 0, 0, static_cast<std::int32_t>(random.Below(2000)));
    Estimate& e = r.request.output_tokens;
    double q = 1;
    for (float& at : e.quantiles) at = static_cast<float>(q = std::floor(q + 60 * random.Uniform()));
    double sum = 0;
    std::vector<double> parts;
    for (int i = 0; i < 10; ++i) parts.push_back(e.Quantile((i + 0.5) / 10)), sum += parts.back();
    e.mean = sum / 10 + 20 * random.Uniform();
    parts.clear();
    for (int i = 0; i < 10; ++i) parts.push_back(e.Quantile((i + 0.5) / 10));
    parts.back() += 10 * e.mean - sum;

    const auto cost = [&](double o) {
      const double context = r.request.prompt_tokens.value;
      return 1e-4 * (context + o) + 0.02 * (context * o + o * (o + 1) / 2) / 5000;
    };
    double least = std::numeric_limits<double>::infinity();
    for (double stop = 1; stop <= parts.back() + 1; stop += 0.25) {
      double within = 0, served = 0;
      for (const double o : parts) {
        within += o <= stop ? 1 : 0;
        served += cost(std::min(o, stop));
      }
      if (within > 0) least = std::min(least, served / within);
    }
    const double key = policy.Key(r).key;
    CHECK(key <= least * (1 + 1e-9));
    CHECK(key >= least * 0.98);  // the parts lie between quarters of a token
  }
}

// ---- justitia ---------------------------------------------------------------------------------------------------

Justitia JustitiaOf(double kv) {
  Justitia policy;
  policy.pace = {.decode_s = 0.1};
  policy.kv_tokens = kv;
  return policy;
}

RequestState CallOf(std::uint64_t workflow, std::uint32_t slot, double output, std::int32_t prompt) {
  RequestState r = Some(slot, 0, output, prompt);
  r.request.workflow = {workflow};
  return r;
}

TEST_CASE("justitia tags workflows as computed by hand") {
  Justitia policy = JustitiaOf(100);  // 1000 tokens x steps a second
  // Cost: 10 (95 + 5) = 1000. Alone: one second of fair sharing.
  CHECK(KeyOf(policy, CallOf(1, 0, 10, 95), At(0)) == 1000);
  // Half a second later V is 500.
  CHECK(KeyOf(policy, CallOf(2, 1, 10, 15), At(0.5)) == 500 + 200);
  // Both share: 0.4 s later V is 700.
  policy.Ends(CallOf(2, 1, 10, 15), At(0.9));
  CHECK(KeyOf(policy, CallOf(3, 2, 2, 0), At(0.9)) == Approx(700 + 2));
  // A second call does not make the first workflow two.
  CHECK(KeyOf(policy, CallOf(1, 3, 2, 0), At(0.9)) == 1000);
  CHECK(KeyOf(policy, CallOf(4, 4, 2, 0), At(1.0)) == Approx(700 + 50 + 2));
  for (const std::uint32_t slot : {0u, 2u, 3u, 4u}) policy.Ends(CallOf(9, slot, 0, 0), At(1.0));
  // The engine is empty: V stops.
  CHECK(KeyOf(policy, CallOf(5, 5, 2, 0), At(50)) == Approx(750 + 2));
}

TEST_CASE("justitia keeps a workflow's tag through calls, revisions and preemptions") {
  Justitia policy = JustitiaOf(100);
  const double tag = KeyOf(policy, CallOf(7, 0, 10, 95), At(1));
  CHECK(KeyOf(policy, CallOf(7, 0, 10'000, 95), At(2)) == tag);
  policy.Ends(CallOf(7, 0, 10, 95), At(3));
  CHECK(KeyOf(policy, CallOf(7, 5, 500, 4000), At(100)) == tag);
  policy.Ends(CallOf(7, 5, 1, 1), At(101));
  // A slot's next request is a new one. A request without a workflow is a workflow of its own.
  CHECK(KeyOf(policy, CallOf(8, 5, 10, 95), At(102)) > tag);
  CHECK(KeyOf(policy, CallOf(0, 6, 10, 95), At(103)) < KeyOf(policy, CallOf(0, 9, 20, 95), At(104)));
  // An end of an unknown request is harmless.
  policy.Ends(CallOf(9, 4000, 1, 1), At(105));
}

TEST_CASE("justitia charges a workflow its computed cost") {
  Justitia policy = JustitiaOf(100);
  RequestState r = CallOf(1, 0, 10, 95);
  r.request.workflow_tokens_left = Estimate::Exact(30);
  CHECK(KeyOf(policy, r, At(0)) == 3000);
  r = CallOf(2, 1, 10, 95);
  r.request.after = {.calls = 2, .prompt_tokens = 50, .output_tokens = 20, .kv_steps = 700, .path_tokens = 20};
  CHECK(KeyOf(policy, r, At(0)) == 1700);
}

TEST_CASE("justitia ends workflows in tag order under equal shares") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(20)); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    struct Workflow {
      RequestState call;
      double arrival = 0, cost = 0, done = 0, finished = -1, tag = -1;
    };
    std::vector<Workflow> workflows;
    double arrival = 0;
    for (std::uint32_t i = 0; i < 30; ++i) {
      arrival += random.Exponential() * 0.5;
      const double output = 1 + static_cast<double>(random.Below(60));
      const auto prompt = static_cast<std::int32_t>(random.Below(40));
      workflows.push_back({CallOf(i + 1, i, output, prompt), arrival, output * (prompt + output / 2)});
    }
    Justitia policy = JustitiaOf(100);
    constexpr double kStep = 2e-4;
    std::size_t left = workflows.size();
    for (double t = 0; left > 0; t += kStep) {
      double sharing = 0;
      for (Workflow& w : workflows) {
        if (w.arrival <= t && w.tag < 0) w.tag = KeyOf(policy, w.call, At(t));
        sharing += w.tag >= 0 && w.finished < 0 ? 1 : 0;
      }
      for (Workflow& w : workflows) {
        if (w.tag < 0 || w.finished >= 0) continue;
        w.done += kStep * 1000 / sharing;
        if (w.done < w.cost) continue;
        w.finished = t;
        policy.Ends(w.call, At(t + kStep));
        --left;
      }
    }
    for (const Workflow& a : workflows) {
      for (const Workflow& b : workflows) {
        if (a.finished < b.finished - 0.02) CHECK(a.tag < b.tag);
      }
    }
  }
}

TEST_CASE("justitia bounds absurd predictions and its memory") {
  Justitia policy = JustitiaOf(100);
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    const double key = KeyOf(policy, CallOf(i + 1, i % 64, i % 2 == 0 ? 1e15 : 10, 95), At(i));
    REQUIRE(std::isfinite(key));
    REQUIRE(key <= 2e12);
    policy.Ends(CallOf(i + 1, i % 64, 1, 1), At(i + 0.5));
  }
  CHECK(policy.remembered() == Justitia::kRemembered);
}

TEST_CASE("justitia forgets the workflow that left first") {
  constexpr std::uint32_t kThere = Justitia::kRemembered, kAway = 4;
  Justitia policy = JustitiaOf(100);
  const auto come = [&](std::uint32_t w) { return KeyOf(policy, CallOf(w + 1, w, 10, 95), At(1)); };
  const auto leave = [&](std::uint32_t w) { policy.Ends(CallOf(w + 1, w, 10, 95), At(2)); };
  for (std::uint32_t w = 0; w < 2 * kThere; ++w) come(w);
  // A request without a workflow is not remembered.
  policy.Enters(CallOf(0, 2 * kThere, 10, 95), At(1));
  policy.Ends(CallOf(0, 2 * kThere, 10, 95), At(2));
  CHECK(policy.remembered() == 0);
  const double tag = policy.Key(CallOf(1, 0, 10, 95)).key;
  for (std::uint32_t w = kThere; w-- > 0;) leave(w);
  CHECK(policy.remembered() == Justitia::kRemembered);
  for (std::uint32_t w = kThere; w < kThere + kAway; ++w) leave(w);
  CHECK(policy.remembered() == Justitia::kRemembered);
  for (std::uint32_t w = kThere - kAway; w < kThere; ++w) CHECK(come(w) > tag);  // they left first
  for (std::uint32_t w = 0; w < kThere - kAway; ++w) REQUIRE(come(w) == tag);
  CHECK(policy.remembered() == kAway);
}

// ---- urgency of the whole workflow --------------------------------------------------------------------------------

TEST_CASE("urgency computes least slack of the whole workflow as by hand") {
  Urgency policy;
  policy.pace = {.decode_s = 0.1, .forward_s = 0.01};
  policy.of = Urgency::Of::kWorkflow;
  RequestState r = Some(1, 0, 20);
  r.request.deadline = At(100);
  r.request.compute = FromSeconds(5);
  CHECK(policy.Key(r).key == Approx(95));
  r.request.after = {.calls = 3, .prompt_tokens = 9, .output_tokens = 900, .kv_steps = 9, .path_tokens = 300};
  CHECK(policy.Key(r).key == Approx(100 - 5 - 30));
  r.request.compute = {};  // 100 tokens of prompt, 20 of output
  CHECK(policy.Key(r).key == Approx(100 - 1 - 2 - 30));
  policy.of = Urgency::Of::kCall;
  CHECK(policy.Key(r).key == Approx(100));
}

TEST_CASE("absurd estimates give valid keys") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  UniBoost boost;
  SageSched sage;
  Justitia fair;
  Urgency slack;
  slack.of = Urgency::Of::kWorkflow;
  std::uint64_t id = 1;
  for (const double mean : {0.0, 1e15, 1e16, -1.0, kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    for (const float q : {0.0f, 1e30f, -1.0f, std::numeric_limits<float>::quiet_NaN()}) {
      CAPTURE(mean, q);
      RequestState r = Some(++id, 1, 0, 0);
      r.request.output_tokens = {mean, {q, q, 5, q, q}};
      r.request.after = {1, 1, mean, mean, mean};
      r.request.workflow_tokens_left = r.request.output_tokens;
      CHECK(std::isfinite(KeyOf(boost, r, At(2))));
      CHECK(std::isfinite(sage.Key(r).key));
      CHECK(std::isfinite(KeyOf(fair, r, At(2))));
      CHECK(std::isfinite(slack.Key(r).key));
    }
  }
}

}  // namespace
}  // namespace takt
