// Small workloads and engines for the simulator's tests.
#ifndef TAKT_TESTS_SIM_SIM_WORKLOADS_H_
#define TAKT_TESTS_SIM_SIM_WORKLOADS_H_

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/base/time.h"
#include "takt/pause/registry.h"
#include "takt/policy/registry.h"
#include "takt/sim/replay.h"
#include "takt/workload/workload.h"

namespace takt::testing {

constexpr Duration Ms(std::int64_t n) { return std::chrono::milliseconds(n); }
constexpr TimePoint AtMs(std::int64_t n) { return TimePoint(Ms(n)); }

struct Call {
  std::int32_t prompt = 0, output = 0;
  std::vector<std::uint32_t> predecessors = {};
  Duration delay{0};
  std::vector<WorkloadTool> tools = {};
};

inline void AddWorkflow(Workload& w, TimePoint arrival, const std::vector<Call>& calls) {
  WorkloadWorkflow workflow;
  workflow.arrival = arrival;
  workflow.first_call = static_cast<std::uint32_t>(w.calls.size());
  workflow.calls = static_cast<std::uint32_t>(calls.size());
  for (const Call& c : calls) {
    WorkloadCall call;
    call.prompt_tokens = c.prompt;
    call.output_tokens = c.output;
    call.delay = c.delay;
    call.first_predecessor = static_cast<std::uint32_t>(w.predecessors.size());
    call.predecessors = static_cast<std::uint32_t>(c.predecessors.size());
    w.predecessors.insert(w.predecessors.end(), c.predecessors.begin(), c.predecessors.end());
    call.first_tool = static_cast<std::uint32_t>(w.tools.size());
    call.tools = static_cast<std::uint32_t>(c.tools.size());
    w.tools.insert(w.tools.end(), c.tools.begin(), c.tools.end());
    w.calls.push_back(call);
  }
  w.workflows.push_back(workflow);
}

inline Workload Requests(const std::vector<std::pair<TimePoint, Call>>& requests) {
  Workload w;
  for (const auto& [arrival, call] : requests) AddWorkflow(w, arrival, {call});
  return w;
}

// Chains, parallel groups and single calls, some with tools.
inline Workload RandomWorkload(std::uint64_t seed, std::size_t workflows, double mean_gap_ms, bool graphs) {
  Random random(seed);
  Workload w;
  w.names = {"", "search"};
  TimePoint arrival{};
  const auto between = [&](int low, int high) {
    return low + static_cast<std::int32_t>(random.Below(static_cast<std::uint64_t>(high - low + 1)));
  };
  for (std::size_t i = 0; i < workflows; ++i) {
    std::vector<Call> calls(graphs ? static_cast<std::size_t>(between(1, 5)) : 1);
    for (std::uint32_t c = 0; c < calls.size(); ++c) {
      calls[c].prompt = between(1, 300);
      calls[c].output = between(1, 60);
      for (std::uint32_t before = 0; before < c; ++before) {
        if (random.Chance(0.4)) calls[c].predecessors.push_back(before);
      }
      if (random.Chance(0.3)) calls[c].delay = Ms(between(0, 30));
      if (graphs && calls[c].output > 4 && random.Chance(0.3)) {
        calls[c].tools.push_back({between(1, calls[c].output / 2), between(0, 40), Ms(between(0, 80)), 1});
        if (random.Chance(0.5)) {
          calls[c].tools.push_back({calls[c].output / 2 + 1, between(0, 40), Ms(between(0, 80)), 1});
        }
      }
    }
    AddWorkflow(w, arrival, calls);
    arrival += FromSeconds(mean_gap_ms * 1e-3 * random.Exponential());
  }
  return w;
}

inline PolicyFactory PolicyBy(std::string_view spec) { return *MakePolicyFactory(spec); }
inline PauseFactory PauseBy(std::string_view spec) { return *MakePauseFactory(spec); }

// Steps of `step` for any batch, and room for everything.
inline ReplayOptions ConstantSteps(Duration step = Ms(10)) {
  ReplayOptions options;
  options.profile.id = "constant";
  options.profile.cost.served = CostModel::Served{.constant_ms = ToSeconds(step) * 1e3};
  options.kv_tokens = 1'000'000;
  return options;
}

// Steps that cost 1 ms, 0.1 ms per prefill token, 2 ms per decode and 0.01 ms per token of decode context.
inline ReplayOptions LinearSteps() {
  ReplayOptions options = ConstantSteps(Ms(1));
  options.profile.cost.served->per_prefill_ms = 0.1;
  options.profile.cost.served->per_decode_ms = 2;
  options.profile.cost.served->per_context_ms = 0.01;
  return options;
}

inline ReplayResult MustReplay(const Workload& workload, const ReplayOptions& options) {
  absl::StatusOr<ReplayResult> result = Replay(workload, options);
  INFO(result.status());
  REQUIRE(result.ok());
  return *std::move(result);
}

}  // namespace takt::testing

#endif  // TAKT_TESTS_SIM_SIM_WORKLOADS_H_
