#include "ends_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "broken.h"
#include "host.h"
#include "takt/turns/gates/registry.h"
#include "takt/placement/registry.h"
#include "takt/turns/retention/registry.h"

namespace takt::fire {
namespace {

Setup SetupOf(std::uint64_t seed) {
  Setup setup = Setup::OfSeed(seed);
  SchedulerOptions& o = setup.options;
  if (o.kv == KvMode::kOracle) o.kv = KvMode::kLedger;
  setup.agents = o.kv == KvMode::kLedger && seed % 2 == 0;
  o.prefix_cache |= setup.agents;
  return setup;
}

Scheduler SchedulerOf(const Setup& setup) {
  Scheduler scheduler = *Scheduler::Create(setup.options, setup.PolicyOf(setup.policy), setup.PauseOf(setup.pause));
  if (setup.agents) {
    (void)scheduler.SetRetention(*MakeRetention(Setup::RetentionOf(setup.retention)),
                                 *MakeGate(Setup::GateOf(setup.retention)));
  }
  return scheduler;
}

AnyPlacement PlacementBy(std::uint64_t bits) {
  static const std::vector<PlacementInfo> all = PlacementInfos();
  return *MakePlacement(all[bits % all.size()].name);
}

Duration Span(Dice& dice) {
  return dice.Of({Duration::min(), Duration(INT64_MIN + 1), Duration(-1), Duration(0), Duration(1), Duration(1'000'000),
                  Duration(1'000'000'000'000'000'000), Duration(INT64_MAX - 1), Duration::max()});
}

}  // namespace

void Print(const EndsTally& t, std::uint64_t seeds) {
  fmt::print(
      "{} events over {} seeds at the ends of the clock: {} arrivals, {} plans, {} results, {} placements, {} taken "
      "from queues, {} jumps\nno violation; all plans hash to {:016x}\n",
      t.events, seeds, t.arrivals, t.plans, t.commits, t.placements, t.taken, t.jumps, t.plan_hash);
}

EndsWorld::EndsWorld(std::uint64_t seed)
    : setup_(SetupOf(seed)),
      scheduler_(SchedulerOf(setup_)),
      router_(*Router::Create(RouterOptions{}, setup_.PolicyOf(setup_.policy), PlacementBy(seed))),
      queue_(setup_.PolicyOf(setup_.policy)) {
  Dice dice(seed ^ 0x7133u);
  now_ = Time(dice);
  if (dice.Chance(0.5)) now_ = std::min(now_, Before(kNever, std::chrono::milliseconds(dice.Int(0, 20))));
}

std::string EndsWorld::Description() const {
  return fmt::format("{}, {}", setup_.PolicyOf(setup_.policy).spec(), setup_.PauseOf(setup_.pause).spec());
}

// Returns a time at an end of the clock, within a millisecond of an end, or near the host's time.
TimePoint EndsWorld::Time(Dice& dice) const {
  const Duration step(dice.Of<std::int64_t>({0, 0, 1, 2, 999'999, 1'000'000, 1'000'001, 1'000'000'000}));
  switch (dice.Index(5)) {
    case 0: return After(kUnset, step);
    case 1: return Before(kNever, step);
    case 2: return TimePoint(step);
    case 3: return Before(now_, step);
    default: return After(now_, step);
  }
}

void EndsWorld::Carry(const Action& action) {
  ++tally_.events;
  try {
    Do(action);
  } catch (const Broken& broken) {
    Violate(broken.what());
  }
}

template <class E>
void EndsWorld::Send(const E& event, Dice& dice) {
  const TimePoint now = dice.Chance(0.05) ? Time(dice) : now_;
  latest_ = std::max(latest_, now);
  scheduler_.On(event, now);
}

void EndsWorld::Arrive(std::uint64_t bits) {
  Dice dice(bits ^ 0xa441u);
  Request r = DrawRequest({++named_}, setup_, {}, bits).request;
  for (TimePoint* time : {&r.arrival, &r.workflow_arrival, &r.deadline, &r.expires_at}) {
    if (dice.Chance(0.3)) *time = Time(dice);
  }
  if (dice.Chance(0.2)) r.compute = Span(dice);
  if (dice.Chance(0.2)) r.next_call.duration = Span(dice);
  ++tally_.arrivals;
  Send(Arrived{r}, dice);
  router_.On(Arrived{r}, now_);
  queue_.Push(r, now_);
}

void EndsWorld::Plan(TimePoint now) {
  latest_ = std::max(latest_, now);
  const bool full = plans_.size() == 3;
  const StepPlan& plan = scheduler_.Plan(now, setup_.limits);
  ++tally_.plans;
  tally_.plan_hash =
      Mix64(tally_.plan_hash ^ plan.run.size() ^ static_cast<std::uint64_t>(plan.wake_at.time_since_epoch().count()));
  for (const KvMove& move : plan.moves) moves_.push_back(move.id);
  if (plan.run.size() > 0 && !full) plans_.push_back({plan.id, {plan.run.begin(), plan.run.end()}});
  if (plan.wake_at <= latest_ && latest_ < kNever) Violate("a plan sets wake_at to now or earlier");
  if (const char* fault = scheduler_.Inconsistency(); fault != nullptr) Violate(fault);
}

void EndsWorld::Commit(std::uint64_t bits, TimePoint now) {
  if (plans_.empty()) return;
  Dice dice(bits);
  const Given given = plans_.front();
  plans_.erase(plans_.begin());
  std::vector<RowResult> rows;
  for (const PlanEntry& e : given.run) {
    RowResult row{.request = e.request, .lane = e.lane};
    if (e.samples()) row.tokens = 1;
    if (e.samples() && dice.Chance(0.1)) row.flags |= RowResult::kFinished;
    rows.push_back(row);
  }
  ++tally_.commits;
  latest_ = std::max(latest_, now);
  scheduler_.Commit({given.id, rows}, now);
}

void EndsWorld::Route(Dice& dice) {
  const InstanceId instance{1 + dice.Bits() % 3};
  const RequestId request{1 + dice.Bits() % (named_ + 1)};
  const WorkflowId workflow{1 + dice.Bits() % 6};
  switch (dice.Index(7)) {
    case 0: router_.On(InstanceUp{{.id = instance, .kv_tokens = {1000}, .capacity = 8, .token_s = 1e-3}}, now_); break;
    case 1: router_.On(InstanceDown{instance}, now_); break;
    case 2: router_.On(RequestStarted{request, instance}, now_); break;
    case 3:
      router_.On(RequestEnded{.request = request, .instance = instance, .served = TokensServed{{9}, {9}}}, now_);
      break;
    case 4: {
      Workflow w{.id = workflow, .arrival = Time(dice), .deadline = Time(dice)};
      w.stages.push_back({.stage = {1}, .cost_s = dice.Of({0.0, 1.0, 1e300})});
      router_.On(WorkflowDeclared{w}, now_);
      break;
    }
    case 5: router_.On(WorkflowEnded{workflow}, now_); break;
    default: tally_.placements += router_.Place(now_).size();
  }
}

void EndsWorld::Queue(Dice& dice) {
  queue_.Begin(now_);
  std::vector<WaitingQueue<AnyPolicy>::Ran> ran;
  for (int i = dice.Int(0, 4); i > 0 && queue_.Top(); --i) {
    const RequestId id = queue_.Top();
    (void)queue_.Take(id);
    ran.push_back({.request = id, .prefill = {1}});
  }
  tally_.taken += queue_.End(ran, now_);
  const RequestId request{1 + dice.Bits() % (named_ + 1)};
  if (dice.Chance(0.5)) (void)queue_.Requeue(request, now_);
  else if (dice.Chance(0.3)) (void)queue_.Pause({.request = request, .expected = Span(dice)}, now_);
}

void EndsWorld::Do(const Action& a) {
  Dice dice(a.bits);
  if (dice.Chance(0.01)) now_ = Time(dice), ++tally_.jumps;
  else now_ = After(now_, Duration(dice.Between(0, 200'000)));
  const RequestId id{a.name};
  switch (a.what) {
    case Do::kArrive: return Arrive(a.bits);
    case Do::kRevise: {
      Revised r{.request = id};
      r.deadline = Time(dice);
      if (dice.Chance(0.3)) r.expires_at = Time(dice);
      r.next_call = NextCall{.after = {1}, .returned = {1}, .duration = Span(dice)};
      router_.On(r, now_);
      (void)queue_.Revise(r, now_);
      return Send(r, dice);
    }
    case Do::kCallTool: return Send(ToolCalled{id, dice.Chance(0.5) ? Span(dice) : Duration(1'000'000), {1}}, dice);
    case Do::kReturnTool:
      return Send(ToolReturned{id, {1}, {.after = {1}, .returned = {}, .duration = Span(dice)}}, dice);
    case Do::kCancel: (void)queue_.Erase(id), router_.On(Cancelled{id}, now_); return Send(Cancelled{id}, dice);
    case Do::kBlock: return Send(Blocked{id}, dice);
    case Do::kUnblock: return Send(Unblocked{id}, dice);
    case Do::kFinishMove: {
      if (moves_.empty()) return;
      const MoveId move = moves_.back();
      moves_.pop_back();
      return Send(MoveDone{move, dice.Chance(0.2)}, dice);
    }
    case Do::kEndTurn: {
      const WorkflowId workflow{dice.Bits() % 6};
      const std::uint64_t branch = dice.Bits() % 2;
      if (dice.Chance(0.1)) return Send(WorkflowEnded{workflow}, dice);
      if (dice.Chance(0.2)) return Send(TurnExpected{workflow, branch, Time(dice)}, dice);
      return Send(TurnEnded{workflow, branch, TurnWhy::kTool, {}, Span(dice), Span(dice)}, dice);
    }
    case Do::kChangePolicy: return scheduler_.ChangePolicy(setup_.PolicyOf(a.bits), now_);
    case Do::kPlan: return Plan(dice.Chance(0.05) ? Time(dice) : now_);
    case Do::kCommit: return Commit(a.bits, now_);
    case Do::kPlace: return Route(dice);
    case Do::kPost: return Queue(dice);
    default: return;
  }
}

void EndsWorld::Drain() {
  for (std::uint64_t name = 1; name <= named_; ++name) {
    scheduler_.On(Cancelled{{name}}, now_), router_.On(Cancelled{{name}}, now_), (void)queue_.Erase({name});
  }
  for (int i = 0; i < 100 && scheduler_.alive() > 0; ++i) {
    Commit(0, now_);
    for (const MoveId move : std::exchange(moves_, {})) scheduler_.On(MoveDone{move}, now_);
    Plan(now_);
  }
  (void)router_.Place(now_);
  if (scheduler_.alive() > 0) Violate("the scheduler keeps requests that were cancelled");
  if (router_.alive() > 0) Violate("the router keeps requests that were cancelled");
  if (queue_.known() > 0) Violate("the queue keeps requests that were cancelled");
}

Action EndsHost::Next(const EndsWorld& world) {
  Action a{.name = 1 + dice_.Bits() % (world.named() + 1), .bits = dice_.Bits()};
  if (dice_.Chance(0.8)) a.name = world.named() - std::min<std::uint64_t>(dice_.Bits() % 16, world.named());
  a.what = dice_.Of({Do::kArrive, Do::kPlan, Do::kPlan, Do::kPlan, Do::kCommit, Do::kCommit, Do::kCallTool,
                     Do::kReturnTool, Do::kReturnTool, Do::kRevise, Do::kCancel, Do::kFinishMove, Do::kEndTurn,
                     Do::kEndTurn, Do::kPlace, Do::kPlace, Do::kPost});
  if (dice_.Chance(0.02)) a.what = dice_.Of({Do::kBlock, Do::kUnblock, Do::kUnblock, Do::kChangePolicy});
  return a;
}

}  // namespace takt::fire
