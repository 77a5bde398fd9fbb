// State of the servers under names that clients choose.
#include "service.h"

#include <cstdint>
#include <set>

#include "catch.h"
#include "remembered.h"

namespace serving {
namespace {

takt::Request Call(std::uint64_t tenant, std::uint64_t workflow, std::int64_t at, std::uint64_t agent = 1) {
  takt::Request request;
  request.tenant = {tenant}, request.workflow = {workflow}, request.agent = {agent};
  request.arrival = takt::TimePoint(takt::Duration(at));
  return request;
}

std::int64_t ArrivalOf(Followers& followers, takt::Request call) {
  followers.Begin(call, false);
  return call.workflow_arrival.time_since_epoch().count();
}

}  // namespace

TEST_CASE("the id of a client's name depends on tenant and key") {
  const ClientIds ids(1), others(2);
  CHECK(ids.Of("") == 0);
  CHECK(ids.Of("w", 3) == ids.Of("w", 3));
  const std::set<std::uint64_t> all = {ids.Of("w"),    ids.Of("w", 3),    ids.Of("w", 4), ids.Of("ww"),
                                       others.Of("w"), others.Of("w", 3), ids.Of("x")};
  CHECK((all.size() == 7 && !all.contains(0)));
}

TEST_CASE("a name beyond the limit evicts the least recently used one") {
  Remembered<int> kept;
  const auto most = static_cast<int>(Remembered<int>::kMost);
  for (int i = 1; i <= most; ++i) kept.Get({0, static_cast<std::uint64_t>(i)}, i);
  CHECK(kept.Find({0, 1}) != nullptr);  // used
  kept.Get({0, 5000}, 5000);
  CHECK(kept.size() == Remembered<int>::kMost);
  CHECK(kept.Find({0, 2}) == nullptr);
  int left = 0;
  for (int i = 1; i <= most; ++i) {
    const int* value = kept.Find({0, static_cast<std::uint64_t>(i)});
    left += value != nullptr && *value == i;
  }
  CHECK(left == most - 1);
  CHECK(kept.Get({0, 5000}) == 5000);
}

TEST_CASE("a tenant with many names evicts its own, many tenants the oldest") {
  Remembered<int> kept;
  for (std::uint64_t i = 1; i <= 10; ++i) kept.Get({7, i}, 1);
  for (std::uint64_t i = 1; i <= 5000; ++i) kept.Get({8, i}, 2);
  for (std::uint64_t i = 1; i <= 10; ++i) CHECK(kept.Find({7, i}) != nullptr);
  CHECK((kept.Find({8, 5000}) != nullptr && kept.Find({8, 1}) == nullptr));
  for (std::uint64_t i = 1; i <= 5000; ++i) {
    kept.Get({100 + i, 1}, 3);
    kept.Find({7, 1});
  }
  CHECK(kept.Find({7, 1}) != nullptr);
  CHECK(kept.size() == Remembered<int>::kMost);
}

TEST_CASE("a workflow keeps its arrival while others flood the names") {
  Followers followers;
  CHECK(ArrivalOf(followers, Call(1, 9, 5)) == 5);
  for (std::uint64_t i = 0; i < 3000; ++i) ArrivalOf(followers, Call(2, 100 + i, 10));
  CHECK(ArrivalOf(followers, Call(1, 9, 20)) == 5);
  CHECK(ArrivalOf(followers, Call(2, 9, 30)) == 30);  // the same name from another tenant
  for (std::uint64_t i = 0; i < 500; ++i) ArrivalOf(followers, Call(1, 100 + i, 40));
  CHECK(ArrivalOf(followers, Call(1, 9, 50)) == 5);
}

TEST_CASE("predicted work is learned from a tenant's own workflows") {
  Followers followers;
  for (std::uint64_t w = 1; w <= 8; ++w) {
    for (const bool last : {false, true}) {
      takt::Request call = Call(1, w, 5);
      call.prompt_tokens = {100};
      followers.Begin(call, last);
      followers.End(call, 20, last);
    }
  }
  takt::Request own = Call(1, 99, 6), other = Call(2, 99, 6);
  followers.Begin(own, false);
  followers.Begin(other, false);
  CHECK(own.after.calls == 1);
  CHECK(own.after.output_tokens == 20);
  CHECK_FALSE(other.after.known());
}

}  // namespace serving
