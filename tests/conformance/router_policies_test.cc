// Promises of every policy, plain and aged, in a router.
#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/placement/least_loaded.h"
#include "takt/policy/registry.h"
#include "takt/router.h"
#include "with_rivals.h"

namespace takt {
namespace {

using RouterOfAny = BasicRouter<AnyPolicy, LeastLoaded>;
using Pairs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

RouterOfAny Make(const AnyPolicy& policy, std::int64_t max_outstanding = Instance::kUnbounded) {
  return *RouterOfAny::Create({.max_outstanding = max_outstanding, .reserve_requests = 0}, policy, {});
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const PolicyInfo& info : PolicyInfos()) {
    if (info.name == "aged" || info.name == "metered") continue;
    names.push_back(info.name);
    names.push_back("aged(" + info.name + ",threshold=7)");
  }
  return names;
}

Request AnyRequest(Random& random, std::uint64_t id) {
  Request r;
  r.id = {id};
  r.workflow = {random.Below(5)};
  r.agent = {random.Below(3)};
  r.tenant = {random.Below(4)};
  r.prompt_tokens = {static_cast<std::int32_t>(1 + random.Below(300))};
  r.priority = static_cast<std::int32_t>(random.Below(7)) - 3;
  if (random.Chance(0.7)) r.output_tokens = Estimate::Exact(static_cast<double>(random.Below(300)));
  if (random.Chance(0.5)) r.after = {2, 50, static_cast<double>(random.Below(90)), 900, 20};
  if (random.Chance(0.5)) r.deadline = At(static_cast<double>(random.Below(100)));
  if (random.Chance(0.3)) r.sequences = 2;
  return r;
}

// A host that loses instances, cancels, revises, and may report service. Returns the instance of each request, in
// order. With `noise` it also reports unknown requests and instances.
Pairs Drive(const AnyPolicy& policy, std::uint64_t seed, bool noise) {
  RouterOfAny router = Make(policy, 3);
  Random random(seed);
  std::map<std::uint64_t, std::uint64_t> place;  // instances of live requests; 0: the router
  Pairs placements;
  double now = 0;
  std::uint64_t last = 0;
  bool calm = false;  // from here on, only ends
  const auto some = [&]() -> std::pair<std::uint64_t, std::uint64_t> {
    if (place.empty()) return {};
    return *std::next(place.begin(), static_cast<std::ptrdiff_t>(random.Below(place.size())));
  };
  for (std::uint64_t id : {1u, 2u}) router.On(InstanceUp{{.id = {id}}}, At(0));
  for (int step = 0; step < 600 || !place.empty(); ++step) {
    REQUIRE(step < 10'000);
    calm |= step >= 600;
    now += 0.1;
    const auto [id, at] = some();
    switch (random.Below(calm ? 3 : 8)) {
      case 0:
      case 1:
        if (at == 0) break;
        if (random.Chance(0.5)) {
          router.On(RequestEnded{{id}, {at}, random.Chance(0.1), TokensServed{{300}, {90}}}, At(now));
        } else {
          router.On(RequestEnded{{id}, {at}}, At(now));
        }
        place.erase(id);
        break;
      case 2:
        if (at > 0) router.On(RequestServed{{id}, {at}, {{200}, {static_cast<std::int32_t>(step)}}}, At(now));
        break;
      case 3: router.On(Revised{.request = {id}, .output_tokens = Estimate::Exact(7), .priority = 1}, At(now)); break;
      case 4:
        if (!random.Chance(0.2)) break;
        router.On(Cancelled{{id}}, At(now));
        place.erase(id);
        break;
      case 5:
        if (!random.Chance(0.1)) break;
        router.On(InstanceDown{{1}}, At(now));
        router.On(InstanceUp{{.id = {1}}}, At(now));
        for (auto& [request, where] : place) where = where == 1 ? 0 : where;
        break;
      default: router.On(Arrived{AnyRequest(random, ++last)}, At(now)); place[last] = 0;
    }
    if (noise) {
      for (std::uint64_t nobody : {std::uint64_t{0}, last + 1, ~std::uint64_t{0}}) {
        router.On(RequestServed{{nobody}, {1}, {{9}, {9}}}, At(now));
        router.On(RequestEnded{{nobody}, {2}, false, TokensServed{{9}, {9}}}, At(now));
        router.On(RequestStarted{{nobody}, {2}}, At(now));
        router.On(InstanceDown{{nobody + 100}}, At(now));
      }
      router.On(RequestServed{{id}, {77}, {{9'999}, {9'999}}}, At(now));
      router.On(RequestServed{{id}, {at}, {{-1}, {9'999}}}, At(now));
    }
    for (const Placement& p : router.Place(At(now))) {
      REQUIRE(place.contains(p.request.value));
      REQUIRE(place[p.request.value] == 0);
      place[p.request.value] = p.instance.value;
      placements.emplace_back(p.request.value, p.instance.value);
    }
  }
  CHECK(router.alive() == 0);
  return placements;
}

TEST_CASE("a router serves all, in the same order with noise") {
  for (const std::string& name : Names()) {
    INFO(name);
    const AnyPolicy policy = *MakePolicy(name);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const Pairs placements = Drive(policy, seed, false);
      CHECK(placements.size() > 100);
      CHECK((Drive(policy, seed, false) == placements));
      CHECK((Drive(policy, seed, true) == placements));
    }
  }
}

TEST_CASE("a router's order equals the queue's, with prompts charged at placement") {
  for (const std::string& name : Names()) {
    INFO(name);
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      Random random(seed);
      RouterOfAny router = Make(*MakePolicy(name));
      internal::RankQueue<AnyPolicy> queue(*MakePolicy(name));
      std::vector<RequestState> states;
      for (std::uint64_t id = 1; id <= 40; ++id) {
        RequestState& state = states.emplace_back();
        state.request = AnyRequest(random, id);
        state.slot = static_cast<std::uint32_t>(id - 1);
        router.On(Arrived{state.request}, At(50));
        state.request.arrival = state.request.workflow_arrival = state.enqueued = At(50);
        queue.Push(state.slot, state, At(50));
      }
      router.On(InstanceUp{{.id = {1}}}, At(50));
      std::vector<std::uint64_t> placed, expected;
      for (const Placement& p : router.Place(At(50))) placed.push_back(p.request.value);
      while (!queue.empty()) {
        queue.BeginPlan(At(50), [&](Slot slot) -> const RequestState& { return states[slot]; });
        const Slot top = queue.Top();
        queue.Erase(top);
        queue.Scheduled(states[top], states[top].request.prompt_tokens, {});
        expected.push_back(states[top].request.id.value);
      }
      CHECK(placed == expected);
    }
  }
}

TEST_CASE("with aging no request is passed over for longer than the threshold") {
  for (const std::string& name : Names()) {
    if (!name.starts_with("aged")) continue;
    INFO(name);
    RouterOfAny router = Make(*MakePolicy(name), 1);
    router.On(InstanceUp{{.id = {1}}}, At(0));
    Request worst;
    worst.id = {1};
    worst.tenant = {1};
    worst.prompt_tokens = {5000};
    worst.priority = 9;
    worst.output_tokens = worst.workflow_tokens_left = Estimate::Exact(5000);
    router.On(Arrived{worst}, At(0));
    bool placed = false;
    for (std::uint64_t place = 0; place <= 7 && !placed; ++place) {
      Request better;
      better.id = {10 + place};
      better.tenant = {2};
      better.prompt_tokens = {1};
      better.priority = -9;
      better.output_tokens = better.workflow_tokens_left = Estimate::Exact(1);
      better.deadline = At(1);
      const double now = 0.001 * static_cast<double>(place);
      better.arrival = better.workflow_arrival = At(-1);
      router.On(Arrived{better}, At(now));
      const auto went = router.Place(At(now));
      REQUIRE(went.size() == 1);
      placed = went[0].request == RequestId{1};
      if (!placed) router.On(RequestEnded{went[0].request, {1}, false, TokensServed{{1}, {1}}}, At(now));
    }
    CHECK(placed);
  }
}

// Charges of two waiting tenants differ by at most twice the charges that one can have on the instances.
void SharesEvenly(bool reports_service, bool equal_sizes, std::uint64_t seed) {
  constexpr std::size_t kPlaces = 6;
  constexpr std::int32_t kPrompt = 50, kOutput = 30;
  constexpr double kU = kPlaces * (kPrompt + 2 * kOutput);
  Random random(seed);
  const auto up_to = [&random](std::int32_t most) {
    return static_cast<std::int32_t>(1 + random.Below(static_cast<std::uint64_t>(most)));
  };
  RouterOfAny router = Make(*MakePolicy("fair_share"), 3);
  for (std::uint64_t id : {1u, 2u}) router.On(InstanceUp{{.id = {id}}}, At(0));
  struct Life {
    std::uint64_t tenant;
    std::int32_t prompt, output;
  };
  std::map<std::uint64_t, Life> lives;
  std::vector<std::uint64_t> running;
  std::array<double, 3> served = {};
  double least = 0, most = 0;
  // Tenant 1 floods; tenant 2 always has at least one request waiting.
  for (std::uint64_t id = 1; id <= 4000; ++id) {
    const std::uint64_t tenant = id <= 3000 ? 1 : 2;
    const std::int32_t scale = tenant == 2 && !equal_sizes ? 1 : 3;
    Life& life = lives[id] = {tenant, up_to(kPrompt * scale / 3), up_to(kOutput * scale / 3)};
    Request r;
    r.id = {id};
    r.tenant = {tenant};
    r.prompt_tokens = {life.prompt};
    r.output_tokens = Estimate::Exact(life.output);
    router.On(Arrived{r}, At(0));
  }
  for (int step = 0; step < 1000; ++step) {
    for (const Placement& p : router.Place(At(step))) running.push_back(p.request.value);
    REQUIRE(running.size() == kPlaces);
    const std::size_t at = random.Below(running.size());
    const std::uint64_t id = std::exchange(running[at], running.back());
    running.pop_back();
    const Life& life = lives[id];
    if (reports_service) {
      router.On(RequestServed{{id}, {}, {{life.prompt}, {life.output / 2}}}, At(step));
      router.On(RequestEnded{{id}, {}, false, TokensServed{{life.prompt}, {life.output}}}, At(step));
    } else {
      router.On(RequestEnded{{id}, {}}, At(step));
    }
    served[life.tenant] += life.prompt + 2 * life.output;
    least = std::min(least, served[1] - served[2]);
    most = std::max(most, served[1] - served[2]);
  }
  CHECK(most - least <= 2 * kU);
  CHECK(served[1] > 20 * kU);
}

TEST_CASE("fair_share serves a flood and a modest tenant equally on two instances") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    for (bool reports_service : {true, false}) {
      for (bool equal_sizes : {true, false}) SharesEvenly(reports_service, equal_sizes, seed);
    }
  }
}

// Two requests differ in names alone. One request was `served` much before both lost their instance. Returns the
// request that goes first. Another request of each tenant and workflow waits all the time.
RequestId FirstAfterServing(const std::string& policy, std::uint64_t served) {
  RouterOfAny router = Make(*MakePolicy(policy), 2);
  router.On(InstanceUp{{.id = {1}}}, At(0));
  for (std::uint64_t id : {1u, 2u, 3u, 4u}) {
    const std::uint64_t of = 2 - id % 2;
    router.On(Arrived{{.id = {id}, .workflow = {of}, .agent = {of}, .tenant = {of}, .prompt_tokens = {10}}}, At(0));
  }
  REQUIRE(router.Place(At(0)).size() == 2);
  router.On(RequestServed{{served}, {1}, {{10}, {100'000}}}, At(1));
  router.On(InstanceDown{{1}}, At(1));
  router.On(InstanceUp{{.id = {1}}}, At(1));
  const auto placed = router.Place(At(1));
  REQUIRE(placed.size() == 2);
  return placed[0].request;
}

TEST_CASE("reports of service reorder only policies that rank by service") {
  int going = 0;
  for (const std::string& name : Names()) {
    INFO(name);
    const bool goes = Make(*MakePolicy(name)).goes_by_service();
    CHECK((FirstAfterServing(name, 1) != FirstAfterServing(name, 2)) == goes);
    going += goes;
  }
  CHECK(going >= 6);
}

}  // namespace
}  // namespace takt
