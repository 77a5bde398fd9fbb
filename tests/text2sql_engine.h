// The engines of HexGen-Flow's simulator as a fixture (hexgen-flow.md, sections 1.3 to 1.7), with takt's workflow
// table, queue and dispatch. One prefill runs at a time, before all decodes. Decodes cost the same in any batch. An
// idle engine advances its clock by 0.1 ms. This models the publication, not an engine.
#ifndef TAKT_TESTS_TEXT2SQL_ENGINE_H_
#define TAKT_TESTS_TEXT2SQL_ENGINE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "takt/base/exact_math.h"
#include "takt/placement/any_placement.h"
#include "takt/policy/any_policy.h"
#include "takt/policy/fcfs.h"
#include "takt/queue/rank_queue.h"
#include "takt/router.h"
#include "takt/workflow/workflow_table.h"
#include "text2sql.h"

namespace takt::text2sql {

struct Call {
  std::size_t step = 0;  // from 1
  int in = 0, out = 0;
};
using Query = std::vector<std::vector<Call>>;  // by stage: a stage starts when the one before has ended

inline std::vector<Query> QueriesOf(const std::string& path) {
  std::vector<Query> queries;
  for (const std::string& line : LinesOf(path)) {
    const auto json = nlohmann::json::parse(line);
    Query& query = queries.emplace_back();
    for (const auto& call : json["calls"]) {
      query.resize(std::max(query.size(), call["stage"].get<std::size_t>() + 1));
      query[call["stage"].get<std::size_t>()].push_back(
          {StepNumber(call["step"].get<std::string>()), call["in"].get<int>(), call["out"].get<int>()});
    }
  }
  return queries;
}

// Drawn as by numpy's legacy generator, bit by bit those of arrivals.csv.
inline std::vector<double> Arrivals(std::size_t n, double rate, std::uint32_t seed) {
  std::mt19937 bits(seed);
  std::vector<double> arrivals;
  double now = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto high = static_cast<double>(bits() >> 5), low = static_cast<double>(bits() >> 6);
    now += -takt::exact::Log(1 - (high * 67108864 + low) / 9007199254740992) / rate;
    arrivals.push_back(now);
  }
  return arrivals;
}

// Seconds by lengths and GPU.
class Latencies {
 public:
  Latencies() {
    const std::vector<std::string> lines = LinesOf(PathOf("latency_rps.csv"));
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const std::vector<std::string> c = Cells(lines[i]);
      seconds_[{std::stoi(c[0]), std::stoi(c[1])}] = {1 / std::stod(c[2]), 1 / std::stod(c[3]), 1 / std::stod(c[4])};
    }
  }
  double Of(int in, int out, std::size_t gpu) const { return seconds_.at({in, out})[gpu]; }

 private:
  std::map<std::pair<int, int>, std::array<double, 3>> seconds_;
};
inline constexpr std::array<double, 3> kDecodeSeconds = {0.035, 0.058, 0.0545};
inline constexpr std::array<int, 3> kBlocks = {3603, 9707, 9707};

// The authors' STANDARD_WORKFLOW; tests end the revisions.
inline std::shared_ptr<const ExpectedStages> StandardWorkflow(const std::vector<double>& mean_seconds) {
  auto expected = std::make_shared<ExpectedStages>();
  for (const std::size_t step : {1u, 2u, 1u, 1u, 1u, 3u, 4u, 4u, 4u, 4u, 5u, 6u, 5u, 7u, 5u}) {
    expected->stages.push_back({{step}, {step == 4 ? 5u : 0u}, mean_seconds[step - 1]});
  }
  return expected;
}

// Equation 6, by step; the list of GPUs has repeats.
inline std::vector<double> MeanSeconds(const std::vector<std::array<double, 3>>& seconds) {
  std::vector<double> means;
  for (const auto& by_gpu : seconds) {
    double sum = 0;
    for (const std::size_t gpu : kHetero2) sum += by_gpu[gpu];
    means.push_back(sum / static_cast<double>(kHetero2.size()));
  }
  return means;
}

struct Setup {
  AnyPolicy policy;
  AnyPlacement placement;
  BudgetOptions budgets = {.blown = BlownRule::kPublished};
  double slo_scale = 1;  // of the standard workflow
  std::size_t slow = kHetero2.size();  // this engine (from 0) is ten times as slow
  double slow_from = 0;                // from this time on [s]
};

struct Dispatched {
  std::size_t query = 0, call = 0;
  double time = 0, created = 0, budget = 0;
  std::uint64_t engine = 0;  // from 1
};
struct Picked {
  double time = 0;
  std::uint64_t engine = 0;
  std::size_t dispatched = 0;         // index in the list
  std::vector<std::size_t> left = {};  // likewise, unordered
};
struct Outcome {
  std::vector<double> latency;  // by query [s]
  std::vector<Dispatched> dispatched;
  std::vector<Picked> picked;  // while others were waiting
};

class Simulation {
 public:
  Simulation(const std::vector<Query>& queries, const std::vector<double>& arrivals, const Latencies& latencies,
             const std::vector<std::array<double, 3>>& steps, const Setup& setup)
      : queries_(queries),
        arrivals_(arrivals),
        latencies_(latencies),
        steps_(steps),
        means_(MeanSeconds(steps)),
        setup_(setup),
        router_(*BasicRouter<Fcfs, AnyPlacement>::Create({}, Fcfs{}, setup.placement)) {
    for (std::size_t i = 0; i < kHetero2.size(); ++i) {
      engines_.emplace_back(kHetero2[i], setup.policy);
      const ProfileId profile = router_.AddProfile({std::string(kGpus[kHetero2[i]])});
      router_.On(InstanceUp{{.id = {i + 1}, .profile = profile}}, {});
    }
    const auto expected = StandardWorkflow(means_);
    double slo = 0;
    for (const auto& stage : expected->stages) slo += stage.cost_s;
    at_.resize(queries.size());
    outcome_.latency.resize(queries.size());
    for (std::size_t q = 0; q < queries.size(); ++q) {
      const TimePoint arrival = Time(arrivals[q]);
      table_.Declare({.id = {q + 1},
                      .arrival = arrival,
                      .deadline = Time(arrivals[q] + slo * setup.slo_scale),
                      .expected = expected},
                     arrival);
      Create(q, arrivals[q]);
    }
  }

  Outcome Run() {
    double now = 0;
    while (left_ > 0) {
      for (Engine& e : engines_) {
        if (e.time <= now) Step(e);
      }
      now = engines_[0].time;
      for (const Engine& e : engines_) now = std::min(now, e.time);
      Dispatch(now);
    }
    return std::move(outcome_);
  }

 private:
  struct Live {
    std::size_t query = 0, index = 0;  // of the query's calls, in the order of the file
    Call call;
    std::uint32_t handle = 0;
    double created = 0;
    std::size_t dispatched = 0;
    RequestState state = {};
    int decoded = 0;
  };
  struct Engine {
    Engine(std::size_t g, const AnyPolicy& policy) : gpu(g), queue(policy) {}

    std::size_t gpu;
    double time = 0;
    int used = 0;
    internal::RankQueue<AnyPolicy> queue;
    std::vector<std::uint32_t> waiting, running;  // handles
  };
  struct Position {
    std::size_t stage = 0, ended = 0, next_index = 0;
  };

  double SlownessOf(const Engine& e) const {
    return &e - engines_.data() == static_cast<std::ptrdiff_t>(setup_.slow) && e.time >= setup_.slow_from ? 10 : 1;
  }
  static TimePoint Time(double seconds) { return TimePoint(FromSeconds(seconds)); }
  static int BlocksOf(const Live& live) { return (live.call.in + 15) / 16; }

  void Create(std::size_t q, double when) {
    for (const Call& call : queries_[q][at_[q].stage]) {
      Live live{.query = q, .index = at_[q].next_index++, .call = call, .created = when};
      live.handle = static_cast<std::uint32_t>(live_.size());
      table_.Make(live.handle, {q + 1}, {call.step}, means_[call.step - 1], Time(when));
      pending_.push_back(live.handle);
      live_.push_back(live);
      ++left_;
    }
  }

  void Dispatch(double now) {
    const auto due = [&](std::uint32_t h) {
      Live& live = live_[h];
      if (live.created > now) return false;
      Request& r = live.state.request;
      r.id = {++sent_};
      r.stage = {live.call.step};
      r.prompt_tokens = {live.call.in};
      router_.On(Arrived{r}, {});
      const std::uint64_t instance = router_.Place({})[0].instance.value;
      router_.On(RequestEnded{r.id, {}}, {});
      Engine& e = engines_[instance - 1];
      const double budget = table_.BudgetOf(h, means_[live.call.step - 1], Time(live.created), setup_.budgets);
      arrival_ = std::max(arrival_, now);
      r.arrival = Time(arrival_);
      r.deadline = Later(Time(live.created), budget);
      r.compute = FromSeconds(steps_[live.call.step - 1][e.gpu]);
      live.state.enqueued = r.arrival;
      live.dispatched = outcome_.dispatched.size();
      outcome_.dispatched.push_back({live.query, live.index, now, live.created, budget, instance});
      e.queue.Push(h, live.state, r.arrival);
      e.waiting.push_back(h);
      return true;
    };
    std::erase_if(pending_, due);
  }

  void Step(Engine& e) {
    e.queue.BeginPlan(Time(e.time), [this](Slot h) -> const RequestState& { return live_[h].state; });
    if (const Slot top = e.queue.Top(); top != kNoSlot) {
      Live& live = live_[top];
      const int most = kBlocks[e.gpu], blocks = BlocksOf(live);
      if (0.95 * most - e.used >= blocks) {
        e.queue.Erase(top);
        std::erase(e.waiting, top);
        if (!e.waiting.empty()) {
          Picked& pick = outcome_.picked.emplace_back();
          pick = {e.time, static_cast<std::uint64_t>(&e - engines_.data()) + 1, live.dispatched};
          for (const std::uint32_t h : e.waiting) pick.left.push_back(live_[h].dispatched);
        }
        e.used += blocks;
        e.time =
            std::max(e.time, live.created);  // some measured latencies are shorter than their decodes: time steps back
        e.time +=
            SlownessOf(e) * (latencies_.Of(live.call.in, live.call.out, e.gpu) - live.call.out * kDecodeSeconds[e.gpu]);
        e.running.push_back(top);
        return;
      }
    }
    if (e.running.empty()) {
      e.time += 0.0001;
      return;
    }
    for (const std::uint32_t h : e.running) e.time = std::max(e.time, live_[h].created);
    e.time += SlownessOf(e) * kDecodeSeconds[e.gpu];
    std::erase_if(e.running, [&](std::uint32_t h) {
      Live& live = live_[h];
      if (++live.decoded < live.call.out) return false;
      e.used -= BlocksOf(live);
      End(live, e.time);
      return true;
    });
  }

  void End(const Live& live, double when) {
    --left_;
    table_.Ended(live.handle, Time(when));
    const std::size_t q = live.query;
    Position& at = at_[q];
    if (++at.ended < queries_[q][at.stage].size()) return;
    at.ended = 0;
    if (++at.stage < queries_[q].size()) return Create(q, when);
    table_.End({q + 1}, false, Time(when));
    outcome_.latency[q] = when - arrivals_[q];
  }

  const std::vector<Query>& queries_;
  const std::vector<double>& arrivals_;
  const Latencies& latencies_;
  const std::vector<std::array<double, 3>>& steps_;
  std::vector<double> means_;
  const Setup& setup_;
  BasicRouter<Fcfs, AnyPlacement> router_;
  WorkflowTable table_;
  std::vector<Engine> engines_;
  std::vector<Position> at_;  // by query
  std::vector<Live> live_;  // by handle
  std::vector<std::uint32_t> pending_;
  std::size_t left_ = 0;  // created calls that have not ended
  std::uint64_t sent_ = 0;
  double arrival_ = 0;
  Outcome outcome_;
};

}  // namespace takt::text2sql

#endif  // TAKT_TESTS_TEXT2SQL_ENGINE_H_
