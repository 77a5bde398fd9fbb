// A search for alpha on one core: 11 values, 5 seeds and 90 workflows of HexGen-Flow's first trace at 0.5 per second.
// The cluster has three kinds of GPU. The authors' simulator takes about 220 s for one seed.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "takt/placement/workload_balance.h"
#include "takt/planning/alpha_tuner.h"
#include "takt/sim/profiles.h"
#include "takt/workload/generate.h"
#include "takt/workload/read.h"
#include "takt/workload/transform.h"

namespace takt {
namespace {

void BM_AlphaSweep(benchmark::State& state) {
  const char* data = std::getenv("TAKT_DATA");
  const absl::StatusOr<Workload> trace = ReadWorkload(
      (data != nullptr ? data : std::string(TAKT_SOURCE_DIR "/../shared/data")) + "/text2sql/trace1.jsonl");
  if (!trace.ok()) return state.SkipWithError(std::string(trace.status().message()).c_str());
  // Kept off the stack: gcc 12 reports it as uninitialised there.
  const auto made = std::make_unique<AlphaSearch>();
  AlphaSearch& search = *made;
  search.workload = *trace;
  if (!SetArrivals(search.workload, NumpyPoissonArrivals(0.5, 0, trace->workflows.size())).ok()) std::abort();
  const Profile a100 = *FindProfile("aic/llama-3.1-70b/a100/bf16/tp4");
  search.replay.engines = {a100, a100, *FindProfile("derived/llama-3.1-70b/a6000/bf16/tp4"),
                           *FindProfile("derived/llama-3.1-70b/l40/bf16/tp4")};
  search.replay.placement = WorkloadBalance();
  search.replay.estimates = {EstimateKind::kLengths, 0};
  double alpha = 0;
  for (auto _ : state) {
    const absl::StatusOr<AlphaChoice> choice = SearchAlpha(search);
    if (!choice.ok()) return state.SkipWithError(std::string(choice.status().message()).c_str());
    alpha = choice->alpha;
  }
  state.counters["alpha"] = alpha;
}
BENCHMARK(BM_AlphaSweep)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace takt
