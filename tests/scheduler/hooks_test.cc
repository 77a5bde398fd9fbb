// The calls that a policy receives, and their order: Enters, Ends, Scheduled, Change, PlanEnds.
#include <memory>
#include <string>

#include "scheduler/host.h"
#include "takt/policy/aged.h"
#include "takt/policy/any_policy.h"
#include "takt/policy/fcfs.h"
#include "takt/queue/waiting_queue.h"

namespace takt {
namespace {

using testing::Host;
using testing::Ms;
using testing::Prompt;

struct Record {
  std::string calls;
  std::vector<QueuePressure> pressures;
};

// Ranks by events: the key is the prompt length until `flip_ms` after joining, or until two tokens exist. Then the
// request ranks last.
struct Probe {
  std::shared_ptr<Record> record = std::make_shared<Record>();
  std::int64_t flip_ms = 0;
  struct Kept {
    double key = 0;
    TimePoint flips = kNever;
  };
  std::vector<Kept> kept = {};

  Kept& Of(const RequestState& r) {
    if (r.slot >= kept.size()) kept.resize(r.slot + std::size_t{1});
    return kept[r.slot];
  }
  void Note(char what, const RequestState& r) { record->calls += what + std::to_string(r.request.id.value) + " "; }

  void Enters(const RequestState& r, TimePoint now) {
    Note('+', r);
    Of(r) = {r.generated.value >= 2 ? 1000.0 : r.request.prompt_tokens.value + 100.0 * r.request.priority,
             flip_ms > 0 ? now + std::chrono::milliseconds(flip_ms) : kNever};
  }
  void Ends(const RequestState& r, TimePoint) { Note(r.cut ? 'x' : '-', r); }
  bool Scheduled(const RequestState& r, Tokens, Tokens) {
    if (r.generated.value != 2) return false;
    Of(r).key = 1000;
    return true;
  }
  RankKey Key(const RequestState& r) const { return {r.slot < kept.size() ? kept[r.slot].key : 0}; }
  TimePoint ChangesAt(const RequestState& r) const { return kept[r.slot].flips; }
  void Change(const RequestState& r, TimePoint) {
    Note('!', r);
    Of(r) = {1000, kNever};
  }
  void PlanEnds(const QueuePressure& pressure, TimePoint) { record->pressures.push_back(pressure); }
  KeyParts Explain(const RequestState& r) const {
    KeyParts parts;
    parts.Add("prompt", r.request.prompt_tokens.value);
    return parts;
  }
};

template <class P>
P Wrapped(const Probe& probe) {
  if constexpr (std::same_as<P, Aged<Probe>>) return Aged<Probe>(probe, {.threshold = 1000});
  return P(probe);
}

SchedulerOptions Small() { return {.kv_blocks = {10}, .kv_watermark = 0}; }

TEMPLATE_TEST_CASE("a policy receives requests that join, are revised and end", "", Probe, AnyPolicy, Aged<Probe>) {
  const Probe probe;
  Host<TestType> host(Small(), {.max_seqs = 1}, Wrapped<TestType>(probe));
  std::string& calls = probe.record->calls;
  host.Arrive(1, 16);
  host.Arrive(2, 8);
  CHECK(calls == "+1 +2 ");
  CHECK(host.Step() == "2:8");
  host.On(Revised{.request = {2}, .priority = 1});  // it is running
  host.On(Revised{.request = {1}, .priority = 2});  // it is waiting
  CHECK(calls == "+1 +2 +2 +1 ");
  host.On(ToolCalled{.request = {2}});
  CHECK(host.Step() == "1:16");
  host.On(ToolReturned{.request = {2}, .returned = {4}});
  CHECK(calls == "+1 +2 +2 +1 +2 ");
  host.On(Cancelled{{2}});
  CHECK(host.Step({1}) == "1:1");
  host.Plan();
  CHECK(calls == "+1 +2 +2 +1 +2 x2 -1 ");
  CHECK(host.scheduler.Explain({2}).key_parts.size == 0);
}

TEMPLATE_TEST_CASE("a key with a known change time changes before the next plan", "", Probe, AnyPolicy, Aged<Probe>) {
  Probe probe{.flip_ms = 10};
  Host<TestType> host(Small(), {.max_seqs = 1}, Wrapped<TestType>(probe));
  host.Arrive(1, 16);
  CHECK(host.Step() == "1:16");
  host.Arrive(2, 1);
  host.now = 8;
  host.Arrive(3, 5);
  CHECK(host.Step() == "1:1");  // at 9 ms
  CHECK(host.scheduler.Explain({3}).ahead == 1);
  CHECK(host.scheduler.Explain({3}).key_parts.parts[0].value == 5);
  host.now = 11;
  CHECK(host.Step({1}) == "1:1");
  CHECK(host.scheduler.Explain({2}).ahead == 1);  // its time has come
  CHECK(host.scheduler.Explain({2}).key.key == 1000);
  CHECK(host.Step({3}) == "3:5");
  CHECK(probe.record->calls == "+1 +2 +3 !2 -1 -3 ");
}

TEST_CASE("new facts move a request's change time, and others keep theirs") {
  const Probe probe{.flip_ms = 10};
  Host<Probe> host(Small(), {.max_seqs = 1}, probe);
  host.Arrive(1, 16);
  host.Step();
  host.Arrive(2, 8);  // to change at 11 ms
  host.now = 2;
  host.Arrive(3, 5);
  host.now = 8;
  host.On(Revised{.request = {2}, .priority = 1});  // now at 18 ms
  host.now = 12;
  host.Step();
  CHECK(probe.record->calls == "+1 +2 +3 +2 !3 ");
}

TEST_CASE("a step may change a running request's key and the victim") {
  SchedulerOptions options = Small();
  options.preempt = PreemptMode::kByRank;
  Host<Probe> host(options, {.max_seqs = 1});
  host.Arrive(1, 4);
  CHECK(host.Step() == "1:4");
  host.Arrive(2, 50);
  CHECK(host.Step() == "1:1");
  CHECK(host.Step() == "2:50");
  CHECK(host.scheduler.stats().preempted_by_rank == 1);
}

TEST_CASE("a policy learns after each plan why the first waits") {
  const Probe probe;
  Host<Probe> host(Small(), {.tokens = {64}, .max_seqs = 2}, probe);
  const auto& pressures = probe.record->pressures;
  host.Arrive(1, 16);
  host.Step();
  CHECK(pressures.back().head == WaitsFor::kNothing);
  CHECK(pressures.back().kv_tokens == Tokens{160});
  host.Arrive(2, 62);
  host.Arrive(3, 70);
  host.Step();
  CHECK(pressures.back().head == WaitsFor::kSequences);
  host.On(Cancelled{{2}});
  host.Arrive(4, 150);
  host.On(Cancelled{{3}});
  host.Step();
  CHECK(pressures.back().head == WaitsFor::kKv);
  CHECK(pressures.back().limits.max_seqs == 2);
  host.On(Cancelled{{4}});
  host.limits.tokens = {1};
  host.Arrive(5, 20);
  host.Step();
  CHECK(pressures.back().head == WaitsFor::kBudget);
}

TEST_CASE("a policy receives no call for a failed plan") {
  const Probe probe;
  Host<Probe> host(Small(), {}, probe);
  host.Arrive(1, 16);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(host.Plan().run.empty());
  CHECK(host.Plan().idle == Idle::kStepsInFlight);
  CHECK(probe.record->pressures.size() == 3);
}

TEST_CASE("a policy set later receives waiting and running requests") {
  Host<AnyPolicy> host(Small(), {.max_seqs = 1}, AnyPolicy(Fcfs{}));
  host.Arrive(1, 16);
  host.Step();
  host.Arrive(2, 9);
  host.Arrive(3, 7);
  const Probe probe{.flip_ms = 50};
  host.scheduler.ChangePolicy(probe, Ms(host.now));
  CHECK(probe.record->calls == "+2 +3 +1 ");
  CHECK(host.Step({1}) == "1:1");
  CHECK(host.Step({3}) == "3:7");
}

TEST_CASE("a request rejected at a full queue also ends for the policy") {
  SchedulerOptions options = Small();
  options.max_waiting = 1;
  options.shed = Shed::kWorst;
  const Probe probe;
  Host<Probe> host(options, {.max_seqs = 0}, probe);
  host.Arrive(1, 5);
  host.Arrive(2, 9);  // ranks behind the waiting one
  host.Plan();
  CHECK(probe.record->calls == "+1 +2 x2 ");
  host.Arrive(3, 2);
  host.Plan();
  CHECK(probe.record->calls == "+1 +2 x2 +3 x1 ");
}

TEST_CASE("a full queue ranks overdue requests last, new ones by key") {
  SchedulerOptions options = Small();
  options.max_waiting = 2;
  options.shed = Shed::kWorst;
  Probe probe{.flip_ms = 10};
  Host<Probe> host(options, {.max_seqs = 1}, probe);
  host.Arrive(1, 1);
  host.Step();
  host.Arrive(2, 3);  // becomes the last at 11 ms
  host.now = 8;
  host.Arrive(3, 9);
  host.now = 11;
  host.Step();
  host.Arrive(4, 5);  // joins at 12 ms, and ranks first
  CHECK(host.scheduler.policy().kept[3].flips == Ms(host.now + 10));
  host.Step();
  CHECK(probe.record->calls == "+1 +2 +3 !2 +4 x2 ");
}

TEST_CASE("the policy sees a running request's current state at a revision") {
  struct Watching {
    std::shared_ptr<RequestState> last = std::make_shared<RequestState>();
    void Enters(const RequestState& r, TimePoint) { *last = r; }
    RankKey Key(const RequestState&) const { return {}; }
  };
  const Watching policy;
  Host<Watching> host(Small(), {}, policy);
  host.Arrive(1, 16);
  CHECK_FALSE(policy.last->taken);
  const StepPlan& first = host.Plan();
  host.On(Revised{.request = {1}, .priority = 2});
  CHECK(policy.last->taken);  // and no step has come back
  CHECK_FALSE(policy.last->has_run);
  host.Commit(first);
  for (int i = 0; i < 3; ++i) host.Step();
  host.On(Revised{.request = {1}, .priority = 3});
  CHECK(policy.last->generated == Tokens{4});
  CHECK(policy.last->computed == Tokens{19});
  CHECK(policy.last->has_run);
}

TEST_CASE("a policy observes the host's own event, not a copy of it") {
  struct Observing {
    std::shared_ptr<const Event*> last = std::make_shared<const Event*>();
    void Observe(const Event& event, TimePoint) { *last = &event; }
    RankKey Key(const RequestState&) const { return {}; }
  };
  const Observing policy;
  Host<Observing> host(Small(), {}, policy);
  const Event event = Cancelled{{1}};
  host.scheduler.On(event, Ms(1));
  CHECK(*policy.last == &event);
}

TEST_CASE("a scheduler without a given policy uses takt's default") {
  CHECK(Scheduler::Create(Small())->policy().name() == "room_to_pass");
  CHECK(BasicScheduler<Fcfs>::Create(Small()).ok());
}

TEST_CASE("a queue alone makes the same calls as a scheduler") {
  const Probe probe{.flip_ms = 10};
  WaitingQueue<Probe> queue(probe);
  queue.Push(Prompt(1, 9), Ms(0));
  queue.Push(Prompt(2, 5), Ms(5));
  queue.Begin(Ms(6));
  CHECK(queue.Top() == RequestId{2});
  CHECK(queue.Take({1}) == QueueResult::kDone);  // taken and returned, without a call to the policy
  CHECK(queue.Take({2}) == QueueResult::kDone);
  queue.End(std::vector<WaitingQueue<Probe>::Ran>{{{2}}}, Ms(6));
  queue.Begin(Ms(20));
  CHECK(queue.Revise({.request = {2}}, Ms(21)) == QueueResult::kDone);
  CHECK(queue.Requeue({2}, Ms(22)) == QueueResult::kDone);
  CHECK(queue.Erase({2}) == QueueResult::kDone);
  CHECK(probe.record->calls == "+1 +2 !1 +2 +2 -2 ");
}

TEST_CASE("a promotion lasts for its quantum against other promoted requests") {
  SchedulerOptions options = Small();
  options.max_running = 1;
  options.preempt = PreemptMode::kByRank;
  Host<Aged<Fcfs>> host(options, {}, Aged<Fcfs>(Fcfs{}, {.threshold = 1, .quantum = 3}));
  host.Arrive(1, 1);
  host.Arrive(2, 1);
  std::string order;
  while (order.size() < 13) order += host.Step().substr(0, 1);
  CHECK(order == "1222111222111");
  CHECK(host.scheduler.stats().preempted_by_rank == 4);  // once a turn
}

}  // namespace
}  // namespace takt
