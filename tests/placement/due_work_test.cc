// Work that shrinks with time, compared with a shadow that adds up the rest.
#include "takt/placement/books/due_work.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "catch.h"
#include "counting_new.h"
#include "scale.h"
#include "takt/base/random.h"

namespace takt {
namespace {

struct Shadow {
  TimePoint end{};
  std::uint32_t instance = 0;
  bool runs = false;
};

TEST_CASE("an instance's work left is the sum over running requests") {
  constexpr std::uint32_t kRequests = 30, kInstances = 4;
  Random random(1);
  DueWork work;
  std::array<Shadow, kRequests> shadow;
  TimePoint now{};
  for (std::int64_t step = 0; step < Scaled(20'000); ++step) {
    now += Duration(static_cast<std::int64_t>(random.Below(20)));
    const auto r = static_cast<std::uint32_t>(random.Below(kRequests));
    if (random.Chance(0.6)) {  // also a running one: the newest report counts
      shadow[r] = {now + Duration(static_cast<std::int64_t>(random.Below(500))),
                   static_cast<std::uint32_t>(random.Below(kInstances)), true};
      work.Began(r, shadow[r].instance, shadow[r].end - now, now);
    } else {
      work.Ended(r);
      shadow[r].runs = false;
    }
    work.Advance(now);
    for (std::uint32_t i = 0; i < kInstances; ++i) {
      std::int64_t left = 0;
      for (const Shadow& s : shadow) {
        if (s.runs && s.instance == i) left += std::max(s.end - now, Duration::zero()).count();
      }
      REQUIRE(work.Left(i, now) == left);
    }
  }
  CHECK(work.Left(99, now) == 0);
  work.Ended(99);
}

TEST_CASE("cleanup is rare if nearly all remembered requests still run") {
  constexpr std::uint32_t kRequests = 1 << 15;
  DueWork work;
  const auto begin = [&](std::uint32_t r) { work.Began(r, 0, Duration(1000), TimePoint{}); };
  for (std::uint32_t r = 0; r < kRequests; ++r) begin(r);
  const std::size_t before = allocations;
  for (std::uint32_t r = 0; r < kRequests; ++r) begin(r);  // again: one more is remembered, and one less counts
  CHECK(allocations - before <= 1);
  CHECK(work.Left(0, TimePoint{}) == 1000 * std::int64_t{kRequests});
}

TEST_CASE("memory follows the running requests, also after early ends") {
  DueWork work;
  const auto run = [&](std::int64_t turns) {
    for (std::int64_t n = 0; n < turns; ++n) {
      for (std::uint32_t r = 0; r < 100; ++r) work.Began(r, 0, std::chrono::hours(1), TimePoint(Duration(n)));
      for (std::uint32_t r = 0; r < 100; ++r) work.Ended(r);
    }
  };
  run(10);
  const std::size_t before = allocations;
  run(1000);
  CHECK(allocations == before);
  CHECK(work.Left(0, TimePoint(Duration(2000))) == 0);
}

}  // namespace
}  // namespace takt
