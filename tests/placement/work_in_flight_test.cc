// Sums of work in progress, compared with a shadow that counts again.
#include "takt/placement/books/work_in_flight.h"

#include <array>
#include <cstdint>
#include <limits>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"

namespace takt {
namespace {

struct Shadow {
  std::int64_t amount = 0;
  std::uint32_t instance = 0;
  enum { kGone, kWaiting, kRunning } state = kGone;
};

TEST_CASE("sums equal the work in progress after any events") {
  constexpr std::uint32_t kRequests = 40, kInstances = 5;
  Random random(1);
  WorkInFlight work;
  std::array<Shadow, kRequests> shadow;
  const auto check = [&] {
    for (std::uint32_t i = 0; i < kInstances; ++i) {
      std::array<std::int64_t, 3> sums{}, counts{};
      for (const Shadow& s : shadow) {
        if (s.instance != i) continue;
        sums[s.state] += s.amount;
        ++counts[s.state];
      }
      REQUIRE(work.waiting(i) == sums[Shadow::kWaiting]);
      REQUIRE(work.running(i) == sums[Shadow::kRunning]);
      REQUIRE(work.outstanding(i) == sums[Shadow::kWaiting] + sums[Shadow::kRunning]);
      REQUIRE(work.waiting_count(i) == counts[Shadow::kWaiting]);
      REQUIRE(work.running_count(i) == counts[Shadow::kRunning]);
    }
  };
  for (std::int64_t step = 0; step < Scaled(20'000); ++step) {
    const auto r = static_cast<std::uint32_t>(random.Below(kRequests));
    Shadow& s = shadow[r];
    switch (random.Below(4)) {
      case 0:
      case 1: {  // also a present one: the newest report counts
        const auto instance = static_cast<std::uint32_t>(random.Below(kInstances));
        const std::array<std::int64_t, 5> amounts = {static_cast<std::int64_t>(random.Below(100'000)), 0, -5,
                                                     WorkInFlight::kMost, std::numeric_limits<std::int64_t>::max()};
        const std::int64_t amount = amounts[random.Below(amounts.size())];
        work.Placed(r, instance, amount);
        s = {amount < 0 ? 0 : amount > WorkInFlight::kMost ? WorkInFlight::kMost : amount, instance, Shadow::kWaiting};
        break;
      }
      case 2:
        CHECK(work.Started(r) == (s.state == Shadow::kWaiting));
        if (s.state == Shadow::kWaiting) s.state = Shadow::kRunning;
        break;
      default: work.Released(r); s = {.amount = 0, .instance = s.instance, .state = Shadow::kGone};
    }
    CHECK(work.AmountOf(r) == s.amount);
    CHECK(work.InstanceOf(r) == (s.state == Shadow::kGone ? kNoSlot : s.instance));
    if (step % 16 != 0) continue;
    check();
    REQUIRE(work.Exact());
  }
  for (std::uint32_t r = 0; r < kRequests; ++r) work.Released(r);
  for (std::uint32_t i = 0; i < kInstances; ++i) CHECK(work.outstanding(i) == 0);
  CHECK(work.Exact());
  CHECK(work.outstanding(99) == 0);
  CHECK(work.AmountOf(99) == 0);
  CHECK(work.InstanceOf(99) == kNoSlot);
  CHECK_FALSE(work.Started(99));
  work.Released(99);
}

}  // namespace
}  // namespace takt
