// One engine that serves calls of classes and tenants, step by step. Clients that are refused may come back.
#ifndef TAKT_BENCH_LAB_OPERATORS_ENGINE_H_
#define TAKT_BENCH_LAB_OPERATORS_ENGINE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/model/cost_model.h"
#include "takt/model/estimate.h"
#include "takt/model/step.h"
#include "takt/scheduler_options.h"

namespace takt::tool {

// Targets of a class of calls [s]; 0: none. `end`: time from arrival to end.
struct ServiceClass {
  std::int32_t priority = 0;
  double first_token = 0, pace = 0, end = 0;
};

struct OperatorCall {
  double at = 0;  // arrival [s]
  std::int32_t prompt = 1, output = 1;
  std::uint32_t kind = 0;  // index of the class
  std::uint64_t tenant = 0;
  Estimate known = {};  // what the host knows of the output
};

// Events of a call; times in seconds, negative: never.
struct OperatorRecord {
  double first_step = -1, first_token = -1, end = -1;
  int tries = 0;  // arrivals at the engine
  bool returned = false, took = false;  // came back at the given time; was taken at its first return
};

// The state that chooses a step's limit on prompt tokens.
struct StepPressure {
  std::int64_t running = 0, waiting = 0, decodes = 0, prompts = 0;  // requests; `prompts` have computed a part
};

struct OperatorSystem {
  std::string policy = "fcfs";
  SchedulerOptions options = {};
  StepLimits limits = {.tokens = {8192}, .max_seqs = 256};
  bool paces = false;  // requests carry their token_pace
  std::function<std::int32_t(const StepPressure&)> prefill = {};  // limit of prompt tokens; none: that of `limits`
  int most_tries = 1;  // refused clients come back up to this number of arrivals
};

struct OperatorRun {
  std::vector<OperatorRecord> records;  // by call
  double seconds = 0;  // end of the last step
  double idle_s = 0;  // time without a step while requests waited
  std::int64_t steps = 0;
  std::int64_t paced = 0, late = 0;  // steps with decodes that have targets, and with prompts; of these, too long ones
  std::uint64_t preempted = 0, recomputed = 0;  // requests, tokens
  std::vector<double> tenant_tokens;  // computed tokens by tenant, between `from` and `to`
};

// Serves `calls`, sorted by arrival, until all have ended or `until` [s]. Step times are those of `cost`, with a noise
// of 5 %. `from`, `to`: the window of tenant_tokens.
absl::StatusOr<OperatorRun> Serve(const std::vector<OperatorCall>& calls, const std::vector<ServiceClass>& classes,
                                  const OperatorSystem& system, const CostModel& cost, std::uint64_t seed, double until,
                                  double from = 0, double to = 1e18);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_OPERATORS_ENGINE_H_
