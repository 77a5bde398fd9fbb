// Hints for hosts with their own cache, against the formulas by hand.
#include "takt/turns/turn_hints.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "takt/base/random.h"
#include "catch.h"

namespace takt::testing {
namespace {

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

// A turn of the branch that waits for a tool from `at` on.
CacheHint Turn(TurnHints& hints, std::uint64_t workflow, std::int32_t tokens, double at, TurnWhy why = TurnWhy::kTool) {
  hints.Began({{workflow}, 0}, At(at));
  hints.Ended({{workflow}, 0}, {tokens}, At(at));
  const auto hint = hints.On(TurnEnded{.workflow = {workflow}, .why = why}, At(at));
  REQUIRE(hint.has_value());
  return *hint;
}

TEST_CASE("while all fit, a hint is neutral and has no end") {
  TurnHints hints;
  hints.SetCapacity(1'000'000);
  const CacheHint hint = Turn(hints, 7, 100'000, 1);
  CHECK(hint == CacheHint{.workflow = {7}, .priority = 35, .until = kNever, .tokens = {100'000}});
  CHECK(hints.price() == 0);
}

TEST_CASE("beyond capacity, a hint compares value with price until they meet") {
  TurnHints hints;
  hints.SetCapacity(250'000);
  for (std::uint64_t w = 1; w <= 10; ++w) Turn(hints, w, 100'000, static_cast<double>(w));
  const CacheHint tool = Turn(hints, 11, 100'000, 12);
  REQUIRE(hints.price() > 0);
  // The price is the value of the third best, since two fit.
  const HoldValue value;
  const auto gain = [&](double age) { return hints.times().Gain(ReturnClass::kTool, age); };
  const auto worth = [&](double age) { return gain(age) * (value.alpha_ms * 1e-3 + value.beta_ns * 1e-9 * 50'000); };
  std::vector<double> all;
  for (std::uint64_t w = 1; w <= 11; ++w) all.push_back(worth(w == 11 ? 0 : 12 - static_cast<double>(w)));
  std::ranges::sort(all, std::greater());
  CHECK(hints.price() == all[2]);
  CHECK(tool.priority >= 15);
  CHECK(tool.priority <= 55);
  if (tool.until != kNever && tool.until > At(12)) {
    const double end = ToSeconds(tool.until) - 12;
    CHECK(worth(end) < hints.price());
    CHECK(worth(end * 0.99) >= hints.price());
  }
  // A user's pause of minutes is worth less than a tool call.
  const CacheHint user = Turn(hints, 12, 100'000, 12, TurnWhy::kUser);
  CHECK(user.priority < tool.priority);
  CHECK(user.until <= tool.until);
  // A pin is the host's own wish and always holds.
  const auto pinned =
      hints.On(TurnEnded{.workflow = {12}, .why = TurnWhy::kUser, .pin = std::chrono::seconds(5000)}, At(12));
  REQUIRE(pinned.has_value());
  CHECK(pinned->until >= At(5012));
}

TEST_CASE("hints drop ended branches and fetch expected ones") {
  TurnHints hints;
  hints.SetCapacity(1'000);
  CHECK(!hints.On(TurnEnded{.workflow = {7}, .why = TurnWhy::kTool}, At(0)).has_value());
  CHECK(!hints.On(TurnExpected{{7}, 0, At(5)}, At(0)).has_value());
  Turn(hints, 7, 100, 1);
  hints.Began({{7}, 3}, At(1)), hints.Ended({{7}, 3}, {50}, At(1));
  const auto fetch = hints.On(TurnExpected{{7}, 0, At(9)}, At(5));
  REQUIRE(fetch.has_value());
  CHECK(fetch->action == CacheAction::kFetch);
  CHECK(fetch->until == At(9));
  CHECK(fetch->tokens == Tokens{100});
  const auto drop = hints.On(TurnEnded{.workflow = {7}, .why = TurnWhy::kOver}, At(6));
  REQUIRE(drop.has_value());
  CHECK(drop->action == CacheAction::kDrop);
  int named = 0;
  hints.On(WorkflowEnded{{7}}, At(7), [&](const CacheHint& hint) {
    ++named;
    CHECK(hint.branch == 3);
    CHECK(hint.action == CacheAction::kDrop);
  });
  CHECK(named == 1);
  CHECK(hints.branches() == 0);
  // Not while one of its requests is here.
  hints.Began({{8}, 0}, At(8));
  CHECK(!hints.On(TurnEnded{.workflow = {8}, .why = TurnWhy::kTool}, At(8)).has_value());
}

TEST_CASE("no branch changes another workflow's hints, and a flood ends its own") {
  TurnHints hints(HoldValue{}, {.max_open = 100});
  hints.SetCapacity(1'000);
  Turn(hints, 111, 100, 1), Turn(hints, 111, 100, 2);
  const std::uint64_t own = 222, branch = Mix64(111) - Mix64(own);
  hints.Began({{own}, branch, {2}}, At(3));
  CHECK(hints.Ended({{own}, branch, {2}}, {5}, At(3)).workflow == WorkflowId{own});
  const auto drop = hints.On(TurnEnded{.workflow = {own}, .branch = branch, .why = TurnWhy::kOver}, At(4));
  CHECK((drop && drop->workflow == WorkflowId{own} && drop->branch == branch));
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    hints.Began({{own}, i, {2}}, At(5));
    hints.Ended({{own}, i, {2}}, {5}, At(5));
  }
  CHECK(hints.branches() == 100);
  CHECK(hints.On(TurnEnded{.workflow = {111}, .why = TurnWhy::kTool}, At(6)).has_value());
}

TEST_CASE("hints and the known set stay bounded under random input") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    ReturnTimesOptions options;
    options.max_open = 50;
    TurnHints hints(HoldValue{}, options);
    hints.SetCapacity(static_cast<std::int64_t>(random.Below(1'000'000)));
    const auto check = [](const CacheHint& hint) {
      REQUIRE(hint.priority % 5 == 0);
      REQUIRE(hint.priority <= 55);
      REQUIRE((hint.action == CacheAction::kDrop || hint.priority >= 15));
    };
    for (int i = 0; i < 3'000; ++i) {
      const TimePoint now = random.Chance(0.01) ? TimePoint(Duration(static_cast<std::int64_t>(random.Bits() >> 3)))
                                                : At(i * random.Uniform());
      const WorkflowId workflow{1 + random.Below(100)};
      const std::uint64_t branch = random.Below(2);
      switch (random.Below(5)) {
        case 0: hints.Began({workflow, branch}, now); break;
        case 1: check(hints.Ended({workflow, branch}, {static_cast<std::int32_t>(random.Bits())}, now)); break;
        case 2: {
          const TurnEnded ended{workflow,
                                branch,
                                static_cast<TurnWhy>(random.Below(5)),
                                {random.Bits()},
                                Duration(static_cast<std::int64_t>(random.Bits())),
                                Duration(static_cast<std::int64_t>(random.Bits()))};
          if (const auto hint = hints.On(ended, now)) check(*hint);
          break;
        }
        case 3:
          if (const auto hint = hints.On(TurnExpected{workflow, branch, At(i)}, now)) check(*hint);
          break;
        default:
          if (random.Chance(0.1)) hints.On(WorkflowEnded{workflow}, now, check);
      }
      REQUIRE(hints.branches() <= 50);
    }
  }
}

}  // namespace
}  // namespace takt::testing
