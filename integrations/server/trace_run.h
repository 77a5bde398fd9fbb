// Plays a workload through the engine in real time, and reports what users saw: the counterpart of takt::Replay.
#ifndef TAKT_INTEGRATIONS_SERVER_TRACE_RUN_H_
#define TAKT_INTEGRATIONS_SERVER_TRACE_RUN_H_

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/statusor.h"
#include "engine.h"
#include "takt/sim/estimates.h"
#include "takt/sim/replay.h"
#include "takt/workload/workload.h"

namespace serving {

// All tokens of an ended call in the order of its context, without its tools' answers.
struct CallTokens {
  std::uint32_t call = 0;
  std::span<const std::int32_t> prompt, output;
  std::span<const ToolCall> tools;
};

struct TraceOptions {
  EngineOptions engine = {};  // RunTrace sets clock, output and on_step
  takt::EstimateSpec estimates = {};
  std::uint64_t seed = 1;       // seed of prompts, tool answers and the noise of estimates
  double rate_scale = 1;        // factor on the rate of arrivals
  std::int64_t closed_loop = 0;  // > 0: number of workflows in flight; the next starts when one ends
  takt::Duration horizon{0};     // > 0: time at which the run ends, even if requests wait or run
  takt::Duration warm_up{0};     // initial time excluded from figures
  takt::SloTarget slo = {};
  // Counts only this thread's processor time, and skips waits: on a machine with other load, the run then measures the
  // engine alone. For one thread, without overlap.
  bool processor_time = false;

  // `between`: from the end of the last step, or of a later wait, to the begin of this one.
  std::function<void(const StepReport&, std::int64_t waiting, takt::WaitsFor head, takt::Duration between)> on_step =
      {};
  std::function<void(const CallTokens&)> on_tokens = {};  // of each completed call
  std::function<bool(double)> progress = {};  // called with the share of ended requests; false stops the run
};

struct TraceResult {
  takt::ReplayResult result = {};  // times since the start of the run
  EngineCounters counters = {};
  std::int64_t cut_running = 0, cut_waiting = 0;  // if stopped: requests in the engine at that time
};

// Serves the whole workload. Prompts are random tokens; prompts with shared prefixes in the workload share tokens. A
// request that does not fit the model fails (kNeverFits). Internal: live requests that can never run.
absl::StatusOr<TraceResult> RunTrace(const ServedModel& model, const takt::Workload& workload,
                                     const TraceOptions& options);

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_TRACE_RUN_H_
