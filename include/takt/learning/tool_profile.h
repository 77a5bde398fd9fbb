// What calls of a tool are like, learnt as they return: how long they take, how many tokens they add to the context,
// how many are generated before the next call. docs/tool_profile.md
#ifndef TAKT_LEARNING_TOOL_PROFILE_H_
#define TAKT_LEARNING_TOOL_PROFILE_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "takt/base/id.h"
#include "takt/base/id_map.h"
#include "takt/model/estimate.h"
#include "takt/numeric/histogram.h"
#include "takt/numeric/summary.h"

namespace takt {

// What is known of a class of tools before the first call of it has returned. Each as mean and standard deviation; a
// negative mean: not known.
struct ToolSeed {
  std::string_view name = "";
  double seconds = -1, seconds_spread = 0;
  double returned_tokens = -1, returned_spread = 0;
  double tokens_before = -1, before_spread = 0;
};

// InferCept's six kinds of call (Abhyankar et al., ICML 2024). Seconds of math, qa, ve and chatbot: Table 1, whose
// second number is taken as a standard deviation. Its rows for image and tts (20.03 and 17.24 s) are means over
// conversations in which every second call is a human's turn, so theirs are those of the tool alone. These, and all
// tokens, are counted in the released workload of 397 requests: a replay of that is not new to who begins with them.
inline constexpr std::array<ToolSeed, 6> kInferCeptTools = {{
    {"math", 9e-5, 6e-5, 21, 5, 130, 91},
    {"qa", 0.69, 0.17, 57, 8.5, 188, 120},
    {"ve", 0.09, 0.014, 10, 11, 4, 0},
    {"chatbot", 28.6, 15.6, 40, 112, 24, 26},
    {"image", 11.5, 0.93, 8, 0, 59, 17},
    {"tts", 6.06, 2.66, 9, 0, 59, 17},
}};

// A call that has returned.
struct ToolObservation {
  ToolId tool = {};                   // none: joins the pool alone
  double seconds = 0;                 // how long it took
  std::int64_t returned_tokens = 0;   // that join the context
  std::int64_t tokens_before = -1;    // generated since the prompt, or since the call before; negative: not told
};

// Unknown (Estimate::known() is false) what nothing has been learnt of. Spreads are standard deviations of single
// calls.
struct ToolExpectation {
  Estimate seconds = {};
  Estimate returned_tokens = {};
  Estimate tokens_before = {};
  double seconds_spread = 0;
  double returned_spread = 0;
  double before_spread = 0;
  std::int64_t observations = 0;  // calls behind it that have returned, since the beginning; seeds do not count
  bool pooled = false;            // of all classes, since this one is not known
};

struct ToolProfileOptions {
  std::uint32_t max_classes = 128;  // about 8 KB each; calls of more join the pool alone
  std::int64_t window = 1024;       // calls: whenever a class has so many, what was learnt counts half; at least 2
  std::int64_t seed_weight = 16;    // a seed counts as so many calls; cut to 1 .. window / 2
  double max_seconds = 3600;        // a longer call is taken as this long: one that hangs must not spoil the mean
};

struct ToolProfileStats {
  std::int64_t observed = 0;   // calls learnt from
  std::int64_t ignored = 0;    // durations that are negative or not finite, seeds that Seed() refused
  std::int64_t clamped = 0;    // a duration beyond max_seconds, or tokens outside 0 .. 10^9, cut to that
  std::int64_t unclassed = 0;  // of observed: without a class, or of one beyond max_classes
};

namespace internal {

// Mean, spread and quantiles of one quantity, in memory that does not grow.
template <class Histogram>
class LearntQuantity {
 public:
  explicit LearntQuantity(Histogram bins) : bins_(std::move(bins)) {}

  std::int64_t count() const { return moments_.count(); }

  // As if `calls` had been seen of a log-normal distribution with that mean and spread; of a spread of 0, of the mean.
  void Seed(std::int64_t calls, double mean, double spread) {
    moments_.Add(Moments::From(calls, mean, spread));
    if (!(spread > 0 && mean > 0)) return Count(mean, calls * kUnits);
    const double ratio = std::min(spread / mean, 1e6);  // whose square is still a number
    const double variance = std::log1p(ratio * ratio);
    const double mu = std::log(mean) - variance / 2;
    const auto units = static_cast<double>(calls * kUnits);
    std::int64_t given = 0;
    for (std::size_t i = 0; i < bins_.counts().size(); ++i) {
      const double from = bins_.edge(i), to = bins_.edge(i + 1);
      const double share = 0.5 * std::erfc((mu - std::log(to)) / std::sqrt(2 * variance));
      const bool last = i + 1 == bins_.counts().size();
      const std::int64_t due = last ? calls * kUnits : static_cast<std::int64_t>(std::round(share * units));
      if (due <= given) continue;
      bins_.Add((from + to) / 2, due - given);
      given = due;
      least_ = std::min(least_, i > 0 ? from : 0);
      most_ = std::max(most_, to);
    }
  }

  void Observe(double x) {
    moments_.Add(x);
    Count(x, kUnits);
  }

  void Halve() {
    moments_ = Moments::From(moments_.count() / 2, moments_.mean(), moments_.deviation());
    bins_.Halve();
  }

  void TellMean(Estimate& estimate, double& spread) const {
    if (moments_.count() == 0) return;
    estimate.mean = moments_.mean();
    spread = moments_.deviation();
  }
  void TellQuantiles(Estimate& estimate) const {
    if (moments_.count() == 0) return;
    std::array<double, Estimate::kLevels.size()> quantiles;
    QuantilesOf(bins_, Estimate::kLevels, least_, most_, quantiles.begin());
    std::ranges::transform(quantiles, estimate.quantiles.begin(), [](double q) { return static_cast<float>(q); });
  }

 private:
  // What a call adds to its bin, so that halving does not lose lone ones.
  static constexpr std::int64_t kUnits = 256;

  void Count(double x, std::int64_t units) {
    bins_.Add(x, units);
    least_ = std::min(least_, x);
    most_ = std::max(most_, x);
  }

  Moments moments_ = {};
  Histogram bins_;
  double least_ = 1e300, most_ = 0;
};

// One class, or the pool of all.
class LearntTool {
 public:
  explicit LearntTool(bool pool)
      : seconds_(LogHistogram(1e-6, 1e6, 512)),  // bins 5.5 % wide
        returned_(LogHistogram(1, 1e9, 384)),  // the same
        before_(LinearHistogram(10, 50)) {  // as LAMPS' predictor: 50 bins of 10 tokens
    told_.pooled = pool;
  }

  const ToolExpectation& told() const { return told_; }

  void Seed(const ToolSeed& seed, std::int64_t calls) {
    if (seed.seconds >= 0) seconds_.Seed(calls, seed.seconds, seed.seconds_spread);
    if (seed.returned_tokens >= 0) returned_.Seed(calls, seed.returned_tokens, seed.returned_spread);
    if (seed.tokens_before >= 0) before_.Seed(calls, seed.tokens_before, seed.before_spread);
    Tell(true);
  }

  void Observe(double seconds, double returned, double before, std::int64_t window) {
    if (seconds_.count() >= window) seconds_.Halve(), returned_.Halve(), before_.Halve();
    seconds_.Observe(seconds);
    returned_.Observe(returned);
    if (before >= 0) before_.Observe(before);
    ++told_.observations;
    // Quantiles cost a walk over the bins, and a few more calls hardly move them.
    constexpr std::int64_t kStale = 32;
    Tell(++since_ * kStale >= seconds_.count());
  }

 private:
  void Tell(bool quantiles) {
    seconds_.TellMean(told_.seconds, told_.seconds_spread);
    returned_.TellMean(told_.returned_tokens, told_.returned_spread);
    before_.TellMean(told_.tokens_before, told_.before_spread);
    if (!quantiles) return;
    since_ = 0;
    seconds_.TellQuantiles(told_.seconds);
    returned_.TellQuantiles(told_.returned_tokens);
    before_.TellQuantiles(told_.tokens_before);
  }

  LearntQuantity<LogHistogram> seconds_, returned_;
  LearntQuantity<LinearHistogram> before_;
  ToolExpectation told_ = {};
  std::int64_t since_ = 0;  // calls since the quantiles were told
};

}  // namespace internal

// Per class of tools, from seeds and from the calls that have returned: mean, spread and the quantiles of an Estimate.
// A class that was neither seeded nor seen is taken as the pool of all. From a class's `window` on, older calls count
// less. Means and spreads are exact over what counts;
// quantiles are those of bins (5.5 % wide; of tokens before a call 10 wide, those of 490 and more in one bin), and
// told anew when the calls have grown by a 32nd. Deterministic: the same calls in the same order give the same
// figures. Total: there is no input that breaks it; stats() counts what it refused.
class ToolProfile {
 public:
  explicit ToolProfile(const ToolProfileOptions& options = {}) : options_(options), pool_(true) {
    options_.window = std::clamp<std::int64_t>(options.window, 2, std::int64_t{1} << 40);
    options_.seed_weight = std::clamp<std::int64_t>(options.seed_weight, 1, options_.window / 2);
    if (!(options.max_seconds > 0)) options_.max_seconds = ToolProfileOptions{}.max_seconds;
  }

  // Joins what is known of `tool`, and of the pool. False, and counted, where there is no mean or a figure that is not
  // finite, and where the class does not fit.
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

  // Learns from a call that has returned. Allocates only where its class is new. O(1), but for a walk over 946 bins now
  // and then.
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
    stats_.clamped = std::min(stats_.clamped, clamped + 1);  // once a call
    pool_.Observe(seconds, returned, before, options_.window);
    internal::LearntTool* learnt = Class(call.tool);
    if (learnt == nullptr) ++stats_.unclassed;
    else learnt->Observe(seconds, returned, before, options_.window);
  }

  // Valid until the next Seed or Observe. O(1).
  const ToolExpectation& Expect(ToolId tool) const {
    const std::uint32_t index = tool ? index_of_.Find(tool.value) : IdMap::kAbsent;
    return index == IdMap::kAbsent ? pool_.told() : classes_[index].told();
  }

  std::size_t classes() const { return classes_.size(); }
  const ToolProfileStats& stats() const { return stats_; }

 private:
  static constexpr double kMostTokens = 1e9;

  double Cut(double x, double least, double most) {
    stats_.clamped += x < least || x > most;
    return std::clamp(x, least, most);
  }

  // Null where it has none and gets none.
  internal::LearntTool* Class(ToolId tool) {
    if (!tool) return nullptr;
    const std::uint32_t index = index_of_.Find(tool.value);
    if (index != IdMap::kAbsent) return &classes_[index];
    if (classes_.size() >= options_.max_classes) return nullptr;
    index_of_.Insert(tool.value, static_cast<std::uint32_t>(classes_.size()));
    return &classes_.emplace_back(false);
  }

  ToolProfileOptions options_;
  internal::LearntTool pool_;
  std::vector<internal::LearntTool> classes_ = {};
  IdMap index_of_ = IdMap();
  ToolProfileStats stats_ = {};
};

}  // namespace takt

#endif  // TAKT_LEARNING_TOOL_PROFILE_H_
