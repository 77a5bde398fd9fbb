// Mistakes of a new host, and how takt reports each.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "catch.h"
#include "scheduler/host.h"
#include "takt/pause/registry.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/router.h"
#include "takt/scheduler.h"
#include "with_rivals.h"

namespace takt {
namespace {

using testing::Host;
using testing::Ms;
using testing::Prompt;

SchedulerOptions Blocks16(std::int32_t blocks) {
  SchedulerOptions options;
  options.kv_blocks = {blocks};
  options.kv_watermark = 0;
  return options;
}

// A scheduler with one request whose first step is planned.
struct Begun {
  Begun() {
    scheduler.On(Arrived{Prompt(7, 32)}, Ms(1));
    plan = scheduler.Plan(Ms(1), {});
    REQUIRE(plan.run.size() == 1);
  }
  Ignored Commit(StepId step, RowResult row) { return scheduler.Commit({step, {&row, 1}}, Ms(2)); }
  Ignored Commit(RowResult row) { return Commit(plan.id, row); }

  Scheduler scheduler = *Scheduler::Create(Blocks16(100), Fcfs{});
  StepPlan plan;
};

std::string FailuresOf(const StepPlan& plan) {
  std::string text;
  for (const Failure& f : plan.failed)
    text += std::to_string(f.request.value) + ":" + std::string(Name(f.reason)) + " ";
  return text;
}

TEST_CASE("a forgotten commit shows as steps in flight") {
  Begun b;
  for (int i = 0; i < 2; ++i) b.scheduler.Plan(Ms(1), {});
  CHECK(b.scheduler.Plan(Ms(1), {}).idle == Idle::kStepsInFlight);
}

TEST_CASE("a row with a wrong lane is returned with the expected one") {
  Begun b;
  const Ignored ignored = b.Commit({{7}, b.plan.run[0].lane + 1, 1, 0, 0});
  CHECK(ignored.faults == 1);
  CHECK(ignored.first == FaultKind::kUnknownRow);
  const Fault& fault = b.scheduler.last_fault();
  CHECK(fault.step == b.plan.id);
  CHECK(fault.request == RequestId{7});
  CHECK(fault.received == b.plan.run[0].lane + 1);
  CHECK(fault.expected == b.plan.run[0].lane);
  CHECK(b.scheduler.stats().faults() == 1);
}

TEST_CASE("a repeated or unknown result is reported") {
  Begun b;
  CHECK_FALSE(b.Commit({{7}, b.plan.run[0].lane, 1, 0, 0}));
  CHECK(b.Commit({{7}, b.plan.run[0].lane, 1, 0, 0}).first == FaultKind::kUnknownStep);
  CHECK(b.Commit({99}, {{7}, 0, 1, 0, 0}).first == FaultKind::kUnknownStep);
  CHECK(b.scheduler.last_fault().step == StepId{99});
}

TEST_CASE("zero or negative limits give a plan without budget") {
  for (const std::int32_t limit : {0, -5}) {
    Host host(Blocks16(100));
    host.Arrive(1, 32);
    CHECK(host.scheduler.Plan(Ms(1), {.tokens = {limit}}).idle == Idle::kNoBudget);
    CHECK(host.scheduler.Plan(Ms(1), {.max_seqs = limit}).idle == Idle::kNoBudget);
  }
}

TEST_CASE("a max_seqs above max_running is counted if it blocks a request") {
  SchedulerOptions options = Blocks16(100);
  options.max_running = 2;
  Host host(options);
  for (std::uint64_t id : {1u, 2u, 3u}) host.Arrive(id, 16);
  CHECK(host.scheduler.Plan(Ms(1), {.max_seqs = 10}).run.size() == 2);
  CHECK(host.scheduler.stats().short_of_rows == 1);
}

TEST_CASE("a chunk_align above the largest chunk is a fault with both numbers") {
  Begun b;
  b.scheduler.On(Arrived{Prompt(8, 16)}, Ms(2));
  CHECK(b.scheduler.Plan(Ms(2), {.chunk_tokens = {16}, .chunk_align = {64}}).run.size() == 2);
  CHECK(b.scheduler.last_fault().kind == FaultKind::kChunkAlign);
  CHECK((b.scheduler.last_fault().received == 64 && b.scheduler.last_fault().expected == 16));
  CHECK(b.scheduler.stats().limits_misaligned == 1);
}

TEST_CASE("an id in use is rejected") {
  Begun b;
  CHECK(b.scheduler.On(Arrived{Prompt(7, 5)}, Ms(1)).first == FaultKind::kIdInUse);
  b.scheduler.On(Cancelled{{7}}, Ms(1));
  CHECK(b.scheduler.On(Arrived{Prompt(7, 5)}, Ms(1)).first == FaultKind::kIdInUse);
  CHECK(b.scheduler.last_fault().request == RequestId{7});
  CHECK(FailuresOf(b.scheduler.Plan(Ms(2), {})) == "7:id_in_use 7:id_in_use ");
}

TEST_CASE("an id of zero is rejected") {
  Begun b;
  CHECK(b.scheduler.On(Arrived{Prompt(0, 5)}, Ms(1)).first == FaultKind::kNoId);
  CHECK(FailuresOf(b.scheduler.Plan(Ms(2), {})) == "0:invalid ");
}

TEST_CASE("a time in the wrong unit is reported") {
  static_assert(!std::is_assignable_v<TimePoint&, int> && !std::is_assignable_v<Duration&, double>);
  Begun b;
  Request r = Prompt(8, 5);
  r.expires_at = TimePoint(Duration(5000));  // meant in milliseconds: it is in the past
  b.scheduler.On(Arrived{r}, Ms(5000));
  CHECK(FailuresOf(b.scheduler.Plan(Ms(5000), {})) == "8:expired ");
}

TEST_CASE("a clock that runs backwards is counted") {
  Begun b;
  CHECK(b.scheduler.On(Cancelled{{7}}, Ms(0)).first == FaultKind::kClockBack);
  CHECK(b.scheduler.last_fault().received == 0);
  CHECK(b.scheduler.last_fault().expected == Ms(1).time_since_epoch().count());
  b.scheduler.Plan(Ms(0), {});
  CHECK(b.scheduler.stats().faults() == 2);
}

TEST_CASE("a negative prompt, cap or sequence count is named") {
  struct Case {
    FaultKind kind;
    std::int32_t prompt, cap, sequences;
    std::int64_t given;
  };
  for (const Case& c : {Case{FaultKind::kPromptTokens, -3, 0, 1, -3}, Case{FaultKind::kMaxOutputTokens, 9, -1, 1, -1},
                        Case{FaultKind::kSequences, 9, 0, 0, 0}}) {
    Begun b;
    Request r = Prompt(8, c.prompt);
    r.max_output_tokens = {c.cap}, r.sequences = c.sequences;
    CHECK(b.scheduler.On(Arrived{r}, Ms(1)).first == c.kind);
    CHECK(b.scheduler.last_fault().received == c.given);
    const StepPlan& plan = b.scheduler.Plan(Ms(2), {});
    CHECK(FailuresOf(plan) == "8:invalid ");
    CHECK(plan.released.size() == 1);
  }
}

TEST_CASE("an invalid prediction counts as unknown and is returned") {
  Begun b;
  Request r = Prompt(8, 5);
  r.output_tokens = Estimate::Exact(-20);
  CHECK(b.scheduler.On(Arrived{r}, Ms(1)).first == FaultKind::kAbsurdEstimate);
  CHECK(b.scheduler.last_fault().request == RequestId{8});
  CHECK(b.scheduler.Explain({8}).waits_for == WaitsFor::kItsTurn);
}

TEST_CASE("a mean without quantiles orders as equal exact estimates do") {
  for (const char* policy : {"sjf", "stjf", "uniboost"}) {
    CAPTURE(policy);
    std::vector<std::string> orders;
    for (const bool exact : {true, false}) {
      auto scheduler = *Scheduler::Create(Blocks16(1000), *MakePolicy(policy));
      for (const std::uint64_t id : {1u, 2u, 3u, 4u}) {
        const double mean = 400.0 - 90.0 * static_cast<double>(id);
        Request r = Prompt(id, 16);
        r.output_tokens = exact ? Estimate::Exact(mean) : Estimate{.mean = mean};
        r.workflow_tokens_left = r.output_tokens;
        scheduler.On(Arrived{r}, Ms(1));
      }
      std::string& order = orders.emplace_back();
      for (int i = 0; i < 4; ++i) {
        const StepPlan& plan = scheduler.Plan(Ms(1), {.tokens = {16}, .max_seqs = 1});
        REQUIRE(plan.run.size() == 1);
        order += std::to_string(plan.run[0].request.value);
        const RowResult row{plan.run[0].request, plan.run[0].lane, 1, 0, RowResult::kFinished};
        scheduler.Commit({plan.id, {&row, 1}}, Ms(1));
      }
    }
    CHECK(orders[0] == "4321");
    CHECK(orders[1] == orders[0]);
  }
}

TEST_CASE("KV memory too small for a prompt fails it") {
  Host host(Blocks16(3));
  host.Arrive(1, 100);
  CHECK(FailuresOf(host.Plan()) == "1:never_fits ");
  host.Arrive(2, 40);
  std::string failures;
  for (int i = 0; i < 20; ++i) {
    const StepPlan& plan = host.Plan();
    failures += FailuresOf(plan);
    host.Commit(plan);
  }
  CHECK(failures == "2:kv_exhausted ");
}

TEST_CASE("a missing kv_blocks is an error") {
  CHECK(Scheduler::Create({}, Fcfs{}).status().message() ==
        "kv_blocks is 0: must be at least 1 (where the library counts KV)");
}

TEST_CASE("swap without host memory is an error") {
  SchedulerOptions options = Blocks16(10);
  options.preempt_action = KvAction::kOut;
  CHECK(options.Validate().message() ==
        "preempt_action is out: needs cpu_blocks, the host's memory for it, of at least 1");
  options.cpu_blocks = {1};
  CHECK(options.Validate().ok());
}

TEST_CASE("a misspelt policy is an error") {
  CHECK(MakePolicy("sjff").status().message().find("did you mean 'sjf'?") != std::string::npos);
}

TEST_CASE("an unknown option or invalid value is an error") {
  CHECK(MakePolicy("sjf(unknwn=3)").status().message().find("did you mean 'unknown'?") != std::string::npos);
  CHECK(MakePolicy("sjf(unknown=-4)").status().message().find("must be a number of at least 0") != std::string::npos);
}

TEST_CASE("a move never reported as done shows as in flight") {
  SchedulerOptions options = Blocks16(10);
  options.cpu_blocks = {10};
  auto scheduler = *Scheduler::Create(options, Fcfs{}, *MakePause("swap_all"));
  scheduler.On(Arrived{Prompt(1, 32)}, Ms(1));
  const StepPlan& plan = scheduler.Plan(Ms(1), {});
  const RowResult row{{1}, plan.run[0].lane, 1, 0, 0};
  scheduler.Commit({plan.id, {&row, 1}}, Ms(1));
  scheduler.On(ToolCalled{{1}}, Ms(1));
  CHECK(scheduler.Plan(Ms(1), {}).moves.size() == 1);
  scheduler.On(ToolReturned{{1}, {4}}, Ms(2));
  const StepPlan& stuck = scheduler.Plan(Ms(2), {});
  CHECK(stuck.idle == Idle::kMovesInFlight);
  CHECK(stuck.wake_at == kNever);
}

TEST_CASE("a tool call before its token returns a dead row") {
  Begun b;
  b.scheduler.On(ToolCalled{{7}}, Ms(2));
  const Ignored ignored = b.Commit({{7}, b.plan.run[0].lane, 1, 0, 0});
  CHECK(ignored.dead_rows == 1);
  CHECK_FALSE(ignored);
}

TEST_CASE("a sampling row without a token is reported") {
  Begun b;
  CHECK(b.Commit({{7}, b.plan.run[0].lane, 0, 0, 0}).first == FaultKind::kInvalidRow);
  CHECK(b.scheduler.last_fault().received == 0);
  CHECK(b.scheduler.last_fault().expected == 1);
}

TEST_CASE("a request whose end is never reported ends at its cap") {
  Host host(Blocks16(100));
  Request r = Prompt(1, 16);
  r.max_output_tokens = {3};
  host.Arrive(r);
  for (int i = 0; i < 3; ++i) host.Step();
  const StepPlan& plan = host.Plan();
  CHECK(plan.released.size() == 1);
  CHECK(plan.failed.empty());
}

TEST_CASE("a tool that never returns leaves others running, with counts") {
  Host host(Blocks16(100));
  host.Arrive(1, 16);
  host.Step();
  host.On(ToolCalled{{1}});
  host.Arrive(2, 16);
  CHECK(host.Step() == "2:16");
  CHECK(host.scheduler.paused() == 1);
  CHECK(host.scheduler.Explain({1}).waits_for == WaitsFor::kTool);
}

// Waits inside a call until another thread has entered.
struct Meeting {
  RankKey Key(const RequestState&) const {
    *inside = true;
    while (*inside) std::this_thread::yield();
    return {};
  }
  std::atomic<bool>* inside;
};

TEST_CASE("two threads in one scheduler end a debug build") {
#ifdef NDEBUG
  WARN("assertions are off in this build");
#else
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    std::atomic<bool> inside = false;
    auto scheduler = *BasicScheduler<Meeting>::Create(Blocks16(10), Meeting{&inside});
    std::thread second([&] {
      while (!inside) std::this_thread::yield();
      scheduler.On(Cancelled{{1}}, Ms(1));
      inside = false;
    });
    scheduler.On(Arrived{Prompt(1, 16)}, Ms(1));
    second.join();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
#endif
}

TEST_CASE("a handler receives each fault at once") {
  Begun b;
  std::vector<Fault> heard;
  b.scheduler.HandleFaults(
      {[](void* to, const Fault& f) { static_cast<std::vector<Fault>*>(to)->push_back(f); }, &heard});
  b.Commit({{8}, 5, 1, 0, 0});
  b.scheduler.On(Cancelled{{99}}, Ms(2));
  REQUIRE(heard.size() == 2);
  CHECK(heard[0].kind == FaultKind::kUnknownRow);
  CHECK(heard[0].expected == -1);
  CHECK(heard[1].kind == FaultKind::kUnknownRequest);
  CHECK(heard[1].step == b.plan.id);
  CHECK(heard[1].at == Ms(2));
}

TEST_CASE("a handler that causes a fault is not called again") {
  Begun b;
  struct Heard {
    Begun& b;
    int times = 0;
  } heard{b};
  b.scheduler.HandleFaults({[](void* to, const Fault&) {
                              auto& of = *static_cast<Heard*>(to);
                              if (++of.times < 100) of.b.scheduler.On(Cancelled{{98}}, Ms(2));
                            },
                            &heard});
  const Ignored ignored = b.scheduler.On(Cancelled{{99}}, Ms(2));
  CHECK(heard.times == 1);
  CHECK(ignored.faults == 2);
  CHECK(ignored.first == FaultKind::kUnknownRequest);
}

TEST_CASE("a router counts invalid events") {
  auto router = *Router::Create({}, *MakePolicy("fcfs"), *MakePlacement("least_loaded"));
  CHECK_FALSE(router.On(InstanceUp{{.id = {1}}}, Ms(1)));
  CHECK(router.On(InstanceUp{}, Ms(1)).first == FaultKind::kInvalidEvent);
  CHECK(router.On(InstanceDown{{9}}, Ms(1)).first == FaultKind::kUnknownInstance);
  CHECK(router.last_fault().received == 9);
  CHECK(router.On(RequestEnded{.request = {5}, .instance = {1}}, Ms(1)).first == FaultKind::kUnknownRequest);
  CHECK(router.On(Arrived{}, Ms(1)).first == FaultKind::kNoId);
  CHECK(router.On(WorkflowEnded{{3}, false}, Ms(0)).first == FaultKind::kClockBack);
  CHECK(router.stats().faults() == 6);
}

}  // namespace
}  // namespace takt
