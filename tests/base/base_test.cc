#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "catch.h"
#include "takt/base/age_list.h"
#include "takt/base/count.h"
#include "takt/base/id.h"
#include "takt/base/id_map.h"
#include "takt/base/names.h"
#include "takt/base/random.h"
#include "takt/base/slot_table.h"
#include "takt/base/spec.h"
#include "takt/base/time.h"
#include "takt/model/estimate.h"
#include "takt/model/event.h"
#include "takt/model/step.h"
#include "takt/policy/rank_policy.h"
#include "takt/kv/kv_oracle.h"
#include "takt/state/stats.h"

namespace takt {
namespace {

enum Loose { kLoose };
enum Fixed : int { kFixed };
[[maybe_unused]] constexpr auto NamesOf(Loose) { return std::to_array<std::string_view>({"loose"}); }
constexpr auto NamesOf(Fixed) { return std::to_array<std::string_view>({"fixed"}); }
static_assert(!NamedEnum<Loose> && NamedEnum<Fixed> && Name(kFixed) == "fixed");

enum class Fruit : std::uint8_t { kApple, kPear2 };
enum class Tree : std::uint8_t { kApple, kPear2 };
enum class Berry : std::uint8_t { kApple, kPear2 };
constexpr auto NamesOf(Fruit) { return std::array<std::string_view, 2>(); }
constexpr auto NamesOf(Tree) { return std::array<std::string_view, 1>(); }
constexpr auto NamesOf(Berry) { return std::array<std::string_view, 3>(); }
static_assert(kAllNamed<Fruit> && !kAllNamed<Tree> && !kAllNamed<Berry>);

TEST_CASE("seconds become whole nanoseconds, rounded, saturating, never undefined") {
  CHECK(FromSeconds(1.5) == Duration(1'500'000'000));
  CHECK(FromSeconds(1.4e-9) == Duration(1));
  CHECK(FromSeconds(1.6e-9) == Duration(2));
  CHECK(FromSeconds(-1.6e-9) == Duration(-2));
  CHECK(FromSeconds(1e300) == Duration::max());
  CHECK(FromSeconds(-1e300) == Duration::min());
  CHECK(FromSeconds(std::numeric_limits<double>::quiet_NaN()) == Duration::zero());
  CHECK(FromSeconds(std::numeric_limits<double>::infinity()) == Duration::max());
}

TEST_CASE("sums and products of times saturate at both ends") {
  constexpr Duration kMost = Duration::max(), kLeast = Duration::min(), kOne(1);
  CHECK(After(kNever, kOne) == kNever);
  CHECK(After(kNever, -kOne) == kNever - kOne);
  CHECK(After(kUnset, -kOne) == kUnset);
  CHECK(After(kUnset, kMost) == TimePoint(-kOne));
  CHECK(Before(kUnset, kOne) == kUnset);
  CHECK(Before(kNever, kLeast) == kNever);
  CHECK(Before(TimePoint(-kOne), kLeast) == kNever);
  CHECK(Between(kUnset, kNever) == kMost);
  CHECK(Between(kNever, kUnset) == kLeast);
  CHECK(Between(TimePoint(kOne), TimePoint{}) == -kOne);
  CHECK(Sum(kMost, kOne) == kMost);
  CHECK(Sum(kLeast, -kOne) == kLeast);
  CHECK(Difference(Duration(0), kLeast) == kMost);
  CHECK(Difference(kLeast, kOne) == kLeast);
  CHECK(Times(kMost, 2) == kMost);
  CHECK(Times(kMost, -2) == kLeast);
  CHECK(Times(kLeast, -1) == kMost);
  CHECK(Times(kLeast, 0) == Duration(0));
  CHECK(Times(kOne, -3) == Duration(-3));
}

TEST_CASE("the same seed gives the same numbers on every compiler") {
  Random random(42);
  CHECK(random.Bits() == Random(42).Bits());
  Random a(7), b(8);
  CHECK(a.Bits() != b.Bits());
  for (int i = 0; i < 1000; ++i) {
    const double u = a.Uniform();
    CHECK((u >= 0 && u < 1));
    CHECK(a.Below(10) < 10);
  }
  CHECK(a.Below(0) == 0);
}

TEST_CASE("distributions have the moments they promise") {
  Random random(1);
  constexpr int kDraws = 200'000;
  double exponential = 0, normal = 0, square = 0, gamma = 0, gamma_small = 0, weibull = 0;
  for (int i = 0; i < kDraws; ++i) {
    exponential += random.Exponential();
    const double z = random.Normal();
    normal += z;
    square += z * z;
    gamma += random.Gamma(2.5);
    gamma_small += random.Gamma(0.25);
    weibull += random.Weibull(0.8);
  }
  CHECK(exponential / kDraws == Approx(1).margin(0.015));
  CHECK(normal / kDraws == Approx(0).margin(0.015));
  CHECK(square / kDraws == Approx(1).margin(0.02));
  CHECK(gamma / kDraws == Approx(2.5).margin(0.03));
  CHECK(gamma_small / kDraws == Approx(0.25).margin(0.01));
  CHECK(weibull / kDraws == Approx(std::tgamma(1 + 1 / 0.8)).margin(0.02));
}

TEST_CASE("a small shape's gamma draws its factors in one order") {
  Random factors(3);
  const double larger = factors.Gamma(1.25);
  const double smaller = exact::Pow(1 - factors.Uniform(), 4);
  CHECK(Random(3).Gamma(0.25) == larger * smaller);
}

TEST_CASE("an estimate interpolates its quantiles and ignores invalid ones") {
  CHECK_FALSE(Estimate{}.known());
  CHECK(Estimate{}.Quantile(0.5) == -1);
  CHECK(Estimate::Exact(300).Quantile(0.99) == 300);
  const Estimate e{10, {1, 2, 4, 8, 16}};
  CHECK(e.Quantile(0) == 1);
  CHECK(e.Quantile(0.5) == 4);
  CHECK(e.Quantile(0.625) == Approx(6));
  CHECK(e.Quantile(1) == 16);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double inf = std::numeric_limits<double>::infinity();
  CHECK_FALSE(Estimate{nan}.known());
  CHECK_FALSE(Estimate{inf}.known());
  CHECK_FALSE(Estimate{-3}.known());
  const auto bad = std::numeric_limits<float>::quiet_NaN();
  CHECK(Estimate{5, {bad, bad, bad, bad, bad}}.Quantile(0.5) == 5);
}

TEST_CASE("options bound integers exactly") {
  constexpr OptionText kTo63{.least = 1, .most = 0x1p63};
  constexpr auto k63 = std::uint64_t{1} << 63;
  STATIC_REQUIRE((kTo63.Holds(k63) && !kTo63.Holds(k63 + 1) && kTo63.Holds(INT64_MAX) && !kTo63.Holds(INT64_MIN)));
  constexpr OptionText kHalves{.least = -1.5, .most = 2.5};
  STATIC_REQUIRE((kHalves.Holds(-1) && !kHalves.Holds(-2) && kHalves.Holds(2) && !kHalves.Holds(3)));
  STATIC_REQUIRE((!OptionText{.least = -9, .most = -1.5}.Holds(-1) && OptionText{.least = -9, .most = -1.5}.Holds(-2)));
  STATIC_REQUIRE((!OptionText{.most = 2, .below_most = true}.Holds(2) && OptionText{.most = 2}.Holds(2u)));
}

TEST_CASE("a list by age agrees with a plain list") {
  struct Record {
    AgeLink age;
  };
  Random random(3);
  std::vector<Record> records(20);
  AgeList list;
  std::vector<std::uint32_t> model;  // oldest first
  for (int event = 0; event < 5000; ++event) {
    const auto i = static_cast<std::uint32_t>(random.Below(records.size()));
    const auto at = std::ranges::find(model, i);
    if (at == model.end()) {
      list.Append(records, i);
      model.push_back(i);
    } else if (random.Chance(0.5)) {
      list.Remove(records, i);
      model.erase(at);
    } else {
      list.MoveToEnd(records, i);
      model.erase(at);
      model.push_back(i);
    }
    REQUIRE(list.empty() == model.empty());
    if (model.empty()) continue;
    REQUIRE(list.newest() == model.back());
    std::vector<std::uint32_t> order;
    for (std::uint32_t j = list.oldest(); j != kNoSlot; j = records[j].age.newer) order.push_back(j);
    REQUIRE(order == model);
  }
}

// Names that all collide under a hash without a key.
std::vector<std::uint64_t> HostileNames(std::size_t n) {
  std::vector<std::uint64_t> names;
  const std::uint64_t places = std::bit_ceil(n) / 8;
  for (std::uint64_t run = 0; names.size() < n; ++run) {
    if (Mix64(run) % places == 0) names.push_back(run << 4);
  }
  return names;
}

std::size_t Looks(const std::vector<std::uint64_t>& names, std::uint64_t seed) {
  IdMap map;
  map.SetKey(seed);
  for (std::uint32_t i = 0; i < names.size(); ++i) REQUIRE(map.Insert(names[i], i));
  std::size_t looks = 0;
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    REQUIRE(map.Find(names[i]) == i);
    looks += map.Looks(names[i]);
  }
  return looks;
}

TEST_CASE("slots are reused last in, first out, with their old contents") {
  SlotTable<int> table;
  CHECK(!table.HasSlot());
  CHECK(table.Take() == 0);
  CHECK(table.Take() == 1);
  CHECK(table.Take() == 2);
  table[0] = 7;
  table.Give(0), table.Give(2);
  CHECK(table.HasSlot());
  CHECK(table.Take() == 2);
  CHECK(table.Take() == 0);
  CHECK(table[0] == 7);
  CHECK(table.Take() == 3);
  CHECK(table.slots() == 4);
}

TEST_CASE("reserved room lasts, however records come and go") {
  SlotTable<int> table;
  table.Reserve(3);
  const std::size_t capacity = table.capacity();
  CHECK(table.room() == capacity);
  const Slot first = table.Take();
  CHECK(table.room() == capacity - 1);
  table.Give(first);
  CHECK(table.room() == capacity);
}

TEST_CASE("a record is found by its id; one without has a slot") {
  IdTable<WorkflowId, std::string> table;
  const Slot named = table.Insert({5}, "five"), nameless = table.Take();
  CHECK(table.Find({5}) == named);
  CHECK(*table.Get({5}) == "five");
  CHECK(table.Find({}) == kNoSlot);
  CHECK(table.Get({6}) == nullptr);
  CHECK(table.size() == 1);
  table.KeyHashes(3);
  CHECK(table.Find({5}) == named);
  table.Erase(nameless, {});
  table.Erase(named, {5});
  CHECK(table.Find({5}) == kNoSlot);
  CHECK(table.size() == 0);
  CHECK(table.Insert({6}) == named);
  CHECK(*table.Get({6}) == "five");
}

struct Heavy {
  static inline bool weighs = false;
  Heavy() {
    if (weighs) throw std::bad_alloc();
  }
};

TEST_CASE("an id that finds no memory leaves its table unchanged") {
  IdTable<std::uint64_t, Heavy> table;
  table.Insert(1);
  Heavy::weighs = true;
  CHECK_THROWS_AS(table.Insert(2), std::bad_alloc);
  CHECK(table.Find(2) == kNoSlot);
  CHECK(table.slots() == 1);
  Heavy::weighs = false;
  CHECK(table.Insert(2) == 1);
}

TEST_CASE("names chosen to collide are found as fast as others") {
  for (const std::size_t n : {std::size_t{256}, std::size_t{1024}}) {
    for (const std::uint64_t seed : {0u, 1u, 77u}) CHECK(Looks(HostileNames(n), seed) < 8 * n);
  }
}

TEST_CASE("names in even steps are found as fast as others") {
  constexpr std::size_t kNames = 1000;
  for (int bit = 0; bit < 54; ++bit) {
    std::vector<std::uint64_t> names(kNames);
    for (std::size_t i = 0; i < kNames; ++i) names[i] = std::uint64_t{i} << bit;
    CAPTURE(bit);
    CHECK(Looks(names, 5) < 16 * kNames);  // whole runs of 16 sometimes block each other
  }
}

TEST_CASE("a map gets another key and keeps its entries") {
  IdMap map;
  for (std::uint32_t i = 0; i < 100; ++i) map.Insert(i * i, i);
  map.SetKey(9);
  CHECK(map.size() == 100);
  for (std::uint32_t i = 0; i < 100; ++i) REQUIRE(map.Find(i * i) == i);
  CHECK(map.Find(2) == kNoSlot);
  for (std::uint32_t i = 0; i < 100; ++i) REQUIRE(map.Erase(i * i));
  CHECK(map.size() == 0);
}

TEST_CASE("no name is lost, also with a run across the table's start") {
  IdMap map(16);
  const auto name = [](std::uint32_t i) { return Mix64(i); };
  std::uint32_t oldest = 0;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    REQUIRE(map.Insert(name(i), i));
    if (map.size() == 16) REQUIRE(map.Erase(name(oldest++)));
    bool all = true;
    for (std::uint32_t there = oldest; there <= i; ++there) all &= map.Find(name(there)) == there;
    REQUIRE(all);
  }
}

}  // namespace
}  // namespace takt
