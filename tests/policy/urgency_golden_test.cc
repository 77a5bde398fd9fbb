// Budgets, picks and end-to-end latencies, compared with the logs of the HexGen-Flow authors' simulator.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "catch.h"
#include "takt/model/stage_times.h"
#include "takt/rivals/placement/code_ratio.h"
#include "takt/placement/round_robin.h"
#include "takt/policy/urgency.h"
#include "takt/workflow/slo_budget.h"
#include "text2sql_engine.h"

namespace takt {
namespace {

using namespace text2sql;

struct Run {
  const char* name;
  int trace;
  double rate;
  double alpha;  // negative: round robin
  bool urgency;
};
constexpr Run kRuns[] = {
    {"oct_t1_hetero2_r0.5_wb+pq_a0.2", 1, 0.5, 0.2, true},    {"oct_t1_hetero2_r1.0_wb+pq_a0.2", 1, 1.0, 0.2, true},
    {"oct_t2_hetero2_r0.5_wb+pq_a0.2", 2, 0.5, 0.2, true},    {"oct_t1_hetero2_r0.5_wb+pq_a0.0", 1, 0.5, 0.0, true},
    {"oct_t1_hetero2_r0.5_wb+fcfs_a0.2", 1, 0.5, 0.2, false}, {"oct_t1_hetero2_r0.5_rr+fcfs", 1, 0.5, -1, false},
    {"oct_t1_hetero2_r0.5_rr+pq", 1, 0.5, -1, true}};

bool Skipped() {
  if (!StepSeconds().empty()) return false;
  WARN("skipped: no text2sql/latency_rps.csv; TAKT_DATA names the folder above text2sql/");
  return true;
}

std::vector<std::string> Golden(const Run& run, const std::string& kind) {
  return LinesOf(PathOf("golden/" + std::string(run.name) + kind));
}

Setup SetupOf(const Run& run) {
  const auto seconds = StepSeconds();
  auto costs = std::make_shared<StageTimes>();
  for (std::size_t s = 0; s < seconds.size(); ++s) {
    for (std::size_t g = 0; g < kGpus.size(); ++g) costs->Set({s + 1}, kGpus[g], FromSeconds(seconds[s][g]));
  }
  Setup setup;
  if (run.urgency) setup.policy = Urgency{};
  if (run.alpha < 0) {
    setup.placement = RoundRobin{};
  } else {
    setup.placement = CodeRatio(run.alpha, costs);
  }
  return setup;
}

std::string NameOf(const Dispatched& d) { return std::to_string(d.query) + "." + std::to_string(d.call); }

TEST_CASE("budgets, queue and dispatch give the authors' latencies on their engines") {
  if (Skipped()) return;
  const Latencies latencies;
  const auto steps = StepSeconds();
  for (const Run& run : kRuns) {
    INFO(run.name);
    const std::vector<Query> queries = QueriesOf(PathOf("trace" + std::to_string(run.trace) + ".jsonl"));
    const std::vector<double> arrivals = Arrivals(queries.size(), run.rate, 0);
    const Setup setup = SetupOf(run);
    const Outcome outcome = Simulation(queries, arrivals, latencies, steps, setup).Run();

    const std::vector<std::string> dispatched = Golden(run, ".dispatch.csv.gz");
    REQUIRE(dispatched.size() == outcome.dispatched.size() + 1);
    std::size_t wrong = 0;
    double worst_budget = 0;
    for (std::size_t i = 0; i < outcome.dispatched.size(); ++i) {
      const std::vector<std::string> cells = Cells(dispatched[i + 1]);
      const Dispatched& d = outcome.dispatched[i];
      const bool same =
          cells[2] == NameOf(d) && std::stoull(cells[6]) == d.engine && std::abs(std::stod(cells[1]) - d.time) < 1e-6;
      wrong += same ? 0u : 1u;
      worst_budget = std::max(worst_budget, std::abs(std::stod(cells[5]) - d.budget));
    }
    CHECK(wrong == 0);
    CHECK(worst_budget < 1e-9);

    const std::vector<std::string> picked = Golden(run, ".picks.jsonl.gz");
    REQUIRE(picked.size() == outcome.picked.size());
    wrong = 0;
    for (std::size_t i = 0; i < picked.size(); ++i) {
      const auto pick = nlohmann::json::parse(picked[i]);
      const Picked& p = outcome.picked[i];
      const bool same = pick["picked"] == NameOf(outcome.dispatched[p.dispatched]) && pick["engine"] == p.engine &&
                        pick["left"].size() == p.left.size() && std::abs(pick["t"].get<double>() - p.time) < 1e-6;
      wrong += same ? 0u : 1u;
    }
    CHECK(wrong == 0);

    const std::vector<std::string> latency = Golden(run, ".latency.csv");
    REQUIRE(latency.size() == queries.size() + 1);
    double worst = 0;
    for (std::size_t q = 0; q < queries.size(); ++q) {
      worst = std::max(worst, std::abs(std::stod(Cells(latency[q + 1])[1]) - outcome.latency[q]));
    }
    CHECK(worst < 1e-6);  // the logs have six decimals
  }
}

TEST_CASE("a tenfold slower instance delays workflows and loses none") {
  if (Skipped()) return;
  const Latencies latencies;
  const auto steps = StepSeconds();
  const std::vector<Query> queries = QueriesOf(PathOf("trace1.jsonl"));
  const std::vector<double> arrivals = Arrivals(queries.size(), 0.5, 0);
  Setup setup = SetupOf(kRuns[0]);
  const auto mean = [&] {
    const Outcome outcome = Simulation(queries, arrivals, latencies, steps, setup).Run();
    CHECK(std::ranges::all_of(outcome.latency, [](double latency) { return latency > 0; }));
    return std::accumulate(outcome.latency.begin(), outcome.latency.end(), 0.0) / static_cast<double>(queries.size());
  };
  const double steady = mean();
  setup.slow = 0, setup.slow_from = 100;
  const double slowed = mean();
  CHECK(slowed > steady * 1.2);
}

TEST_CASE("arrivals equal those of the file") {
  if (Skipped()) return;
  std::size_t checked = 0;
  std::vector<double> drawn;
  for (const std::string& line : LinesOf(PathOf("arrivals.csv"))) {
    const std::vector<std::string> cells = Cells(line);
    if (cells[0] == "rate_qps") continue;
    if (cells[3] == "0") drawn = Arrivals(110, std::stod(cells[0]), static_cast<std::uint32_t>(std::stoul(cells[1])));
    CHECK(drawn[std::stoul(cells[3])] == Approx(std::stod(cells[4])).epsilon(1e-14));
    ++checked;
  }
  CHECK(checked == 660);
}

// From the logs alone, without an engine: budgets by equation 5, every pick by equations 7 and 8.
TEST_CASE("logged budgets follow equation 5, and logged picks are most urgent") {
  if (Skipped()) return;
  const auto seconds = StepSeconds();
  const std::vector<double> means = MeanSeconds(seconds);
  const auto expected = StandardWorkflow(means);
  double slo = 0;
  for (const auto& stage : expected->stages) slo += stage.cost_s;
  std::size_t budgets = 0, picks = 0;
  for (const Run& run : kRuns) {
    INFO(run.name);
    struct Sent {
      std::size_t step = 0;
      double created = 0, budget = 0;
    };
    std::map<std::string, Sent> sent;
    std::map<std::string, double> begun, stage_created;
    WorkflowTable table;
    WorkflowTable::Handle next = 0;
    std::map<std::string, std::vector<WorkflowTable::Handle>> open;  // calls of a query's current stage
    double worst = 0;
    std::vector<std::string> lines = Golden(run, ".dispatch.csv.gz");
    REQUIRE(lines.size() > 1000);
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const std::vector<std::string> cells = Cells(lines[i]);
      const std::string query = cells[2].substr(0, cells[2].find('.'));
      const Sent call{StepNumber(cells[3]), std::stod(cells[4]), std::stod(cells[5])};
      const TimePoint created(FromSeconds(call.created));
      const WorkflowId id{std::stoull(query) + 1};
      if (!begun.contains(query)) {
        begun[query] = call.created;
        table.Declare({.id = id, .deadline = TimePoint(FromSeconds(call.created + slo)), .expected = expected},
                      created);
      }
      if (stage_created[query] != call.created) {  // all calls of the stage before have ended
        for (const WorkflowTable::Handle h : open[query]) table.Ended(h, created);
        open[query].clear();
        stage_created[query] = call.created;
      }
      const double mean = means[call.step - 1];
      table.Make(next, id, {call.step}, mean, created);
      const double own = table.BudgetOf(next, mean, created, {.blown = BlownRule::kPublished});
      const double plain = SloBudget(slo - (call.created - begun[query]), mean, table.After(next).cost_s,
                                     {.blown = BlownRule::kPublished});
      worst = std::max({worst, std::abs(own - call.budget), std::abs(plain - call.budget) * 1000});
      open[query].push_back(next++);
      sent[cells[2]] = call;
      ++budgets;
    }
    CHECK(worst < 1e-9);  // the table counts whole nanoseconds; the equation alone holds within 1e-12

    if (!run.urgency) continue;
    std::size_t wrong = 0;
    for (const std::string& line : Golden(run, ".picks.jsonl.gz")) {
      const auto pick = nlohmann::json::parse(line);
      const std::size_t gpu = kHetero2[pick["engine"].get<std::size_t>() - 1];
      internal::RankQueue<Urgency> queue{Urgency{}};
      std::vector<std::string> names = pick["left"].get<std::vector<std::string>>();
      names.push_back(pick["picked"].get<std::string>());
      const auto urgency = [&](const std::string& name) {
        const Sent& call = sent.at(name);
        return seconds[call.step - 1][gpu] - (call.budget - (pick["t"].get<double>() - call.created));
      };
      double most = -1e300;
      for (Slot slot = 0; slot < names.size(); ++slot) {
        const Sent& call = sent.at(names[slot]);
        RequestState state;
        state.request.id = {slot + 1};
        state.request.arrival = TimePoint(FromSeconds(call.created));
        state.request.deadline = Later(state.request.arrival, call.budget);
        state.request.compute = FromSeconds(seconds[call.step - 1][gpu]);
        queue.Push(slot, state, state.request.arrival);
        most = std::max(most, urgency(names[slot]));
      }
      // Among equally urgent calls of one stage, the log picks the one enqueued first.
      const bool right = urgency(names[queue.Top()]) > most - 1e-8 && urgency(names.back()) > most - 1e-8;
      wrong += right ? 0u : 1u;
      ++picks;
    }
    CHECK(wrong == 0);
  }
  CHECK(budgets == 12376);
  CHECK(picks == 1005 + 939 + 1177 + 805 + 717);
}

}  // namespace
}  // namespace takt
