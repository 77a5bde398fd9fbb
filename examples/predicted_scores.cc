// Predictions for a router among models: a forest predicts tokens, Confidence predicts success, and both go into
// Request::scores. Here model 2 solves long prompts that model 1 does not, and its answers are twice as long.
#include <cstdio>
#include <span>
#include <vector>

#include "takt/learning/confidence.h"
#include "takt/learning/length_forest.h"
#include "takt/placement/confidence_slack.h"
#include "takt/policy/stjf.h"
#include "takt/router.h"

namespace {

using namespace takt;

// One entry per model. The router copies it when it takes the request.
std::vector<ModelScore> ScoresOf(const LengthForest& lengths, const Confidence& confidence, const LengthInput& input,
                                 std::span<const float> features) {
  std::vector<double> solved(confidence.models().size());
  confidence.Scores(features, solved);
  std::vector<ModelScore> scores;
  LengthForest::Scratch scratch;
  for (std::size_t m = 0; m < solved.size(); ++m) {
    const ModelId model = confidence.models()[m];
    const Estimate tokens = lengths.Predict({.model = model, .input = input}, scratch);
    if (solved[m] < 0) continue;  // the model was never tried
    scores.push_back(
        {model, static_cast<float>(solved[m]), tokens.known() ? static_cast<float>(tokens.Quantile(0.5)) : -1});
  }
  return scores;
}

}  // namespace

int main() {
  LengthLearner learner;  // learns from finished workflows, here of one call each
  ConfidenceData tried{.features = 1, .models = {{1}, {2}}};
  for (int i = 1; i <= 200; ++i) {
    const bool is_long = i % 2 == 0;
    const LengthInput input{.prompt_tokens = {is_long ? 4000 + i : 200 + i}};
    for (std::uint64_t model = 1; model <= 2; ++model) {
      const FinishedCall call{input, {static_cast<int>(model) * (is_long ? 400 : 100)}};
      learner.Finished({model}, std::span(&call, 1));
    }
    tried.numbers.push_back(static_cast<float>(input.prompt_tokens.value));
    tried.outcomes.push_back(is_long ? ConfidenceData::kFailed : ConfidenceData::kSolved);  // model 1
    tried.outcomes.push_back(ConfidenceData::kSolved);                                      // model 2
  }
  const auto lengths = learner.Train();
  const auto confidence = Confidence::Train(tried);
  ConfidenceSlack placement;
  placement.tau = 4;  // models may differ in speed by up to five times
  auto router = BasicRouter<Stjf, ConfidenceSlack>::Create({}, Stjf{}, placement);
  if (!lengths.ok() || !confidence.ok() || !router.ok()) return 1;
  router->On(InstanceUp{{.id = {1}, .model = {1}, .token_s = 1e-3}}, {});
  router->On(InstanceUp{{.id = {2}, .model = {2}, .token_s = 2e-3}}, {});

  for (int prompt : {300, 4100}) {
    const float features[] = {static_cast<float>(prompt)};
    const std::vector<ModelScore> scores = ScoresOf(**lengths, **confidence, {.prompt_tokens = {prompt}}, features);
    Request request{.id = {static_cast<std::uint64_t>(prompt)}, .prompt_tokens = {prompt}};
    request.scores = scores;
    router->On(Arrived{request}, {});
    for (const ModelScore& s : scores) {
      std::printf("prompt of %d tokens, model %d: solves it with %.2f, %.0f tokens\n", prompt,
                  static_cast<int>(s.model.value), static_cast<double>(s.score), static_cast<double>(s.tokens));
    }
    for (const Placement& p : router->Place({})) std::printf("  -> instance %d\n", static_cast<int>(p.instance.value));
  }
}
