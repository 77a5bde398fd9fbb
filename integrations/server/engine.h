// A serving engine around takt: requests in, tokens out. The scheduler plans, and this class computes.
//
// It supports continuous batching, chunked prefill, prefix reuse, and preemption by recompute or swap. During tool
// calls, KV is kept, dropped or swapped out. With `overlap`, a step is planned while the previous one runs.
//
// One loop owns it:
//
//   while (serving) {
//     inbox.Drain(...);  // Submit, Cancel and On from other threads
//     if (!engine.Step()) sleep until engine.wake_at() or until somebody pushes;
//   }
#ifndef TAKT_INTEGRATIONS_SERVER_ENGINE_H_
#define TAKT_INTEGRATIONS_SERVER_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "served_model.h"
#include "takt/model/engine_pace.h"
#include "takt/record.h"
#include "takt/scheduler.h"
#include "threads.h"

namespace serving {

// A tool that runs for `duration` after `after_tokens` of output, counted from the request's start. Its answer joins
// the context.
struct ToolCall {
  std::int32_t after_tokens = 1;
  takt::Duration duration{0};
  std::vector<std::int32_t> answer = {};
  takt::NextCall expected = {};  // prediction; empty: unknown
};

struct EngineRequest {
  takt::Request about = {};  // id, workflow, agent, estimates ...; the engine sets prompt_tokens and prefix
  std::vector<std::int32_t> prompt = {};
  std::int32_t max_output_tokens = 16;
  std::int32_t end_token = -1;  // token that ends the output and is part of it; -1: none
  std::vector<ToolCall> tools = {};  // by after_tokens, ascending
  // For a service, which knows the time:
  takt::Duration deadline{-1};  // deadline of the workflow, from the arrival; below 0: none
  bool last = false;  // last request of the workflow
};

enum class End : std::uint8_t { kNotYet, kLength, kEndToken, kCancelled, kFailed };

// An event of a request: a token, or its end, or both.
struct Output {
  takt::RequestId request = {};
  std::int32_t token = -1;  // -1: no token
  float logit = 0;
  End end = End::kNotYet;
  takt::FailReason reason = {};  // for kFailed
  std::uint32_t retry_after_ms = 0;  // for kFailed: see takt::Failure
};

// A completed step.
struct StepReport {
  const takt::StepPlan& plan;  // rows without the entries that were void at the start of the step
  std::span<const takt::RowResult> rows;  // results of plan.run
  takt::TimePoint begin, end;  // times of the computation, from the plan to the samples
  takt::Duration scheduling{0};  // time in Plan and Commit
};

// An ended request.
struct RequestReport {
  takt::RequestId id = {};
  takt::TimePoint arrival, first_token = takt::kNever, end;
  std::int32_t prompt_tokens = 0, output_tokens = 0;
  End outcome = End::kNotYet;
};

struct EngineOptions {
  std::string policy = "fcfs";  // for takt::MakePolicy
  std::string pause = "keep_all";  // drop_all, swap_all
  takt::SchedulerOptions scheduler = {};  // the fields below set the KV fields
  takt::StepLimits limits = {};
  takt::Tokens block_tokens{16};
  takt::Blocks gpu_blocks{256};
  takt::Blocks cpu_blocks{0};
  bool prefix_cache = true;
  bool ledger = false;  // takt counts blocks; requires keep_all, and no CPU blocks
  // Not empty: as `ledger`. This retention policy decides what stays in the prefix cache, and the gate decides
  // which requests may evict it (takt::MakeRetention, takt::MakeGate).
  std::string retention = {};
  std::string gate = "none";
  std::optional<takt::EnginePace> pace = {};  // for policies; none: unknown
  bool overlap = false;
  bool awake = false;  // with overlap: wait for the step in flight in a busy loop, which takes a core
  std::size_t threads = 1;
  takt::Recorder* recorder = nullptr;  // records all input and output of takt; must outlive the engine
  takt::Observer observer = {};  // receives the transitions of requests; must outlive the engine

  std::function<takt::TimePoint()> clock = {};  // must never go back
  std::function<void(const Output&)> output = {};  // must not call the engine
  std::function<void(const StepReport&)> on_step = {};  // must not call the engine; may be empty
  std::function<void(const RequestReport&)> on_request =
      {};  // called by a service, on the engine's thread; may be empty
};

// Counts of events.
struct EngineCounters {
  std::int64_t steps = 0;
  std::int64_t overlapped = 0;  // steps planned while another ran
  std::int64_t rows = 0;  // tokens computed
  std::int64_t chunked = 0;  // prefill chunks that did not reach the end of the prompt
  std::int64_t preempted_recompute = 0, preempted_swap = 0;
  std::int64_t swapped_out = 0, swapped_in = 0;
  std::int64_t tools_kept = 0, tools_dropped = 0, tools_swapped = 0;  // state of the KV after a tool call
  std::int64_t entries_void = 0;  // planned entries of requests that had ended or been preempted
  std::int64_t steps_lost = 0;  // steps that computed nothing
  std::int64_t moves_lost = 0;  // copies that failed and were recomputed
  std::int64_t finished = 0, cancelled = 0, failed = 0;
  takt::Duration scheduling{0};  // time in Plan and Commit
  takt::Duration computing{0};  // time in the model
};

class Engine {
 public:
  // InvalidArgument names the invalid option. The model must outlive the engine.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const ServedModel& model, EngineOptions options);

  // InvalidArgument if the request is inconsistent or does not fit the model; it has no effect then.
  absl::Status Submit(EngineRequest request);

  // Ends a request; unknown ids are ignored.
  void Cancel(takt::RequestId id);

  // Passes any other event to the scheduler: Revised, Drain ...
  void On(const takt::Event& event);
  void ChangePolicy(const takt::AnyPolicy& policy);

  // Plans and computes. Returns false if there was nothing to do; see idle() and wake_at().
  bool Step();

  takt::Idle idle() const { return idle_; }
  takt::TimePoint wake_at() const { return wake_at_; }
  bool empty() const { return requests_.empty(); }

  takt::StepLimits& limits() { return options_.limits; }
  const EngineCounters& counters() const { return counters_; }
  const takt::Scheduler& scheduler() const { return scheduler_.scheduler(); }
  const ComputedKv& kv() const { return *kv_; }
  const EngineOptions& options() const { return options_; }

 private:
  enum class Resume : std::uint8_t { kNone, kInTool, kReturned, kSwappedIn };

  struct Live {
    EngineRequest request;
    std::vector<std::int32_t> context;  // prompt, output, tool answers
    std::int32_t generated = 0;
    std::size_t next_tool = 0;
    std::uint64_t void_through = 0;  // results of steps up to this one are void
    Resume resume = Resume::kNone;
    bool ended = false;
  };

  // The step in flight.
  struct Flight {
    const takt::StepPlan* plan = nullptr;
    std::vector<Live*> entries;  // requests of the plan's entries; null: skipped
    Computed computed = Computed::kDone;
    takt::TimePoint begin, end;
    takt::Duration planning{0};
  };

  using Scheduler = takt::Recorded<takt::Scheduler>;

  Engine(const ServedModel& model, EngineOptions options, std::unique_ptr<ComputedKv> kv, Scheduler scheduler);

  Live* Find(takt::RequestId id);
  const takt::StepPlan& Plan();
  takt::Duration Commit(const takt::StepPlan& plan);
  bool TaktCounts() const { return options_.ledger; }
  void KeepForReport(const takt::StepPlan& plan);
  bool Heed(const takt::StepPlan& plan);
  void Move(const takt::KvMove& move);
  void Launch(const takt::StepPlan& plan);
  void Compute();
  bool Land();
  bool Lost(const takt::StepPlan& plan);
  takt::RowResult Take(const takt::PlanEntry& entry, Live& live, const Sample* sample);
  void Finish(Live& live, Output output);
  void CallTools();
  bool ReturnTools();
  void CountResume(Live& live, const takt::PlanEntry& entry);

  const ServedModel& model_;
  EngineOptions options_;
  std::unique_ptr<ComputedKv> kv_;  // the scheduler holds its oracle's address
  Scheduler scheduler_;
  std::unordered_map<takt::RequestId, Live> requests_;
  std::multimap<takt::TimePoint, takt::RequestId> tools_;  // running tools, by the time of their return
  std::vector<takt::RequestId> calling_;  // tools to call when the step is committed
  std::uint64_t last_plan_ = 0;
  Flight flight_;
  int lost_in_a_row_ = 0;  // steps without results in a row
  takt::Duration planning_{0};  // time of the newest plan
  std::vector<takt::RowResult> results_;
  takt::KeptPlan reported_;  // a plan does not outlive its Commit
  std::vector<takt::RowResult> reported_rows_;
  EngineCounters counters_;
  takt::Idle idle_ = takt::Idle::kNoRequests;
  takt::TimePoint wake_at_ = takt::kNever;
  Background background_;  // computes the step in flight; destroyed first
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_ENGINE_H_
