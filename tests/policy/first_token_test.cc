// Targets for the first token: the order by hand, and requests that become late while they wait.
#include "takt/policy/first_token.h"

#include <cstdint>
#include <vector>

#include "catch.h"
#include "takt/policy/registry.h"
#include "takt/queue/rank_queue.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

using Ids = std::vector<std::uint64_t>;

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

RequestState Some(std::uint64_t id, double arrival, double by, std::int32_t prompt = 0) {
  RequestState r;
  r.request.id = {id}, r.slot = static_cast<std::uint32_t>(id), r.request.prompt_tokens = {prompt};
  r.request.arrival = r.request.workflow_arrival = At(arrival);
  if (by > 0) r.request.first_token_by = At(by);
  return r;
}

struct Queue {
  explicit Queue(const std::vector<RequestState>& all, FirstToken policy = FirstToken{})
      : requests(all), queue(policy) {
    for (Slot slot = 0; slot < requests.size(); ++slot) {
      requests[slot].slot = slot;
      queue.Push(slot, requests[slot], At(0));
    }
  }
  Ids OrderAt(double seconds) {
    queue.BeginPlan(At(seconds), [this](Slot slot) -> const RequestState& { return requests[slot]; });
    Ids order;
    queue.TopK(requests.size(), [&](Slot slot) { order.push_back(requests[slot].request.id.value); });
    return order;
  }

  std::vector<RequestState> requests;
  internal::RankQueue<FirstToken> queue;
};

TEST_CASE("least slack goes first, then requests without a target, then late ones") {
  FirstToken policy;
  policy.pace.forward_s = 0.001;
  // Latest starts: 10 - 2 = 8 s; 9 - 0.5 = 8.5 s; none; 7 - 6.9 = 0.1 s.
  Queue queue({Some(1, 1, 9, 500), Some(2, 2, 10, 2000), Some(3, 0, 0, 10), Some(4, 3, 7, 6900)}, policy);
  CHECK(queue.OrderAt(0) == Ids{4, 2, 1, 3});
  CHECK(queue.OrderAt(0.1) == Ids{4, 2, 1, 3});  // it can just be met
  CHECK(queue.OrderAt(0.2) == Ids{2, 1, 3, 4});
  CHECK(queue.OrderAt(8.4) == Ids{1, 3, 2, 4});  // in order of arrival
  CHECK(queue.OrderAt(100) == Ids{3, 1, 2, 4});
}

TEST_CASE("requests that have begun go first, and never become late") {
  RequestState begun = Some(1, 5, 1, 100);
  begun.generated = {3};
  Queue queue({Some(2, 0, 50), begun});
  CHECK(queue.OrderAt(0) == Ids{1, 2});
  CHECK(queue.OrderAt(1000) == Ids{1, 2});
}

TEST_CASE("computed and cached tokens need no time, and a default replaces a missing target") {
  RequestState cached = Some(1, 0, 10, 5000), whole = Some(2, 0, 10, 5000), none = Some(3, 3, 0);
  cached.cached = {4000};
  FirstToken policy({.default_s = 4});
  policy.pace.forward_s = 0.001;
  Queue queue({cached, whole, none}, policy);
  CHECK(queue.OrderAt(0) == Ids{2, 3, 1});  // 5, 7 and 9 s
  CHECK(queue.OrderAt(8) == Ids{1, 2, 3});
  Queue stay({Some(1, 1, 20), Some(2, 0, 2)}, FirstToken({.late_last = false}));
  CHECK(stay.OrderAt(10) == Ids{2, 1});
}

TEST_CASE("hostile targets keep their order") {
  const auto ns = [](std::uint64_t id, std::int64_t by) {
    RequestState r = Some(id, 0, 0, INT32_MAX);
    r.request.first_token_by = TimePoint(Duration(by));
    return r;
  };
  Queue queue({ns(1, INT64_MAX - 1), ns(2, INT64_MIN), ns(3, -1), Some(4, 0, 0)});
  CHECK(queue.OrderAt(0) == Ids{1, 4, 2, 3});
  CHECK(Queue({Some(1, 0, 5, -7), Some(2, 0, 6, 0)}).OrderAt(0) == Ids{1, 2});
}

// Runs one request a step until all have ended. Returns their order.
Ids Run(Scheduler& scheduler, double now, double step_s) {
  Ids order;
  for (; scheduler.alive() > 0 && order.size() < 10; now += step_s) {
    const StepPlan& plan = scheduler.Plan(At(now), {.tokens = {100}, .max_seqs = 1});
    std::vector<RowResult> rows;
    for (const PlanEntry& e : plan.run) {
      rows.push_back({e.request, e.lane, 1, 0, RowResult::kFinished});
      order.push_back(e.request.value);
    }
    scheduler.Commit({plan.id, rows}, At(now));
  }
  return order;
}

void Arrive(Scheduler& scheduler, std::uint64_t id, double by) {
  Request r{.id = {id}, .prompt_tokens = {100}};
  r.first_token_by = At(by);
  scheduler.On(Arrived{r}, At(0));
}

TEST_CASE("a scheduler passes over requests that cannot meet their target") {
  auto scheduler = *Scheduler::Create({.kv_blocks = {1000}}, *MakePolicy("first_token(forward_s=0.001)"));
  for (std::uint64_t id = 1; id <= 3; ++id) Arrive(scheduler, id, static_cast<double>(40 - 10 * id));
  CHECK(Run(scheduler, 0, 8) == Ids{3, 2, 1});
  for (std::uint64_t id = 1; id <= 3; ++id) Arrive(scheduler, 10 + id, static_cast<double>(100 + 10 * id));
  CHECK(Run(scheduler, 125, 1) == Ids{13, 11, 12});  // the targets of 11 and 12 have passed
}

TEST_CASE("the options have bounds") {
  CHECK(MakePolicy("first_token(default_s=2,late_last=false)").ok());
  CHECK_FALSE(MakePolicy("first_token(default_s=-1)").ok());
  CHECK_FALSE(MakePolicy("first_token(forward_s=nan)").ok());
  CHECK(MakePolicy("aged(first_token)").ok());
}

}  // namespace
}  // namespace takt
