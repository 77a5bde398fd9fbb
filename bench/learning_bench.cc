// Predictions on a request's path: the forest one by one and in batches, its training, the sketch of a prompt, and the
// choice among models.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "takt/base/random.h"
#include "takt/learning/confidence.h"
#include "takt/learning/length_forest.h"
#include "takt/learning/quantile_forest.h"
#include "takt/learning/text_sketch.h"
#include "takt/placement/confidence_slack.h"
#include "takt/placement/gain_slack.h"
#include "takt/policy/stjf.h"
#include "takt/router.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

// Features as in Chimera's predictor: counts of tokens, a sketch of the text, names of workflow and stage.
constexpr std::size_t kCounts = 6, kSketch = 16;

ForestData Drawn(std::size_t rows) {
  Random random(7);
  ForestData data{.numeric = kCounts + kSketch, .categories = 2};
  for (std::size_t i = 0; i < rows; ++i) {
    double log = 5;
    for (std::size_t f = 0; f < kCounts; ++f) {
      const double x = random.Normal();
      log += f == 0 ? 0.4 * x : 0;
      data.numbers.push_back(static_cast<float>(std::floor(400 * std::exp(0.6 * x))));
    }
    for (std::size_t f = 0; f < kSketch; ++f) {
      const double x = random.Normal();
      log += f < 3 ? 0.5 * x : 0;
      data.numbers.push_back(static_cast<float>(x));
    }
    data.names.push_back(random.Below(4));
    data.names.push_back(random.Below(6));
    log += 0.3 * static_cast<double>(data.names.back());
    data.labels.push_back(static_cast<float>(std::floor(random.LogNormal(log, 0.5))));
  }
  return data;
}

constexpr std::size_t kRows = 60'000;

void OnAllCores(std::size_t n, const std::function<void(std::size_t)>& body) {
  const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> pool;
  for (std::size_t t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      for (std::size_t i = t; i < n; i += threads) body(i);
    });
  }
  for (std::thread& thread : pool) thread.join();
}

const ForestData& Data() {
  static const ForestData data = Drawn(kRows);
  return data;
}
const QuantileForest& Forest() {
  static const std::shared_ptr<const QuantileForest> forest = *QuantileForest::Train(Data(), {}, OnAllCores);
  return *forest;
}

// Rows outside the training set.
struct Fresh {
  ForestData data = Drawn(kRows + 4096);
  std::vector<ForestRow> rows;

  Fresh() {
    for (std::size_t i = kRows; i < data.rows(); ++i) {
      rows.push_back({std::span(data.numbers).subspan(i * data.numeric, data.numeric),
                      std::span(data.names).subspan(i * data.categories, data.categories)});
    }
  }
};

void Describe(benchmark::State& state) {
  const ForestReport& r = Forest().report();
  state.SetLabel(std::to_string(r.rows) + " rows, " + std::to_string(Forest().trees()) + " trees, " +
                 std::to_string(r.leaves) + " leaves");
}

// One by one (batch 1) or together; the time is that of one request.
void BM_ForestPredict(benchmark::State& state) {
  const auto batch = static_cast<std::size_t>(state.range(0));
  static const Fresh fresh;
  Describe(state);  // the first call trains it
  ForestScratch scratch;
  std::vector<Estimate> out(batch);
  std::size_t at = 0;
  for (auto _ : state) {
    Forest().Predict(std::span(fresh.rows).subspan(at, batch), {}, out, scratch);
    benchmark::DoNotOptimize(out.data());
    at = (at + batch) % fresh.rows.size();
  }
  state.counters["per_request"] = benchmark::Counter(
      static_cast<double>(batch), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_ForestPredict)->ArgName("batch")->Arg(1)->Arg(64);

// Chimera's stages are 2.33 a workflow: 46,667 rows.
void BM_ForestTrain20000Workflows(benchmark::State& state) {
  const ForestData data = Drawn(46'667);
  for (auto _ : state) benchmark::DoNotOptimize(QuantileForest::Train(data, {}, OnAllCores));
}
BENCHMARK(BM_ForestTrain20000Workflows)->Unit(benchmark::kSecond)->UseRealTime()->Iterations(1);

// Prompts of 4 KB, of made-up words.
std::vector<std::string> Prompts() {
  Random random(1);
  std::vector<std::string> texts(200);
  for (std::string& text : texts) {
    while (text.size() < 4096) {
      for (std::uint64_t word = random.Below(3000) + 17, i = 0; i < 6; ++i, word = Mix64(word)) {
        text += static_cast<char>('a' + word % 26);
      }
      text += ' ';
    }
  }
  return texts;
}

void BM_TextSketch4KB(benchmark::State& state) {
  const std::vector<std::string> texts = Prompts();
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto sketch = *TextSketch::Train(views);
  std::vector<float> out(sketch->dimensions());
  TextScratch scratch;
  std::size_t i = 0;
  for (auto _ : state) {
    sketch->Of(texts[++i % texts.size()], out, scratch);
    benchmark::DoNotOptimize(out.data());
  }
}
BENCHMARK(BM_TextSketch4KB);

// Chooses among 8 models with 256 requests in flight: Prepare and 8 scores; and with Placed and Released.
template <class Placer>
void Route(benchmark::State& state, bool placed) {
  Random random(1);
  Placer policy;
  std::vector<InstanceState> instances(8);
  for (std::uint32_t i = 0; i < 8; ++i) {
    instances[i].slot = i;
    instances[i].instance = {.id = {i + 1}, .model = {i + 1}, .token_s = 1e-3 + 1e-4 * i};
    policy.Up(instances[i], {});
  }
  std::vector<RequestState> requests(256);
  std::vector<std::vector<ModelScore>> scores_of(requests.size());
  for (std::uint32_t i = 0; i < requests.size(); ++i) {
    std::vector<ModelScore>& scores = scores_of[i];
    for (std::uint64_t m = 1; m <= 8; ++m) scores.push_back({{m}, static_cast<float>(random.Uniform())});
    requests[i].slot = i;
    requests[i].request.id = {i + 1};
    requests[i].request.workflow_tokens_left = Estimate::Exact(1000 * random.Uniform());
    requests[i].request.scores = scores;
    policy.Placed(requests[i], instances[random.Below(8)], {});
  }
  std::size_t i = 0;
  for (auto _ : state) {
    const RequestState& r = requests[++i % requests.size()];
    policy.Prepare(r, {});
    double most = -1e300;
    std::size_t best = 0;
    for (std::size_t k = 0; k < 8; ++k) {
      const double score = policy.Score(r, instances[k], {});
      if (score > most) most = score, best = k;
    }
    benchmark::DoNotOptimize(best);
    if (placed) policy.Placed(r, instances[best], {});
  }
}
void BM_RouteAmong8(benchmark::State& state) { Route<ConfidenceSlack>(state, false); }
void BM_RouteAndAccount(benchmark::State& state) { Route<ConfidenceSlack>(state, true); }
void BM_RouteByGainAmong8(benchmark::State& state) { Route<GainSlack>(state, false); }
void BM_RouteByGainAndAccount(benchmark::State& state) { Route<GainSlack>(state, true); }
BENCHMARK(BM_RouteAmong8);
BENCHMARK(BM_RouteAndAccount);
BENCHMARK(BM_RouteByGainAmong8);
BENCHMARK(BM_RouteByGainAndAccount);

// The full path of a request through the scheduler, alone and on one thread. Includes the sketch of its 4 KB prompt,
// the confidence of two models, and the tokens left on each (two forests of 100 trees and 60,000 rows). Then the router
// chooses among four instances of each model, and the request joins a queue of 1,000, and ends.
void BM_RequestPath(benchmark::State& state) {
  constexpr std::uint64_t kModels = 2, kInstances = 8, kWaiting = 1000;
  const std::vector<std::string> texts = Prompts();
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto sketch = *TextSketch::Train(views, {.dimensions = kSketch});

  const ForestData& data = Data();
  LengthLearner learner({.sketch = kSketch});
  ConfidenceData tried{.features = kSketch, .models = {{1}, {2}}};
  for (std::size_t i = 0; i < data.rows(); ++i) {
    const std::span row = std::span(data.numbers).subspan(i * data.numeric, data.numeric);
    const FinishedCall call{{.kind = data.names[2 * i],
                             .stage = {data.names[2 * i + 1]},
                             .prompt_tokens = {static_cast<std::int32_t>(row[0])},
                             .sketch = row.subspan(kCounts)},
                            {static_cast<std::int32_t>(data.labels[i])}};
    for (std::uint64_t m = 1; m <= kModels; ++m) learner.Finished({m}, std::span(&call, 1));
    if (i >= 2000) continue;
    tried.numbers.insert(tried.numbers.end(), row.begin() + kCounts, row.end());
    for (std::size_t m = 0; m < kModels; ++m) tried.outcomes.push_back(row[kCounts + m] > 0 ? 1 : 0);
  }
  const auto lengths = *learner.Train(OnAllCores);
  const auto confidence = *Confidence::Train(tried);

  Router router = *Router::Create({}, AnyPolicy(Stjf{}), AnyPlacement(ConfidenceSlack{}));
  for (std::uint64_t i = 1; i <= kInstances; ++i) {
    const double token_s = i % kModels == 0 ? 2e-3 : 1e-3;
    router.On(InstanceUp{{.id = {i}, .model = {i % kModels + 1}, .token_s = token_s}}, {});
  }
  auto scheduler = *BasicScheduler<Stjf>::Create({.kv_blocks = {1000}}, Stjf{});
  for (std::uint64_t i = 1; i <= kWaiting; ++i) {
    Request r{.id = {i}, .prompt_tokens = {1000}};
    r.workflow_tokens_left = Estimate::Exact(static_cast<double>(i));
    scheduler.On(Arrived{r}, {});
  }

  LengthForest::Scratch scratch;
  TextScratch text_scratch;
  std::vector<float> numbers(kSketch);
  std::vector<double> scores(kModels);
  std::vector<LengthForest::Query> queries(kModels);
  std::vector<Estimate> told(kModels);
  std::uint64_t id = kWaiting;
  for (auto _ : state) {
    sketch->Of(texts[++id % texts.size()], numbers, text_scratch);
    confidence->Scores(numbers, scores);
    for (std::uint64_t m = 0; m < kModels; ++m) {
      queries[m] = {{m + 1}, {.kind = id % 4, .stage = {id % 6}, .prompt_tokens = {1000}, .sketch = numbers}, {-1}};
    }
    lengths->Predict(queries, told, scratch);
    std::vector<ModelScore> of_models;
    for (std::uint64_t m = 0; m < kModels; ++m) {
      const double median = told[m].Quantile(0.5);
      of_models.push_back({{m + 1}, static_cast<float>(scores[m]), static_cast<float>(median)});
    }
    Request r{.id = {id}, .prompt_tokens = {1000}};
    r.scores = of_models;
    r.workflow_tokens_left = told[0];
    router.On(Arrived{r}, {});
    const auto placed = router.Place({});
    scheduler.On(Arrived{r}, {});
    benchmark::DoNotOptimize(scheduler.alive());
    scheduler.On(Cancelled{r.id}, {});
    router.On(RequestEnded{r.id, placed[0].instance}, {});
  }
}
BENCHMARK(BM_RequestPath)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace takt
