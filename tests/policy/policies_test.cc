// Each policy's key against a calculation by hand.
#include <limits>
#include <vector>

#include "catch.h"
#include "takt/policy/edf.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/hrrn.h"
#include "takt/policy/priority.h"
#include "takt/policy/rank_queue.h"
#include "takt/policy/sjf.h"
#include "takt/policy/stjf.h"
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

// The ids in the order of a queue that all of them have joined at `now`.
template <class P>
std::vector<std::uint64_t> Order(P policy, const std::vector<RequestState>& requests, TimePoint now = At(100)) {
  RankQueue<P> queue(std::move(policy));
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

TEST_CASE("priority: lower is sooner, equals in order of arrival") {
  RequestState a = Some(1, 1), b = Some(2, 2), c = Some(3, 3);
  a.request.priority = 5, b.request.priority = -5, c.request.priority = 5;
  CHECK(Order(Priority{}, {c, b, a}) == Ids{2, 1, 3});
}

TEST_CASE("edf: who has no deadline comes last") {
  RequestState a = Some(1, 1), b = Some(2, 2), c = Some(3, 0);
  a.request.deadline = At(20), b.request.deadline = At(10);
  CHECK(Order(Edf{}, {a, b, c, Some(4, -1)}) == Ids{2, 1, 4, 3});
}

TEST_CASE("sjf: an unknown length stands as the default one") {
  RequestState brief = Some(1, 3), longer = Some(2, 2), unknown = Some(3, 1), absurd = Some(4, 0);
  brief.request.output_tokens = Estimate::Exact(10);
  longer.request.output_tokens = Estimate::Exact(1000);
  absurd.request.output_tokens.mean = std::numeric_limits<double>::quiet_NaN();
  CHECK(Order(Sjf{}, {longer, unknown, brief, absurd}) == Ids{1, 4, 3, 2});
  CHECK(Order(Sjf{.unknown = 1}, {longer, unknown, brief}) == Ids{3, 1, 2});
}

TEST_CASE("stjf: the workflow's tokens count, the call's own where the workflow's are unknown") {
  RequestState a = Some(1, 1), b = Some(2, 2), c = Some(3, 3);
  a.request.output_tokens = Estimate::Exact(5);
  a.request.workflow_tokens_left = {.mean = 200, .quantiles = {1, 2, 90, 300, 400}};
  b.request.workflow_tokens_left = Estimate::Exact(100);
  c.request.output_tokens = Estimate::Exact(95);
  CHECK(Order(Stjf{}, {a, b, c}) == Ids{1, 3, 2});
  CHECK(Order(Stjf{.quantile = Stjf::kMean}, {a, b, c}) == Ids{3, 2, 1});
  CHECK(Order(Stjf{.unknown = 97}, {a, b, c, Some(4, 0)}) == Ids{1, 3, 4, 2});
}

TEST_CASE("hrrn: waiting lifts the short ones faster") {
  const Hrrn policy{.output_s = 0.1, .prompt_s = 0.01};
  RequestState brief = Some(1, 90), longer = Some(2, 0);
  brief.request.output_tokens = Estimate::Exact(90), brief.request.prompt_tokens = {100};    // 10 s
  longer.request.output_tokens = Estimate::Exact(900), longer.request.prompt_tokens = {1000};  // 100 s
  CHECK(policy.KeyAt(brief, At(95)).key == Approx(-(5.0 + 10) / 10));
  CHECK(policy.KeyAt(longer, At(95)).key == Approx(-(95.0 + 100) / 100));
  CHECK(policy.KeyAt(brief, At(80)).key == -1);  // a clock that stepped back
  CHECK(Order(policy, {brief, longer}, At(95)) == Ids{2, 1});
  CHECK(Order(policy, {brief, longer}, At(110)) == Ids{1, 2});  // 3 against 2.1
  RankQueue<Hrrn> queue(policy);
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

TEST_CASE("fair_share: the tenant served least comes first, and idling earns no credit") {
  RankQueue<FairShare> queue(FairShare({.w_in = 1, .w_out = 2}));
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

  queue.Push(4, r[4], {});  // tenant 3 appears: lifted to the least of those that wait
  CHECK(queue.policy().GroupKey(3).key == 120);
  queue.BeginPlan({}, state_of);
  Ids order;
  queue.TopK(5, [&](Slot slot) { order.push_back(r[slot].request.id.value); });
  CHECK(order == Ids{1, 2, 5, 3, 4});

  queue.policy().SetWeight({1}, 4);
  queue.policy().Scheduled(r[0], {0}, {20});
  CHECK(queue.policy().GroupKey(1).key == 130);
}

TEST_CASE("fair_share: a newcomer is lifted to the least counter as it is now") {
  RankQueue<FairShare> queue(FairShare{});
  const std::vector<RequestState> r = {Of(1, 1, 1), Of(2, 2, 2), Of(3, 3, 3)};
  queue.Push(0, r[0], {});
  queue.Push(1, r[1], {});
  queue.policy().Scheduled(r[0], {140}, {0});
  queue.policy().Scheduled(r[1], {120}, {0});
  queue.Push(2, r[2], {});
  CHECK(queue.policy().GroupKey(3).key == 120);
  CHECK(queue.Top() == 1);
}

TEST_CASE("fair_share: a tenant that was served more is not set back") {
  RankQueue<FairShare> queue(FairShare{});
  const std::vector<RequestState> r = {Of(1, 1, 1), Of(2, 2, 2)};
  queue.policy().Scheduled(r[1], {500}, {0});
  queue.Push(0, r[0], {});
  queue.Push(1, r[1], {});
  CHECK(queue.policy().GroupKey(2).key == 500);
  CHECK(queue.Top() == 0);
}

}  // namespace
}  // namespace takt
