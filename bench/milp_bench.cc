// Solver times for whole clusters, on instances built like those in docs/howto/milp.md. Rates come from built-in
// profiles, routings from a grid of thresholds over random scores.
//
//   BM_Cluster/INSTANCE/SOLVER   the extended problem, explanations and decoding included
//   BM_InnerMilp, BM_Inner<MinMaxDp>, BM_Inner<ThresholdSearch>   Cascadia's inner problem on 32 GPUs
#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "fmt/format.h"
#include "takt/base/random.h"
#include "takt/planning/allocation.h"
#include "takt/planning/cluster_milp.h"
#include "takt/sim/profiles.h"

namespace {

using namespace takt;

struct Size {
  const char* name;
  std::size_t models, classes;
  int servers;  // of 8 GPUs, per class
  int steps;  // of each threshold of the grid
};

// The four of the table: models, classes, GPUs, routings.
constexpr std::array<Size, 4> kSizes = {{
    {"3 models, 1 class, 32 GPUs, 441 routings", 3, 1, 4, 21},
    {"3 models, 3 classes, 96 GPUs, 441 routings", 3, 3, 4, 21},
    {"3 models, 4 classes, 512 GPUs, 961 routings", 3, 4, 16, 31},
    {"5 models, 4 classes, 1024 GPUs, 625 routings", 5, 4, 32, 5},
}};

constexpr std::array<const char*, 4> kGpus = {"h100", "a100", "h200", "l40s"};
constexpr std::array<double, 4> kPrices = {2.67, 1.79, 3.59, 0.99};  // per hour
constexpr double kPrompt = 300, kOutput = 450;  // tokens

// Requests/s of one replica with at most 50 ms between tokens.
double RateOf(const Profile& profile) {
  double best = 0;
  for (int batch = 1; batch <= 256; batch *= 2) {
    StepLoad decode;
    decode.decodes = batch;
    decode.decode_context = static_cast<std::int64_t>(batch * (kPrompt + kOutput / 2));
    decode.samples = batch;
    const double step = ToSeconds(profile.cost.StepTime(decode)) * profile.cost.pp;
    if (step > 0.05 || static_cast<double>(decode.decode_context) > static_cast<double>(profile.kv_capacity_tokens))
      break;
    StepLoad prefill;
    prefill.prefill_tokens = static_cast<std::int64_t>(kPrompt);
    prefill.samples = 1;
    best = std::max(best, 1 / (kOutput * step / (batch * profile.cost.pp) + ToSeconds(profile.cost.StepTime(prefill))));
  }
  return best;
}

ClusterProblem Make(const Size& size, std::uint64_t seed) {
  constexpr std::array<const char*, 5> kAll = {"llama-3.2-3b", "qwen2.5-7b", "llama-3.1-8b", "qwen2.5-14b",
                                               "llama-3.1-70b"};
  const auto kModels = std::span(kAll).last(size.models);
  Random random(seed);
  ClusterProblem problem;
  for (std::size_t i = 0; i < size.models; ++i) problem.models.push_back({.name = kModels[i], .min_replicas = 0});
  for (std::size_t k = 0; k < size.classes; ++k) {
    problem.classes.push_back({.name = kGpus[k], .price = kPrices[k], .servers = {{size.servers, 8}}});
  }
  for (std::size_t i = 0; i < size.models; ++i) {
    for (std::size_t k = 0; k < size.classes; ++k) {
      for (const int tp : {1, 2, 4, 8}) {
        for (const int pp : {1, 2}) {
          const auto profile = FindProfile(fmt::format("derived/{}/{}/bf16/tp{}", kModels[i], kGpus[k], tp));
          if (!profile.ok()) continue;
          const auto staged = WithPipeline(*profile, pp);
          if (!staged.ok() || staged->kv_capacity_tokens < 8192) continue;
          const double rate = RateOf(*staged);
          if (!(rate > 0)) continue;
          problem.types.push_back({.name = staged->id,
                                   .model = static_cast<int>(i),
                                   .gpu_class = static_cast<int>(k),
                                   .tp = tp,
                                   .pp = pp,
                                   .rate = rate});
        }
      }
    }
  }
  // Scores of a sample: each model is slightly better than the previous one, and correlated with it.
  constexpr int kSample = 500;
  std::vector<std::vector<double>> scores(size.models, std::vector<double>(kSample));
  for (int s = 0; s < kSample; ++s) {
    const double ease = random.Normal();
    for (std::size_t i = 0; i < size.models; ++i) {
      const double skill = 65 + 30.0 * static_cast<double>(i) / static_cast<double>(size.models - 1);
      scores[i][static_cast<std::size_t>(s)] =
          std::clamp(skill + 15 * (0.8 * ease + 0.6 * random.Normal()), 0.0, 100.0);
    }
  }
  double capacity = 0;  // half of the largest model's rate on all GPUs
  for (std::size_t k = 0; k < size.classes; ++k) {
    double per_gpu = 0;
    for (const ReplicaType& r : problem.types) {
      if (r.model + 1 == static_cast<int>(size.models) && r.gpu_class == static_cast<int>(k)) {
        per_gpu = std::max(per_gpu, r.rate / (r.tp * r.pp));
      }
    }
    capacity += 0.5 * per_gpu * 8 * size.servers;
  }
  std::vector<int> at(size.models - 1);
  for (;;) {
    RoutingChoice routing{.name = "j", .rates = std::vector<double>(size.models), .quality = 0};
    for (int s = 0; s < kSample; ++s) {
      std::size_t i = 0;
      routing.rates[0] += capacity / kSample;
      while (i + 1 < size.models && scores[i][static_cast<std::size_t>(s)] < 100.0 * at[i] / (size.steps - 1)) {
        routing.rates[++i] += capacity / kSample;
      }
      routing.quality += scores[i][static_cast<std::size_t>(s)] / kSample;
    }
    problem.routings.push_back(routing);
    std::size_t i = 0;
    while (i < at.size() && ++at[i] == size.steps) at[i++] = 0;
    if (i == at.size()) break;
  }
  problem.min_quality = 80;
  return problem;
}

void BM_Cluster(benchmark::State& state, const Size& size, const char* name) {
  const auto solver = MakeMilpSolver(name);
  if (!solver.ok()) return state.SkipWithError(std::string(solver.status().message()).c_str());
  const ClusterProblem problem = Make(size, 1);
  ClusterPlan plan;
  for (auto _ : state) {
    auto made = PlanCluster(problem, **solver);
    if (!made.ok()) return state.SkipWithError(std::string(made.status().message()).c_str());
    plan = *std::move(made);
  }
  const auto model = MakeClusterModel(problem);
  state.counters["columns"] = static_cast<double>(model->columns.size());
  state.counters["rows"] = static_cast<double>(model->rows.size());
  state.counters["cost"] = plan.cost;
  state.counters["bound"] = plan.bound;
  state.SetLabel(fmt::format("{}: {}", size.name, Name(plan.status)));
}

LatencyTable InnerTable() {
  Random random(2);
  LatencyTable table(3, 32);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::int32_t f = 1; f <= 32; ++f) {
      table.Set(i, f, 10.0 * static_cast<double>(i + 1) / f * (0.95 + 0.1 * random.Uniform()));
    }
  }
  return table;
}

void BM_InnerMilp(benchmark::State& state) {
  const auto solver = MakeMilpSolver();
  if (!solver.ok()) return state.SkipWithError(std::string(solver.status().message()).c_str());
  const LatencyTable table = InnerTable();
  for (auto _ : state) {
    const auto solution = (*solver)->Solve(MakeMinMaxModel(table));
    state.counters["latency"] = solution->objective;
  }
}

template <class Solve>
void BM_Inner(benchmark::State& state) {
  const LatencyTable table = InnerTable();
  Solve solve;
  std::array<std::int32_t, 3> gpus{};
  for (auto _ : state) state.counters["latency"] = solve.Solve(table, gpus);
}

BENCHMARK(BM_InnerMilp)->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(BM_Inner, MinMaxDp)->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(BM_Inner, ThresholdSearch)->Unit(benchmark::kMicrosecond);

const bool kRegistered = [] {
  for (const Size& size : kSizes) {
    for (const MilpSolverInfo& info : MilpSolverInfos()) {
      const std::string name = fmt::format("BM_Cluster/{}/{}", &size - kSizes.data() + 1, info.name);
      benchmark::RegisterBenchmark(name.c_str(), [&size, solver = info.name](benchmark::State& state) {
        BM_Cluster(state, size, solver.data());
      })->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
