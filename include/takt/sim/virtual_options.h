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
#include "takt/workload/workload.h"

namespace takt {

struct VirtualStep;

struct VirtualEngineOptions {
  StepLimits limits;
  int overlap = 0;  // plans made ahead of the running step: 0 to 2
  double swap_overlap = 1;  // share of a KV move during which steps run; 0: the engine stalls
  std::uint16_t instance = 0;  // index in the records
  bool by_exception = false;  // true: VirtualStep::rows contains only exceptions
  std::size_t model = Workload::kNoModel;  // model that it serves, a column of the workload

  template <class Self, class List>
  static constexpr auto ListOptions(Self& self, List&& list) {
    return list(Option("overlap", self.overlap, {.most = 2}), Option("swap_overlap", self.swap_overlap, {.most = 1}));
  }
};

struct VirtualClusterOptions {
  double rate_scale = 1;  // factor on the arrival rate
  bool all_at_once = false;          // every workflow arrives at time zero
  std::int64_t closed_loop = 0;  // above 0: workflows in flight; the next starts when one ends
  Duration horizon{0};  // above 0: the run stops at this time
  bool declare_workflows = false;  // declare workflows to the router, with deadlines but without graphs
  bool end_workflows = false;  // report the end of workflows to the router
  bool send_prefixes = false;  // send the prompts' prefix hashes to schedulers
  bool tell_turns = false;  // send TurnEnded and WorkflowEnded to schedulers
  Duration cold_at{0};  // above 0: time when the first engine loses all KV, between two steps
  double tell_gaps = 0;  // above 0: TurnEnded contains the true gap times this factor
  // Overhead of a server outside its engine: HTTP, tokenizer and detokenizer. Delays each request before the engine or
  // router, and is part of all latencies.
  Duration front_end{0};  // per request
  Duration front_end_token{0};  // per prompt token
  Duration report_interval = std::chrono::milliseconds(100);  // interval of reports to the router (vLLM's)
  // Number of engines for prefill only. They compute prompts up to the first token, and send the KV to the other
  // engines. 0: every engine does both.
  std::int32_t prefill_engines = 0;
  double kv_link_gb_s = 25;  // KV bandwidth of each engine and direction [1e9 bytes/s]; default: 200 Gb/s
  std::int32_t deflect_tokens = 0;  // longest prompt that is computed on the engine that decodes it
  std::function<bool(double)> progress = {};  // receives the share of finished requests; false stops the run
  std::function<void(const VirtualStep&)> on_step = {};  // called at the start of every step
};

}  // namespace takt

#endif  // TAKT_SIM_VIRTUAL_OPTIONS_H_
