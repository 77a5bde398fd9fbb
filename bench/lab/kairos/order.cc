#include "lab/kairos/order.h"

#include <algorithm>
#include <map>

#include "lab/kairos/linear_order.h"

namespace takt::tool {
namespace {

using Samples = std::map<std::uint64_t, std::vector<double>>;  // remaining work of each agent's requests, ascending

// Returns the number of pairs with a smaller element in `a` than in `b`; equal elements count half.
double Below(const std::vector<double>& a, const std::vector<double>& b) {
  double below = 0;
  std::size_t less = 0, at_most = 0;  // elements of `a`
  for (const double x : b) {
    while (less < a.size() && a[less] < x) ++less;
    while (at_most < a.size() && a[at_most] <= x) ++at_most;
    below += static_cast<double>(less) + 0.5 * static_cast<double>(at_most - less);
  }
  return below;
}

// Returns the accuracy that each pair of agents adds, for either order.
class Pairs {
 public:
  explicit Pairs(const Samples& samples) {
    double all = 0;
    for (const auto& [agent, s] : samples) agents_.push_back(agent), all += static_cast<double>(s.size());
    const std::size_t n = agents_.size();
    gain_.assign(n * n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const auto &a = samples.at(agents_[i]), &b = samples.at(agents_[j]);
        const double others = 1 / (all - static_cast<double>(a.size())) + 1 / (all - static_cast<double>(b.size()));
        if (i != j) gain_[i * n + j] = 100 * Below(a, b) * others / all;
      }
    }
  }

  // rank(agent): smaller is sooner.
  template <class Rank>
  double Of(Rank rank) const {
    double sum = 0;
    const std::size_t n = agents_.size();
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const double a = rank(agents_[i]), b = rank(agents_[j]);
        const double first = gain_[i * n + j], second = gain_[j * n + i];
        sum += a < b ? first : b < a ? second : (first + second) / 2;
      }
    }
    return sum;
  }

  const std::vector<std::uint64_t>& agents() const { return agents_; }
  const std::vector<double>& gain() const { return gain_; }

 private:
  std::vector<std::uint64_t> agents_;
  std::vector<double> gain_;
};

// Trains a learner on the calls of the first `workflows` workflows. A call's upstream is the dependency whose answer
// arrived last.
void Teach(const Workload& workload, const ReplayResult& result, std::size_t workflows, AgentLearner& learner) {
  for (std::size_t w = 0; w < workflows; ++w) {
    const WorkloadWorkflow& workflow = workload.workflows[w];
    for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
      AgentId upstream;
      TimePoint latest = TimePoint::min();
      for (const std::uint32_t before : workload.predecessors_of(workload.calls[c])) {
        const std::uint32_t p = workflow.first_call + before;
        if (result.requests[p].end > latest) latest = result.requests[p].end, upstream = {workload.calls[p].agent};
      }
      const RequestRecord& r = result.requests[c];
      learner.Add({{w + 1}, {workload.calls[c].agent}, upstream, r.first_step, r.end}, kNever);
    }
    learner.Close({w + 1});
  }
}

Samples SamplesOf(const Workload& workload, const ReplayResult& result, std::size_t from) {
  // The same computation as in learning, for all calls at once.
  CallGraph graph;
  Samples samples;
  for (std::size_t w = from; w < workload.workflows.size(); ++w) {
    const WorkloadWorkflow& workflow = workload.workflows[w];
    for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
      const RequestRecord& r = result.requests[c];
      graph.Add({{w + 1}, {workload.calls[c].agent}, {}, r.first_step, r.end}, r.end);
    }
    graph.Close({w + 1});
    graph.TakeOutcomes([&](const CallOutcome& o) { samples[o.agent.value].push_back(o.remaining_s); });
  }
  for (auto& [_, s] : samples) std::ranges::sort(s);
  return samples;
}

std::vector<AgentCurve> CurvesOf(const LatencyProfile& profile) {
  std::vector<AgentCurve> curves;
  for (const AgentLatency& a : profile.agents()) curves.push_back({a.agent, a.remaining.curve()});
  return curves;
}

}  // namespace

absl::StatusOr<KairosAccuracy> MeasureAccuracy(const KairosStudy& study, const KairosSetup& setup, std::uint64_t seed,
                                               AgentLearner& learner) {
  const Workload& workload = study.ground(setup).workloads[study.seed_range().IndexOf(seed)];
  const absl::StatusOr<ReplayResult> result = Replay(workload, KairosOptionsOf(setup, study, workload, seed));
  if (!result.ok()) return result.status();

  // Ordered by arrival, so that workflows of the second half are new.
  const std::size_t half = workload.workflows.size() / 2;
  AgentLearner half_learner;
  Teach(workload, *result, half, half_learner);
  Teach(workload, *result, workload.workflows.size(), learner);
  const std::vector<AgentCurve> curves = CurvesOf(half_learner.profile());
  const Pairs pairs(SamplesOf(workload, *result, half));

  KairosAccuracy a;
  a.scenario = setup.scenario;
  std::map<std::uint64_t, double> ranks;
  for (const auto& [by, accuracy] :
       {std::pair{AgentOrderBy::kMedian, &a.median}, std::pair{AgentOrderBy::kMean, &a.mean},
        std::pair{AgentOrderBy::kSmacof, &a.smacof}, std::pair{AgentOrderBy::kClassical, &a.classical}}) {
    AgentOrder order;
    order.Fit(curves, {.by = by});
    for (const RankedAgent& r : order.ranked()) ranks[r.agent.value] = r.rank;
    *accuracy = pairs.Of([&](std::uint64_t agent) { return ranks[agent]; });
  }
  const std::vector<std::int32_t> stages = learner.graph().StagesLeft();
  a.depth = pairs.Of([&](std::uint64_t agent) { return stages[learner.graph().Find({agent})]; });
  a.fcfs = pairs.Of([](std::uint64_t) { return 0.0; });
  const std::vector<std::size_t> best = BestLinearOrder(pairs.gain(), pairs.agents().size());
  std::map<std::uint64_t, double> place;
  for (std::size_t i = 0; i < best.size(); ++i) {
    place[pairs.agents()[best[i]]] = static_cast<double>(i);
    a.best_order.push_back(workload.names[pairs.agents()[best[i]]]);
  }
  a.best = pairs.Of([&](std::uint64_t agent) { return place[agent]; });
  std::vector<std::uint64_t> ours = pairs.agents();
  std::ranges::sort(ours, {}, [&](std::uint64_t agent) { return ranks[agent]; });
  for (const std::uint64_t agent : ours) a.order.push_back(workload.names[agent]);
  a.requests = std::ssize(workload.calls);
  return a;
}

}  // namespace takt::tool
