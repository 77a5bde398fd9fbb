// An offline bound for routers: assigns each workflow to a model with full knowledge, by prices of congestion.
#ifndef TAKT_BENCH_LAB_CHIMERA_ASSIGNMENT_H_
#define TAKT_BENCH_LAB_CHIMERA_ASSIGNMENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "takt/sim/replay.h"
#include "takt/sim/virtual_engine.h"
#include "takt/workload/workload.h"

namespace takt::tool {

// A placement that sends each workflow to the instance given by a table.
class AssignedToModels {
 public:
  static constexpr std::string_view kName = "assigned";

  AssignedToModels() = default;  // for the text of its options
  explicit AssignedToModels(std::vector<std::uint32_t> instances)
      : instances_(std::make_shared<const std::vector<std::uint32_t>>(std::move(instances))) {}

  template <class Self, class V>
  static void VisitOptions(Self&, V&&) {}

  double Score(const RequestState& r, const InstanceState& i, TimePoint) const {
    return (*instances_)[r.request.workflow.value - 1] + 1 == i.instance.id.value ? 1 : 0;
  }

 private:
  std::shared_ptr<const std::vector<std::uint32_t>> instances_;  // by workflow
};

// An assignment of all workflows at once that maximises points less the price of latency. It knows data that no router
// has: every length, every arrival and the state of each engine. Points come from the given scores.
//
// At the optimum, no workflow is worth more elsewhere, counting its own latency and the latency it adds to others. The
// added latency is measured in a run: for each engine and second, the time of a step and the numbers running and
// waiting. These are averaged over all rounds (Frank and Wolfe's method with steps 1/k; congestion games: Beckmann,
// McGuire and Winsten, 1956). Then the workflows are assigned anew. The result is an optimum as far as latency is
// convex in the engines' load; it is no proof that nothing is better.
class Assignment {
 public:
  // `scores`: workflows x models. The arguments must outlive this object.
  Assignment(const Workload& workload, const ReplayOptions& options, std::span<const float> scores);

  // The instance of each workflow, at this many points per ms of latency per token.
  std::vector<std::uint32_t> Choose(double price) const;
  // Observes a run: its steps as they begin, then the whole run.
  void Saw(const VirtualStep& step);
  void Learn(const ReplayResult& result);

 private:
  // Sums over the steps of one engine in one second.
  struct Second {
    double steps = 0, busy = 0;  // s
    double running = 0, waiting = 0;  // sequences x s
  };
  struct State {
    double step_s = 0, running = 0, waiting = 0;
  };
  struct Engine {
    std::size_t model = 0;  // column of the workload
    PreparedCostModel cost;
    double context = 0;  // of a decode, typically
    std::vector<Second> now = {};
    std::vector<State> seconds = {};  // averages over the rounds; beyond the end: idle
  };

  static StepLoad DecodesOf(const State& state, double context);
  State At(const Engine& engine, std::size_t second) const;
  // Seconds of latency: its own, and that added to others.
  double CostOf(const WorkloadWorkflow& workflow, const Engine& engine) const;

  const Workload& workload_;
  double rate_scale_;
  std::span<const float> scores_;
  std::vector<Engine> engines_;
  double per_token_s_ = 0;  // latency per token in the last run
  double mean_tokens_ = 1;  // of a workflow, in the last run
  int rounds_ = 0;
};

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_CHIMERA_ASSIGNMENT_H_
