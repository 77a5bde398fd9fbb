// How engines in virtual time run, and how a workload comes to them.
#ifndef TAKT_SIM_VIRTUAL_OPTIONS_H_
#define TAKT_SIM_VIRTUAL_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "takt/base/spec.h"
#include "takt/base/time.h"
#include "takt/model/event.h"
#include "takt/model/step.h"
#include "takt/sim/metrics.h"
#include "takt/workload/workload.h"

namespace takt {

struct VirtualRequests;
struct VirtualStep;

struct VirtualEngineOptions {
  StepLimits limits;
  int overlap = 0;                    // plans made ahead of the step that runs: 0 .. 2
  double swap_overlap = 1;            // share of a KV move's time during which steps run: 0: the engine stands still
  std::uint16_t instance = 0;         // index, for the records
  bool by_exception = false;          // VirtualStep::rows are those alone that do not go as planned
  std::size_t model = Workload::kNoModel;  // that it serves, a column of the workload

  template <class Self, class List>
  static constexpr auto ListOptions(Self& self, List&& list) {
    return list(Option("overlap", self.overlap, {.most = 2}), Option("swap_overlap", self.swap_overlap, {.most = 1}));
  }
};

struct VirtualClusterOptions {
  double rate_scale = 1;             // arrivals come so many times as fast
  bool all_at_once = false;          // every workflow arrives at time zero
  std::int64_t closed_loop = 0;      // > 0: so many workflows in flight, the next starts when one ends
  Duration horizon{0};               // > 0: the run ends then, whatever still waits or runs
  bool declare_workflows = false;    // to the router, with their deadlines and without their graphs
  bool send_prefixes = false;        // tell schedulers the prompts' prefix hashes
  bool tell_turns = false;  // tell them what workflows wait for when a call has ended, and when they are over
  Duration cold_at{0};  // > 0: the first engine loses all KV then, cached and in use, between two steps
  double tell_gaps = 0;  // > 0: and when they are expected back: so many times the true time
  // What a server does around its engine: HTTP, tokenising, detokenising. A request comes to the engine, or the router,
  // so much later than it was made; all of its latencies have that in them. None by default.
  Duration front_end{0};  // of each request
  Duration front_end_token{0};  // and of each token of its prompt
  Duration report_interval = std::chrono::milliseconds(100);  // of instances to the router (vLLM's figure)
  // Prefill and decode apart. > 0: the first so many engines compute prompts, each up to its first token, and the
  // others go on from the KV that they are sent. 0: every engine does both.
  std::int32_t prefill_engines = 0;
  double kv_link_gb_s = 25;  // of each engine and direction, for KV [10^9 bytes/s]; chosen: 200 Gb/s
  std::int32_t deflect_tokens = 0;  // prompts of at most so many tokens are computed where they decode
  std::function<bool(double)> progress = {};  // told the share of requests that have ended; false stops the run
  std::function<void(const VirtualStep&)> on_step = {};  // told every step as it begins
  // Slow work beside the engines (tuning, learning): asked every so often, what it answers reaches router and engines.
  Duration control_interval{0};  // zero: never
  std::function<std::optional<Epoch>(TimePoint now, const VirtualRequests&, std::span<const WorkflowRecord>)> control =
      {};
};

}  // namespace takt

#endif  // TAKT_SIM_VIRTUAL_OPTIONS_H_
