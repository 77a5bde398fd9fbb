// A batch's value to a real engine, and takt's cost: steps in which all requests decode, and the part of Plan and
// Commit. Reports the median, and the share of all time. Overlap 2: the engine's thread busy-waits.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "engine.h"
#include "model.h"

namespace {

using tiny::Model, tiny::ModelConfig;

// 0.2 M: weights that fit a core's cache, so that takt's memory stays there too. 54.6 M: 218 MB of weights that pass
// through all caches in every step.
const Model& SmallModel() {
  static const Model model = Model::Random(
      {.layers = 3, .hidden = 64, .heads = 2, .kv_heads = 1, .ffn = 176, .vocab = 272, .max_context = 512}, 1);
  return model;
}
const Model& LargeModel() {
  static const Model model = Model::Random(
      {.layers = 16, .hidden = 512, .heads = 8, .kv_heads = 4, .ffn = 1536, .vocab = 8192, .max_context = 512}, 1);
  return model;
}

takt::TimePoint Now() {
  return takt::TimePoint(
      std::chrono::duration_cast<takt::Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

void Decode(benchmark::State& state, const Model& model) {
  const std::int64_t batch = state.range(0);
  tiny::EngineOptions options;
  options.limits = {.tokens = {2048}, .max_seqs = 64};
  options.gpu_blocks = {64 * 512 / 16};
  options.threads = static_cast<std::size_t>(state.range(1));
  options.overlap = state.range(2) != 0;
  options.awake = state.range(2) == 2;
  options.clock = Now;
  options.output = [](const tiny::Output&) {};
  const auto engine = tiny::Engine::Create(model, options);
  if (!engine.ok()) return state.SkipWithError("no engine");
  for (std::int32_t id = 1; id <= batch; ++id) {
    tiny::EngineRequest request{.about = {.id = {static_cast<std::uint64_t>(id)}}, .max_output_tokens = 440};
    for (std::int32_t i = 0; i < 64; ++i) request.prompt.push_back((id * 71 + i * 13) % 272);
    if (!(*engine)->Submit(request).ok()) return state.SkipWithError("refused");
  }
  while ((*engine)->counters().rows < batch * 64) (*engine)->Step();

  const tiny::EngineCounters before = (*engine)->counters();
  std::vector<double> scheduling;  // [us] by step
  for (auto _ : state) {
    const takt::Duration so_far = (*engine)->counters().scheduling;
    (*engine)->Step();
    scheduling.push_back(takt::ToSeconds((*engine)->counters().scheduling - so_far) * 1e6);
  }
  const tiny::EngineCounters after = (*engine)->counters();
  std::ranges::sort(scheduling);
  state.SetItemsProcessed(after.rows - before.rows);  // tokens
  state.counters["plan_commit_us"] = scheduling[scheduling.size() / 2];
  state.counters["share"] =
      takt::ToSeconds(after.scheduling - before.scheduling) / takt::ToSeconds(after.computing - before.computing);
}
void BM_Decode(benchmark::State& state) { Decode(state, LargeModel()); }
BENCHMARK(BM_Decode)
    ->ArgNames({"batch", "threads", "overlap"})
    ->ArgsProduct({{1, 4, 16, 64}, {1, 2}, {0}})
    ->Args({64, 1, 1})
    ->Args({64, 1, 2})
    ->Iterations(30)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void BM_DecodeSmall(benchmark::State& state) { Decode(state, SmallModel()); }
BENCHMARK(BM_DecodeSmall)
    ->ArgNames({"batch", "threads", "overlap"})
    ->Args({64, 1, 0})
    ->Args({64, 1, 1})
    ->Args({64, 1, 2})
    ->Iterations(350)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
