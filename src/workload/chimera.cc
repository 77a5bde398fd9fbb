#include "workload/chimera.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>

#include "fmt/format.h"
#include "takt/base/exact_math.h"

namespace takt {
namespace {

// Per dataset, APPS and MATH: mean and standard deviation of a workflow's output, and share of solved prompts. The
// outputs of the 1.5B, the 14B and Llama are the paper's. The success rates of the Qwens, Llama and Ministral on MATH
// come from their makers' reports. All other numbers are chosen.
struct Model {
  const char* name;
  std::array<double, 2> mean, sd, solves;
};
constexpr Model kModels[] = {
    {"qwen2.5-1.5b", {447, 606}, {1276, 2587}, {0.08, 0.552}},
    {"qwen2.5-3b", {510, 640}, {1000, 1600}, {0.18, 0.659}},
    {"qwen2.5-7b", {580, 690}, {700, 1000}, {0.38, 0.755}},
    {"qwen2.5-14b", {649, 709}, {534, 715}, {0.43, 0.800}},
    {"llama-3.2-3b", {2400, 2400}, {3000, 3000}, {0.15, 0.480}},
    {"ministral-8b", {2900, 2900}, {2800, 2800}, {0.30, 0.545}},
};
constexpr std::array<double, 2> kRho = {0.89, 0.87};  // correlation of log length with the prompt's visible part
constexpr double kDifficultyWeight = 1.5, kDifficultyOfLength = 0.5;
constexpr double kTopicWeight = 1;  // chosen

struct Stage {
  const char* stage;
  const char* agent;
  double share, instructions;  // share of the workflow's output; chosen prompt tokens of the stage
};
constexpr Stage kApps[] = {{"Planner", "Planner", 0.25, 180},
                           {"Coder", "Coder", 0.35, 220},
                           {"QA", "QA", 0.15, 200},
                           {"Coder again", "Coder", 0.25, 220}};
constexpr Stage kMath[] = {{"Planner", "Planner", 0.25, 180},
                           {"Solver", "Solver", 0.35, 220},
                           {"Verifier", "Verifier", 0.15, 200},
                           {"Solver again", "Solver", 0.25, 220}};
// Ranges of stages that a workflow may have.
constexpr std::size_t kShapes[][2] = {{0, 4}, {0, 2}, {1, 2}};  // from, to
constexpr const char* kShapeNames[] = {"four stages", "two stages", "one stage"};

constexpr std::size_t kTopics = kChimeraTopics;
constexpr int kTopicWords = 100, kMarkers = 30;
constexpr double kTokensPerWord = 1.3;  // chosen
constexpr double kLeastWords = 150, kMostWords = 600;
// Markers per prompt: mean at a trait of zero, and increase per standard deviation. Chosen so that their Poisson noise
// costs a length predictor 0.02 of Kendall's tau distance.
constexpr double kLengthMarkers = 160, kPerLength = 50, kHardMarkers = 80, kPerHard = 25;
enum Feature : std::size_t { kTopic, kWords, kLong, kHard };

// Adds up gaps between events, which is fast enough for means up to a few hundred. A negative mean counts as zero.
int Poisson(Random& random, double mean) {
  int count = -1;
  for (double sum = 0; sum <= std::max(mean, 0.0); ++count) sum += random.Exponential();
  return count;
}

double Logistic(double x) { return 1 / (1 + exact::Exp(-x)); }

// Returns the logit at difficulty zero and a topic of average strength for which this share of prompts is solved.
// Difficulties are standard normal, and topics equally frequent.
double EaseFor(double share, const std::array<double, kTopics>& strengths) {
  const auto solved = [&](double ease) {
    double sum = 0, weights = 0;
    for (int i = -50; i <= 50; ++i) {
      const double d = i * 0.1, weight = exact::Exp(-d * d / 2);
      for (const double strength : strengths) sum += weight * Logistic(ease + strength - kDifficultyWeight * d);
      weights += weight * kTopics;
    }
    return sum / weights;
  };
  double low = -20, high = 20;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (solved(middle) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Returns two syllables, a different pair for each number below 10,000.
std::string Word(std::uint64_t index) {
  constexpr std::string_view kConsonants = "bcdfghjklmnpqrstvwxz", kVowels = "aeiou";
  std::string word;
  for (const std::uint64_t syllable : {index / 100 % 100, index % 100}) {
    word += kConsonants[syllable / 5];
    word += kVowels[syllable % 5];
  }
  return word;
}

}  // namespace

ChimeraGenerator::ChimeraGenerator(const ChimeraShape& shape, std::int32_t max_prompt_tokens,
                                   std::int32_t max_output_tokens, Workload& workload)
    : dataset_(shape.dataset), max_prompt_tokens_(max_prompt_tokens), max_output_tokens_(max_output_tokens) {
  workload.models = Models();
  workload.feature_names = {"topic", "words", "long_words", "hard_words"};
  model_ = workload.ModelIndex(shape.model);
  const auto d = static_cast<std::size_t>(dataset_);
  for (const Model& m : kModels) {
    const Lengths total = Lengths::LogNormalWithMean(m.mean[d], m.sd[d]);
    mu_.push_back(exact::Log(total.a));
    sigma_.push_back(total.b);
    std::array<double, kTopics> strengths;
    for (std::size_t t = 0; t < strengths.size(); ++t) strengths[t] = ChimeraStrength(ease_.size(), t);
    ease_.push_back(EaseFor(m.solves[d], strengths));
  }
}

std::vector<std::string> ChimeraGenerator::Models() {
  std::vector<std::string> names;
  for (const Model& m : kModels) names.emplace_back(m.name);
  return names;
}

bool ChimeraGenerator::Knows(const std::string& model) {
  return std::ranges::any_of(kModels, [&](const Model& m) { return m.name == model; });
}

std::vector<CallDraft> ChimeraGenerator::Draw(Random& random, WorkloadBuilder& builder, WorkloadWorkflow& head) const {
  const std::size_t shape = random.Below(std::size(kShapes));
  const std::size_t topic = random.Below(kTopics);
  const double z = random.Normal();
  const double d = kDifficultyOfLength * z + std::sqrt(1 - kDifficultyOfLength * kDifficultyOfLength) * random.Normal();
  const int long_words = Poisson(random, kLengthMarkers + kPerLength * z);
  const int hard_words = Poisson(random, kHardMarkers + kPerHard * d);
  const int drawn = static_cast<int>(kLeastWords + random.Uniform() * (kMostWords - kLeastWords + 1));
  const int words = std::max(drawn, long_words + hard_words);
  const double rho = kRho[static_cast<std::size_t>(dataset_)];
  std::array<double, std::size(kModels)> total{};
  head.solved_by = 0;
  for (std::size_t m = 0; m < total.size(); ++m) {
    total[m] = exact::Exp(mu_[m] + sigma_[m] * (rho * z + std::sqrt(1 - rho * rho) * random.Normal()));
    if (random.Chance(Logistic(ease_[m] + ChimeraStrength(m, topic) - kDifficultyWeight * d))) {
      head.solved_by |= std::uint32_t{1} << m;
    }
  }
  head.name = builder.Name(kShapeNames[shape]);

  const Stage* const stages = dataset_ == ChimeraDataset::kApps ? kApps : kMath;
  const auto [from, to] = kShapes[shape];
  double shares = 0, share_before = 0;
  for (std::size_t i = from; i < to; ++i) shares += stages[i].share;
  std::vector<CallDraft> drafts;
  double history = 0;
  for (std::size_t i = from; i < to; ++i) {
    CallDraft draft;
    draft.call.stage = builder.Name(stages[i].stage);
    draft.call.agent = builder.Name(stages[i].agent);
    const double share = share_before + stages[i].share / shares;
    for (const double t : total) {
      // The lengths of the calls add up to the total.
      const double tokens = std::floor(t * share + 0.5) - std::floor(t * share_before + 0.5);
      draft.model_tokens.push_back(
          static_cast<std::int32_t>(std::clamp(tokens, 1.0, static_cast<double>(max_output_tokens_))));
    }
    share_before = share;
    draft.call.output_tokens = draft.model_tokens[model_];
    const double prompt = stages[i].instructions + std::round(kTokensPerWord * words) + history;
    draft.call.prompt_tokens = static_cast<std::int32_t>(std::min(prompt, static_cast<double>(max_prompt_tokens_)));
    history += draft.call.output_tokens;
    draft.features = {static_cast<float>(topic), static_cast<float>(words), static_cast<float>(long_words),
                      static_cast<float>(hard_words)};
    if (i > from) draft.after = {static_cast<std::uint32_t>(i - from - 1)};
    drafts.push_back(std::move(draft));
  }
  return drafts;
}

double ChimeraStrength(std::size_t model, std::size_t topic) {
  static const auto strengths = [] {
    std::array<std::array<double, kTopics>, std::size(kModels)> all;
    Random random(kTopics);
    for (auto& of_model : all) {
      for (double& strength : of_model) strength = kTopicWeight * random.Normal();
    }
    return all;
  }();
  return model < strengths.size() && topic < kTopics ? strengths[model][topic] : 0;
}

std::string ChimeraPrompt(std::span<const float> features, std::uint64_t seed) {
  if (features.size() <= kHard) return "";
  const auto count = [&](Feature f) {
    return features[f] >= 0 ? static_cast<std::uint64_t>(std::min(features[f], 1e6f)) : 0;  // NaN: none
  };
  const std::uint64_t longs = count(kLong), hards = count(kHard), topic = count(kTopic) % kTopics;
  const std::uint64_t all = std::max(count(kWords), longs + hards);
  std::vector<std::uint64_t> words;
  Random random(seed);
  constexpr std::uint64_t kFirstLong = kTopics * kTopicWords, kFirstHard = kFirstLong + kMarkers;
  for (std::uint64_t i = 0; i < all; ++i) {
    words.push_back(i < longs           ? kFirstLong + random.Below(kMarkers)
                    : i < longs + hards ? kFirstHard + random.Below(kMarkers)
                                        : topic * kTopicWords + random.Below(kTopicWords));
  }
  for (std::size_t i = words.size(); i > 1; --i) std::swap(words[i - 1], words[random.Below(i)]);
  std::string text;
  for (const std::uint64_t word : words) {
    if (!text.empty()) text += ' ';
    text += Word(word);
  }
  return text;
}

}  // namespace takt
