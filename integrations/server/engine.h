// A serving engine around takt: requests in, tokens out. The scheduler decides what runs; this computes it.
//
// Continuous batching, chunked prefill, prefix reuse, preemption by recompute or swap, and tool calls whose KV is
// kept, dropped or swapped out, all as the scheduler's plans say. With `overlap`, a step is planned while the one
// before it runs.
//
// One loop owns it:
//
//   while (serving) {
//     inbox.Drain(...);  // what other threads have for Submit, Cancel and On
//     if (!engine.Step()) sleep until engine.wake_at() or until somebody pushes;
//   }
#ifndef TAKT_INTEGRATIONS_SERVER_ENGINE_H_
#define TAKT_INTEGRATIONS_SERVER_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "served_model.h"
#include "takt/record.h"
#include "takt/scheduler.h"
#include "threads.h"

namespace serving {

// After `after_tokens` of output (counted from the request's start) a tool runs for `duration`; its answer joins the
// context.
struct ToolCall {
  std::int32_t after_tokens = 1;
  takt::Duration duration{0};
  std::vector<std::int32_t> answer = {};
  takt::NextCall expected = {};  // as predicted; nothing: nobody knows
};

struct EngineRequest {
  takt::Request about = {};  // id, workflow, agent, estimates ...; prompt_tokens and prefix are filled in
  std::vector<std::int32_t> prompt = {};
  std::int32_t max_output_tokens = 16;
  std::int32_t end_token = -1;  // ends the output, which contains it; -1: none
  std::vector<ToolCall> tools = {};  // by after_tokens, ascending
  // For a service, which knows the time:
  takt::Duration deadline{-1};  // of the workflow, from the arrival; below 0: none
  bool last = false;            // no request of the workflow follows
};

enum class End : std::uint8_t { kNotYet, kLength, kEndToken, kCancelled, kFailed };

// What happened to a request: a token, or its end, or both.
struct Output {
  takt::RequestId request = {};
  std::int32_t token = -1;  // -1: none came with this
  float logit = 0;
  End end = End::kNotYet;
  takt::FailReason reason = {};  // of kFailed
};

// A step that is over.
struct StepReport {
  const takt::StepPlan& plan;  // without the entries that were void when it began
  std::span<const takt::RowResult> rows;  // of plan.run
  takt::TimePoint begin, end;  // of its computation, from the plan to the samples
  takt::Duration scheduling{0};  // its Plan and its Commit
};

struct EngineOptions {
  std::string policy = "fcfs";       // for takt::MakePolicy
  std::string pause = "keep_all";    // drop_all, swap_all
  takt::SchedulerOptions scheduler = {};  // the KV fields are set from what follows
  takt::StepLimits limits = {};
  takt::Tokens block_tokens{16};
  takt::Blocks gpu_blocks{256};
  takt::Blocks cpu_blocks{0};
  bool prefix_cache = true;
  // Not empty: takt counts blocks and decides what stays in the prefix cache, by this retention policy, and a gate
  // decides who may take what is held (takt::MakeRetention, takt::MakeGate). Without CPU blocks, and with keep_all.
  std::string retention = {};
  std::string gate = "none";
  bool overlap = false;
  bool awake = false;  // with overlap: wait for the step in flight without sleeping; takes a core
  std::size_t threads = 1;
  takt::Recorder* recorder = nullptr;  // writes down all that takt is told and answers; must outlive the engine

  std::function<takt::TimePoint()> clock = {};           // must never run backwards
  std::function<void(const Output&)> output = {};        // must not call the engine
  std::function<void(const StepReport&)> on_step = {};   // likewise; may be empty
};

// How often each thing really happened.
struct EngineCounters {
  std::int64_t steps = 0;
  std::int64_t overlapped = 0;            // steps that were planned while another ran
  std::int64_t rows = 0;                  // tokens computed
  std::int64_t chunked = 0;               // prefill pieces that did not reach the end of the prompt
  std::int64_t preempted_recompute = 0, preempted_swap = 0;
  std::int64_t swapped_out = 0, swapped_in = 0;
  std::int64_t tools_kept = 0, tools_dropped = 0, tools_swapped = 0;  // what a request found when it came back
  std::int64_t entries_void = 0;          // of plans, for requests that had ended or lost their place by then
  std::int64_t steps_lost = 0;            // that computed nothing, and were tried again or given up
  std::int64_t moves_lost = 0;            // copies that failed: computed again
  std::int64_t finished = 0, cancelled = 0, failed = 0;
  takt::Duration scheduling{0};           // spent in Plan and Commit
  takt::Duration computing{0};            // spent in the model
};

class Engine {
 public:
  // InvalidArgument names what is wrong. The model must outlive the engine.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const ServedModel& model, EngineOptions options);

  // InvalidArgument where the request contradicts itself or the model; then nothing is kept, and no output follows.
  absl::Status Submit(EngineRequest request);

  // Ends a request; unknown ids are harmless.
  void Cancel(takt::RequestId id);

  // Anything else that a scheduler may hear: Revised, Drain ...
  void On(const takt::Event& event);
  void ChangePolicy(const takt::AnyPolicy& policy);

  // Plans and computes. False: there was nothing to do; see idle() and wake_at().
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
    std::vector<std::int32_t> context;  // prompt, output, answers of tools
    std::int32_t generated = 0;
    std::size_t next_tool = 0;
    std::uint64_t void_through = 0;     // what steps up to this one yield for it does not count
    Resume resume = Resume::kNone;
    bool ended = false;
  };

  // The step that is being computed.
  struct Flight {
    const takt::StepPlan* plan = nullptr;
    std::vector<Live*> entries;  // of the plan; null: left out
    Computed computed = Computed::kDone;
    takt::TimePoint begin, end;
    takt::Duration planning{0};
  };

  using Scheduler = takt::Recorded<takt::Scheduler>;

  Engine(const ServedModel& model, EngineOptions options, std::unique_ptr<ComputedKv> kv, Scheduler scheduler);

  Live* Find(takt::RequestId id);
  const takt::StepPlan& Plan();
  takt::Duration Commit(const takt::StepPlan& plan);
  bool TaktCounts() const { return !options_.retention.empty(); }
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
  std::multimap<takt::TimePoint, takt::RequestId> tools_;  // that run, by the time of their return
  std::vector<takt::RequestId> calling_;                   // tools to be called when the step is committed
  std::uint64_t last_plan_ = 0;
  Flight flight_;
  int lost_in_a_row_ = 0;  // steps
  takt::Duration planning_{0};  // of the newest plan
  std::vector<takt::RowResult> results_;
  takt::KeptPlan reported_;  // a plan does not outlive its Commit
  std::vector<takt::RowResult> reported_rows_;
  EngineCounters counters_;
  takt::Idle idle_ = takt::Idle::kNoRequests;
  takt::TimePoint wake_at_ = takt::kNever;
  Background background_;  // computes the step in flight; goes first
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_ENGINE_H_
