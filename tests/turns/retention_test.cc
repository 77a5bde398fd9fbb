// Each retention policy's value of a block, against figures computed by hand.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/turns/holdings.h"
#include "takt/turns/return_times.h"
#include "takt/rivals/retention/belady.h"
#include "takt/rivals/retention/belady_cost.h"
#include "takt/rivals/retention/continuum.h"
#include "takt/turns/retention/hold_value.h"
#include "takt/turns/retention/lfu.h"
#include "takt/turns/retention/lru.h"
#include "takt/turns/retention/registry.h"
#include "takt/turns/retention/shortest.h"
#include "takt/rivals/retention/slru.h"
#include "takt/rivals/retention/tlru.h"
#include "takt/turns/retention/ttl.h"
#include "takt/rivals/retention/wa.h"
#include "with_rivals.h"

namespace takt {
namespace {

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

// A share `first` of all gaps ends between `from` and the next edge, and a share `second` between `later` and the next
// edge. All other gaps never end.
ReturnCurve TwoReturns(double from, double first, double later = 0, double second = 0) {
  ReturnCurve curve;
  double survival = 1;
  for (std::size_t i = 0; i <= ReturnCurve::kBins; ++i) {
    curve.survival[i] = survival;
    if (i == ReturnCurve::BinOf(from)) survival -= first;
    if (second > 0 && i == ReturnCurve::BinOf(later)) survival -= second;
  }
  curve.FindGain();
  return curve;
}

TEST_CASE("slru protects from the second use on and ranks equally otherwise") {
  const Slru slru;
  CHECK(slru.Value({.uses = 1, .tokens = 10}, At(0)) == 0);
  CHECK(slru.Value({.uses = 2, .tokens = 99'999}, At(0)) == 1);
  CHECK(slru.Value({.uses = 40}, At(1'000)) == 1);
  CHECK(slru.List({.uses = 1}) == 0);
  CHECK(slru.List({.uses = 2}) == 1);
  CHECK(Slru{.uses = 3}.Value({.uses = 2}, At(0)) == 0);
}

TEST_CASE("wa uses the probability of a return within the lifetime") {
  ReturnCurves curves;
  curves.classes = {TwoReturns(96, 0.8), TwoReturns(4, 0.5), TwoReturns(256, 1), TwoReturns(4, 1),
                    TwoReturns(1'024, 1)};
  const Wa wa{.life_s = 60, .curves = &curves};
  const auto of = [&](std::uint32_t return_class, double age) {
    return wa.Value({.return_class = return_class}, At(age));
  };
  // after a tool half return, between 4 and 6 s: 5 s in the mean
  CHECK(of(ReturnClass::kTool, 0) == Approx(0.5 * (1 - std::exp(-12))));
  CHECK(of(ReturnClass::kTool, 5) == Approx(0.5 * (std::exp(-1) - std::exp(-13))));
  // after a user's turn all return, between 256 and 384 s
  CHECK(of(ReturnClass::kUser, 0) == Approx(1 - std::exp(-60.0 / 320)));
  CHECK(of(ReturnClass::kUser, 100) == Approx(std::exp(-100.0 / 320) - std::exp(-160.0 / 320)));
  CHECK(of(ReturnClass::kTool, 4) > of(ReturnClass::kUser, 0));
  CHECK(of(ReturnClass::kTool, 10) < of(ReturnClass::kUser, 0));
  // other classes form one category, with 4 of 5 after 112 s; single tools count as tools
  CHECK(of(ReturnClass::kUnknown, 0) == Approx(0.8 * (1 - std::exp(-60.0 / 112))));
  CHECK(of(ReturnClass::kSubAgent, 7) == of(ReturnClass::kUnknown, 7));
  CHECK(of(ReturnClass::kFirstTool, 7) == of(ReturnClass::kTool, 7));
  CHECK(wa.List({.return_class = ReturnClass::kFirstTool + 9}) == wa.List({.return_class = ReturnClass::kTool}));
  CHECK(wa.List({.return_class = ReturnClass::kUser}) != wa.List({.return_class = ReturnClass::kTool}));
  CHECK(wa.List({.return_class = ReturnClass::kSubAgent}) == wa.List({}));
  // none returns; nothing is known
  curves.classes[0] = TwoReturns(4, 0);
  CHECK(of(ReturnClass::kUnknown, 1) == 0);
  CHECK(Wa{.life_s = 60}.Value({}, At(30)) == Approx(std::exp(-0.5) - std::exp(-1.5)));
}

TEST_CASE("tlru evicts first the tokens that the next turn can miss") {
  const Tlru tlru;  // xi 4,096, Q 3,000: 1,096 tokens may be missing
  const auto of = [](std::int32_t tokens) {
    return Held{.workflow = {1}, .tokens = tokens, .block_tokens = 16, .context = 10'000};
  };
  CHECK(tlru.Value(of(10'000), At(0)) == 0);
  CHECK(tlru.Value(of(8'920), At(0)) == 0);  // without it 8,904 are left and 1,096 are missing
  CHECK(tlru.Value(of(8'919), At(0)) == 1);
  CHECK(tlru.Value(of(16), At(0)) == 1);
  CHECK(tlru.List(of(8'920)) == 0);
  CHECK(tlru.List(of(8'919)) == 1);
  CHECK(Tlru{.xi = 20'000}.Value(of(16), At(0)) == 0);  // 10,000 + 3,000 are at most xi
  CHECK(Tlru{.xi = 2'999}.Value(of(10'000), At(0)) == 1);
  Held unknown = of(10'000);
  unknown.context = 0;
  CHECK(tlru.Value(unknown, At(0)) == 1);
  Held shared = of(10'000);
  shared.workflow = {};
  CHECK(tlru.Value(shared, At(0)) == 1);
}

TEST_CASE("shortest uses the number of tokens") {
  CHECK(Shortest{}.Value({.tokens = 512}, At(9)) == 512);
  CHECK(Shortest{}.Value({.since = At(5), .tokens = 16}, At(9)) == 16);
  CHECK_FALSE(ListedRetention<Shortest>);
}

TEST_CASE("continuum pins while expected savings grow faster than time") {
  ReturnCurves curves;
  curves.classes = {TwoReturns(4, 0.5, 96, 0.5), TwoReturns(4, 0.5)};
  // 1 ms a token: 5,000 tokens take 5 s, and a turn queues for 10 s
  const Continuum c{.queue_s = 10, .alpha_ms = 1, .beta_ns = 0, .curves = &curves};
  const Held held = {.workflow = {1}, .since = At(100), .tokens = 5'000};
  CHECK(c.PinSeconds(held) == 6);  // by 6 s half have returned: 7.5 - 6; by 128 s all: 15 - 128
  CHECK(c.Value(held, At(105.9)) == 1);
  CHECK(c.Value(held, At(106)) == 0);
  Continuum other = c;
  other.queue_s = 0;
  CHECK(other.PinSeconds(held) == 0);  // 2.5 - 6
  other.queue_s = 1'000;
  CHECK(other.PinSeconds(held) == 128);  // 1,005 - 128, and 502.5 - 6
  other.eta = 0.01;
  CHECK(other.PinSeconds(held) == 6);
  other.eta = 0;
  CHECK(other.PinSeconds(held) == 0);
  other.beta_ns = 1'000;
  CHECK(other.PinSeconds(held) == 6);  // 5 s, and 12.5 s for the tokens before each token
  other.alpha_ms = 0;
  CHECK(other.PinSeconds(held) == 6);  // 6.25 - 6
  other.beta_ns = 900;
  CHECK(other.PinSeconds(held) == 0);  // 5.625 - 6
  other.beta_ns = 0, other.queue_s = 12, other.eta = 1;
  CHECK(other.PinSeconds(held) == 0);  // 6 - 6: no gain
  // in a class with half of the returns no wait pays for the others
  other = c;
  other.queue_s = 1'000;
  Held tool = held;
  tool.return_class = ReturnClass::kTool;
  CHECK(other.PinSeconds(tool) == 6);
  Held shared = held;
  shared.workflow = {};
  CHECK(c.Value(shared, At(100)) == 0);
  other.curves = nullptr;
  CHECK(other.Value(held, At(100)) == 0);
}

TEST_CASE("a branch's newest next use wins; a known end is forgotten") {
  NextUses uses;
  CHECK(uses.Of({1}, 0) == kNever);
  uses.Set({1}, 0, At(5));
  uses.Set({1}, 1, At(6));
  uses.Set({2}, 0, At(7));
  uses.Set({1}, 0, At(8));
  CHECK(uses.Of({1}, 0) == At(8));
  CHECK(uses.Of({1}, 1) == At(6));
  CHECK(uses.Of({2}, 0) == At(7));
  CHECK(uses.Of({2}, 1) == kNever);
  uses.Set({1}, 0, kNever);
  uses.Set({3}, 0, kNever);
  CHECK(uses.Of({1}, 0) == kNever);
  CHECK(uses.size() == 2);
}

TEST_CASE("belady evicts the latest return first, and shared blocks last") {
  NextUses uses;
  uses.Set({1}, 0, At(100));
  uses.Set({2}, 0, At(40));
  const Belady belady{&uses};
  CHECK(belady.Value({.workflow = {1}}, At(30)) == -70);
  CHECK(belady.Value({.workflow = {2}}, At(30)) == -10);
  CHECK(belady.Value({.workflow = {2}}, At(50)) == 10);  // late
  CHECK(belady.Value({.workflow = {3}}, At(30)) == -Belady::kFar);
  CHECK(belady.Value({.workflow = {1}, .branch = 1}, At(30)) == -Belady::kFar);
  CHECK(belady.Value({.uses = 2}, At(30)) == 0);
  CHECK(belady.Value({.uses = 1}, At(30)) == -Belady::kFar);
  CHECK(Belady{}.Value({.workflow = {1}}, At(30)) == Belady{}.Value({.workflow = {3}}, At(30)));
}

TEST_CASE("belady_cost ranks by seconds of work per second until use") {
  NextUses uses;
  uses.Set({1}, 0, At(100));
  uses.Set({2}, 0, At(40));
  const BeladyCost policy{.alpha_ms = 1, .beta_ns = 1'000, .next_uses = &uses};
  const auto of = [&](std::uint64_t workflow, std::int32_t tokens, double now) {
    return policy.Value({.workflow = {workflow}, .tokens = tokens, .block_tokens = 10}, At(now));
  };
  CHECK(of(1, 1'000, 0) == Approx(10 * 2e-3 / 100));  // 1 ms, and 1,000 times 1 us
  CHECK(of(2, 1'000, 0) == Approx(10 * 2e-3 / 40));
  CHECK(of(1, 9'000, 0) == Approx(10 * 10e-3 / 100));
  CHECK(of(2, 1'000, 40) == Approx(10 * 2e-3 / 1e-3));
  CHECK(of(2, 1'000, 90) == of(2, 1'000, 40));
  CHECK(of(3, 1'000, 0) == 0);
}

struct ByClass {  // a user's turn is evicted before all others
  static constexpr std::size_t kLists = 2;
  std::size_t List(const Held& held) const { return held.return_class == ReturnClass::kUser ? 0 : 1; }
  double Value(const Held& held, TimePoint) const { return static_cast<double>(List(held)); }
};

TEST_CASE("a host's own retention policy is made by name") {
  CHECK(RegisterRetention("lru", "", [](auto, auto*) { return ByClass{}; }).code() ==
        absl::StatusCode::kInvalidArgument);
  REQUIRE(RegisterRetention("by_class", "users' turns first", [](auto, auto*) { return ByClass{}; }).ok());
  const AnyRetention made = *MakeRetention("by_class");
  CHECK(made.spec() == "by_class");
  CHECK(made.listed());
  CHECK_FALSE(made.awaits());
  CHECK(made.Value({.return_class = ReturnClass::kUser}, At(0)) == 0);
  CHECK(made.Value({.return_class = ReturnClass::kTool}, At(0)) == 1);
  CHECK(RetentionInfos().back().summary == "users' turns first");
}

// Blocks of a holding that begin at the first token, with an age.
Held Random1(Random& random) {
  Held held = {.workflow = {1 + random.Below(4)},
               .branch = random.Below(2),
               .return_class = static_cast<std::uint32_t>(random.Below(7)),
               .uses = static_cast<std::int32_t>(1 + random.Below(5)),
               .since = At(100 * random.Uniform()),
               .block_tokens = 16};
  held.context = 16 * static_cast<std::int32_t>(1 + random.Below(10'000));
  held.tokens = 16 * static_cast<std::int32_t>(1 + random.Below(static_cast<std::uint64_t>(held.context / 16)));
  if (random.Chance(0.2)) held.workflow = {}, held.branch = 0, held.return_class = 0, held.context = 0;
  return held;
}

TEST_CASE("a shrinking tail's value rises only between lists, and lists never return") {
  const ReturnTimes times;
  NextUses uses;
  for (std::uint64_t w = 1; w <= 3; ++w) uses.Set({w}, 0, At(static_cast<double>(50 * w)));
  for (const RetentionInfo& info : RetentionInfos()) {
    CAPTURE(info.name);
    AnyRetention policy = *MakeRetention(info.name);
    policy.Read(&times.curves());
    policy.Read(&uses);
    Random random(1);
    for (std::int64_t i = 0; i < Scaled(3'000); ++i) {
      Held held = Random1(random);
      const TimePoint now = At(100 + random.LogNormal(3, 2));
      std::vector<std::size_t> lists = {policy.List(held)};
      double value = policy.Value(held, now);
      REQUIRE(std::isfinite(value));
      while (held.tokens > 16) {
        held.tokens -= 16 * static_cast<std::int32_t>(1 + random.Below(static_cast<std::uint64_t>(held.tokens / 16)));
        if (held.tokens <= 0) break;
        const double after = policy.Value(held, now);
        if (policy.List(held) == lists.back()) {
          REQUIRE(after <= value);
        } else {
          REQUIRE(std::ranges::find(lists, policy.List(held)) == lists.end());
          lists.push_back(policy.List(held));
        }
        value = after;
      }
    }
  }
}

TEST_CASE("within a list the older value is no higher, with one exception") {
  const ReturnTimes times;
  for (const std::string name : {"lru", "lfu", "slru", "ttl", "wa", "tlru"}) {
    CAPTURE(name);
    AnyRetention policy = *MakeRetention(name);
    policy.Read(&times.curves());
    CHECK(policy.listed());
    Random random(2);
    int compared = 0;
    for (std::int64_t i = 0; i < Scaled(20'000); ++i) {
      const Held a = Random1(random), b = Random1(random);
      if (policy.List(a) != policy.List(b) || a.since > b.since) continue;
      ++compared;
      REQUIRE(policy.Value(a, At(200)) <= policy.Value(b, At(200)));
    }
    CHECK(compared > 100);
  }
}

TEST_CASE("each retention policy is made by name, and its spec remakes it") {
  std::vector<std::string> names;
  for (const RetentionInfo& info : RetentionInfos()) {
    CAPTURE(info.name);
    names.push_back(info.name);
    CHECK_FALSE(info.summary.empty());
    const auto made = MakeRetention(info.name);
    REQUIRE(made.ok());
    CHECK(made->spec() == info.name);
  }
  for (const std::string name :
       {"lru", "lfu", "slru", "ttl", "continuum", "wa", "tlru", "shortest", "hold_value", "belady", "belady_cost"}) {
    CHECK(std::ranges::count(names, name) == 1);
  }
  for (const std::string spec :
       {"slru(uses=3)", "ttl(seconds=7)", "continuum(queue_s=1,eta=0.5,alpha_ms=1,beta_ns=2)", "wa(life_s=30)",
        "tlru(xi=100,next=7)", "hold_value(alpha_ms=1,beta_ns=2)", "belady_cost(alpha_ms=1,beta_ns=2)"}) {
    CAPTURE(spec);
    const auto made = MakeRetention(spec);
    REQUIRE(made.ok());
    CHECK(made->spec() == spec);
  }
}

std::string Fault(const std::string& spec) { return std::string(MakeRetention(spec).status().message()); }

TEST_CASE("an invalid spec of a retention policy is refused with its mistake") {
  CHECK(Fault("slr").find("unknown retention policy 'slr'; did you mean 'slru'?") != std::string::npos);
  CHECK(Fault("slru(uses=0)").find("uses=0: must be a whole number") != std::string::npos);
  CHECK(Fault("wa(life_s=0)").find("life_s=0: must be a number of at least 0.001") != std::string::npos);
  CHECK(Fault("tlru(xi=-1)").find("xi=-1") != std::string::npos);
  CHECK(Fault("continuum(t=1)").find("unknown option 't'") != std::string::npos);
  CHECK_FALSE(MakeRetentionFactory("continuum(t=1)").ok());
}

TEST_CASE("a retention policy takes the engine's pace unless its spec has one") {
  const PrefillPace pace{.alpha_ms = 1, .beta_ns = 0};
  const Held held = {.workflow = {1}, .tokens = 100, .block_tokens = 10};
  CHECK(MakeRetention("hold_value", &pace)->Value(held, At(0)) == Approx(10e-3));
  CHECK(MakeRetention("belady_cost", &pace)->Value(held, At(0)) == Approx(10e-3 / 1e-3));
  CHECK(MakeRetention("hold_value(alpha_ms=2)", &pace)->Value(held, At(0)) == Approx(20e-3));
  CHECK((*MakeRetentionFactory("hold_value"))(pace).Value(held, At(0)) == Approx(10e-3));
  ReturnCurves curves;
  curves.classes = {TwoReturns(4, 0.5)};
  AnyRetention continuum = *MakeRetention("continuum(queue_s=0)", &pace);
  continuum.Read(&curves);
  CHECK(continuum.Value({.workflow = {1}, .tokens = 12'100}, At(5)) == 1);  // 6.05 s saved by 6 s
  CHECK(continuum.Value({.workflow = {1}, .tokens = 11'900}, At(5)) == 0);
}

TEST_CASE("binding a policy again leaves its copies unchanged") {
  NextUses uses;
  uses.Set({1}, 0, At(9));
  ReturnCurves curves;
  AnyRetention belady = Belady{};
  const AnyRetention copy = belady;
  belady.Read(&curves);
  CHECK(belady.Value({.workflow = {1}}, At(0)) == 0);
  belady.Read(&uses);
  CHECK(belady.Value({.workflow = {1}}, At(0)) == -9);
  CHECK(copy.Value({.workflow = {1}}, At(0)) == 0);
  CHECK(belady.spec() == "belady");
}

TEST_CASE("holdings evict in a clairvoyant's order") {
  NextUses uses;
  uses.Set({1}, 0, At(1'000));
  uses.Set({2}, 0, At(10));
  AnyRetention belady = Belady{};
  belady.Read(&uses);
  internal::Holdings holdings(belady);
  const std::vector<std::vector<std::uint64_t>> prompts = {{11, 12, 13}, {21, 22, 23}, {31, 32, 33}};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t n = 1; n <= 3; ++n) holdings.Publish(std::span(prompts[i]).first(n), 1);
    holdings.Release(prompts[i], 1, {{i + 1}}, At(static_cast<double>(i)));
  }
  CHECK(holdings.Evict(4, At(5)) == 4);  // the third is never used again; then the first
  CHECK(holdings.Find(prompts[2], 1).chunks == 0);
  CHECK(holdings.Find(prompts[0], 1).chunks == 2);
  CHECK(holdings.Find(prompts[1], 1).chunks == 3);
}

}  // namespace
}  // namespace takt
