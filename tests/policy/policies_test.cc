// Each policy's key against a calculation by hand.
#include <limits>
#include <string>
#include <vector>

#include "catch.h"
#include "takt/policy/edf.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/hrrn.h"
#include "takt/policy/priority.h"
#include "takt/queue/rank_queue.h"
#include "takt/policy/registry.h"
#include "takt/policy/sjf.h"
#include "takt/rivals/policy/slo_groups.h"
#include "takt/policy/stjf.h"
#include "takt/policy/uncached.h"
#include "takt/policy/urgency.h"
#include "takt/policy/workflow_fcfs.h"

namespace takt {
namespace {

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

RequestState Some(std::uint64_t id, double arrival) {
  RequestState r;
  r.request.id = {id};
  r.request.arrival = r.request.workflow_arrival = At(arrival);
  return r;
}

// Returns the ids in the order of a queue that all requests joined at `now`.
template <class P>
std::vector<std::uint64_t> Order(P policy, const std::vector<RequestState>& requests, TimePoint now = At(100)) {
  internal::RankQueue<P> queue(std::move(policy));
  for (Slot slot = 0; slot < requests.size(); ++slot) queue.Push(slot, requests[slot], now);
  std::vector<std::uint64_t> order;
  queue.TopK(requests.size(), [&](Slot slot) { order.push_back(requests[slot].request.id.value); });
  return order;
}

using Ids = std::vector<std::uint64_t>;

TEST_CASE("fcfs orders by arrival, then by id") {
  CHECK(Order(Fcfs{}, {Some(3, 2), Some(2, 1), Some(1, 2), Some(4, 0.5)}) == Ids{4, 2, 1, 3});
}

TEST_CASE("workflow_fcfs orders by the arrival of the workflow") {
  RequestState late_call = Some(1, 9), other = Some(2, 3);
  late_call.request.workflow_arrival = At(1);
  CHECK(Order(WorkflowFcfs{}, {late_call, other}) == Ids{1, 2});
  CHECK(Order(Fcfs{}, {late_call, other}) == Ids{2, 1});
}

TEST_CASE("priority ranks lower values first, equal ones by arrival") {
  RequestState a = Some(1, 1), b = Some(2, 2), c = Some(3, 3);
  a.request.priority = 5, b.request.priority = -5, c.request.priority = 5;
  CHECK(Order(Priority{}, {c, b, a}) == Ids{2, 1, 3});
}

TEST_CASE("edf ranks requests without a deadline last") {
  RequestState a = Some(1, 1), b = Some(2, 2), c = Some(3, 0);
  a.request.deadline = At(20), b.request.deadline = At(10);
  CHECK(Order(Edf{}, {a, b, c, Some(4, -1)}) == Ids{2, 1, 4, 3});
}

TEST_CASE("uncached with priorities ranks by priority, then by uncached prompt") {
  RequestState a = Some(1, 1), b = Some(2, 2), c = Some(3, 3), d = Some(4, 4);
  a.request.priority = 1, b.request.priority = 0, c.request.priority = INT32_MIN, d.request.priority = 0;
  a.request.prompt_tokens = {1}, b.request.prompt_tokens = {9000}, c.request.prompt_tokens = {INT32_MAX};
  d.request.prompt_tokens = {8000}, d.cached = {10};
  CHECK(Order(Uncached{.priority_first = true}, {a, b, c, d}) == Ids{3, 4, 2, 1});
  CHECK(Order(Uncached{}, {a, b, c, d}) == Ids{1, 4, 2, 3});
}

TEST_CASE("sjf gives an unknown length the default") {
  RequestState brief = Some(1, 3), longer = Some(2, 2), unknown = Some(3, 1), absurd = Some(4, 0);
  brief.request.output_tokens = Estimate::Exact(10);
  longer.request.output_tokens = Estimate::Exact(1000);
  absurd.request.output_tokens.mean = std::numeric_limits<double>::quiet_NaN();
  CHECK(Order(Sjf{}, {longer, unknown, brief, absurd}) == Ids{1, 4, 3, 2});
  CHECK(Order(Sjf{.unknown = 1}, {longer, unknown, brief}) == Ids{3, 1, 2});
}

TEST_CASE("stjf ranks by the workflow's tokens, or else by the call's own") {
  RequestState a = Some(1, 1), b = Some(2, 2), c = Some(3, 3);
  a.request.output_tokens = Estimate::Exact(5);
  a.request.workflow_tokens_left = {.mean = 200, .quantiles = {1, 2, 90, 300, 400}};
  b.request.workflow_tokens_left = Estimate::Exact(100);
  c.request.output_tokens = Estimate::Exact(95);
  CHECK(Order(Stjf{}, {a, b, c}) == Ids{1, 3, 2});
  CHECK(Order(Stjf{.quantile = Stjf::kMean}, {a, b, c}) == Ids{3, 2, 1});
  CHECK(Order(Stjf{.unknown = 97}, {a, b, c, Some(4, 0)}) == Ids{1, 3, 4, 2});
}

TEST_CASE("hrrn lifts short requests faster while they wait") {
  const Hrrn policy{.output_s = 0.1, .prompt_s = 0.01};
  RequestState brief = Some(1, 90), longer = Some(2, 0);
  brief.request.output_tokens = Estimate::Exact(90), brief.request.prompt_tokens = {100};    // 10 s
  longer.request.output_tokens = Estimate::Exact(900), longer.request.prompt_tokens = {1000};  // 100 s
  CHECK(policy.KeyAt(brief, At(95)).key == Approx(-(5.0 + 10) / 10));
  CHECK(policy.KeyAt(longer, At(95)).key == Approx(-(95.0 + 100) / 100));
  CHECK(policy.KeyAt(brief, At(80)).key == -1);  // a clock that stepped back
  CHECK(Order(policy, {brief, longer}, At(95)) == Ids{2, 1});
  CHECK(Order(policy, {brief, longer}, At(110)) == Ids{1, 2});  // 3 against 2.1
  internal::RankQueue<Hrrn> queue(policy);
  const std::vector requests{brief, longer};
  const auto state_of = [&](Slot slot) -> const RequestState& { return requests[slot]; };
  for (Slot slot : {0u, 1u}) queue.Push(slot, requests[slot], At(95));
  queue.BeginPlan(At(95), state_of);
  CHECK(queue.Top() == 1);
  queue.BeginPlan(At(110), state_of);
  CHECK(queue.Top() == 0);
}

RequestState Of(std::uint64_t tenant, std::uint64_t id, double arrival) {
  RequestState r = Some(id, arrival);
  r.request.tenant = {tenant};
  return r;
}

TEST_CASE("fair_share ranks the least served tenant first, without credit for idling") {
  internal::RankQueue<FairShare> queue(FairShare({.w_in = 1, .w_out = 2}));
  std::vector<RequestState> r = {Of(1, 1, 1), Of(1, 2, 2), Of(2, 3, 3), Of(2, 4, 4), Of(3, 5, 5)};
  const auto state_of = [&](Slot slot) -> const RequestState& { return r[slot]; };
  for (Slot slot = 0; slot < 4; ++slot) queue.Push(slot, r[slot], {});
  queue.BeginPlan({}, state_of);
  CHECK(queue.Top() == 0);

  queue.policy().Scheduled(r[0], {100}, {10});  // 120
  CHECK(queue.policy().GroupKey(1).key == 120);
  queue.BeginPlan({}, state_of);
  CHECK(queue.Top() == 2);
  queue.policy().Scheduled(r[2], {100}, {20});  // 140
  queue.BeginPlan({}, state_of);
  CHECK(queue.Top() == 0);

  queue.Push(4, r[4], {});  // tenant 3 appears: lifted to the least counter of waiting tenants
  CHECK(queue.policy().GroupKey(3).key == 120);
  queue.BeginPlan({}, state_of);
  Ids order;
  queue.TopK(5, [&](Slot slot) { order.push_back(r[slot].request.id.value); });
  CHECK(order == Ids{1, 2, 5, 3, 4});
}

TEST_CASE("fair_share divides charges by weights, which are part of the spec") {
  const AnyPolicy policy = *MakePolicy("fair_share(weights=1:4;7:0.5)");
  CHECK(policy.spec() == "fair_share(weights=1:4;7:0.5)");
  internal::RankQueue<AnyPolicy> queue(policy);
  const std::vector<RequestState> r = {Of(1, 1, 1), Of(2, 2, 2), Of(7, 3, 3)};
  for (Slot slot = 0; slot < 3; ++slot) queue.Push(slot, r[slot], {});
  for (Slot slot = 0; slot < 3; ++slot) queue.policy().Scheduled(r[slot], {0}, {20});
  CHECK(queue.policy().GroupKey(1).key == 10);
  CHECK(queue.policy().GroupKey(2).key == 40);
  CHECK(queue.policy().GroupKey(7).key == 80);
  for (const char* wrong : {"1", "1:", ":2", "1:0", "1:-1", "x:1", "1:1;2", "1:nan", "1:inf"}) {
    CHECK_FALSE(MakePolicy("fair_share(weights=" + std::string(wrong) + ")").ok());
  }
}

TEST_CASE("slo_groups keeps arrival order until one is late, then uses deadlines") {
  // Buckets of 10 s; a request takes 1 s.
  internal::RankQueue<SloGroups> queue(SloGroups({.bucket = 10, .tokens = 100, .throughput = 100}));
  std::vector<RequestState> r;
  const auto push = [&](double arrival, double deadline) {
    r.push_back(Some(r.size() + 1, arrival));
    if (deadline > 0) r.back().request.deadline = At(deadline);
    queue.Push(static_cast<Slot>(r.size() - 1), r.back(), At(arrival));
  };
  const auto state_of = [&](Slot slot) -> const RequestState& { return r[slot]; };
  const auto order = [&](double now) {
    queue.BeginPlan(At(now), state_of);
    Ids ids;
    queue.TopK(r.size(), [&](Slot slot) { ids.push_back(r[slot].request.id.value); });
    return ids;
  };
  push(0, 95), push(1, 33), push(2, 91), push(3, 0), push(4, 38);
  CHECK(order(4) == Ids{1, 3, 2, 5, 4});   // the second group ends at 4 + 4 s, well before 30
  CHECK(order(25) == Ids{1, 3, 2, 5, 4});
  CHECK(order(26.5) == Ids{2, 5, 1, 3, 4});  // 4 more seconds would be too late for those of 30 s
  push(27, 31);
  push(28, 55);  // a new group joins the end
  CHECK(order(28) == Ids{2, 5, 6, 7, 1, 3, 4});  // it is sorted in when any request is late
  queue.Erase(1), queue.Erase(4), queue.Erase(5);
  CHECK(order(28) == Ids{7, 1, 3, 4});
  push(29, 85);
  CHECK(order(29) == Ids{7, 1, 3, 4, 8});  // none is late
  while (!queue.empty()) queue.Erase(queue.Top());
  push(30, 85);
  CHECK(order(30) == Ids{9});
}

TEST_CASE("urgency picks request 6 of HexGen-Flow's Table 3") {
  // At 70 s. The table has only the resulting urgencies, neither durations nor budgets.
  const std::vector<double> arrive_at = {22.4, 46.3, 52.3, 62.4, 62.8, 64.4, 65.0};
  const std::vector<double> urgency = {14.5, 13.2, 19.0, 13.1, 19.0, 26.9, 21.9};
  for (double now : {65.0, 70.0, 700.0}) {
    std::vector<RequestState> snapshot;
    for (std::size_t i = 0; i < 7; ++i) {
      RequestState& r = snapshot.emplace_back(Some(i + 1, arrive_at[i]));
      const double compute = 1.0 + static_cast<double>(i * 37 % 11);
      const double budget = compute + (now - arrive_at[i]) - urgency[i];
      r.request.compute = FromSeconds(compute);
      r.request.deadline = At(arrive_at[i] + budget);
    }
    CHECK(Order(Urgency{}, snapshot) == Ids{6, 7, 3, 5, 1, 2, 4});
    CHECK(Order(Fcfs{}, snapshot).front() == 1);
  }
}

TEST_CASE("urgency gives a call without a deadline its share of the pace") {
  RequestState batch = Some(1, 100);
  batch.request.compute = FromSeconds(10);
  const Urgency policy{.batch_share = 0.1, .unknown = 3};
  CHECK(policy.Key(batch).key == Approx(100 + 100 - 10));
  batch.request.compute = {};
  CHECK(policy.Key(batch).key == Approx(100 + 30));
  RequestState due = Some(2, 100);
  due.request.deadline = At(150);
  CHECK(policy.Key(due).key == Approx(150));
  due.request.compute = FromSeconds(20);
  CHECK(policy.Key(due).key == Approx(130));
}

TEST_CASE("urgency limits absurd deadlines to the horizon") {
  const Urgency policy{.horizon = 1000};
  RequestState r = Some(1, 50);
  for (const TimePoint deadline : {TimePoint::min(), At(-1e9), At(-2000)}) {
    r.request.deadline = deadline;
    CHECK(policy.Key(r).key == Approx(-950));
  }
  r.request.deadline = kNever - Duration(1);
  CHECK(policy.Key(r).key == Approx(1050));
  r.request.deadline = At(60);
  r.request.compute = Duration::max();
  CHECK(policy.Key(r).key == Approx(-950));
  r.request.compute = Duration::min();
  CHECK(policy.Key(r).key == Approx(60));
}

// One call without a deadline competes with an endless stream of late calls. The engine serves one call a second. One
// call a second arrives, years after its deadline.
TEST_CASE("urgency drains batch work against any deadlines") {
  internal::RankQueue<Urgency> queue(Urgency{.batch_share = 0.05, .horizon = 300});
  std::vector<RequestState> r = {Some(1, 0)};
  r[0].request.compute = FromSeconds(2);  // due at 40 s
  queue.Push(0, r[0], At(0));
  r.push_back(Some(2, 0));
  r[1].request.deadline = At(-1e9);
  queue.Push(1, r[1], At(0));
  double served_at = -1;
  for (int now = 1; now < 2000 && served_at < 0; ++now) {
    r.push_back(Some(static_cast<std::uint64_t>(now + 2), now));
    r.back().request.deadline = At(-1e9);
    queue.Push(static_cast<Slot>(now + 1), r.back(), At(now));
    const Slot top = queue.Top();
    queue.Erase(top);
    if (top == 0) served_at = now;
  }
  CHECK(served_at > 300);
  CHECK(served_at <= 300 + 40 + 2);  // horizon and its own budget
}

TEST_CASE("fair_share lifts a newcomer to the least current counter") {
  internal::RankQueue<FairShare> queue(FairShare{});
  const std::vector<RequestState> r = {Of(1, 1, 1), Of(2, 2, 2), Of(3, 3, 3)};
  queue.Push(0, r[0], {});
  queue.Push(1, r[1], {});
  queue.policy().Scheduled(r[0], {140}, {0});
  queue.policy().Scheduled(r[1], {120}, {0});
  queue.Push(2, r[2], {});
  CHECK(queue.policy().GroupKey(3).key == 120);
  CHECK(queue.Top() == 1);
}

TEST_CASE("fair_share does not lower the counter of a tenant served more") {
  internal::RankQueue<FairShare> queue(FairShare{});
  const std::vector<RequestState> r = {Of(1, 1, 1), Of(2, 2, 2)};
  queue.policy().Scheduled(r[1], {500}, {0});
  queue.Push(0, r[0], {});
  queue.Push(1, r[1], {});
  CHECK(queue.policy().GroupKey(2).key == 500);
  CHECK(queue.Top() == 0);
}

}  // namespace
}  // namespace takt
