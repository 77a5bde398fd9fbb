// Answers of each gate against figures computed by hand, and the promises of all gates over random states.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/rivals/gates/concur.h"
#include "takt/turns/gates/lease.h"
#include "takt/turns/gates/price.h"
#include "takt/turns/gates/registry.h"
#include "takt/rivals/gates/working_set.h"
#include "takt/turns/return_times.h"
#include "with_rivals.h"

namespace takt {
namespace {

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

// Victims and holdings that the test sets. Victims come in the order of insertion.
struct FakeOrder final : HeldOrder {
  std::vector<HeldVictim> victims = {};
  std::vector<std::tuple<WorkflowId, std::uint64_t, Holding>> holdings = {};
  mutable int shown = 0;

  void Walk(std::int32_t blocks, FunctionRef<bool(const HeldVictim&)> take) const override {
    for (HeldVictim victim : victims) {
      if (blocks <= 0) return;
      victim.blocks = victim.chunks = std::min(victim.blocks, blocks);
      blocks -= victim.blocks;
      ++shown;
      if (!take(victim)) return;
    }
  }
  void ForEach(FunctionRef<void(WorkflowId, std::uint64_t, const Holding&)> tell) const override {
    for (const auto& [workflow, branch, holding] : holdings) tell(workflow, branch, holding);
  }

  FakeOrder& Dead(std::int32_t blocks) { return Add({}, HeldTier::kDead, blocks); }
  FakeOrder& Of(std::uint64_t workflow, double since, std::int32_t blocks, HeldTier tier = HeldTier::kHeld) {
    return Add({.workflow = {workflow}, .since = At(since), .tokens = 1'000, .block_tokens = 10}, tier, blocks);
  }
  FakeOrder& Awaited(std::uint64_t workflow, std::int32_t blocks) {
    return Of(workflow, 0, blocks, HeldTier::kAwaited);
  }
  FakeOrder& Add(const Held& held, HeldTier tier, std::int32_t blocks) {
    victims.push_back({held, tier, blocks, blocks, 0});
    return *this;
  }
  FakeOrder& Holds(std::uint64_t workflow, double since, std::int32_t tokens, bool awaited = false,
                   bool in_use = false) {
    Holding holding = {.tokens = tokens, .since = At(since), .awaited = awaited, .in_use = in_use};
    holdings.emplace_back(WorkflowId{workflow}, 0, holding);
    return *this;
  }
};

GateAsk Ask(std::int32_t need, std::int32_t lack, double now = 100) {
  return {.workflow = {99}, .need = need, .lack = lack, .block_tokens = 10, .total = 100, .now = At(now)};
}

TEST_CASE("none admits every request that fits, without being asked") {
  FakeOrder order;
  order.Of(1, 99, 50);
  CHECK(NoGate{}.LetsInAfter(Ask(50, 50), order) == 0);
  CHECK(AnyGate().open());
  CHECK(MakeGate("none")->open());
  CHECK_FALSE(MakeGate("lease")->open());
  CHECK(order.shown == 0);
}

TEST_CASE("lease protects holdings used within the lease time") {
  const Lease lease{.seconds = 30};
  FakeOrder order;
  order.Dead(4).Of(1, 70, 4).Of(2, 70.1, 4);
  CHECK(lease.LetsInAfter(Ask(9, 4), order) == 0);
  CHECK(lease.LetsInAfter(Ask(9, 8), order) == 0);  // used 30 s ago
  CHECK(lease.LetsInAfter(Ask(9, 9), order) == kNotNow);
  CHECK(lease.LetsInAfter(Ask(9, 9, 100.1), order) == 0);
  CHECK(Lease{.seconds = 31}.LetsInAfter(Ask(9, 5), order) == kNotNow);
  CHECK(Lease{.seconds = 0}.LetsInAfter(Ask(12, 12), order) == 0);
}

TEST_CASE("lease leaves out shared blocks, and protects waiting turns until nothing runs") {
  const Lease lease{.seconds = 30};
  FakeOrder order;
  order.Add({.since = At(99)}, HeldTier::kHeld, 4);
  order.Add({.workflow = {1}, .since = At(99)}, HeldTier::kAwaited, 4);
  CHECK(lease.LetsInAfter(Ask(9, 4), order) == 0);
  GateAsk ask = Ask(9, 5);
  CHECK(lease.LetsInAfter(ask, order) == kNotNow);
  ask.stuck = true;
  CHECK(lease.LetsInAfter(ask, order) == 0);
  order.victims.clear();
  order.Of(1, 99, 4);
  CHECK(lease.LetsInAfter(ask, order) == kNotNow);  // a lease holds here, too: it ends
}

// A block of 10 tokens takes 10 ms at every depth. All gaps are alike: 1 a second.
constexpr HoldValue kFlat{.alpha_ms = 1, .beta_ns = 0};

GateAsk Crowd(GateAsk ask, std::int64_t delayed) {
  ask.delayed = delayed;
  return ask;
}

TEST_CASE("price weighs the delayed requests' loss by the missing share") {
  const Price price{.kappa = 1, .value = kFlat};
  FakeOrder order;
  order.Of(1, 90, 4);
  // 4 of 8 blocks are missing: 0.04 s/s for each waiting request, against 1/2
  CHECK(price.LetsInAfter(Crowd(Ask(8, 4), 5), order) == 0);                     // 0.2
  CHECK(price.LetsInAfter(Crowd(Ask(8, 4), 50), order) == Approx(900));          // 2 = 1/2 (1 + 900/300)
  CHECK(price.LetsInAfter(Crowd(Ask(4, 4), 50), order) == Approx(300));          // 2 = 1 + 300/300
  CHECK(price.LetsInAfter(Crowd(Ask(8, 2), 50), order) == Approx(300 * 3.0));    // 1 = 1/4 (1 + 900/300)
  CHECK(Price{.kappa = 0.01, .value = kFlat}.LetsInAfter(Crowd(Ask(4, 4), 0), order) ==
        Approx(900));  // it counts itself
  CHECK(Price{.kappa = 2, .value = kFlat}.LetsInAfter(Crowd(Ask(8, 4), 50), order) == Approx(300));
  CHECK(Price{.kappa = 1, .wait_s = 10, .value = kFlat}.LetsInAfter(Crowd(Ask(8, 4), 50), order) == Approx(30));
  CHECK(Price{.kappa = 0, .value = kFlat}.LetsInAfter(Crowd(Ask(8, 4), 50), order) == kNotNow);
}

TEST_CASE("requests of a smaller priority number pay nothing") {
  const Price price{.kappa = 0, .free_below = 1, .value = kFlat};
  FakeOrder order;
  order.Of(1, 99, 50);
  GateAsk ask = Crowd(Ask(8, 4), 50);
  for (const auto& [priority, waits] : {std::pair{-5, 0.0}, {0, 0.0}, {1, kNotNow}, {INT32_MAX, kNotNow}}) {
    ask.priority = priority;
    CHECK(price.LetsInAfter(ask, order) == waits);
  }
  ask.priority = INT32_MIN;
  CHECK(Price{.kappa = 0, .value = kFlat}.LetsInAfter(ask, order) == kNotNow);
}

TEST_CASE("price waits at equality, and dead blocks cost nothing") {
  const Price price{.kappa = 1, .value = kFlat};
  FakeOrder order;
  order.Dead(2).Of(1, 90, 4);
  GateAsk ask = Crowd(Ask(4, 4), 50);  // two of four are dead: 0.02 times 50 against 1
  CHECK(price.LetsInAfter(ask, order) == Approx(0).margin(1e-9));
  ask.delayed = 51;
  CHECK(price.LetsInAfter(ask, order) == Approx(6));
  CHECK(price.LetsInAfter(Crowd(Ask(4, 2), 1'000'000), order) == 0);
  CHECK(Price{.kappa = 0, .value = kFlat}.LetsInAfter(Crowd(Ask(4, 2), 50), order) == 0);
}

TEST_CASE("price expects a waiting turn within the second, if requests run") {
  ReturnCurves curves;
  curves.classes[0].gain.fill(0.1);
  const HoldValue value{.alpha_ms = 1, .beta_ns = 0, .curves = &curves};
  const Price price{.kappa = 1, .value = value};
  FakeOrder order;
  order.Of(1, 90, 4).Awaited(2, 4);
  GateAsk ask = Crowd(Ask(8, 8), 50);  // 4 times 1 ms, and 4 times 10 ms, for 50: 2.2 against 1
  CHECK(price.LetsInAfter(ask, order) == Approx(360));
  ask.stuck = true;
  CHECK(price.LetsInAfter(ask, order) == 0);  // 0.2
  ask.delayed = 500;
  CHECK(price.LetsInAfter(ask, order) == Approx(300));
  order.victims.erase(order.victims.begin());
  CHECK(price.LetsInAfter(ask, order) == 0);
}

TEST_CASE("price expects a turn to wait as long as it has waited") {
  const Price price{.kappa = 1, .value = kFlat};
  FakeOrder order;
  order.Add({.workflow = {1}, .block_tokens = 10, .awaited = At(80)}, HeldTier::kAwaited, 4);
  const GateAsk ask = Crowd(Ask(4, 4), 50);  // 4 times 10 ms, for 50, once in 20 s
  CHECK(price.LetsInAfter(ask, order) == 0);
  order.victims[0].held.awaited = At(99);
  CHECK(price.LetsInAfter(ask, order) == Approx(300));
  order.victims[0].held.awaited = At(99.9);  // at most once a second
  CHECK(price.LetsInAfter(ask, order) == Approx(300));
}

TEST_CASE("a pinned holding is worth its whole cost until victims are forced") {
  const ReturnTimes times;
  HoldValue value = kFlat;
  value.curves = &times.curves();
  const Price price{.kappa = 1, .value = value};
  FakeOrder order;
  order.Of(1, 0, 4, HeldTier::kPinned);
  GateAsk ask = Crowd(Ask(4, 4), 50);  // 4 times 10 ms, for 50
  CHECK(price.LetsInAfter(ask, order) == Approx(300));
  CHECK(Lease{.seconds = 30}.LetsInAfter(ask, order) == kNotNow);
  ask.stuck = true;
  CHECK(price.LetsInAfter(ask, order) == 0);
  CHECK(Lease{.seconds = 30}.LetsInAfter(ask, order) == 0);
  CHECK_FALSE(TakesOfOthers(ask, order));
  ask.stuck = false;
  order.victims[0].tier = HeldTier::kHeld;
  CHECK(price.LetsInAfter(ask, order) == 0);
  CHECK(Lease{.seconds = 30}.LetsInAfter(ask, order) == 0);
}

TEST_CASE("a branch may take what it left itself, not what others left") {
  GateAsk ask = Crowd(Ask(4, 4), 50);
  ask.workflow = {1}, ask.branch = 7;
  FakeOrder order;
  order.Add({.workflow = {1}, .branch = 7, .since = At(99), .tokens = 1'000, .block_tokens = 10}, HeldTier::kHeld, 4);
  const Price price{.kappa = 1, .value = kFlat};
  const WorkingSet full{.half_life_s = 10, .sweep_s = 0, .force_s = 0};
  GateAsk stuck = ask;
  stuck.stuck = true, stuck.total = 1;
  CHECK(price.LetsInAfter(ask, order) == 0);
  CHECK(Lease{}.LetsInAfter(ask, order) == 0);
  CHECK_FALSE(TakesOfOthers(ask, order));
  CHECK(full.LetsInAfter(stuck, order) == 0);
  for (HeldVictim& victim : order.victims) victim.held.branch = 8;
  CHECK(price.LetsInAfter(ask, order) == Approx(300));
  CHECK(Lease{}.LetsInAfter(ask, order) == kNotNow);
  CHECK(TakesOfOthers(ask, order));
  CHECK(full.LetsInAfter(stuck, order) == kNotNow);
  // without a workflow no holding is a request's own
  for (HeldVictim& victim : order.victims) victim.held.workflow = {};
  ask.workflow = {}, ask.branch = 0;
  for (HeldVictim& victim : order.victims) victim.held.branch = 0;
  CHECK(price.LetsInAfter(ask, order) == Approx(300));
}

TEST_CASE("price values the blocks of a holding by their depths") {
  // 10 ms, and 10 us for each token before: of blocks that end at 1,000, 990 and 980
  const Price price{.kappa = 1, .value = {.alpha_ms = 1, .beta_ns = 1'000}};
  FakeOrder order;
  order.Of(1, 90, 3);
  CHECK(price.LetsInAfter(Crowd(Ask(3, 3), 100), order) == Approx(300 * (100 * (0.02 + 0.0199 + 0.0198) - 1)));
}

TEST_CASE("price estimates prefill times, and its door bounds waits") {
  const Price price{.kappa = 1, .share = 0.2, .after_s = 60, .value = {.alpha_ms = 1, .beta_ns = 1'000}};
  GateAsk ask = Ask(1, 1);
  ask.tokens = 5'000, ask.cached = 1'000;
  CHECK(price.PrefillSeconds(ask) == Approx(4 + 12));  // of tokens; of pairs, half of 25 - 1 million
  ask.cached = 6'000;
  CHECK(price.PrefillSeconds(ask) == 0);
  const AnyGate any = price;
  CHECK(any.Door().share == 0.2);
  CHECK(any.Door().after_s == 60);
  ask.cached = 0;
  CHECK(any.PrefillSeconds(ask) == Approx(5 + 12.5));
  CHECK(AnyGate(Lease{}).Door().share == 0);
}

TEST_CASE("price accepts curves that are bound later") {
  ReturnCurves curves;
  curves.classes[0].gain.fill(0.1);
  FakeOrder order;
  order.Of(1, 90, 4);
  AnyGate gate = Price{.kappa = 1, .value = kFlat};
  const AnyGate copy = gate;
  gate.Read(&curves);
  CHECK(gate.LetsInAfter(Crowd(Ask(4, 4), 50), order) == 0);
  CHECK(copy.LetsInAfter(Crowd(Ask(4, 4), 50), order) == Approx(300));
}

TEST_CASE("working_set fits running, needed and recently used tokens") {
  const WorkingSet gate{.half_life_s = 10, .sweep_s = 0, .force_s = 0, .buffer = 0};
  FakeOrder order;
  order.Of(1, 90, 50).Holds(1, 90, 400).Holds(2, 80, 400).Holds(3, 99, 300, false, true);
  // of 1,000 tokens, 200 are left of the first and 100 of the second; the third runs
  GateAsk ask = Ask(30, 10);
  ask.used = 40;
  CHECK(gate.LetsInAfter(ask, order) == 0);
  ask.need = 31;
  CHECK(gate.LetsInAfter(ask, order) == kNotNow);
  ask.now = At(101);
  CHECK(gate.LetsInAfter(ask, order) == 0);
  ask.used = 43;
  CHECK(gate.LetsInAfter(ask, order) == kNotNow);
  ask.now = At(200);
  CHECK(gate.LetsInAfter(ask, order) == 0);
  ask.used = 70;
  CHECK(gate.LetsInAfter(ask, order) == kNotNow);
}

TEST_CASE("working_set uses ages at the last sweep, margins and a last wait") {
  WorkingSet gate{.half_life_s = 10, .sweep_s = 0, .force_s = 0, .buffer = 0};
  FakeOrder order;
  order.Of(1, 90, 50).Holds(1, 90, 400);
  GateAsk ask = Ask(80, 10, 104.9);
  CHECK(gate.LetsInAfter(ask, order) == 0);
  gate.sweep_s = 10;  // the sweep at 100 saw an age of 200
  CHECK(gate.LetsInAfter(ask, order) == 0);
  ask.need = 81;
  CHECK(gate.LetsInAfter(ask, order) == kNotNow);
  gate.sweep_s = 0;
  CHECK(gate.LetsInAfter(ask, order) == 0);
  ask.now = At(95), gate.sweep_s = 50, ask.need = 61;  // the sweep at 50 came before it
  CHECK(gate.LetsInAfter(ask, order) == kNotNow);
  ask.need = 60;
  CHECK(gate.LetsInAfter(ask, order) == 0);
  // itself, one that runs, and half of the one that is held
  ask.now = At(100), gate.sweep_s = 0, ask.running = 1, gate.buffer = 40, ask.need = 70;
  CHECK(gate.LetsInAfter(ask, order) == 0);
  ask.need = 71;
  CHECK(gate.LetsInAfter(ask, order) == kNotNow);
  gate.force_s = 1'800;
  CHECK(gate.LetsInAfter(ask, order) == 1'800);
}

TEST_CASE("concur's window grows with room and halves under unused cached tokens") {
  const Concur gate;
  const auto window_after = [&](double window, double use, double hits) {
    return gate.Update(window, {.use = use, .hits = hits, .running = 7});
  };
  CHECK(window_after(0, 0.3, 1) == 7);
  CHECK(window_after(0, 0.1, 1) == 9);
  CHECK(window_after(10, 0.19, 0) == 12);
  CHECK(window_after(10, 0.2, 0) == 10);
  CHECK(window_after(10, 0.5, 0) == 10);
  CHECK(window_after(10, 0.51, 0.49) == 5);
  CHECK(window_after(10, 0.9, 0.5) == 10);
  CHECK(window_after(1.5, 0.9, 0) == 1);
  CHECK(window_after(1, 0.9, 0) == 1);
  const AnyGate any = gate;
  CHECK(any.Update(10, {.use = 0.9, .hits = 0}) == 5);
  CHECK(any.UpdateEvery() == 5);
  CHECK(AnyGate(Lease{}).UpdateEvery() == 0);
  CHECK(AnyGate(Lease{}).Update(3, {}) == 3);
}

TEST_CASE("concur counts running and recently used workflows that do not wait") {
  const Concur gate;
  FakeOrder order;
  order.Of(1, 90, 50)
      .Holds(1, 90, 10)
      .Holds(2, 40, 10)
      .Holds(3, 99, 10, true)
      .Holds(4, 41, 10)
      .Holds(5, 0, 1, false, true);
  GateAsk ask = Ask(1, 1);
  ask.running = 3;
  ask.state = 6;  // 3 running, the first and the fourth, and itself
  CHECK(gate.LetsInAfter(ask, order) == 0);
  ask.state = 5.9;
  CHECK(gate.LetsInAfter(ask, order) == kNotNow);
  CHECK(Concur{.idle_s = 10}.LetsInAfter(ask, order) == 0);  // the first has been away longer: 4
  ask.state = 3.9;
  CHECK(Concur{.idle_s = 10}.LetsInAfter(ask, order) == kNotNow);
  ask.state = 4;
  CHECK(Concur{.idle_s = 10}.LetsInAfter(ask, order) == 0);
  CHECK(Concur{.idle_s = 10.1}.LetsInAfter(ask, order) == kNotNow);
  ask.state = 5.9;
  ask.now = At(101);  // the fourth has been away for a minute
  CHECK(gate.LetsInAfter(ask, order) == 0);
}

TEST_CASE("concur without a window uses current values") {
  const Concur gate;
  FakeOrder order;
  order.Of(1, 90, 50);
  GateAsk ask = Ask(1, 1);
  ask.used = 51, ask.hits = 0.4;
  CHECK(gate.LetsInAfter(ask, order) == kNotNow);
  ask.used = 50;
  CHECK(gate.LetsInAfter(ask, order) == 0);
  ask.used = 51, ask.hits = 0.5;
  CHECK(gate.LetsInAfter(ask, order) == 0);
  ask.hits = 0.4, ask.stuck = true;
  CHECK(gate.LetsInAfter(ask, order) == 0);
}

struct Patience {  // lets others' memory go after ten seconds of waiting
  double LetsInAfter(const GateAsk& ask, const HeldOrder& held) const { return TakesOfOthers(ask, held) ? 10 : 0; }
};

TEST_CASE("a host's own gate is made by name") {
  CHECK(RegisterGate("none", "", [](auto, auto*) { return Patience{}; }).code() == absl::StatusCode::kInvalidArgument);
  REQUIRE(RegisterGate("patience", "ten seconds", [](auto, auto*) { return Patience{}; }).ok());
  const AnyGate made = *MakeGate("patience");
  CHECK(made.spec() == "patience");
  CHECK_FALSE(made.open());
  FakeOrder order;
  order.Dead(4).Of(1, 90, 4).Awaited(2, 4);
  CHECK(made.LetsInAfter(Ask(9, 4), order) == 0);
  CHECK(made.LetsInAfter(Ask(9, 5), order) == 10);
  order.victims.erase(order.victims.begin() + 1);
  CHECK(made.LetsInAfter(Ask(9, 8), order) == 0);
  CHECK(GateInfos().back().name == "patience");
}

// --- promises of every gate ---

// Dead, held and awaited blocks. `sorted`: held ones are ordered by the value that Price gives them.
FakeOrder AnyOrder(Random& random, const HoldValue* sorted) {
  FakeOrder order;
  const auto held = [&] {
    return Held{.workflow = {random.Below(9)},
                .return_class = static_cast<std::uint32_t>(random.Below(5)),
                .since = At(100 - random.LogNormal(3, 2)),
                .tokens = 10 * static_cast<std::int32_t>(100 + random.Below(10'000)),
                .block_tokens = 10};
  };
  const auto some = [&](HeldTier tier) {
    for (std::uint64_t n = random.Below(5); n > 0; --n) {
      const Held victim = held();
      order.Add(victim, tier, static_cast<std::int32_t>(1 + random.Below(40)));
    }
  };
  some(HeldTier::kDead);
  const auto first = static_cast<std::ptrdiff_t>(order.victims.size());
  some(HeldTier::kHeld);
  if (sorted != nullptr) {
    std::sort(order.victims.begin() + first, order.victims.end(), [&](const auto& a, const auto& b) {
      return sorted->Value(a.held, At(100)) < sorted->Value(b.held, At(100));
    });
  }
  some(HeldTier::kAwaited);
  for (std::uint64_t n = random.Below(6); n > 0; --n) {
    const std::uint64_t workflow = random.Below(9);
    const double since = 100 - random.LogNormal(3, 2);
    const auto tokens = static_cast<std::int32_t>(random.Below(500));
    const bool awaited = random.Chance(0.3);
    order.Holds(workflow, since, tokens, awaited, random.Chance(0.3));
  }
  return order;
}

struct TwoAsks {
  GateAsk less, more;
};

TwoAsks AnyAsks(Random& random) {
  GateAsk a = Ask(0, 0);
  a.lack = 1 + static_cast<std::int32_t>(random.Below(60));
  a.need = a.lack + static_cast<std::int32_t>(random.Below(40));
  a.running = static_cast<std::int64_t>(random.Below(4));
  a.used = static_cast<std::int32_t>(random.Below(100));
  a.delayed = static_cast<std::int64_t>(1 + random.Below(200));
  a.hits = random.Uniform();
  a.state = random.Chance(0.3) ? 0 : 1 + 6 * random.Uniform();
  a.stuck = a.running == 0;
  a.waited_s = random.LogNormal(3, 2);
  GateAsk b = a;
  b.lack += static_cast<std::int32_t>(random.Below(40));
  b.need = std::max(b.lack, a.need + static_cast<std::int32_t>(random.Below(40)));
  b.waited_s *= random.Uniform();
  b.tokens = static_cast<std::int32_t>(random.Below(2'000));
  return {a, b};
}

std::vector<std::string> GateSpecs() {
  std::vector<std::string> specs = {"working_set(half_life_s=60,force_s=0)", "working_set(sweep_s=0,buffer=0)",
                                    "concur(idle_s=5)", "price(kappa=0)", "lease(seconds=3)"};
  for (const GateInfo& info : GateInfos()) specs.push_back(info.name);
  return specs;
}

std::int32_t BlocksOf(const FakeOrder& order) {
  std::int32_t blocks = 0;
  for (const HeldVictim& victim : order.victims) blocks += victim.blocks;
  return blocks;
}

TEST_CASE("a request that lacks or needs more is not admitted sooner") {
  const ReturnTimes times;
  const HoldValue flat{.alpha_ms = 1, .beta_ns = 0, .curves = &times.curves()};
  for (const std::string& spec : GateSpecs()) {
    CAPTURE(spec);
    // A request's own holdings harm no other request, so both requests have no holdings. Price ranks by the mean value
    // of the victims. That mean grows with the missing blocks if victims are ordered by value. A holding's blocks must
    // have one value, and awaited blocks must count.
    const bool price = spec.starts_with("price");
    const PrefillPace pace{.alpha_ms = 1, .beta_ns = 0};
    AnyGate gate = *MakeGate(spec, price ? &pace : nullptr);
    gate.Read(&times.curves());
    Random random(3);
    int let_in = 0, kept_out = 0;
    for (std::int64_t i = 0; i < Scaled(20'000); ++i) {
      const FakeOrder order = AnyOrder(random, price ? &flat : nullptr);
      auto [less, more] = AnyAsks(random);
      if (more.lack > BlocksOf(order)) continue;  // it would not fit
      if (price) less.stuck = more.stuck = false;
      const double first = gate.LetsInAfter(less, order), then = gate.LetsInAfter(more, order);
      REQUIRE(first >= 0);
      REQUIRE(then >= first * (1 - 1e-12));
      REQUIRE(gate.LetsInAfter(less, order) == first);
      (first <= less.waited_s ? let_in : kept_out) += 1;
    }
    CHECK(let_in > 100);
    CHECK((kept_out > 100) == (spec != "none"));
  }
}

TEST_CASE("gates admit if nothing runs and only waiting turns' KV is lost") {
  const ReturnTimes times;
  for (const std::string& spec : GateSpecs()) {
    CAPTURE(spec);
    AnyGate gate = *MakeGate(spec);
    gate.Read(&times.curves());
    Random random(4);
    int awaited = 0;
    for (std::int64_t i = 0; i < Scaled(20'000); ++i) {
      FakeOrder order = AnyOrder(random, nullptr);
      std::erase_if(order.victims, [](const HeldVictim& v) { return v.tier == HeldTier::kHeld; });
      GateAsk ask = AnyAsks(random).more;
      ask.stuck = true, ask.running = 0;
      REQUIRE(gate.LetsInAfter(ask, order) == 0);
      awaited += !order.victims.empty() && order.victims.back().tier == HeldTier::kAwaited ? 1 : 0;
    }
    CHECK(awaited > 100);
  }
}

TEST_CASE("if nothing runs, each gate admits once all holdings are old") {
  const ReturnTimes times;
  for (const std::string& spec : GateSpecs()) {
    if (spec == "price(kappa=0)") continue;  // it has no such promise
    CAPTURE(spec);
    AnyGate gate = *MakeGate(spec);
    gate.Read(&times.curves());
    Random random(5);
    for (std::int64_t i = 0; i < Scaled(5'000); ++i) {
      const FakeOrder order = AnyOrder(random, nullptr);
      GateAsk ask = AnyAsks(random).less;
      ask.stuck = true, ask.running = 0, ask.used = 0;
      ask.need = std::min(ask.need, ask.total - 20), ask.lack = std::min(ask.lack, ask.need);
      ask.state = std::max(ask.state, 1.0);
      ask.now = At(1e6);
      ask.waited_s = 1e6;
      REQUIRE(gate.LetsInAfter(ask, order) <= ask.waited_s);
    }
  }
}

TEST_CASE("each gate is made by name, and its spec remakes it") {
  std::vector<std::string> names;
  for (const GateInfo& info : GateInfos()) {
    CAPTURE(info.name);
    names.push_back(info.name);
    CHECK_FALSE(info.summary.empty());
    REQUIRE(MakeGate(info.name).ok());
    CHECK(MakeGate(info.name)->spec() == info.name);
  }
  for (const std::string name : {"none", "lease", "working_set", "concur", "price"}) {
    CHECK(std::ranges::count(names, name) == 1);
  }
  for (const std::string spec : {"lease(seconds=7)", "working_set(half_life_s=60,sweep_s=1,force_s=0,buffer=0)",
                                 "concur(u_low=0.1,u_high=0.9,hits_low=0.2,alpha=1,beta=0.7,every_s=1,idle_s=9)",
                                 "price(kappa=3,wait_s=10,share=0,after_s=60,alpha_ms=1,beta_ns=2)"}) {
    CAPTURE(spec);
    const auto made = MakeGate(spec);
    REQUIRE(made.ok());
    CHECK(made->spec() == spec);
  }
}

std::string Fault(const std::string& spec) { return std::string(MakeGate(spec).status().message()); }

TEST_CASE("an invalid spec of a gate is refused with its mistake") {
  CHECK(Fault("prize").find("unknown gate 'prize'; did you mean 'price'?") != std::string::npos);
  CHECK(Fault("price(share=2)").find("share=2: must be a number from 0 to 1") != std::string::npos);
  CHECK(Fault("working_set(half_life_s=0)").find("half_life_s=0") != std::string::npos);
  CHECK(Fault("working_set(buffer=1.5)").find("buffer=1.5: must be a whole number") != std::string::npos);
  CHECK(Fault("concur(window=3)").find("unknown option 'window'") != std::string::npos);
  CHECK_FALSE(MakeGateFactory("concur(window=3)").ok());
}

TEST_CASE("a gate takes the engine's pace unless its spec has one") {
  const PrefillPace pace{.alpha_ms = 1, .beta_ns = 0};
  FakeOrder order;
  order.Of(1, 90, 4);
  const GateAsk ask = Crowd(Ask(4, 4), 50);
  CHECK(MakeGate("price(kappa=1)", &pace)->LetsInAfter(ask, order) == Approx(300));
  CHECK(MakeGate("price(kappa=1,alpha_ms=2)", &pace)->LetsInAfter(ask, order) == Approx(900));
  CHECK((*MakeGateFactory("price(kappa=1)"))(pace).LetsInAfter(ask, order) == Approx(300));
}

}  // namespace
}  // namespace takt
