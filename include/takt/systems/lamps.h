// LAMPS (Shahout et al., 2024): schedules requests that call tools by their predicted memory over time.
//
//   auto lamps = *Lamps::Create({.scheduler = {.kv_blocks = {1000}}});
//   lamps.On(Arrived{{.id = {1}, .prompt_tokens = {90}, .next_call = {.tool = tool}}}, now);
//
// For each prompt, the host names the tool that it expects. LAMPS predicts the other values.
#ifndef TAKT_SYSTEMS_LAMPS_H_
#define TAKT_SYSTEMS_LAMPS_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/slot_table.h"
#include "takt/learning/call_predictor.h"
#include "takt/learning/length_table.h"
#include "takt/learning/tool_profile.h"
#include "takt/pause/least_waste.h"
#include "takt/policy/memory_integral.h"
#include "takt/scheduler.h"

namespace takt::systems {

struct LampsOptions {
  SchedulerOptions scheduler = {};
  // Costs of the engine, for the memory that a tool call wastes.
  // Equation 1, discard: T_fwd(C_i) x (C_i + C_other). Equation 2, preserve: T_INT x C_i.
  // Equation 3, swap: 2 x T_swap(C_i) x C_batch.
  PauseCosts costs = {};
  double stall = 0;  // weight of the terms with C_other in the rank; 0: only the request's own memory (section 4.3)
  std::int64_t refresh = 0;  // plans between two scores of a waiting request, if stall > 0 (section 5: 10 on ToolBench)
  std::int64_t threshold = 100;  // plans that pass over a request before its promotion (section 4.4); 0: no promotion
  // Effect of a tool call on the count of plans and on a promotion. In section 4.4, the count starts again, and a
  // promotion lasts until the request ends. The authors' code uses kReset.
  AgingOptions::AtToolCall at_tool_call = AgingOptions::AtToolCall::kResetCount;
  ToolProfileOptions tools = {};  // duration, answer and tokens before a tool call, learned by class (section 4.2)
  LengthTableOptions lengths = {};  // output learned by stage and prompt length, for requests without a prediction

  // The order (section 4.3) with the guard (section 4.4), and the handling of tool calls (section 4.2).
  AnyPolicy Policy() const;
  AnyPause Pause() const;
};

struct LampsStats {
  std::int64_t outputs_predicted = 0;  // number of requests whose output LAMPS predicted
  std::int64_t calls_predicted = 0;  // number of expected tool calls of which LAMPS predicted at least one value
  std::int64_t calls_learned = 0;  // number of tool calls that returned
  std::int64_t outputs_learned = 0;  // number of requests that finished

  friend constexpr bool operator==(const LampsStats&, const LampsStats&) = default;
};

// A scheduler with predictors. Events, plans and results are those of takt::Scheduler. LAMPS keeps values that the host
// predicts, and adds the missing values before the scheduler ranks the request. LAMPS learns from each returned tool
// call and each finished request, with effect from the next event on.
//
// Thread-compatible: the step loop owns it. No call throws, blocks or reads a clock. After warm-up (reserve_requests,
// and one call of each tool and stage) no call allocates, except Save and Load.
class Lamps {
 public:
  static constexpr int kMaxStepsInFlight = Scheduler::kMaxStepsInFlight;

  // InvalidArgument lists all invalid options.
  static absl::StatusOr<Lamps> Create(const LampsOptions& options, KvOracle* oracle = nullptr);

  // Sets the tokens before the first tool call, and the output of the workflow, from the prompt (section 5). `takt
  // train` makes the predictor from a log with before_tool_tokens. Slow: call it on another thread, before On(Arrived).
  static void Predict(const CallPredictor& predictor, const CallDescription& call, CallPredictor::Scratch& scratch,
                      Request& request);

  // Adds a prior for a class of tools, such as one of kInferCeptTools. Returns false if the prior is invalid.
  bool Seed(ToolId tool, const ToolSeed& seed) { return tools_.Seed(tool, seed); }

  Ignored On(const Event& event, TimePoint now) {
    return std::visit([&](const auto& e) { return On(e, now); }, event);
  }
  Ignored On(const Arrived& event, TimePoint now);
  Ignored On(const Revised& event, TimePoint now);
  Ignored On(const ToolCalled& event, TimePoint now);
  Ignored On(const ToolReturned& event, TimePoint now);
  Ignored On(const Cancelled& event, TimePoint now);
  template <class E>
    requires(!std::same_as<E, Event>)
  Ignored On(const E& event, TimePoint now) {
    return scheduler_.On(event, now);
  }

  const StepPlan& Plan(TimePoint now, const StepLimits& limits) {
    const StepPlan& plan = scheduler_.Plan(now, limits);
    for (const Failure& failure : plan.failed) Failed(failure);
    for (const RequestId id : plan.released) Forget(id);
    return plan;
  }

  Ignored Commit(const StepResult& result, TimePoint now) {
    const auto finished = scheduler_.stats().finished;
    const Ignored ignored = scheduler_.Commit(result, now);
    if (scheduler_.stats().finished != finished) {
      for (const RowResult& row : result.rows) {
        if (row.finished() && !row.failed()) Finished(row.request);
      }
    }
    return ignored;
  }

  const Scheduler& scheduler() const { return scheduler_; }
  const ToolProfile& tools() const { return tools_; }
  const LengthTable& lengths() const { return lengths_; }
  const LampsStats& lamps_stats() const { return stats_; }

  // Returns everything learned as bytes for any machine. Load replaces the learned state by such bytes. Truncated or
  // damaged bytes are DataLoss, other invalid bytes InvalidArgument; the state then stays.
  std::string Save() const;
  absl::Status Load(std::string_view bytes);

  // Works as in BasicScheduler.
  Explanation Explain(RequestId id) const { return scheduler_.Explain(id); }
  const Stats& stats() const { return scheduler_.stats(); }
  const Fault& last_fault() const { return scheduler_.last_fault(); }
  KvUse kv() const { return scheduler_.kv(); }
  bool ended() const { return scheduler_.ended(); }
  std::int64_t alive() const { return scheduler_.alive(); }
  std::int64_t waiting() const { return scheduler_.waiting(); }
  std::int64_t running() const { return scheduler_.running(); }
  std::int64_t paused() const { return scheduler_.paused(); }
  const SchedulerOptions& options() const { return scheduler_.options(); }
  const char* Inconsistency() const { return scheduler_.Inconsistency(); }

 private:
  struct Living {
    StageId stage = {};
    std::int32_t prompt = 0;
    std::int32_t output = -1;  // output tokens of a finished request; below 0: the request has not finished
    std::int32_t most = 0;  // output tokens at which the scheduler ends the request; 0: no limit
    bool cut = false;  // true: the request failed or was cancelled
    std::int32_t segment = 0;  // output tokens up to the last answer of a tool
    std::int32_t before = 0;  // output tokens between the last answer and the current tool call
    ToolId tool = {};  // tool of the expected or current tool call
    TimePoint called_at = kNever;  // time of the open tool call; kNever: no tool call is open
  };

  Lamps(const LampsOptions& options, Scheduler scheduler);
  NextCall Complete(NextCall next);
  void Finished(RequestId id);
  void Failed(const Failure& failure);
  void Forget(RequestId id);

  Scheduler scheduler_;
  ToolProfile tools_;
  LengthTable lengths_;
  IdTable<RequestId, Living> living_;
  LampsStats stats_ = {};
};

}  // namespace takt::systems

#endif  // TAKT_SYSTEMS_LAMPS_H_
