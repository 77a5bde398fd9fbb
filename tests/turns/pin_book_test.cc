// Pins alone: limits per tenant and in total, and the order in which they end.
#include "takt/turns/pin_book.h"

#include "catch.h"

namespace takt::internal {
namespace {

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

TEST_CASE("a pin beyond its tenant's limit or the total is refused, counted") {
  PinBook pins;
  pins.Bound(10, 15);
  CHECK(pins.Grant(0, {1}, 6, At(5)));
  CHECK_FALSE(pins.Grant(1, {1}, 5, At(5)));
  CHECK(pins.Grant(1, {1}, 4, At(5)));
  CHECK_FALSE(pins.Grant(2, {2}, 6, At(5)));
  CHECK(pins.Grant(2, {2}, 5, At(5)));
  CHECK(pins.refused() == 2);
  CHECK(pins.blocks() == 15);
  CHECK(pins.size() == 3);
  pins.End(0, {1}, 6);
  CHECK(pins.blocks() == 9);
  CHECK(pins.Grant(0, {1}, 6, At(5)));
}

TEST_CASE("a tenant whose pins have ended has its whole share again") {
  PinBook pins;
  pins.Bound(10, 10);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(pins.Grant(7, {1}, 10, At(1)));
    pins.End(7, {1}, 10);
  }
  CHECK(pins.size() == 0);
  CHECK(pins.blocks() == 0);
  CHECK(pins.next() == kNever);
}

TEST_CASE("pins end in the order of their times") {
  PinBook pins;
  pins.Bound(10, 10);
  REQUIRE(pins.Grant(3, {1}, 1, At(9)));
  REQUIRE(pins.Grant(4, {2}, 1, At(5)));
  CHECK(pins.next() == At(5));
  CHECK(pins.Top() == 4);
  pins.End(4, {2}, 1);
  CHECK(pins.next() == At(9));
  CHECK(pins.Top() == 3);
}

}  // namespace
}  // namespace takt::internal
