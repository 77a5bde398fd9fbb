// Prediction on workloads in the shape of Chimera's, compared with the best possible prediction.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "catch.h"
#include "takt/learning/confidence.h"
#include "takt/learning/length_forest.h"
#include "takt/numeric/correlation.h"
#include "takt/workload/generate.h"

namespace takt {
namespace {

constexpr std::size_t kLearnt = 4000, kAsked = 2000;  // workflows
constexpr std::size_t kLongWords = 2;                 // of Workload::feature_names

Workload Drawn(ChimeraDataset dataset) {
  GeneratorOptions options = ChimeraOptions(dataset);
  options.workflows = kLearnt + kAsked;
  options.seed = 5;
  auto workload = GenerateWorkload(options);
  REQUIRE(workload.ok());
  REQUIRE(workload->feature_names[kLongWords] == "long_words");
  return *std::move(workload);
}

// The calls of a workflow on a model, as a learner receives them.
std::vector<FinishedCall> CallsOf(const Workload& w, std::size_t workflow, std::size_t model) {
  std::vector<FinishedCall> calls;
  const WorkloadWorkflow& head = w.workflows[workflow];
  for (std::uint32_t c = head.first_call; c < head.first_call + head.calls; ++c) {
    LengthInput input{.kind = head.name + std::uint64_t{1},
                      .stage = {w.calls[c].stage},
                      .prompt_tokens = {w.calls[c].prompt_tokens},
                      .calls_before = static_cast<std::int32_t>(calls.size()),
                      .sketch = w.features_of(c)};
    for (const FinishedCall& before : calls) input.tokens_before.value += before.output_tokens.value;
    calls.push_back({input, {w.OutputOf(c, model)}});
  }
  return calls;
}

TEST_CASE("the forest ranks remaining tokens nearly as well as possible") {
  for (const ChimeraDataset dataset : {ChimeraDataset::kApps, ChimeraDataset::kMath}) {
    const Workload w = Drawn(dataset);
    const double rho = dataset == ChimeraDataset::kApps ? 0.89 : 0.87;
    const double best = 0.5 - std::asin(rho) / std::acos(-1);  // by z itself, which prompts show with noise
    for (const char* name : {"qwen2.5-1.5b", "qwen2.5-14b"}) {
      const std::size_t model = w.ModelIndex(name);
      LengthLearner learner({.sketch = w.feature_names.size()});
      for (std::size_t i = 0; i < kLearnt; ++i) learner.Finished({1}, CallsOf(w, i, model), i + 1);
      const auto lengths = learner.Train();
      REQUIRE(lengths.ok());
      LengthForest::Scratch scratch;
      // For whole workflows on arrival, and for all calls, whose tokens generated before predict later ones.
      std::vector<double> truth, forest, words, all_truth, all_forest;
      std::array<double, 5> below{};  // share of workflows whose total is below each predicted quantile
      for (std::size_t i = kLearnt; i < kLearnt + kAsked; ++i) {
        const std::vector<FinishedCall> calls = CallsOf(w, i, model);
        double left = 0;
        for (const FinishedCall& call : calls) left += call.output_tokens.value;
        truth.push_back(left);
        words.push_back(static_cast<double>(calls[0].input.sketch[kLongWords]));
        for (const FinishedCall& call : calls) {
          all_truth.push_back(left);
          const Estimate predicted = (*lengths)->Predict({{1}, call.input, {-1}}, scratch);
          all_forest.push_back(predicted.Quantile(0.5));
          if (&call == calls.data()) {
            forest.push_back(predicted.Quantile(0.5));
            for (std::size_t l = 0; l < below.size(); ++l) {
              below[l] += left <= static_cast<double>(predicted.quantiles[l]) ? 1.0 / kAsked : 0;
            }
          }
          left -= call.output_tokens.value;
        }
      }
      const double at_first = CountPairs(truth, forest).distance(), shown = CountPairs(truth, words).distance();
      const double over_all = CountPairs(all_truth, all_forest).distance();
      const ForestReport& report = (*lengths)->Of({1})->report();
      std::printf(
          "%s, %s: %lld rows, %lld leaves; tau distance of %zu workflows as they come %.3f (the prompt's marker "
          "words %.3f, z itself %.3f), of their %zu calls %.3f; below the quantiles as they come: %.3f %.3f %.3f "
          "%.3f %.3f; of all calls, out of bag, these are off by %.3f\n",
          w.name.c_str(), name, static_cast<long long>(report.rows), static_cast<long long>(report.leaves),
          truth.size(), at_first, shown, best, all_truth.size(), over_all, below[0], below[1], below[2], below[3],
          below[4], report.calibration_error);
      CHECK(at_first < shown + 0.01);
      CHECK(at_first < best + 0.035);
      CHECK(over_all < best + 0.02);
      CHECK(over_all < at_first);
      for (std::size_t l = 0; l < below.size(); ++l) CHECK(below[l] == Approx(Estimate::kLevels[l]).margin(0.04));
    }
  }
}

TEST_CASE("confidence on generated prompts is calibrated and ranks nearly optimally") {
  for (const ChimeraDataset dataset : {ChimeraDataset::kApps, ChimeraDataset::kMath}) {
    const Workload w = Drawn(dataset);
    ConfidenceData data{.features = w.feature_names.size()};
    for (std::size_t m = 0; m < w.models.size(); ++m) data.models.push_back({m + 1});
    for (const WorkloadWorkflow& head : w.workflows) {
      for (const float x : w.features_of(head.first_call)) data.numbers.push_back(x);
      for (std::size_t m = 0; m < w.models.size(); ++m) data.outcomes.push_back(head.solved_by >> m & 1);
    }
    const auto made = Confidence::Train(data);
    REQUIRE(made.ok());
    std::printf("%s: %zu prompts, mean average precision %.3f\n", w.name.c_str(), w.workflows.size(),
                (*made)->mean_average_precision());
    for (const ConfidenceReport& r : (*made)->report()) {
      std::printf("  %-14s solved %.3f, average precision %.3f, cross entropy %.3f, calibration error %.3f\n",
                  w.models[r.model.value - 1].c_str(), r.solved, r.average_precision, r.cross_entropy,
                  r.calibration_error);
      CHECK(r.calibration_error < 0.03);
      CHECK(r.average_precision > r.solved + 0.1);
      for (const ReliabilityBin& bin : r.reliability) {
        const double noise =
            std::sqrt(bin.score * (1 - bin.score) / static_cast<double>(std::max<std::int64_t>(bin.count, 1)));
        if (bin.count >= 50) CHECK(std::abs(bin.share - bin.score) < 0.03 + 3 * noise);
      }
    }
  }
}

}  // namespace
}  // namespace takt
