// Small problems of cascades and a fast planner.
#ifndef TAKT_TESTS_PLANNING_CASCADE_PROBLEMS_H_
#define TAKT_TESTS_PLANNING_CASCADE_PROBLEMS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/planning/cascade.h"

namespace takt {

constexpr std::int32_t kTp[] = {1, 2, 4, 8};
constexpr std::int32_t kPp[] = {1, 2};

inline ServedModel Llama(const std::string& size) {
  return {.name = size, .shapes = *FindShapes("aic/llama-3.1-" + size + "/h100/bf16", kTp, kPp)};
}

// Scores that rise from model to model and are correlated; lengths of a conversation.
inline std::vector<CascadeSample> Sample(std::size_t models, int requests, std::uint64_t seed = 4) {
  Random random(seed);
  std::vector<CascadeSample> sample;
  for (int i = 0; i < requests; ++i) {
    CascadeSample s;
    s.prompt = 1 + static_cast<std::int32_t>(random.LogNormal(std::log(400), 0.8));
    const double z = random.Normal();
    for (std::size_t m = 0; m < models; ++m) {
      const double score = 60 + 15 * static_cast<double>(m) + 12 * (0.7 * z + 0.7 * random.Normal());
      s.scores.push_back(std::clamp(std::round(score), 0.0, 100.0));
      s.outputs.push_back(1 + static_cast<std::int32_t>(random.LogNormal(std::log(300), 0.6)));
    }
    sample.push_back(s);
  }
  return sample;
}

inline CascadeProblem TwoModels(std::int32_t gpus = 16, double rate = 4) {
  return {.models = {Llama("8b"), Llama("70b")}, .sample = Sample(2, 300), .rate = rate, .gpus = gpus};
}

inline CascadeOptions Quick() {
  CascadeOptions options;
  options.rates.most_requests = 1000;
  options.rates.runs = 12;
  options.simulated = 1500;
  return options;
}

inline CascadePlanner MustCreate(const CascadeProblem& problem, const CascadeOptions& options = Quick()) {
  auto planner = CascadePlanner::Create(problem, options);
  INFO(planner.status());
  REQUIRE(planner.ok());
  return *std::move(planner);
}

}  // namespace takt

#endif  // TAKT_TESTS_PLANNING_CASCADE_PROBLEMS_H_
