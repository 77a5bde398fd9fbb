#include "takt/policy/fair_share.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "catch.h"
#include "policy/hand_engine.h"
#include "takt/base/random.h"

namespace takt {
namespace {

struct Engine : HandEngine<FairShare> {
  using HandEngine::HandEngine;
  double Counter(std::uint64_t tenant) const { return queue.policy().GroupKey(tenant).key; }
};

TEST_CASE("an idle tenant earns no credit, even if the queue is empty") {
  Engine engine;
  for (int i = 0; i < 1000; ++i) {
    engine.Push(1);
    CHECK(engine.Serve() == 1);
  }
  for (int i = 0; i < 20; ++i) engine.Push(2);
  for (int i = 0; i < 20; ++i) engine.Push(1);
  std::vector<std::uint64_t> served;
  for (int i = 0; i < 6; ++i) served.push_back(engine.Serve());
  CHECK(served == std::vector<std::uint64_t>{2, 1, 2, 1, 2, 1});
}

TEST_CASE("a tenant joining an empty queue starts at the last waiter's counter") {
  Engine engine;
  const Slot runs = engine.Push(1);
  CHECK(engine.Serve(100) == 1);
  engine.Charge(runs, 0, 450);
  engine.Push(2);
  CHECK(engine.Counter(2) == 1000);
  engine.Push(3);
  CHECK(engine.Counter(3) == 1000);
}

TEST_CASE("a small charge is not lost next to a large counter") {
  Engine engine({.weights = {{{{1}, 1e-6}, {{2}, 1e6}}}});
  const Slot dear = engine.Push(1);
  for (int i = 0; i < 10; ++i) engine.Charge(dear, 1'000'000'000, 0);  // 10^15 each
  const Slot cheap = engine.Push(2);
  CHECK(engine.Counter(2) == 1e16);
  for (int i = 0; i < 4'000'000; ++i) engine.Charge(cheap, 1, 0);  // 10^-6 each
  CHECK(engine.Counter(2) == 1e16 + 4);
}

TEST_CASE("a forgotten tenant returns to the counter of a lifted one") {
  Engine engine;
  engine.Push(1);
  for (std::uint64_t tenant = 2; tenant < 20'000; ++tenant) {
    engine.Push(tenant);
    engine.Push(1);
    engine.Serve(), engine.Serve();
  }
  CHECK(engine.queue.policy().remembered() <= 4096);
  engine.Push(2);
  CHECK(engine.Counter(2) == engine.Counter(1));
}

TEST_CASE("the table is bounded although tenants that always wait prevent forgetting") {
  Engine engine;
  engine.queue.Reserve(64);
  engine.Push(1);
  engine.Charge(engine.Push(2), 1000, 0);  // owes more than all others
  for (std::uint64_t tenant = 3; tenant < 60; ++tenant) engine.Push(tenant);
  for (std::uint64_t tenant = 60; tenant < 10'000; ++tenant) {
    engine.Push(tenant);
    engine.Serve(100);
    REQUIRE(engine.queue.policy().remembered() <= 64 + 1024);
  }
  CHECK(engine.Counter(2) == 1000);
}

// U is the most that the requests of one tenant in the engine can cost.
TEST_CASE("charges of two waiting tenants differ by at most 2 U") {
  constexpr std::size_t kPlaces = 4;
  constexpr std::int32_t kPrompt = 50, kOutput = 30;
  constexpr double kU = kPlaces * (kPrompt + 2 * kOutput);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const auto up_to = [&random](std::int32_t most) {
      return static_cast<std::int32_t>(1 + random.Below(static_cast<std::uint64_t>(most)));
    };
    const bool alike = random.Chance(0.5);
    Engine engine;
    std::vector<std::pair<Slot, std::int32_t>> running;  // and remaining output
    std::array<double, 4> charged = {};
    double least = 0, most = 0;  // of the difference in charges, tenant 1 minus tenant 2
    const auto charge = [&](Slot slot, std::int32_t prompt, std::int32_t output) {
      engine.Charge(slot, prompt, output);
      charged[engine.TenantOf(slot)] += prompt + 2 * output;
    };
    for (std::uint64_t i = 0; i < 6000; ++i) engine.Push(1 + i % 2);
    for (int step = 0; step < 3000; ++step) {
      if (random.Chance(0.1)) engine.Push(3);
      while (running.size() < kPlaces) {
        const Slot slot = engine.Admit();
        // In half of the runs, tenant 2's requests are a tenth of tenant 1's.
        const std::int32_t scale = alike || engine.TenantOf(slot) != 2 ? 1 : 10;
        running.emplace_back(slot, up_to(kOutput / scale));
        charge(slot, up_to(kPrompt / scale), 0);
      }
      for (auto& [slot, left] : running) charge(slot, 0, 1), --left;
      std::erase_if(running, [](const auto& r) { return r.second == 0; });
      least = std::min(least, charged[1] - charged[2]);
      most = std::max(most, charged[1] - charged[2]);
    }
    CHECK(most - least <= 2 * kU);
    CHECK(charged[1] > 10 * kU);
  }
}

}  // namespace
}  // namespace takt
