// A random host of a system that is a router. Events come in any order, about anything; instances die.
#ifndef TAKT_TESTS_SYSTEMS_ROUTER_HOST_H_
#define TAKT_TESTS_SYSTEMS_ROUTER_HOST_H_

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/router.h"

namespace takt::systems {

// `Hooks` has the system, and what is its own:
//   void Arrive(const Request&, TimePoint, Random&);   // one arrival
//   void Act(TimePoint, Random&);                      // learning, publishing, and calls of this system alone
//   std::int64_t held() const;                         // arrived requests that the router does not have yet
//   std::string Save() const; absl::Status Load(const std::string&, TimePoint);
//   double learned() const;                            // a figure of the learned state, for the hash
template <class Hooks>
class RouterHost {
 public:
  RouterHost(Hooks& hooks, std::uint64_t seed) : hooks_(hooks), random_(seed), leaps_(seed % 4 == 0) {}

  // Sends events, then lets all requests end. Returns a hash of all decisions.
  std::uint64_t Run(int steps) {
    for (int i = 0; i < steps; ++i) {
      now_ += random_.Chance(0.03) ? -random_.Uniform() : random_.Uniform() * 0.2;
      if (leaps_ && i == steps * 9 / 10) now_ = 1e9;  // the clock jumps ahead
      Event();
      if (random_.Chance(0.005)) LoadFile();
      Place();
    }
    Drain();
    return hash_;
  }

 private:
  TimePoint t() const { return TimePoint(FromSeconds(now_)); }
  std::uint64_t Recent(std::uint64_t newest) {
    if (random_.Chance(0.05)) return random_.Below(newest + 5);
    return newest - random_.Below(40) % (newest + 1);
  }
  RequestId AnyRequest() { return {Recent(last_)}; }
  WorkflowId AnyWorkflow() { return {Recent(last_ / 3)}; }
  InstanceId AnyInstance() { return {random_.Below(5)}; }
  Tokens AnyTokens(int most) {
    if (random_.Chance(0.03)) return {static_cast<std::int32_t>(random_.Below(UINT32_MAX))};
    return {static_cast<std::int32_t>(random_.Below(static_cast<std::uint64_t>(most)))};
  }
  Estimate AnyEstimate() {
    if (random_.Chance(0.5)) return {};
    if (random_.Chance(0.1)) return {std::numeric_limits<double>::quiet_NaN(), {-1, 2, 0, 1e30f, 5}};
    return Estimate::Mean(200 * random_.Uniform());
  }
  TimePoint AnyTime() { return random_.Chance(0.1) ? kUnset : random_.Chance(0.1) ? kNever : t() + FromSeconds(20); }

  void Event() {
    RouterEvent event;
    switch (random_.Below(18)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        Request r{.id = random_.Chance(0.05) ? AnyRequest() : RequestId{++last_}, .workflow = AnyWorkflow()};
        r.stage = {random_.Below(4)}, r.agent = {random_.Below(9)}, r.tenant = {random_.Below(3)};
        r.prompt_tokens = AnyTokens(200), r.output_tokens = AnyEstimate(), r.workflow_tokens_left = AnyEstimate();
        r.deadline = AnyTime(), r.workflow_arrival = AnyTime();
        if (random_.Chance(0.1)) r.expires_at = t() + FromSeconds(5);
        ++arrived_;
        return hooks_.Arrive(r, t(), random_);
      }
      case 4: event = RequestStarted{AnyRequest(), AnyInstance(), random_.Below(3)}; break;
      case 5: event = RequestServed{AnyRequest(), AnyInstance(), {AnyTokens(200), AnyTokens(50)}}; break;
      case 6:
      case 7:
      case 8:
        event = RequestEnded{AnyRequest(), {}, random_.Chance(0.1), TokensServed{AnyTokens(200), AnyTokens(50)}};
        if (random_.Chance(0.3)) event = RequestEnded{AnyRequest(), AnyInstance(), false, {}, random_.Below(3)};
        break;
      case 9: event = Cancelled{AnyRequest()}; break;
      case 10: event = Revised{.request = AnyRequest(), .output_tokens = AnyEstimate(), .deadline = AnyTime()}; break;
      case 11: {
        Workflow w{.id = AnyWorkflow(), .deadline = AnyTime()};
        w.stages = {{.stage = {1}}, {.stage = {2}, .after = {0}, .calls = static_cast<int>(random_.Below(5)) - 1}};
        if (random_.Chance(0.2)) w.stages[1].after = {7};
        event = WorkflowDeclared{w};
        break;
      }
      case 12: event = WorkflowGrown{AnyWorkflow(), {.stage = {3}, .after = {0}}, {}}; break;
      case 13: event = StageEnded{AnyWorkflow(), static_cast<std::uint32_t>(random_.Below(3))}; break;
      case 14: event = WorkflowEnded{AnyWorkflow(), random_.Chance(0.3)}; break;
      case 15:
        if (random_.Chance(0.3)) {
          event = InstanceDown{AnyInstance(), random_.Below(3)};
        } else {
          event = InstanceUp{{.id = AnyInstance(),
                              .kv_tokens = {1000},
                              .model = {random_.Below(4)},
                              .token_s = 0.01,
                              .life = random_.Below(3)}};
        }
        break;
      case 16:
        event = InstanceReported{AnyInstance(), {.preempted = AnyTokens(9).value, .kv_used = AnyTokens(1200)}};
        break;
      case 17: return hooks_.Act(t(), random_);
    }
    hooks_.system.On(event, t());
  }

  // A damaged file changes nothing; an intact one is taken.
  void LoadFile() {
    const std::string bytes = hooks_.Save();
    std::string damaged = bytes;
    damaged[random_.Below(damaged.size())] ^= static_cast<char>(1 + random_.Below(255));
    if (random_.Chance(0.3)) damaged.resize(random_.Below(damaged.size()));
    REQUIRE_FALSE(hooks_.Load(damaged, t()).ok());
    REQUIRE(hooks_.Save() == bytes);
    REQUIRE(hooks_.Load(bytes, t()) == absl::OkStatus());
  }

  // Each arrival is held, alive, ended, cancelled or failed.
  void Place() {
    const Router& router = hooks_.system.router();
    for (const Placement& p : hooks_.system.Place(t())) {
      REQUIRE(router.InstanceOf(p.request) == p.instance);
      Mix(p.request.value), Mix(p.instance.value);
    }
    for (const Failure& f : router.failed()) ++failed_, Mix(f.request.value);
    Mix(std::bit_cast<std::uint64_t>(hooks_.learned()));
    const RouterStats& s = router.stats();
    REQUIRE(arrived_ == static_cast<std::int64_t>(s.ended + s.cancelled) + hooks_.held() + failed_ + router.alive());
    REQUIRE_FALSE(router.ended());
  }

  void Drain() {
    const auto send = [this](const RouterEvent& event) { hooks_.system.On(event, t()); };
    send(InstanceUp{{.id = {9}, .model = {1}, .life = 9}});
    for (std::uint64_t w = 0; w <= last_; ++w) send(WorkflowEnded{{w}, true});
    for (int i = 0; i < 10'000 && (hooks_.system.router().alive() > 0 || hooks_.held() > 0); ++i) {
      now_ += 1;
      Place();
      for (std::uint64_t id = 0; id <= last_ + 5; ++id) {
        if (hooks_.system.router().InstanceOf({id})) send(RequestEnded{{id}, {}});
      }
    }
    Place();
    CHECK(hooks_.system.router().alive() == 0);
    CHECK(hooks_.held() == 0);
  }

  void Mix(std::uint64_t x) { hash_ = Mix64(hash_ ^ x); }

  Hooks& hooks_;
  Random random_;
  bool leaps_;
  double now_ = 0;
  std::uint64_t last_ = 0, hash_ = 0;
  std::int64_t arrived_ = 0, failed_ = 0;
};

// Runs many hosts, each twice: the decisions do not depend on the seed of the hashes. `make(hash_seed)`: a Hooks.
template <class Make>
void RunRouterHosts(Make&& make) {
  for (std::int64_t seed = 1; seed <= Scaled(20); ++seed) {
    INFO("seed " << seed);
    std::uint64_t hashes[2] = {};
    for (std::uint64_t i = 0; i < 2; ++i) {
      auto hooks = make(i);
      hashes[i] = RouterHost(hooks, static_cast<std::uint64_t>(seed)).Run(3000);
    }
    REQUIRE(hashes[0] == hashes[1]);
  }
}

}  // namespace takt::systems

#endif  // TAKT_TESTS_SYSTEMS_ROUTER_HOST_H_
