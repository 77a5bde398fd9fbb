// Options of simulated engines and of the arrival of a workload.
#ifndef TAKT_SIM_VIRTUAL_OPTIONS_H_
#define TAKT_SIM_VIRTUAL_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "takt/base/spec.h"
#include "takt/base/time.h"
#include "takt/model/step.h"
#include "takt/sim/metrics.h"
#include "takt/workload/workload.h"

namespace takt {

struct VirtualStep;

struct VirtualEngineOptions {
  StepLimits limits;
  int overlap = 0;  // number of plans made ahead of the running step: 0 to 2
  double swap_overlap = 1;  // share of a KV move during which steps run; 0: the engine stalls
  std::uint16_t instance = 0;  // index of the engine in the records
  bool by_exception = false;  // true: VirtualStep::rows contains only exceptions
  // Time to load a LoRA adapter. The engine keeps the last limits.adapters adapters loaded. A step that first needs
  // another adapter starts after the adapter is loaded.
  Duration adapter_load{0};
  std::size_t model = Workload::kNoModel;  // model that the engine serves, a column of the workload

  template <class Self, class List>
  static constexpr auto ListOptions(Self& self, List&& list) {
    return list(Option("overlap", self.overlap, {.most = 2}), Option("swap_overlap", self.swap_overlap, {.most = 1}));
  }
};

// State of a run at one time.
struct RunState {
  SeriesPoint at;
  std::size_t ended = 0;  // requests that ended or will never be made
  std::int64_t kv_blocks = 0;  // KV capacity of all engines
  std::uint64_t output_tokens = 0;
};

struct VirtualClusterOptions {
  double rate_scale = 1;  // factor on the arrival rate
  bool all_at_once = false;  // true: every workflow arrives at time zero
  std::int64_t closed_loop = 0;  // number of workflows in flight, each started when another ends; 0: by arrival
  Duration horizon{0};  // time at which the run stops; 0: when all requests have ended
  bool declare_workflows = false;  // true: the router gets declared workflows, with deadlines and without graphs
  bool end_workflows = false;  // report the end of workflows to the router
  bool send_prefixes = false;  // true: schedulers get the prompts' prefix hashes
  bool tell_turns = false;  // true: schedulers get TurnEnded and WorkflowEnded
  Duration cold_at{0};  // time when the first engine loses all KV, between two steps; 0: never
  double tell_gaps = 0;  // factor on the true gap in TurnEnded; 0: TurnEnded contains no gap
  // Overhead of a server outside its engine: HTTP, tokenizer and detokenizer. Delays each request before the engine or
  // router, and is part of all latencies.
  Duration front_end{0};  // delay per request
  Duration front_end_token{0};  // delay per prompt token
  Duration report_interval = std::chrono::milliseconds(100);  // interval of reports to the router; vLLM's
  // Number of engines for prefill only. These engines compute prompts up to the first token and send the KV to the
  // other engines. 0: every engine computes prompts and decodes.
  std::int32_t prefill_engines = 0;
  double kv_link_gb_s = 25;  // KV bandwidth of each engine and direction [1e9 bytes/s]; default: 200 Gb/s
  // One router with roles instead of one for the prefill engines and one for the others. It chooses both engines when a
  // call leaves its queue.
  bool roles = false;
  bool local_if_sooner = false;  // with `roles`: RouterOptions::local_if_sooner
  std::int32_t deflect_tokens = 0;  // maximum prompt tokens of a request whose prompt the decoding engine computes
  std::function<bool(double)> progress = {};  // receives the share of finished requests; false stops the run
  std::function<void(const RunState&)> watch = {};  // receives the state before each call of `progress`
  std::function<void(const VirtualStep&)> on_step = {};  // function that is called at the start of every step
};

}  // namespace takt

#endif  // TAKT_SIM_VIRTUAL_OPTIONS_H_
