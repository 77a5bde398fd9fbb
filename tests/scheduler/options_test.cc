// Options that change while requests run.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "host.h"
#include "takt/record.h"

namespace takt {
namespace {

using testing::Host;
using testing::Ms;
using testing::Prompt;
using Ids = std::vector<std::uint64_t>;

Request Of(std::uint64_t id, std::uint64_t tenant, std::int32_t priority = 0) {
  Request r = Prompt(id, 16);
  r.tenant = {tenant}, r.priority = priority;
  return r;
}

Ids Failed(const StepPlan& plan, FailReason reason) {
  Ids ids;
  for (const Failure& f : plan.failed) {
    if (f.reason == reason) ids.push_back(f.request.value);
  }
  return ids;
}

std::string Refusal(const SchedulerOptions& from, const SchedulerOptions& to) {
  return std::string(from.ValidateChange(to).message());
}

TEST_CASE("options that may change are options") {
  std::vector<std::string_view> names;
  const SchedulerOptions options;
  VisitOptions(options, [&](std::string_view name, const auto&, const OptionText&) { names.push_back(name); });
  for (const std::string_view name : SchedulerOptions::kMayChange) {
    CAPTURE(name);
    CHECK(std::ranges::find(names, name) != names.end());
  }
}

TEST_CASE("an option that cannot change is named, and nothing changes") {
  Host<> host({.max_running = 4, .kv_blocks = {100}});
  SchedulerOptions to = host.scheduler.options();
  to.kv_blocks = {200}, to.max_running = 8, to.max_waiting = 1;
  const std::string refusal = Refusal(host.scheduler.options(), to);
  CHECK(refusal.find("max_running is 8: cannot change from 4") != std::string::npos);
  CHECK(refusal.find("kv_blocks is 200: cannot change from 100") != std::string::npos);
  CHECK(refusal.find("max_waiting") == std::string::npos);
  CHECK_FALSE(host.scheduler.SetOptions(to, Ms(1)).ok());
  CHECK(host.scheduler.options().max_waiting == INT64_MAX);
  to = host.scheduler.options();
  to.token_pace = -1;
  CHECK(Refusal(host.scheduler.options(), to).find("token_pace") != std::string::npos);
}

TEST_CASE("the next plan sheds what exceeds new bounds") {
  Host<> host({.max_running = 4, .kv_blocks = {1000}}, {.max_seqs = 0});
  for (std::uint64_t id = 1; id <= 8; ++id) host.Arrive(Of(id, id <= 5 ? 7 : 8, id == 8 ? 10 : 0));
  CHECK(host.Plan().failed.empty());
  SchedulerOptions to = host.scheduler.options();
  to.tenant_max_waiting = 3;
  to.class_limits = {{.priority = 0, .max_waiting = 4}};
  REQUIRE(host.scheduler.SetOptions(to, Ms(host.now)).ok());
  host.Check();
  const StepPlan& plan = host.Plan();
  CHECK(Failed(plan, FailReason::kQuota) == Ids{5, 4});
  CHECK(Failed(plan, FailReason::kShed) == Ids{8, 7});  // both tenants, and priority 10, have one class
  to.tenant_max_waiting = INT64_MAX, to.class_limits.clear(), to.max_waiting = 2;
  REQUIRE(host.scheduler.SetOptions(to, Ms(host.now)).ok());
  CHECK(Failed(host.Plan(), FailReason::kShed) == Ids{6, 3});
  to.max_waiting = INT64_MAX;
  REQUIRE(host.scheduler.SetOptions(to, Ms(host.now)).ok());
  for (std::uint64_t id = 11; id <= 30; ++id) host.Arrive(Of(id, 7));
  CHECK(host.Plan().failed.empty());
  CHECK(host.scheduler.waiting() == 22);
}

TEST_CASE("a wait with a limit ends by the new limit, and one without counts from the change") {
  SchedulerOptions options{.max_running = 4, .kv_blocks = {1000}};
  options.max_blocked = 10;
  Host<> host(options, {.max_seqs = 0});
  host.Arrive(1, 16), host.Arrive(2, 16);
  host.On(Blocked{{1}});
  host.now = 4'000;
  SchedulerOptions to = options;
  to.max_blocked = 6;
  to.class_limits = {{.priority = 0, .max_wait = 5}};
  REQUIRE(host.scheduler.SetOptions(to, Ms(host.now)).ok());
  CHECK(host.Plan().wake_at == Ms(5'000));
  host.now = 4'999;
  CHECK(Failed(host.Plan(), FailReason::kExpired).size() == 2);  // 2, and 1, which has not run
  host.Arrive(3, 16);
  host.limits = {};
  host.Step();
  host.On(Blocked{{3}});
  to.max_blocked = 0;
  REQUIRE(host.scheduler.SetOptions(to, Ms(host.now)).ok());
  CHECK(host.Plan().wake_at == kNever);
  host.now = 7'000;
  to.max_blocked = 2;
  REQUIRE(host.scheduler.SetOptions(to, Ms(host.now)).ok());
  CHECK(host.Plan().wake_at == Ms(9'000));
}

TEST_CASE("a ceiling that is lifted lets requests in at once, and a new one counts the running requests") {
  SchedulerOptions options{.max_running = 4, .kv_blocks = {1000}};
  options.class_limits = {{.priority = 5, .ceiling = 0.5}};
  Host<Priority> host(options);
  for (std::uint64_t id = 1; id <= 4; ++id) host.Arrive(Of(id, 1, 5));
  CHECK(host.Step() == "1:16 2:16");
  SchedulerOptions to = options;
  to.class_limits.clear();
  REQUIRE(host.scheduler.SetOptions(to, Ms(host.now)).ok());
  CHECK(host.Step() == "1:1 2:1 3:16 4:16");
  REQUIRE(host.scheduler.SetOptions(options, Ms(host.now)).ok());
  host.Check();
  host.Arrive(Of(5, 1, 5));
  CHECK(host.Step({1, 2}) == "1:1 2:1 3:1 4:1");
  CHECK(host.Step({3}) == "3:1 4:1");
  CHECK(host.Step() == "4:1 5:16");
}

TEST_CASE("a pace that is set and removed counts the running requests") {
  Host<> host({.max_running = 8, .kv_blocks = {1000}}, {.tokens = {512}});
  for (std::uint64_t id = 1; id <= 3; ++id) host.Arrive(id, 16);
  host.Step(), host.Step();
  CHECK(host.scheduler.paced_prefill() == Tokens::Max());
  SchedulerOptions to = host.scheduler.options();
  to.token_pace = 1e-9, to.least_prefill = {8};
  REQUIRE(host.scheduler.SetOptions(to, Ms(host.now)).ok());
  host.Step(), host.Step();
  CHECK(host.scheduler.paced_prefill() == Tokens{8});
  host.Step({1, 2, 3});
  to.token_pace = 0;
  REQUIRE(host.scheduler.SetOptions(to, Ms(host.now)).ok());
  host.Arrive(4, 16);
  host.Step(), host.Step();
  CHECK(host.scheduler.paced_prefill() == Tokens::Max());
}

TEST_CASE("a log with changed options replays") {
  Recorder recorder(nullptr, {.plan_contents = true});
  auto scheduler = *Recorded<Scheduler>::Create(recorder, {.max_running = 2, .kv_blocks = {100}}, AnyPolicy(Fcfs{}));
  std::int64_t now = 0;
  for (std::uint64_t id = 1; id <= 6; ++id) scheduler.On(Arrived{Of(id, 1)}, Ms(++now));
  SchedulerOptions to = scheduler.scheduler().options();
  to.max_waiting = 1;
  REQUIRE(scheduler.SetOptions(to, Ms(++now)).ok());
  to.kv_blocks = {7};
  CHECK_FALSE(scheduler.SetOptions(to, Ms(++now)).ok());  // not in the log
  const StepPlan& plan = scheduler.Plan(Ms(++now), {});
  CHECK(plan.failed.size() == 3);
  std::vector<RowResult> rows;
  for (const PlanEntry& e : plan.run) rows.push_back({e.request, e.lane, 1, 0, 0});
  scheduler.Commit({plan.id, rows}, Ms(++now));
  const auto replay = ReplayLog(recorder.bytes());
  REQUIRE(replay.ok());
  CHECK_FALSE(replay->difference);
  CHECK(replay->stats.failed_shed == 3);
}

}  // namespace
}  // namespace takt
