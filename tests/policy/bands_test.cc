#include "takt/policy/bands.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "policy/hand_engine.h"
#include "takt/base/random.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/router.h"

namespace takt {
namespace {

using Engine = HandEngine<Bands>;
using Served = std::vector<std::uint64_t>;

Bands::Options Of(std::vector<BandShares::Band> bands, double quantum = 100) {
  return {.bands = {std::move(bands)}, .quantum = quantum};
}

TEST_CASE("bands rank strictly, and tenants inside a band by served tokens") {
  Engine engine(Of({{0}, {10}}));
  for (int i = 0; i < 2; ++i) engine.Push(1, 10), engine.Push(2, 10);
  for (int i = 0; i < 2; ++i) engine.Push(3, 0), engine.Push(4, 9);
  for (int i = 0; i < 2; ++i) engine.Push(5, -7);  // below the first band: part of it
  Served served;
  for (int i = 0; i < 10; ++i) served.push_back(engine.Serve(10));
  CHECK(served == Served{3, 4, 5, 3, 4, 5, 1, 2, 1, 2});
}

TEST_CASE("without a share a band waits for as long as a more urgent band does") {
  Engine engine(Of({{0}, {1}}));
  engine.Push(2, 1);
  engine.Push(1, 0);
  for (int i = 0; i < 10'000; ++i) {
    engine.Push(1, 0);
    REQUIRE(engine.Serve(1000) == 1);
  }
}

TEST_CASE("a band that is owed its share goes first until its balance is 0") {
  Engine engine(Of({{0}, {1, 0.25}}));  // 100 tokens are owed after 400
  for (int i = 0; i < 20; ++i) engine.Push(1, 0), engine.Push(2, 1);
  Served served;
  for (int i = 0; i < 10; ++i) served.push_back(engine.Serve(100));
  // Balance before each: 0 25 50 75 100, then 25 for each of tenant 1 and -75 for each of tenant 2. Owed at 100, until
  // the balance is at most 0: 100, 25, -50, -25, 0, 25.
  CHECK(served == Served{1, 1, 1, 1, 2, 2, 1, 1, 1, 1});
}

TEST_CASE("idle time earns a band nothing, and debts are repaid while it is idle") {
  Engine engine(Of({{0}, {1, 0.5}}));
  for (int i = 0; i < 3000; ++i) engine.Push(1, 0);
  for (int i = 0; i < 1000; ++i) CHECK(engine.Serve(100) == 1);
  const Slot low = engine.Push(2, 1);
  const auto balance = [&] { return engine.queue.PartsOf(engine.requests[low]).parts[2].value; };
  engine.Begin();
  CHECK(balance() == 0);
  CHECK(engine.Serve(100) == 1);
  CHECK(engine.Serve(100) == 1);
  CHECK(engine.Serve(100) == 2);  // it has earned 100, and uses 100 as it does not wait now
  engine.Begin();
  CHECK(balance() == 0);  // its own tokens earn too, but no more than 0 as it does not wait
  engine.Charge(low, 300, 0);
  engine.Begin();
  CHECK(balance() == -150);
  for (int i = 0; i < 10; ++i) engine.Serve(100);
  engine.Begin();
  CHECK(balance() == 0);
}

TEST_CASE("group keys keep bands apart for every counter") {
  for (const double tokens : {0.0, 1.0, 1e6, 1e15, 1e30, std::numeric_limits<double>::infinity()}) {
    Bands policy(Of({{0}, {1}, {2}}));
    const auto key = [&](std::int32_t priority, std::uint64_t tenant) {
      RequestState r;
      r.request.tenant = {tenant}, r.request.priority = priority;
      return policy.GroupKey(policy.Group(r)).key;
    };
    Bands::Options dear = Of({{0}, {1}, {2}});
    dear.costs.w_in = tokens;
    policy = Bands(dear);
    RequestState r;
    r.request.tenant = {7}, r.request.priority = 1;
    for (int i = 0; i < 10; ++i) policy.Scheduled(r, {i}, {});
    CAPTURE(tokens);
    CHECK(key(0, 7) < key(1, 7));
    CHECK(key(1, 7) < key(2, 7));
    CHECK(std::isfinite(key(1, 7)));
  }
  // A counter of 10^12 still shows one token.
  Bands policy(Of({{0}, {1}}));
  RequestState a, b;
  a.request.tenant = {1}, b.request.tenant = {2};
  for (int i = 0; i < 1000; ++i) policy.Scheduled(a, {1'000'000'000}, {}), policy.Scheduled(b, {1'000'000'000}, {});
  policy.Scheduled(b, {1}, {});
  CHECK(policy.GroupKey(policy.Group(a)).key < policy.GroupKey(policy.Group(b)).key);
}

TEST_CASE("large names keep their band and share no counter") {
  Engine engine(Of({{0}, {1}}));
  const std::uint64_t high = std::uint64_t{1} << 63;
  const std::uint64_t names[] = {0, 1, high, high + 1, high >> 1, high >> 2, high >> 3, high >> 4, UINT64_MAX};
  std::map<std::uint64_t, int> groups;
  for (const std::int32_t priority : {0, 1}) {
    for (const std::uint64_t name : names) {
      const Slot slot = engine.Push(name, priority);
      ++groups[engine.queue.policy().Group(engine.requests[slot])];
    }
  }
  CHECK(groups.size() == 18);
  for (int i = 0; i < 18; ++i) CHECK(engine.requests[engine.Admit()].request.priority == (i < 9 ? 0 : 1));
}

TEST_CASE("workflows share alike, and a request without one is its own") {
  Bands::Options options = Of({});
  options.by = Bands::By::kWorkflow;
  Engine engine(options);
  for (int i = 0; i < 3; ++i) engine.Push(1, 0, 5);
  engine.Push(2, 0, 6);
  engine.Push(3), engine.Push(4);
  Served served;
  for (int i = 0; i < 6; ++i) served.push_back(engine.Serve(10));
  CHECK(served == Served{1, 2, 3, 4, 1, 1});
}

TEST_CASE("weights of tenants hold in each band") {
  Bands::Options options = Of({{0}, {1}});
  const std::uint64_t name = UINT64_MAX - 3;
  options.costs.weights = {{{{1}, 3}, {{name}, 2}}};
  Engine engine(options);
  std::map<std::uint64_t, int> served;
  for (int i = 0; i < 600; ++i) engine.Push(1, 1), engine.Push(2, 1), engine.Push(name, 1);
  for (int i = 0; i < 600; ++i) ++served[engine.Serve(10)];
  CHECK(served == std::map<std::uint64_t, int>{{1, 300}, {2, 100}, {name, 200}});
}

// An engine of 16 rows, a token a step, whose bands all have waiting requests all the time. Returns each band's share.
std::vector<double> SharesOf(const Bands::Options& options, std::uint64_t seed, int steps) {
  Random random(seed);
  Engine engine(options);
  engine.queue.Reserve(4096);
  const std::size_t bands = options.bands.bands.size();
  std::vector<std::pair<Slot, std::int32_t>> running;
  std::vector<double> served(bands, 0);
  std::vector<int> waiting(bands, 0);
  double all = 0;
  for (int step = 0; step < steps; ++step) {
    for (std::size_t b = 0; b < bands; ++b) {
      for (; waiting[b] < 16; ++waiting[b]) engine.Push(random.Below(3), options.bands.bands[b].priority);
    }
    const auto charge = [&](Slot slot, std::int32_t prompt, std::int32_t output) {
      engine.Charge(slot, prompt, output);
      served[options.bands.Of(engine.requests[slot].request.priority)] += prompt + output;
      all += prompt + output;
    };
    std::vector<Slot> fresh;
    while (running.size() < 16 && !engine.queue.empty()) {
      const Slot slot = engine.Admit();
      --waiting[options.bands.Of(engine.requests[slot].request.priority)];
      running.emplace_back(slot, static_cast<std::int32_t>(1 + random.Below(60)));
      charge(slot, static_cast<std::int32_t>(1 + random.Below(100)), 0);
    }
    for (auto& [slot, left] : running) charge(slot, 0, 1), --left;
    std::erase_if(running, [](const auto& r) { return r.second == 0; });
  }
  for (double& tokens : served) tokens /= all;
  return served;
}

TEST_CASE("bands keep their minimum shares under saturation") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const std::vector<double> shares = SharesOf(Of({{0}, {5, 0.2}, {9, 0.1}}, 2048), seed, 30'000);
    CAPTURE(seed, shares[0], shares[1], shares[2]);
    CHECK(std::abs(shares[1] / 0.2 - 1) < 0.02);
    CHECK(std::abs(shares[2] / 0.1 - 1) < 0.02);
  }
  const std::vector<double> strict = SharesOf(Of({{0}, {5}}, 2048), 3, 2000);
  CHECK(strict[1] == 0);
}

// ---- a slow model -----------------------------------------------------------------------------------------------

// Follows the rules of docs/reference/policies/bands.md by search alone.
struct Model {
  Bands::Options options;
  struct Group {
    double counter = 0;
    int waiting = 0;
  };
  struct Band {
    std::map<std::uint64_t, Group> groups;
    std::optional<std::uint64_t> last;
    double balance = 0;
    bool owed = false;
    bool waits() const {
      return std::ranges::any_of(groups, [](const auto& g) { return g.second.waiting > 0; });
    }
  };
  std::vector<Band> bands = std::vector<Band>(16);
  struct Waiting {
    Slot slot;
    std::size_t band;
    std::uint64_t tenant;
  };
  std::vector<Waiting> waiting = {};

  void Push(Slot slot, std::size_t b, std::uint64_t tenant) {
    Band& band = bands[b];
    Group& group = band.groups[tenant];
    if (group.waiting == 0) {
      std::optional<double> least;
      for (const auto& [name, other] : band.groups) {
        if (other.waiting > 0) least = std::min(least.value_or(other.counter), other.counter);
      }
      if (!least && band.last) least = band.groups[*band.last].counter;
      group.counter = std::max(group.counter, least.value_or(0));
    }
    ++group.waiting;
    waiting.push_back({slot, b, tenant});
  }
  void Charge(std::size_t b, std::uint64_t tenant, std::int32_t prompt, std::int32_t output) {
    bands[b].groups[tenant].counter += prompt + 2 * output;
    for (std::size_t i = 0; i < options.bands.bands.size(); ++i) {
      Band& band = bands[i];
      const double paid = band.balance - (i == b ? prompt + output : 0);
      const double earned = paid + options.bands.bands[i].share * (prompt + output);
      const double most = 16 * options.quantum;
      band.balance = std::clamp(band.waits() ? earned : std::max(paid, std::min(earned, 0.0)), -most, most);
    }
  }
  Slot Admit() {
    for (Band& band : bands) band.owed = band.owed ? band.balance > 0 : band.balance >= options.quantum;
    const auto rank = [this](const Waiting& w) {
      return std::tuple(!bands[w.band].owed, w.band, bands[w.band].groups[w.tenant].counter, w.slot);
    };
    const auto first = std::ranges::min_element(waiting, {}, rank);
    const Waiting taken = *first;
    waiting.erase(first);
    if (--bands[taken.band].groups[taken.tenant].waiting == 0) bands[taken.band].last = taken.tenant;
    return taken.slot;
  }
};

TEST_CASE("a slow model chooses the same requests") {
  int from_owed = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    // Shares are multiples of 1/8, so that sums are exact in both.
    Bands::Options options = Of({{-5, 0.125}, {0}, {4, 0.25}, {9, 0.5}}, 300);
    Engine engine(options);
    Model model{options};
    std::vector<Slot> running;
    for (int step = 0; step < 600; ++step) {
      for (std::uint64_t n = random.Below(4); n > 0 && model.waiting.size() < 60; --n) {
        const std::uint64_t tenant = random.Below(4);
        const auto priority = static_cast<std::int32_t>(random.Below(20)) - 7;
        model.Push(engine.Push(tenant, priority), options.bands.Of(priority), tenant);
      }
      while (running.size() < 4 && !model.waiting.empty()) {
        const Slot slot = model.Admit();
        REQUIRE(engine.Admit() == slot);
        const std::size_t band = options.bands.Of(engine.requests[slot].request.priority);
        from_owed += model.bands[band].owed && band > 0 ? 1 : 0;
        running.push_back(slot);
      }
      for (const Slot slot : running) {
        const auto prompt = static_cast<std::int32_t>(random.Below(20)), output = random.Chance(0.5) ? 1 : 0;
        engine.Charge(slot, prompt, output);
        model.Charge(options.bands.Of(engine.requests[slot].request.priority), engine.TenantOf(slot), prompt, output);
        engine.Begin();  // so that both bring the balances up to date at the same times
        for (Model::Band& band : model.bands) {
          band.owed = band.owed ? band.balance > 0 : band.balance >= options.quantum;
        }
      }
      std::erase_if(running, [&](Slot) { return random.Chance(0.2); });
    }
  }
  CHECK(from_owed > 500);
}

// ---- text, memory, routers --------------------------------------------------------------------------------------

TEST_CASE("bands as text") {
  const std::string spec = "bands(bands=-5;0:0.25;10:0.1,by=workflow,quantum=512,w_out=3)";
  CHECK(MakePolicy(spec)->spec() == spec);
  CHECK(MakePolicy("aged(" + spec + ",threshold=9)")->spec() == "aged(" + spec + ",threshold=9)");
  CHECK(MakePolicy("bands(bands=-2147483648;2147483647:1)").ok());
  std::string most = "0";
  for (int i = 1; i < 16; ++i) most += ";" + std::to_string(i);
  CHECK(MakePolicy("bands(bands=" + most + ")").ok());
  for (const std::string& wrong :
       {most + ";16", std::string("0;0"), std::string("1;0"), std::string("0:1.5"), std::string("0:-0.1"),
        std::string("0:0.6;1:0.6"), std::string("0:nan"), std::string("0:inf"), std::string("x"), std::string("0:"),
        std::string(";0"), std::string("0;;1"), std::string("0:0.1:2"), std::string("2147483648"), std::string("1e3"),
        std::string("0:0x1"), std::string(":0.5")}) {
    CAPTURE(wrong);
    const auto made = MakePolicy("bands(bands=" + wrong + ")");
    CHECK_FALSE(made.ok());
    if (!made.ok()) CHECK(made.status().message().find("bands") != std::string::npos);
  }
  for (const char* wrong : {"bands(quantum=0)", "bands(quantum=1e10)", "bands(by=user)", "metered(bands)"}) {
    CAPTURE(wrong);
    CHECK_FALSE(MakePolicy(wrong).ok());
  }
}

TEST_CASE("a flood of names leaves memory bounded and allocates nothing") {
  Bands policy(Of({{0, 0.25}, {1, 0.25}}));
  policy.Reserve(64);
  internal::RankQueue<Bands> queue(policy);
  queue.Reserve(64);
  RequestState r;
  const auto state_of = [&](Slot) -> const RequestState& { return r; };
  const auto go = [&](std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = from; i < to; ++i) {
      r.request.id = {i}, r.request.tenant = {i * 0x9e3779b97f4a7c15u};
      r.request.priority = static_cast<std::int32_t>(i % 2);
      queue.Push(0, r, {});
      queue.BeginPlan({}, state_of);
      queue.Erase(0);
      queue.Scheduled(r, {static_cast<std::int32_t>(i % 50)}, {1});
    }
  };
  go(1, 5000);
  const std::size_t before = allocations;
  go(5000, 50'000);
  const std::size_t after = allocations;
  CHECK(after == before);
  CHECK(queue.policy().remembered() <= 64 + 1024);
}

// Two instances with 4 places each. A low band gets its share of the tokens that instances report.
TEST_CASE("a band's share holds across the instances of a router") {
  auto router = *Router::Create({.max_outstanding = 4}, *MakePolicy("bands(bands=0;5:0.2,quantum=500)"),
                                *MakePlacement("round_robin"));
  for (std::uint64_t id : {1u, 2u}) router.On(InstanceUp{{.id = {id}}}, {});
  Random random(4);
  std::map<std::uint64_t, std::pair<bool, std::int32_t>> lives;  // low band, prompt
  std::vector<std::uint64_t> running;
  double low = 0, all = 0;
  int waiting[2] = {0, 0};
  std::uint64_t next = 0;
  for (int step = 0; step < 20'000; ++step) {
    for (const bool is_low : {false, true}) {
      for (; waiting[is_low] < 8; ++waiting[is_low]) {
        Request r;
        r.id = {++next}, r.priority = is_low ? 7 : 0;
        r.prompt_tokens = {static_cast<std::int32_t>(1 + random.Below(50))};
        lives[next] = {is_low, r.prompt_tokens.value};
        router.On(Arrived{r}, {});
      }
    }
    for (const Placement& p : router.Place({})) {
      running.push_back(p.request.value);
      --waiting[lives[p.request.value].first];
    }
    REQUIRE(running.size() == 8);
    const std::size_t at = random.Below(running.size());
    const std::uint64_t id = std::exchange(running[at], running.back());
    running.pop_back();
    const auto [is_low, prompt] = lives[id];
    const auto output = static_cast<std::int32_t>(1 + random.Below(50));
    router.On(RequestEnded{{id}, {}, false, TokensServed{{prompt}, {output}}}, {});
    all += prompt + output, low += is_low ? prompt + output : 0;
  }
  CAPTURE(low / all);
  CHECK(std::abs(low / all / 0.2 - 1) < 0.02);
}

}  // namespace
}  // namespace takt
