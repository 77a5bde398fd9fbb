// KV while a tool runs, as a host sees it, and the resulting order.
#include <cstdint>
#include <string>
#include <vector>

#include "catch.h"
#include "scheduler/host.h"
#include "takt/rivals/pause/infercept.h"
#include "takt/pause/least_waste.h"
#include "takt/pause/registry.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/memory_integral.h"
#include "takt/policy/registry.h"
#include "takt/record.h"
#include "takt/scheduler.h"
#include "with_rivals.h"

namespace takt {
namespace {

// A token a second, for decode and for prefill. Moves are almost free.
constexpr MemoryPace kUnits{.decode_s = 1, .forward_s = 1, .swap_s = 0, .chunk_tokens = 1000};

TimePoint At(double s) { return TimePoint(FromSeconds(s)); }

PauseView View(std::int32_t context, std::int64_t running, std::int32_t swap_free) {
  return {.now = At(100),
          .context = {context},
          .running_tokens = running + context,
          .held = {1},
          .kv_free = {100},
          .swap_free = {swap_free}};
}

TEST_CASE("least_waste keeps short calls, and swaps or drops long ones") {
  const LeastWaste pause{.costs = {.pace = {.forward_s = 1e-4, .swap_s = 1e-5, .chunk_tokens = 512}}};
  const auto action = [&](double seconds, std::int32_t swap_free, std::int64_t beside = 1000) {
    return pause.AtCall({}, {.expected = FromSeconds(seconds)}, View(400, beside, swap_free)).action;
  };
  // Dropping wastes 1e-4 * 400 * (1000 + 400) = 56 token-seconds, swapping 2e-5 * 400 * (200 + 1000) = 9.6.
  CHECK(action(0.01, 10) == KvAction::kKeep);
  CHECK(action(0.023, 10) == KvAction::kKeep);
  CHECK(action(0.025, 10) == KvAction::kOut);
  CHECK(action(0.025, 0) == KvAction::kKeep);
  CHECK(action(0.13, 0) == KvAction::kKeep);
  CHECK(action(0.15, 0) == KvAction::kDrop);
  CHECK(action(0.15, 0, 100'000) == KvAction::kKeep);  // recomputation would delay many
}

TEST_CASE("a call of unknown duration is kept until waste equals the alternative") {
  const LeastWaste pause{.costs = {.pace = {.forward_s = 1e-4, .swap_s = 1e-5, .chunk_tokens = 512}}};
  const PauseDecision decision = pause.AtCall({}, {}, View(400, 1000, 0));
  CHECK(decision.action == KvAction::kKeep);
  CHECK(ToSeconds(decision.review_at - At(100)) == Approx(56.0 / 400));
  PauseView later = View(400, 1000, 0);
  later.now = decision.review_at;
  CHECK(pause.Review({}, {}, At(100), later).action == KvAction::kDrop);
  later.running_tokens = 100'000;  // recomputation would delay more than before
  const PauseDecision again = pause.Review({}, {}, At(100), later);
  CHECK(again.action == KvAction::kKeep);
  CHECK(again.review_at > later.now);
}

TEST_CASE("infercept keeps by waste, and `elapsed` ignores predicted durations") {
  InferCept pause{.costs = {.pace = {.forward_s = 1e-4, .swap_s = 1e-5, .chunk_tokens = 512}}};
  const ToolCalled shortly{.expected = FromSeconds(0.1)}, longer{.expected = FromSeconds(0.2)};
  CHECK(pause.AtCall({}, shortly, View(400, 1000, 10)).action == KvAction::kKeep);
  CHECK(pause.AtCall({}, longer, View(400, 1000, 10)).action == KvAction::kOut);
  CHECK(pause.AtCall({}, longer, View(400, 1000, 0)).action == KvAction::kDrop);
  pause.elapsed = true;
  CHECK(pause.AtCall({}, longer, View(400, 1000, 0)).action == KvAction::kKeep);
}

TEST_CASE("infercept swaps within link and host memory and drops the rest") {
  const InferCept pause{.costs = {.pace = {.forward_s = 1e-4, .swap_s = 1e-5, .chunk_tokens = 512}}};
  const auto away = [&](std::int32_t swap_free) {
    PauseView view = View(400, 1000, swap_free);
    view.held = {25};
    return pause.AtCall({}, {.expected = FromSeconds(1)}, view);
  };
  CHECK(away(30).action == KvAction::kOut);
  CHECK(away(30).out.value == 25);
  CHECK(away(24).action == KvAction::kOut);
  CHECK(away(24).out.value == 24);
  CHECK(away(0).action == KvAction::kDrop);
  CHECK(away(-1).action == KvAction::kDrop);
}

RequestState Expecting(std::uint64_t id, double output, std::int32_t after, double seconds, KvAction action) {
  RequestState r;
  r.request.id = {id};
  r.request.output_tokens = Estimate::Exact(output);
  r.request.next_call = {.after = {after}, .duration = FromSeconds(seconds)};
  r.at_call = action;
  return r;
}

TEST_CASE("the paper's three requests order as published, with and without the stall") {
  const std::vector<RequestState> three = {Expecting(1, 6, 5, 2, KvAction::kKeep),
                                           Expecting(2, 2, 1, 7, KvAction::kDrop),
                                           Expecting(3, 3, 2, 1, KvAction::kOut)};
  MemoryIntegral plain{.pace = kUnits};
  // Areas of 31, 3.5 (its recomputation is a ramp, not a step) and 6 token-seconds.
  CHECK(plain.Key(three[0]).key == Approx(31));
  CHECK(plain.Key(three[1]).key == Approx(3.5));
  CHECK(plain.Key(three[2]).key == Approx(6));

  MemoryIntegral stall = plain;
  stall.stall = 1;
  std::vector<RequestState> beside = three;
  for (RequestState& r : beside) r.beside = 5;
  CHECK(stall.Key(beside[2]).key < stall.Key(beside[1]).key);
  CHECK(stall.Key(beside[1]).key < stall.Key(beside[0]).key);

  RequestState unknown;
  CHECK(plain.Key(unknown).key > plain.Key(three[0]).key);
}

TEST_CASE("computed and generated tokens cost no more") {
  const MemoryIntegral policy{.pace = {.decode_s = 0.02, .forward_s = 1e-4, .swap_s = 0}};
  RequestState r;
  r.request.prompt_tokens = {1000};
  r.request.output_tokens = Estimate::Exact(100);
  const double fresh = policy.Key(r).key;
  r.computed = {1000};
  const double computed = policy.Key(r).key;
  CHECK(computed == Approx(fresh - 1e-4 * 1000 * 500));
  r.generated = {60};
  CHECK(policy.Key(r).key < computed);
}

// One scheduler, a request that calls a tool after its first token, and a tool that may never answer.
struct OneCall {
  explicit OneCall(AnyPause pause, std::int32_t cpu_blocks = 0)
      : scheduler(*Scheduler::Create({.kv_block_tokens = {16}, .kv_blocks = {100}, .cpu_blocks = {cpu_blocks}}, Fcfs{},
                                     std::move(pause))) {}

  void Step(bool finished = false) {
    const StepPlan& plan = scheduler.Plan(now, {});
    std::vector<RowResult> rows;
    for (const PlanEntry& e : plan.run) {
      rows.push_back({e.request, e.lane, static_cast<std::uint16_t>(e.samples()), 0,
                      static_cast<std::uint8_t>(finished ? RowResult::kFinished : 0)});
    }
    if (!plan.run.empty()) scheduler.Commit({plan.id, rows}, now);
    REQUIRE(scheduler.Inconsistency() == nullptr);
  }
  void CallAfterFirstToken(double expected_s) {
    Request r{.id = {1}, .prompt_tokens = {160}};
    r.next_call = {.after = {1}, .duration = FromSeconds(expected_s)};
    scheduler.On(Arrived{r}, now);
    Step();
    scheduler.On(ToolCalled{.request = {1}, .expected = FromSeconds(expected_s)}, now);
  }

  Scheduler scheduler;
  TimePoint now = At(1);
};

TEST_CASE("while the head waits for memory, a request with kept KV continues") {
  testing::Host<Priority, KeepAll> host({.kv_blocks = {10}, .kv_watermark = 0}, {.tokens = {512}});
  host.On(Arrived{{.id = {1}, .prompt_tokens = {60}, .priority = 5}});
  host.On(Arrived{{.id = {2}, .prompt_tokens = {10}, .priority = 5}});
  CHECK(host.Step() == "1:60 2:10");
  host.On(ToolCalled{.request = {1}});
  host.On(Arrived{{.id = {3}, .prompt_tokens = {160}, .priority = 0}});  // it needs all memory
  host.On(Arrived{{.id = {4}, .prompt_tokens = {10}, .priority = 5}});
  CHECK(host.Step() == "2:1 4:10");  // 4 passes 3, which has never run
  host.On(ToolReturned{{1}, {3}});
  CHECK(host.Step() == "2:1 4:1 1:4");  // its last token and the answer
  CHECK(host.Step({1, 2, 4}) == "2:1 4:1 1:1");
  CHECK(host.Step() == "3:160");
}

TEST_CASE("an overdue call is reviewed at a planned time, and KV freed") {
  for (const bool elapsed : {false, true}) {
    const LeastWaste least{.costs = {.pace = {.forward_s = 1e-4, .swap_s = 1e-5}}};
    OneCall host(elapsed ? AnyPause(InferCept{.costs = least.costs, .elapsed = true}) : AnyPause(least));
    host.CallAfterFirstToken(1e-3);
    const StepPlan& idle = host.scheduler.Plan(host.now, {});
    CHECK(idle.idle == Idle::kPaused);
    REQUIRE(idle.wake_at != kNever);
    CHECK(host.scheduler.kv().used.value > 0);
    host.now = idle.wake_at;
    host.Step();
    CHECK(host.scheduler.kv().used.value == 0);
    CHECK(host.scheduler.stats().pauses_let_go == 1);
    host.scheduler.On(ToolReturned{{1}, {20}}, host.now);
    host.Step();
    host.Step(true);
    host.Step();
    CHECK(host.scheduler.alive() == 0);
  }
}

TEST_CASE("answered and cancelled calls are not reviewed") {
  for (const bool cancelled : {false, true}) {
    OneCall host(LeastWaste{.costs = {.pace = {.forward_s = 1e-4, .swap_s = 1e-5}}});
    host.CallAfterFirstToken(1e-3);
    if (cancelled) {
      host.scheduler.On(Cancelled{{1}}, host.now);
    } else {
      host.scheduler.On(ToolReturned{{1}, {20}}, host.now);
    }
    CHECK(host.scheduler.Plan(host.now, {}).wake_at == kNever);
    CHECK(host.scheduler.stats().pauses_let_go == 0);
  }
}

TEST_CASE("an overdue call may be swapped if the host's memory has room") {
  OneCall host(LeastWaste{.costs = {.pace = {.forward_s = 1, .swap_s = 1e-9}}}, 100);
  host.CallAfterFirstToken(0);
  host.now = host.scheduler.Plan(host.now, {}).wake_at;
  REQUIRE(host.now != kNever);
  const StepPlan& plan = host.scheduler.Plan(host.now, {});
  REQUIRE(plan.moves.size() == 1);
  CHECK(plan.moves[0].action == KvAction::kOut);
  const MoveId move = plan.moves[0].id;
  host.scheduler.On(MoveDone{move}, host.now);
  CHECK(host.scheduler.kv().used.value == 0);
  CHECK(host.scheduler.kv().cpu_used.value > 0);
  REQUIRE(host.scheduler.Inconsistency() == nullptr);
}

// 160 tokens of prompt and one of output: 11 blocks, of which 10 are computed.
TEST_CASE("a part of a request's KV moves out and back") {
  for (const bool fails : {false, true}) {
    OneCall host(InferCept{.costs = {.pace = {.forward_s = 1e-9, .swap_s = 1e-9}}}, 6);
    host.CallAfterFirstToken(10);
    CHECK(host.scheduler.kv().cpu_used.value == 6);
    const StepPlan& out = host.scheduler.Plan(host.now, {});
    REQUIRE(out.moves.size() == 1);
    CHECK(out.moves[0] == KvMove{out.moves[0].id, {1}, KvAction::kOut, {0}, {6}});
    host.scheduler.On(MoveDone{out.moves[0].id}, host.now);
    CHECK(host.scheduler.kv().used.value == 0);
    CHECK(host.scheduler.Explain({1}).computed.value == 96);
    CHECK(host.scheduler.Explain({1}).cpu_blocks.value == 6);

    host.scheduler.On(ToolReturned{{1}, {20}}, host.now);
    const StepPlan& in = host.scheduler.Plan(host.now, {});
    REQUIRE(in.moves.size() == 1);
    CHECK(in.moves[0] == KvMove{in.moves[0].id, {1}, KvAction::kIn, {0}, {6}});
    host.scheduler.On(MoveDone{in.moves[0].id, fails}, host.now);
    CHECK(host.scheduler.kv().cpu_used.value == 0);
    CHECK(host.scheduler.kv().used.value == 12);  // 181 tokens
    const StepPlan& again = host.scheduler.Plan(host.now, {.tokens = {50}});
    REQUIRE(again.run.size() == 1);
    CHECK(again.run[0].position == (fails ? 0 : 96));
    CHECK(again.run[0].tokens == 50);
    CHECK(again.run[0].prefill());
    const RowResult row{{1}, again.run[0].lane};
    host.scheduler.Commit({again.id, {&row, 1}}, host.now);
    host.Step(), host.Step(true), host.Step();
    CHECK(host.scheduler.alive() == 0);
    CHECK(host.scheduler.kv().used.value == 0);
    CHECK(host.scheduler.stats().tokens_recomputed == (fails ? 160 : 64));
  }
}

TEST_CASE("calls and the next plan share one swap-out limit") {
  auto scheduler = *Scheduler::Create({.kv_block_tokens = {16}, .kv_blocks = {100}, .cpu_blocks = {100}}, Fcfs{},
                                      InferCept{.costs = {.pace = {.forward_s = 1e-9, .swap_s = 1e-9}}});
  TimePoint now = At(1);
  for (std::uint64_t id = 1; id <= 3; ++id) scheduler.On(Arrived{{.id = {id}, .prompt_tokens = {100}}}, now);
  const StepLimits limits{.swap_out = {10}};
  const StepPlan& plan = scheduler.Plan(now, limits);
  std::vector<RowResult> rows;
  for (const PlanEntry& e : plan.run) rows.push_back({e.request, e.lane, 1});
  scheduler.Commit({plan.id, rows}, now);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    scheduler.On(ToolCalled{.request = {id}, .expected = FromSeconds(10)}, now);
  }
  CHECK(scheduler.kv().cpu_used.value == 10);
  const StepPlan& next = scheduler.Plan(now, limits);
  REQUIRE(next.moves.size() == 2);
  CHECK(next.moves[0].count.value == 7);  // all of it: 101 tokens
  CHECK(next.moves[1].count.value == 3);
  CHECK(scheduler.Explain({3}).computed.value == 0);
  REQUIRE(scheduler.Inconsistency() == nullptr);
}

// A host's own policy: it waits for the first tool, a second at a time. It swaps half of each request of the second
// tool.
struct ByTool {
  PauseDecision AtCall(const RequestState&, const ToolCalled& call, const PauseView& view) const {
    if (call.tool == ToolId{1}) return {KvAction::kKeep, view.now + FromSeconds(1)};
    return {KvAction::kOut, kNever, {view.held.value / 2}};
  }
  PauseDecision Review(const RequestState& r, const ToolCalled&, TimePoint since, const PauseView& view) const {
    const bool patient = view.now < since + FromSeconds(r.request.priority);
    return patient ? PauseDecision{KvAction::kKeep, view.now + FromSeconds(1)} : KvAction::kDrop;
  }
};

TEST_CASE("KV freed by a host's own pause policy is reused at once") {
  auto scheduler = *BasicScheduler<Fcfs, ByTool>::Create(
      {.kv_block_tokens = {16}, .kv_blocks = {20}, .cpu_blocks = {5}, .kv_watermark = 0}, Fcfs{});
  TimePoint now = At(1);
  scheduler.On(Arrived{{.id = {1}, .prompt_tokens = {150}, .priority = 3}}, now);
  scheduler.On(Arrived{{.id = {2}, .prompt_tokens = {150}}}, now);
  const StepPlan& plan = scheduler.Plan(now, {});
  std::vector<RowResult> rows;
  for (const PlanEntry& e : plan.run) rows.push_back({e.request, e.lane, 1});
  scheduler.Commit({plan.id, rows}, now);
  scheduler.On(ToolCalled{.request = {1}, .tool = {1}}, now);
  scheduler.On(ToolCalled{.request = {2}, .tool = {2}}, now);
  scheduler.On(Arrived{{.id = {3}, .prompt_tokens = {300}}}, now);
  scheduler.On(Arrived{{.id = {4}, .prompt_tokens = {100}}}, now);

  const StepPlan* idle = &scheduler.Plan(now, {});
  REQUIRE(idle->moves.size() == 1);
  CHECK(idle->moves[0].count.value == 5);  // the host is slow to move it out
  for (int second = 2; second <= 3; ++second) {
    CHECK(idle->idle == Idle::kMovesInFlight);
    CHECK(idle->wake_at == At(second));
    now = idle->wake_at;
    idle = &scheduler.Plan(now, {});
  }
  REQUIRE(idle->wake_at == At(4));
  const StepPlan& after = scheduler.Plan(At(4), {});
  REQUIRE(after.run.size() == 1);
  CHECK(after.run[0].request == RequestId{4});  // 3 waits for the blocks that 2 still holds
  CHECK(after.wake_at == kNever);
  REQUIRE(scheduler.Inconsistency() == nullptr);
}

TEST_CASE("a request that ends frees its host memory, wherever its KV is") {
  for (const bool arrived : {false, true}) {
    OneCall host(SwapAll{}, 20);
    host.CallAfterFirstToken(1);
    CHECK(host.scheduler.kv().cpu_used.value == 10);
    const StepPlan& plan = host.scheduler.Plan(host.now, {});
    REQUIRE(plan.moves.size() == 1);
    const MoveId move = plan.moves[0].id;
    if (arrived) host.scheduler.On(MoveDone{move}, host.now);
    host.scheduler.On(Cancelled{{1}}, host.now);
    if (!arrived) host.scheduler.On(MoveDone{move}, host.now);
    CHECK(host.scheduler.Plan(host.now, {}).released.size() == 1);
    CHECK(host.scheduler.kv().cpu_used.value == 0);
    CHECK(host.scheduler.kv().used.value == 0);
  }
}

// A million tokens, and more than any request may have. The request fails at once.
TEST_CASE("an answer too large for any KV cache fails its request") {
  for (const std::int32_t tokens : {1'600, 1'000'000, INT32_MAX}) {
    for (AnyPause pause : {AnyPause(KeepAll{}), AnyPause(DropAll{}), AnyPause(SwapAll{})}) {
      OneCall host(std::move(pause), 20);
      host.CallAfterFirstToken(1);
      const std::vector<KvMove> moves = Keep(host.scheduler.Plan(host.now, {})).moves;
      for (const KvMove& move : moves) host.scheduler.On(MoveDone{move.id}, host.now);
      host.scheduler.On(ToolReturned{{1}, {tokens}}, host.now);
      host.scheduler.On(ToolReturned{{1}, {tokens}}, host.now);  // the second time
      const StepPlan& plan = host.scheduler.Plan(host.now, {});
      REQUIRE(plan.failed.size() == 1);
      CHECK(plan.failed[0] == Failure{{1}, FailReason::kKvExhausted});
      CHECK(plan.idle == Idle::kNoRequests);
      CHECK(host.scheduler.kv().used.value == 0);
      CHECK(host.scheduler.kv().cpu_used.value == 0);
      CHECK(host.scheduler.stats().events_unknown == 1);
    }
  }
}

TEST_CASE("invalid predictions are ignored") {
  OneCall host(LeastWaste{});
  for (const Duration absurd : {Duration::max(), Duration::min(), Duration(-1)}) {
    const std::uint64_t id = host.scheduler.stats().arrived + 1;
    Request r{.id = {id}, .prompt_tokens = {160}};
    r.next_call = {.after = {INT32_MAX}, .returned = {-1}, .duration = absurd};
    host.scheduler.On(Arrived{r}, host.now);
    host.Step();
    host.scheduler.On(ToolCalled{.request = {id}, .expected = absurd, .expected_returned = {-5}}, host.now);
    const TimePoint wake_at = host.scheduler.Plan(host.now, {}).wake_at;
    CHECK((wake_at > host.now && wake_at < kNever));  // as for an unknown call
    host.scheduler.On(ToolReturned{{id}, {1}, {.after = {-1}, .duration = absurd}}, host.now);
    host.scheduler.On(Cancelled{{id}}, host.now);
  }
  CHECK(host.scheduler.stats().estimates_absurd == 9);
}

TEST_CASE("the action is predicted before the first run and after each tool") {
  LeastWaste pause{.costs = {.pace = {.forward_s = 1e-4, .swap_s = 1}}};
  RequestState r;
  r.request.next_call = {.after = {100}, .duration = FromSeconds(0.001)};
  PauseView view = View(0, 0, 0);
  CHECK(pause.Predict(r, view) == KvAction::kKeep);
  r.request.next_call.duration = FromSeconds(10);
  CHECK(pause.Predict(r, view) == KvAction::kDrop);
  r.request.next_call = {};
  CHECK(pause.Predict(r, view) == KvAction::kKeep);
}

struct Remembers {
  std::vector<std::int32_t>* contexts;
  PauseDecision AtCall(const RequestState&, const ToolCalled&, const PauseView& view) const {
    contexts->push_back(view.context.value);
    return KvAction::kDrop;
  }
  KvAction Predict(const RequestState&, const PauseView& view) const {
    contexts->push_back(view.context.value);
    return KvAction::kDrop;
  }
};

TEST_CASE("a prediction uses the current context, not the prompt") {
  std::vector<std::int32_t> contexts;
  OneCall host(Remembers{&contexts});
  host.CallAfterFirstToken(5);
  const NextCall next{.after = {3}, .duration = FromSeconds(1)};
  host.scheduler.On(ToolReturned{{1}, {20}, next}, host.now);
  CHECK(contexts == std::vector{160, 160, 181});  // at arrival, at the call (its token's KV is not computed), on return
}

// LAMPS as published: a request that ran and is then passed over a hundred times goes first until it ends or calls.
TEST_CASE("the guard against starvation promotes, and the promotion lasts") {
  for (const bool guarded : {false, true}) {
    const auto policy = MakePolicy(guarded ? "aged(memory_integral,threshold=100,quantum=forever,count_from=first_run,"
                                             "at_tool_call=reset_count)"
                                           : "memory_integral");
    REQUIRE(policy.ok());
    auto scheduler = *Scheduler::Create({.preempt = PreemptMode::kByRank, .kv_blocks = {1000}}, *policy, DropAll{});
    TimePoint now = At(1);
    const auto arrive = [&](std::uint64_t id, std::int32_t prompt, double output) {
      Request r{.id = {id}, .prompt_tokens = {prompt}};
      r.output_tokens = Estimate::Exact(output);
      scheduler.On(Arrived{r}, now);
    };
    // Returns the running request. All but the first end with it.
    const auto step = [&] {
      now += FromSeconds(0.02);
      const StepPlan& plan = scheduler.Plan(now, {.max_seqs = 1});
      REQUIRE(plan.run.size() == 1);
      const PlanEntry& e = plan.run[0];
      const std::uint64_t id = e.request.value;
      const auto flags = static_cast<std::uint8_t>(id == 1 ? 0 : RowResult::kFinished);
      const RowResult row{e.request, e.lane, 1, 0, flags};
      scheduler.Commit({plan.id, {&row, 1}}, now);
      return id;
    };
    arrive(1, 160, 1000);
    REQUIRE(step() == 1);
    scheduler.On(ToolCalled{.request = {1}}, now);
    scheduler.On(ToolReturned{{1}, {10}}, now);
    std::uint64_t newcomer = 1;
    int passed_over = 0;
    for (; passed_over < 300; ++passed_over) {
      arrive(++newcomer, 16, 1);
      if (step() == 1) break;
    }
    CHECK(passed_over == (guarded ? 100 : 300));
    for (int i = 0; guarded && i < 50; ++i) {
      arrive(++newcomer, 16, 1);
      CHECK(step() == 1);
    }
    REQUIRE(scheduler.Inconsistency() == nullptr);
  }
}

TEST_CASE("by rank, a request with less memory displaces; as published, it waits") {
  for (const PreemptMode preempt : {PreemptMode::kOnMemory, PreemptMode::kByRank}) {
    testing::Host<MemoryIntegral, LeastWaste> host({.preempt = preempt, .kv_blocks = {100}}, {.max_seqs = 1});
    const auto arrive = [&](std::uint64_t id, double output) {
      Request r = testing::Prompt(id, 20);
      r.output_tokens = Estimate::Exact(output);
      host.Arrive(r);
    };
    arrive(1, 500);
    CHECK(host.Step() == "1:20");
    CHECK(host.Step() == "1:1");
    arrive(2, 5);
    CHECK(host.Step() == (preempt == PreemptMode::kByRank ? "2:20" : "1:1"));
  }
}

// The authors' code ranks unscored requests before all others until the next refresh.
TEST_CASE("a request that arrives between refreshes is scored at once") {
  testing::Host<MemoryIntegral, LeastWaste> host({.kv_blocks = {1000}}, {.max_seqs = 1},
                                                 MemoryIntegral{.stall = 1, .refresh = 1000});
  const auto arrive = [&](std::uint64_t id, double output) {
    Request r = testing::Prompt(id, 20);
    r.output_tokens = Estimate::Exact(output);
    host.Arrive(r);
  };
  arrive(1, 1);
  host.Step();
  for (std::uint64_t id = 2; id <= 6; ++id) arrive(id, 50);
  arrive(7, 500);
  CHECK(host.scheduler.Explain({7}).ahead == 5);
  CHECK(host.scheduler.Explain({7}).key.key > host.scheduler.Explain({6}).key.key);
  arrive(8, 5);
  CHECK(host.scheduler.Explain({8}).ahead == 0);
}

TEST_CASE("pause policies are made by name") {
  for (const PauseInfo& info : PauseInfos()) {
    const auto pause = MakePause(info.name);
    REQUIRE(pause.ok());
    CHECK(pause->spec() == info.name);
  }
  const auto made = MakePause("infercept(elapsed=true,chunk=256)");
  REQUIRE(made.ok());
  CHECK(MakePause(made->spec())->spec() == made->spec());
  CHECK(MakePause("least_wast").status().message().find("least_waste") != std::string::npos);
  CHECK(MakePause("least_waste(overlap=2)").status().message().find("overlap") != std::string::npos);
  const MemoryPace pace{.decode_s = 0.5};
  CHECK(MakePause("least_waste", &pace)->spec().find("decode_s=0.5") != std::string::npos);
}

TEST_CASE("scores that depend on others are refreshed in slices per plan") {
  const MemoryIntegral policy{.pace = kUnits, .stall = 1, .refresh = 4};
  auto scheduler = *BasicScheduler<MemoryIntegral, LeastWaste>::Create({.kv_blocks = {100}}, policy);
  TimePoint now = At(1);
  for (std::uint64_t id = 1; id <= 9; ++id) {
    Request r{.id = {id}, .prompt_tokens = {10}};
    r.output_tokens = Estimate::Exact(5);
    scheduler.On(Arrived{r}, now);
  }
  const double before = scheduler.Explain({9}).key.key;
  std::vector<RowResult> rows;
  for (int step = 0; step < 8; ++step) {
    now += FromSeconds(1);
    const StepPlan& plan = scheduler.Plan(now, {.max_seqs = 4});
    rows.clear();
    for (const PlanEntry& e : plan.run) {
      rows.push_back({e.request, e.lane, static_cast<std::uint16_t>(e.samples())});
    }
    scheduler.Commit({plan.id, rows}, now);
  }
  CHECK(scheduler.Explain({9}).key.key > before);  // its prefill would now delay four
  REQUIRE(scheduler.Inconsistency() == nullptr);
}

}  // namespace
}  // namespace takt
