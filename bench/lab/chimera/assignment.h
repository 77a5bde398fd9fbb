// What a router could do that knew everything beforehand: which model each workflow goes to, by prices of congestion.
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

// A placement: each workflow goes to the instance that a table has for it.
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

// An assignment of all workflows at once that has as many points, less the price of latency, as it can, with all that
// a router cannot know: every length, every arrival, and what each engine will be doing. Points are those of the scores
// that it is given.
//
// At the optimum no workflow would be worth more elsewhere, its own latency counted and that which it adds to others'.
// What it adds is read off a run: of each engine and second, the time of a step and how many run and wait there. Those
// are averaged over all rounds (Frank and Wolfe's method, whose steps are 1/k; of congestion games: Beckmann, McGuire
// and Winsten, 1956), and the workflows assigned anew. It is an optimum as far as latency is convex in what engines are
// given; it is no proof that there is nothing better.
class Assignment {
 public:
  // `scores`: workflows x models. What is passed must outlive it.
  Assignment(const Workload& workload, const ReplayOptions& options, std::span<const float> scores);

  // The instance of each workflow, at so many points per ms of latency per token.
  std::vector<std::uint32_t> Choose(double price) const;
  // A run of what was chosen: its steps as they begin, then all of it.
  void Saw(const VirtualStep& step);
  void Learn(const ReplayResult& result);

 private:
  // Of one engine in one second, summed over its steps.
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
  // Seconds of latency, its own and what it adds to that of others.
  double CostOf(const WorkloadWorkflow& workflow, const Engine& engine) const;

  const Workload& workload_;
  double rate_scale_;
  std::span<const float> scores_;
  std::vector<Engine> engines_;
  double per_token_s_ = 0;  // latency per token, as of the last run
  double mean_tokens_ = 1;  // of a workflow, likewise
  int rounds_ = 0;
};

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_CHIMERA_ASSIGNMENT_H_
