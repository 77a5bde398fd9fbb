// Bounds on requests that wait in a router, and time limits of waits.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "catch.h"
#include "takt/placement/round_robin.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"

namespace takt {
namespace {

using Ids = std::vector<std::uint64_t>;
using TestRouter = BasicRouter<Fcfs, RoundRobin>;

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

TestRouter Make(RouterOptions options) { return *TestRouter::Create(options, {}, {}); }

Arrived Arrival(std::uint64_t id, std::int32_t tokens, std::uint64_t tenant = 0, std::int32_t priority = 0) {
  Arrived a;
  a.request.id = {id}, a.request.prompt_tokens = {tokens};
  a.request.tenant = {tenant}, a.request.priority = priority;
  return a;
}

Ids Failed(TestRouter& router, double seconds, FailReason reason) {
  router.Place(At(seconds));
  Ids ids;
  for (const Failure& f : router.failed()) {
    if (f.reason == reason) ids.push_back(f.request.value);
  }
  return ids;
}

TEST_CASE("a router sheds the last to join beyond its bounds") {
  TestRouter router = Make({.max_outstanding = 1, .max_waiting = 3, .max_waiting_tokens = 100});
  router.On(InstanceUp{{.id = {1}}}, At(0));
  for (std::uint64_t id = 1; id <= 6; ++id) router.On(Arrival(id, 10), At(0));
  CHECK(Failed(router, 0, FailReason::kShed) == Ids{6, 5});
  CHECK(router.waiting() == 3);
  router.On(Cancelled{{4}}, At(1));
  router.On(Arrival(7, 90), At(1));
  CHECK(Failed(router, 1, FailReason::kShed) == Ids{7});
  CHECK(router.stats().failed_shed == 3);
  CHECK(router.InstanceOf({1}) == InstanceId{1});
}

TEST_CASE("a router bounds tenants and classes") {
  RouterOptions options{.max_outstanding = 1, .tenant_max_waiting = 2};
  options.class_limits = {{.priority = 0, .max_waiting = 3}, {.priority = 5, .max_waiting_tokens = 20}};
  TestRouter router = Make(options);
  router.On(InstanceUp{{.id = {1}, .capacity = 0}}, At(0));
  for (std::uint64_t id = 1; id <= 4; ++id) router.On(Arrival(id, 10, 1), At(0));
  router.On(Arrival(5, 10, 2), At(0)), router.On(Arrival(6, 10, 3), At(0));
  router.On(Arrival(7, 15, 4, 5), At(0)), router.On(Arrival(8, 15, 5, 9), At(0));
  router.On(Arrival(9, 900, 6, -1), At(0));
  router.Place(At(0));
  const std::vector<Failure> expected = {
      {{4}, FailReason::kQuota}, {{3}, FailReason::kQuota}, {{6}, FailReason::kShed}, {{8}, FailReason::kShed}};
  CHECK(std::vector<Failure>(router.failed().begin(), router.failed().end()) == expected);
  CHECK((router.stats().failed_quota == 2 && router.stats().failed_shed == 2));
}

TEST_CASE("a request that was placed is not shed when its instance is lost") {
  TestRouter router = Make({.max_waiting = 0});
  router.On(InstanceUp{{.id = {1}}}, At(0));
  for (std::uint64_t id = 1; id <= 4; ++id) router.On(Arrival(id, 10), At(0));
  CHECK(Failed(router, 0, FailReason::kShed).empty());
  router.On(InstanceDown{{1}}, At(1));
  CHECK(Failed(router, 1, FailReason::kNoInstance).empty());
  CHECK(router.waiting() == 4);
}

TEST_CASE("the time to come back follows from the rate of placements") {
  TestRouter router = Make({.max_outstanding = 1, .max_waiting = 10});
  router.On(InstanceUp{{.id = {1}}}, At(0));
  std::uint64_t id = 0;
  while (id < 11) router.On(Arrival(++id, 10), At(0));
  router.Place(At(0));
  for (std::uint64_t done = 1; done <= 40; ++done) {
    const double now = 0.1 * static_cast<double>(done);
    router.On(RequestEnded{{done}, {1}}, At(now));
    router.On(Arrival(++id, 10), At(now));
    router.Place(At(now));
    CHECK(router.failed().empty());
  }
  router.On(Arrival(++id, 10), At(4));
  CHECK(Failed(router, 4, FailReason::kShed) == Ids{id});
  const std::uint32_t after =
      router.failed()[0].retry_after_ms;  // 10 drain in 1 s, twice that to be sure, and 0.4 s more
  CHECK((after > 2'250 && after < 2'500));
}

TEST_CASE("a class limits the wait in a router") {
  RouterOptions options{.max_outstanding = 1};
  options.class_limits = {{.priority = 0, .max_wait = 2}};
  TestRouter router = Make(options);
  router.On(InstanceUp{{.id = {1}}}, At(0));
  for (std::uint64_t id = 1; id <= 3; ++id) router.On(Arrival(id, 10), At(0));
  router.On(Arrival(4, 10, 0, -1), At(0));
  router.Place(At(0));
  CHECK(router.wake_at() == At(2));
  Revised revised{.request = {2}};
  revised.expires_at = At(9);
  router.On(revised, At(1));
  revised.request = {3}, revised.expires_at = At(1.5);
  router.On(revised, At(1));
  CHECK(router.wake_at() == At(1.5));
  CHECK(Failed(router, 1.5, FailReason::kExpired) == Ids{3});
  CHECK(Failed(router, 2, FailReason::kExpired) == Ids{2});
  CHECK(router.wake_at() == kNever);
  CHECK(router.alive() == 2);
}

TEST_CASE("a held call has a time limit") {
  TestRouter router = Make({.max_held = 3});
  Workflow workflow;
  workflow.id = {1};
  workflow.stages = {{.stage = {1}}, {.stage = {2}, .after = {0}}};
  router.On(WorkflowDeclared{workflow}, At(0));
  Arrived held = Arrival(1, 10);
  held.request.workflow = {1}, held.request.stage = {2};
  router.On(held, At(0));
  router.On(InstanceUp{{.id = {1}}}, At(0));
  CHECK(router.Place(At(0)).empty());
  CHECK(router.wake_at() == At(3));
  CHECK(Failed(router, 3, FailReason::kExpired) == Ids{1});
}

TEST_CASE("if no instance comes up in time, waiting requests fail") {
  TestRouter router = Make({.max_down = 5});
  router.On(Arrival(1, 10), At(0));
  router.Place(At(0));
  CHECK(router.wake_at() == At(5));
  router.On(InstanceUp{{.id = {1}}}, At(4));
  CHECK(router.Place(At(4)).size() == 1);
  CHECK(router.wake_at() == kNever);
  router.On(InstanceDown{{1}}, At(10));
  CHECK(Failed(router, 10, FailReason::kNoInstance).empty());
  router.On(Arrival(2, 10), At(12));
  CHECK(Failed(router, 14.9, FailReason::kNoInstance).empty());
  CHECK(Failed(router, 15, FailReason::kNoInstance) == Ids{1, 2});
  router.On(Arrival(3, 10), At(20));
  CHECK(Failed(router, 20, FailReason::kNoInstance) == Ids{3});
  CHECK(router.stats().failed_no_instance == 3);
  CHECK(router.wake_at() == kNever);
}

TEST_CASE("a full router without instances has nobody to come back to") {
  TestRouter router = Make({.max_waiting = 1});
  router.On(Arrival(1, 10), At(0)), router.On(Arrival(2, 10), At(0));
  CHECK(Failed(router, 0, FailReason::kNoInstance) == Ids{2});
  CHECK(router.failed()[0].retry_after_ms == 0);
}

TEST_CASE("the next placement sheds what exceeds new bounds") {
  TestRouter router = Make({});
  for (std::uint64_t id = 1; id <= 6; ++id) router.On(Arrival(id, 10, id % 2, id == 6 ? 3 : 0), At(0));
  CHECK(Failed(router, 0, FailReason::kNoInstance).empty());
  RouterOptions to = router.options();
  to.max_waiting = 5, to.tenant_max_waiting = 2, to.class_limits = {{.priority = 0, .max_wait = 7}};
  to.max_down = 9;
  REQUIRE(router.SetOptions(to, At(1)).ok());
  CHECK(router.wake_at() == At(7));  // the wait counts from the arrival
  CHECK(Failed(router, 1, FailReason::kNoInstance) == Ids{6, 5});  // tenant 0, then 1
  to.class_limits.clear();
  REQUIRE(router.SetOptions(to, At(2)).ok());
  CHECK(router.wake_at() == At(9));  // nobody has been up since 0
  router.On(InstanceUp{{.id = {1}, .capacity = 0}}, At(3));
  to.max_waiting = to.tenant_max_waiting = INT64_MAX;
  REQUIRE(router.SetOptions(to, At(3)).ok());
  for (std::uint64_t id = 11; id <= 20; ++id) router.On(Arrival(id, 10, 1), At(3));
  CHECK(Failed(router, 3, FailReason::kShed).empty());
  CHECK(router.waiting() == 14);
}

TEST_CASE("requests that were set aside fail if the router shall not keep them") {
  TestRouter router = Make({});
  router.On(InstanceUp{{.id = {1}, .kv_tokens = {100}}}, At(0));
  router.On(Arrival(1, 500), At(0));
  router.Place(At(0));
  CHECK(router.set_aside() == 1);
  RouterOptions to = router.options();
  to.fail_unfit = true;
  REQUIRE(router.SetOptions(to, At(1)).ok());
  CHECK(Failed(router, 1, FailReason::kNeverFits) == Ids{1});
}

TEST_CASE("an option of a router that cannot change is named, and nothing changes") {
  TestRouter router = Make({});
  RouterOptions to = router.options();
  to.hash_seed = 7, to.max_waiting = 3;
  CHECK(router.SetOptions(to, At(0)).message() == "hash_seed is 7: cannot change from 0");
  to.hash_seed = 0, to.max_waiting = -3;
  CHECK(router.SetOptions(to, At(0)).message().find("max_waiting is -3") != std::string_view::npos);
  CHECK(router.options().max_waiting == INT64_MAX);
  std::vector<std::string_view> names;
  VisitOptions(to, [&](std::string_view name, const auto&, const OptionText&) { names.push_back(name); });
  for (const std::string_view name : RouterOptions::kMayChange) {
    CAPTURE(name);
    CHECK(std::ranges::find(names, name) != names.end());
  }
}

TEST_CASE("invalid bounds of a router are named") {
  RouterOptions options{.max_waiting = -1, .tenant_max_waiting_tokens = -2, .max_down = -1};
  options.class_limits = {{.priority = 1, .max_wait = -1}};
  const std::string errors(options.Validate().message());
  for (const char* field : {"max_waiting is -1", "tenant_max_waiting_tokens is -2", "max_down is -1", "class_limits"}) {
    CAPTURE(errors, field);
    CHECK(errors.find(field) != std::string::npos);
  }
}

}  // namespace
}  // namespace takt
