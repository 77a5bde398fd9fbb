#include "takt/policy/metered.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "takt/policy/aged.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/registry.h"
#include "takt/policy/sjf.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

RequestState Of(std::uint64_t tenant, std::uint64_t id = 1) {
  RequestState r;
  r.request.id = {id}, r.request.tenant = {tenant};
  return r;
}

using OverFcfs = Metered<Fcfs>;

TEST_CASE("a tenant is beyond its quota until its debt is repaid") {
  OverFcfs policy(Fcfs{}, {.rate = 100, .burst = 200});
  policy.PlanBegins(At(0));
  policy.Scheduled(Of(1), {200}, {}, 1);
  CHECK(policy.GroupKey(1).key == 0);  // the bucket is empty, and owes nothing
  policy.Scheduled(Of(1), {}, {50}, 50);
  CHECK(policy.GroupKey(1).key == 1);
  CHECK(policy.GroupKey(2).key == 0);
  CHECK(policy.moved_groups() == std::vector<std::uint64_t>{1});
  policy.moved_groups().clear();
  policy.PlanBegins(At(0.49));
  CHECK(policy.GroupKey(1).key == 1);
  policy.PlanBegins(At(0.5));
  CHECK(policy.GroupKey(1).key == 0);
  CHECK(policy.moved_groups() == std::vector<std::uint64_t>{1});
  policy.PlanBegins(At(100));  // the bucket holds no more than the burst
  policy.Scheduled(Of(1), {201}, {}, 1);
  CHECK(policy.GroupKey(1).key == 1);
}

TEST_CASE("weights scale rate and burst") {
  OverFcfs policy(Fcfs{}, {.rate = 100, .burst = 200, .weights = {{{{7}, 3}}}});
  policy.PlanBegins(At(0));
  policy.Scheduled(Of(7), {600}, {}, 1);
  CHECK(policy.GroupKey(7).key == 0);
  policy.Scheduled(Of(7), {30}, {}, 1);
  CHECK(policy.GroupKey(7).key == 1);
  policy.PlanBegins(At(0.11));
  CHECK(policy.GroupKey(7).key == 0);
}

TEST_CASE("a flood of tenant names leaves memory bounded") {
  OverFcfs policy(Fcfs{}, {.rate = 1000, .burst = 10});
  policy.Reserve(8);
  policy.PlanBegins(At(0));
  for (std::uint64_t tenant = 1; tenant <= 100'000; ++tenant) {
    policy.PlanBegins(At(1e-3 * static_cast<double>(tenant)));
    policy.Scheduled(Of(tenant), {20}, {}, 1);
    policy.moved_groups().clear();
  }
  CHECK(policy.remembered() <= 8 + 1024);
}

TEST_CASE("a metered policy as text") {
  const auto policy = MakePolicy("metered(sjf,rate=50,burst=100,weights=1:2)");
  REQUIRE(policy.ok());
  CHECK(policy->spec() == "metered(sjf,rate=50,burst=100,weights=1:2)");
  CHECK(MakePolicy(policy->spec())->spec() == policy->spec());
  CHECK(MakePolicy("aged(metered(sjf,rate=50),threshold=9)")->spec() == "aged(metered(sjf,rate=50),threshold=9)");
  for (const char* wrong : {"metered", "metered(rate=5)", "metered(fair_share)", "metered(room_to_pass)",
                            "metered(aged(sjf))", "metered(metered(sjf))", "metered(sjf,rate=0)", "metered(sjf,x=1)"}) {
    CAPTURE(wrong);
    CHECK_FALSE(MakePolicy(wrong).ok());
  }
}

// Tenant 1 floods an engine of 8 rows, one step each 10 ms. Tenants 2 to 4 send requests for most of the capacity.
struct Served {
  std::map<std::uint64_t, std::int64_t> tokens;  // of each tenant
  std::int64_t idle = 0;  // rows without a request although one waits
  double others_p95 = 0;  // latency of the others [s]
};
Served Flood(const AnyPolicy& policy, double others, bool floods) {
  Scheduler scheduler = *Scheduler::Create({.max_running = 8, .kv_blocks = {100'000}}, policy);
  std::map<std::uint64_t, std::int32_t> left;
  std::map<std::uint64_t, std::pair<std::uint64_t, double>> from;  // tenant and arrival of each request
  std::vector<double> latencies;
  Served served;
  std::uint64_t next = 0;
  double credit = 0;
  std::int64_t of_flood = 0;
  const auto arrive = [&](std::uint64_t tenant, double now) {
    Request r;
    r.id = {++next}, r.tenant = {tenant}, r.prompt_tokens = {20};
    left[next] = 20, from[next] = {tenant, now};
    scheduler.On(Arrived{r}, At(now));
  };
  constexpr int kSteps = 30'000;
  for (int step = 0; step < kSteps; ++step) {
    const double now = 0.01 * step;
    for (; floods && of_flood < 50; ++of_flood) arrive(1, now);
    for (credit += others * 0.4; credit >= 1; --credit) arrive(2 + next % 3, now);  // 0.4 requests end in each step
    const StepPlan& plan = scheduler.Plan(At(now), {.tokens = {4096}});
    if (scheduler.waiting() > 0) served.idle += 8 - static_cast<std::int64_t>(plan.run.size());
    std::vector<RowResult> rows;
    for (const PlanEntry& e : plan.run) {
      const auto [tenant, arrival] = from[e.request.value];
      const bool ends = e.samples() && --left[e.request.value] == 0;
      served.tokens[tenant] += e.tokens == 20 ? 21 : 1;
      if (ends && tenant == 1) --of_flood;
      if (ends && tenant != 1) latencies.push_back(now + 0.01 - arrival);
      rows.push_back({e.request, e.lane, static_cast<std::uint16_t>(e.samples()), 0,
                      static_cast<std::uint8_t>(ends ? RowResult::kFinished : 0)});
    }
    scheduler.Commit({plan.id, rows}, At(now));
  }
  std::ranges::sort(latencies);
  if (!latencies.empty()) served.others_p95 = latencies[latencies.size() * 95 / 100];
  return served;
}

TEST_CASE("a flood keeps its quota, and the engine is never idle for it") {
  // The engine serves 1,600 tokens a second: 40 requests of 20 + 20 tokens. Each tenant may use 200 of them.
  const AnyPolicy metered(Metered<Fcfs>(Fcfs{}, {.rate = 200, .burst = 400}));
  const Served alone = Flood(metered, 0, true);
  CHECK(alone.idle == 0);
  CHECK(alone.tokens.at(1) > 475'000);  // all the capacity: nobody else wants it

  const Served full = Flood(metered, 2, true);  // the others want more than the rest of the capacity
  CHECK(full.idle == 0);
  const double rate = static_cast<double>(full.tokens.at(1)) / 300;
  CAPTURE(rate);
  CHECK(std::abs(rate / 200 - 1) < 0.02);

  const Served some = Flood(AnyPolicy(Metered<Fcfs>(Fcfs{}, {.rate = 400, .burst = 800})), 0.6, true);
  const Served calm = Flood(AnyPolicy(Fcfs{}), 0.6, false);
  const Served fcfs = Flood(AnyPolicy(Fcfs{}), 0.6, true);
  CAPTURE(some.others_p95, calm.others_p95, fcfs.others_p95);
  CHECK(some.idle == 0);
  CHECK(some.others_p95 < 0.5 * fcfs.others_p95);
}

}  // namespace
}  // namespace takt
