// Learns the duration of tool calls, the tokens they return, and the tokens generated before each call.
// docs/howto/tool_profile.md
#ifndef TAKT_LEARNING_TOOL_PROFILE_H_
#define TAKT_LEARNING_TOOL_PROFILE_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "takt/base/id.h"
#include "takt/base/slot_table.h"
#include "takt/model/estimate.h"
#include "takt/numeric/histogram.h"
#include "takt/learning/quantile_sketch.h"

namespace takt {

// Means and standard deviations of a class of tools, used until its first call has returned. Negative mean: unknown.
struct ToolSeed {
  std::string_view name = "";
  double seconds = -1, seconds_spread = 0;
  double returned_tokens = -1, returned_spread = 0;
  double tokens_before = -1, before_spread = 0;
};

// InferCept's six kinds of call (Abhyankar et al., ICML 2024). The seconds of math, qa, ve and chatbot are from Table
// 1, whose second number is taken as a standard deviation. In Table 1, image and tts (20.03 and 17.24 s) include human
// turns. The seconds of image and tts here, and all tokens, come from the released workload of 397 requests. So a
// replay of that workload does not test these seeds independently.
inline constexpr std::array<ToolSeed, 6> kInferCeptTools = {{
    {"math", 9e-5, 6e-5, 21, 5, 130, 91},
    {"qa", 0.69, 0.17, 57, 8.5, 188, 120},
    {"ve", 0.09, 0.014, 10, 11, 4, 0},
    {"chatbot", 28.6, 15.6, 40, 112, 24, 26},
    {"image", 11.5, 0.93, 8, 0, 59, 17},
    {"tts", 6.06, 2.66, 9, 0, 59, 17},
}};

// A tool call that has returned.
struct ToolObservation {
  ToolId tool = {};  // class of the tool; none: only the pool learns from the call
  double seconds = 0;  // duration of the call [s]
  std::int64_t returned_tokens = 0;  // tokens of the answer, which join the context
  std::int64_t tokens_before = -1;  // output tokens since the prompt or the previous tool call; negative: unknown
};

// Expected values of a tool call; unknown without calls or seeds. Spreads are standard deviations of single calls.
struct ToolExpectation {
  Estimate seconds = {};
  Estimate returned_tokens = {};
  Estimate tokens_before = {};
  double seconds_spread = 0;
  double returned_spread = 0;
  double before_spread = 0;
  std::int64_t observations = 0;  // number of returned calls, without seeds
  bool pooled = false;  // true: the class is unknown, so the values are averages over all classes
};

struct ToolProfileOptions {
  std::uint32_t max_classes = 128;  // maximum classes, about 8 KB each; further classes count in the pool only
  std::int64_t window = 1024;  // number of calls per class after which older calls count half; at least 2
  std::int64_t seed_weight = 16;  // number of calls that a seed counts as; clamped to [1, window / 2]
  double max_seconds = 3600;  // maximum counted duration of a call [s], so that a hanging call does not spoil the mean
  std::uint64_t hash_seed = 0;  // seed of hashes of classes, as SchedulerOptions::hash_seed
};

struct ToolProfileStats {
  std::int64_t observed = 0;  // accepted calls
  std::int64_t ignored = 0;  // calls with an invalid duration, and rejected seeds
  std::int64_t clamped = 0;  // calls with a duration above max_seconds, or tokens outside 0 to 10^9
  std::int64_t unclassed = 0;  // observed calls without a class, or of a class beyond max_classes
};

namespace internal {

struct LearntFile;  // writes and reads the learned state

// Statistics of one class, or of all classes together (the pool).
class LearntTool {
 public:
  explicit LearntTool(bool pool = false)
      : seconds_(LogHistogram(1e-6, 1e6, 512)),  // bins 5.5 % wide
        returned_(LogHistogram(1, 1e9, 384)),  // bins 5.5 % wide
        before_(LinearHistogram(10, 50)) {  // 50 bins of 10 tokens, as in LAMPS' predictor
    expectation_.pooled = pool;
  }

  const ToolExpectation& expectation() const { return expectation_; }
  void SetId(ToolId id) { id_ = id; }

  void Seed(const ToolSeed& seed, std::int64_t calls) {
    if (seed.seconds >= 0) seconds_.Seed(calls, seed.seconds, seed.seconds_spread);
    if (seed.returned_tokens >= 0) returned_.Seed(calls, seed.returned_tokens, seed.returned_spread);
    if (seed.tokens_before >= 0) before_.Seed(calls, seed.tokens_before, seed.before_spread);
    Update(true);
  }

  void Observe(double seconds, double returned, double before, std::int64_t window) {
    if (seconds_.count() >= window) seconds_.Halve(), returned_.Halve(), before_.Halve();
    seconds_.Observe(seconds);
    returned_.Observe(returned);
    if (before >= 0) before_.Observe(before);
    ++expectation_.observations;
    // An update of the quantiles reads all bins, and a few calls change little.
    constexpr std::int64_t kStale = 32;
    Update(++since_ * kStale >= seconds_.count());
  }

 private:
  friend struct LearntFile;

  static void SetMean(const auto& sketch, Estimate& estimate, double& spread) {
    if (sketch.count() == 0) return;
    estimate.mean = sketch.mean();
    spread = sketch.deviation();
  }
  static void SetQuantiles(const auto& sketch, Estimate& estimate) {
    if (sketch.count() == 0) return;
    std::array<double, Estimate::kLevels.size()> quantiles;
    sketch.Quantiles(Estimate::kLevels, quantiles.begin());
    std::ranges::transform(quantiles, estimate.quantiles.begin(), [](double q) { return static_cast<float>(q); });
  }

  void Update(bool quantiles) {
    SetMean(seconds_, expectation_.seconds, expectation_.seconds_spread);
    SetMean(returned_, expectation_.returned_tokens, expectation_.returned_spread);
    SetMean(before_, expectation_.tokens_before, expectation_.before_spread);
    if (!quantiles) return;
    since_ = 0;
    SetQuantiles(seconds_, expectation_.seconds);
    SetQuantiles(returned_, expectation_.returned_tokens);
    SetQuantiles(before_, expectation_.tokens_before);
  }

  QuantileSketch<LogHistogram> seconds_, returned_;
  QuantileSketch<LinearHistogram> before_;
  ToolExpectation expectation_ = {};
  std::int64_t since_ = 0;  // number of calls since the last update of the quantiles
  ToolId id_ = {};
};

}  // namespace internal

// Keeps mean, spread and quantiles per class of tools, from seeds and returned calls. A class without seeds and calls
// uses the pool of all classes. Beyond `window` calls of a class, older calls count less.
//
// Means and spreads are exact. Quantiles have the resolution of bins, which are 5.5 % wide. Bins of tokens before a
// call are 10 tokens wide, and the last holds 490 and more. Quantiles are updated when the number of calls has grown by
// 1/32. Deterministic. Any input is accepted; stats() counts ignored calls.
class ToolProfile {
 public:
  explicit ToolProfile(const ToolProfileOptions& options = {}) : options_(options), pool_(true) {
    options_.window = std::clamp<std::int64_t>(options.window, 2, std::int64_t{1} << 40);
    options_.seed_weight = std::clamp<std::int64_t>(options.seed_weight, 1, options_.window / 2);
    if (!(options.max_seconds > 0)) options_.max_seconds = ToolProfileOptions{}.max_seconds;
    classes_.KeyHashes(options.hash_seed);
  }

  // Adds a prior for `tool` and the pool. Returns false and counts the seed if it has no mean, a value is not finite,
  // or there is no room.
  bool Seed(ToolId tool, const ToolSeed& seed) {
    const std::array figures = {seed.seconds,        seed.returned_tokens, seed.tokens_before,
                                seed.seconds_spread, seed.returned_spread, seed.before_spread};
    const bool known = seed.seconds >= 0 || seed.returned_tokens >= 0 || seed.tokens_before >= 0;
    const bool usable = known && std::ranges::all_of(figures, [](double x) { return std::isfinite(x); });
    internal::LearntTool* learnt = usable ? Class(tool) : nullptr;
    if (learnt == nullptr) {
      ++stats_.ignored;
      return false;
    }
    ToolSeed cut = seed;
    cut.seconds = Cut(seed.seconds, -1, options_.max_seconds);
    cut.returned_tokens = Cut(seed.returned_tokens, -1, kMostTokens);
    cut.tokens_before = Cut(seed.tokens_before, -1, kMostTokens);
    for (double* spread : {&cut.seconds_spread, &cut.returned_spread, &cut.before_spread}) {
      *spread = Cut(*spread, 0, kMostTokens);
    }
    learnt->Seed(cut, options_.seed_weight);
    pool_.Seed(cut, options_.seed_weight);
    return true;
  }

  // Learns from a call that has returned. Allocates only for a new class. O(1), with an occasional pass over 946 bins.
  void Observe(const ToolObservation& call) {
    if (!(call.seconds >= 0 && std::isfinite(call.seconds))) {
      ++stats_.ignored;
      return;
    }
    ++stats_.observed;
    const std::int64_t clamped = stats_.clamped;
    const double seconds = Cut(call.seconds, 0, options_.max_seconds);
    const double returned = Cut(static_cast<double>(call.returned_tokens), 0, kMostTokens);
    const double before = call.tokens_before < 0 ? -1 : Cut(static_cast<double>(call.tokens_before), 0, kMostTokens);
    stats_.clamped = std::min(stats_.clamped, clamped + 1);  // count each call once
    pool_.Observe(seconds, returned, before, options_.window);
    internal::LearntTool* learnt = Class(call.tool);
    if (learnt == nullptr) ++stats_.unclassed;
    else learnt->Observe(seconds, returned, before, options_.window);
  }

  // Returns the expectation, valid until the next Seed or Observe. O(1).
  const ToolExpectation& Expect(ToolId tool) const {
    const internal::LearntTool* known = classes_.Get(tool);
    return known == nullptr ? pool_.expectation() : known->expectation();
  }

  // Returns everything learned as bytes for any machine, with a checksum. Load replaces the state by such bytes,
  // without classes beyond max_classes. Truncated or damaged bytes are DataLoss, other invalid bytes InvalidArgument;
  // the state then stays. Both are in takt::learning.
  std::string Save() const;
  absl::Status Load(std::string_view bytes);

  std::size_t classes() const { return classes_.size(); }
  const ToolProfileStats& stats() const { return stats_; }

  // Returns the table entries visited by a look-up; for tests.
  std::size_t Looks(ToolId tool) const { return classes_.Looks(tool); }

 private:
  friend struct internal::LearntFile;

  static constexpr double kMostTokens = 1e9;

  double Cut(double x, double least, double most) {
    stats_.clamped += x < least || x > most;
    return std::clamp(x, least, most);
  }

  // Returns the tool's class, new if necessary; null if there is no room.
  internal::LearntTool* Class(ToolId tool) {
    if (!tool) return nullptr;
    if (internal::LearntTool* known = classes_.Get(tool)) return known;
    if (classes_.size() >= options_.max_classes) return nullptr;
    internal::LearntTool& learnt = classes_[classes_.Insert(tool)];
    learnt.SetId(tool);
    return &learnt;
  }

  ToolProfileOptions options_;
  internal::LearntTool pool_;
  IdTable<ToolId, internal::LearntTool> classes_ = {};
  ToolProfileStats stats_ = {};
};

}  // namespace takt

#endif  // TAKT_LEARNING_TOOL_PROFILE_H_
