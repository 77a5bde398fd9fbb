// A workload played through the engine in real time, and what its users saw: the counterpart of takt::Replay.
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

// All tokens of a call that has ended, in the order of its context but for its tools' answers.
struct CallTokens {
  std::uint32_t call = 0;
  std::span<const std::int32_t> prompt, output;
  std::span<const ToolCall> tools;
};

struct TraceOptions {
  EngineOptions engine = {};  // clock, output and on_step are set here
  takt::EstimateSpec estimates = {};
  std::uint64_t seed = 1;       // of prompts, tools' answers and the estimates' noise
  double rate_scale = 1;        // arrivals come so many times as fast
  std::int64_t closed_loop = 0;  // > 0: so many workflows in flight, the next starts when one ends
  takt::Duration horizon{0};     // > 0: the run ends then, whatever still waits or runs
  takt::Duration warm_up{0};     // of it, that figures leave out
  takt::SloTarget slo = {};
  // Time is what this thread had a processor for, and waiting is skipped: on a machine that others use too, the run
  // then tells what the engine takes, and not what it was kept waiting. For one thread, without overlap.
  bool processor_time = false;

  // `between`: from the end of the last step, or of a wait since then, to the beginning of this one.
  std::function<void(const StepReport&, std::int64_t waiting, takt::Duration between)> on_step = {};
  std::function<void(const CallTokens&)> on_tokens = {};  // of each call that is completed
  std::function<bool(double)> progress = {};  // told the share of requests that have ended; false stops the run
};

struct TraceResult {
  takt::ReplayResult result = {};  // times since the run began
  EngineCounters counters = {};
  std::int64_t cut_running = 0, cut_waiting = 0;  // where it was stopped: requests inside the engine by then
};

// Serves the workload to its end. Prompts are random tokens; those that share prefixes in the workload begin alike. A
// request that the model cannot hold has failed (kNeverFits). Internal: requests live that nothing will ever run.
absl::StatusOr<TraceResult> RunTrace(const ServedModel& model, const takt::Workload& workload,
                                     const TraceOptions& options);

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_TRACE_RUN_H_
