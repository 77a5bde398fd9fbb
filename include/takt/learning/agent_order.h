// Ranks agents: those whose workflows end soonest are first. docs/howto/agent_learner.md
#ifndef TAKT_LEARNING_AGENT_ORDER_H_
#define TAKT_LEARNING_AGENT_ORDER_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "takt/base/id.h"
#include "takt/learning/latency_profile.h"
#include "takt/learning/line_mds.h"

namespace takt {

enum class AgentOrderBy : std::uint8_t {
  kClassical,  // distance from zero time on the line of classical scaling (Kairos, section 5.1)
  kSmacof,  // distance from zero time on that line after steps of SMACOF
  kMean,  // mean of the remaining time, which is its Wasserstein-1 distance from zero time
  kMedian,  // median of the remaining time
};

struct AgentOrderOptions {
  AgentOrderBy by = AgentOrderBy::kClassical;
  std::int32_t smacof_steps = 30;
};

// The quantile function of an agent's remaining time.
struct AgentCurve {
  AgentId agent = {};
  LatencyDistribution::Curve remaining = {};  // quantiles of the remaining time [s]
};

struct RankedAgent {
  AgentId agent = {};
  double rank = 0;  // distance from zero time [s]; finite, at least 0

  friend constexpr bool operator==(const RankedAgent&, const RankedAgent&) = default;
};

// Ranks depend only on the curves. Fit ranks all agents in O(n^2) time and 2 n^2 bytes. Place ranks one agent with a
// new or changed curve in O(n).
class AgentOrder {
 public:
  // Ranks agents, each listed once in any order.
  void Fit(std::span<const AgentCurve> curves, const AgentOrderOptions& options = {}) {
    constexpr std::size_t kLevels = LatencyDistribution::kLevels;
    // The last row is the anchor: zero time.
    std::vector<float> rows((curves.size() + 1) * kLevels, 0.0f);
    for (std::size_t i = 0; i < curves.size(); ++i) {
      std::ranges::copy(curves[i].remaining, rows.begin() + static_cast<std::ptrdiff_t>(i * kLevels));
    }
    LineMds line;
    if (OnLine(options.by)) {
      const std::int32_t steps = options.by == AgentOrderBy::kSmacof ? options.smacof_steps : 0;
      line.Fit(rows, kLevels, {.smacof_steps = steps});
    }
    line_ = std::move(line);
    by_ = options.by;
    anchor_ = OnLine(by_) ? line_.coordinates().back() : 0;
    ranked_.clear();
    for (std::size_t i = 0; i < curves.size(); ++i) {
      const double rank = OnLine(by_) ? std::abs(line_.coordinates()[i] - anchor_) : FigureOf(curves[i].remaining);
      ranked_.push_back({curves[i].agent, rank});
    }
    std::ranges::sort(ranked_, {}, &RankedAgent::agent);
    FindMedian();
  }

  // Returns the rank of an agent with this curve, and adds or moves the agent. Other agents keep their ranks. Before
  // any Fit, the rank is the mean of the curve.
  double Place(const AgentCurve& curve) {
    const double rank = OnLine(by_) ? std::abs(line_.Place(curve.remaining) - anchor_) : FigureOf(curve.remaining);
    const auto at = std::ranges::lower_bound(ranked_, curve.agent, {}, &RankedAgent::agent);
    if (at != ranked_.end() && at->agent == curve.agent) at->rank = rank;
    else ranked_.insert(at, {curve.agent, rank});
    return rank;
  }

  std::span<const RankedAgent> ranked() const { return ranked_; }  // ranked agents, sorted by agent
  // Rank of the median agent in the newest Fit, used for unknown agents; 0 without agents.
  double median() const { return median_; }

 private:
  static bool OnLine(AgentOrderBy by) { return by == AgentOrderBy::kClassical || by == AgentOrderBy::kSmacof; }

  double FigureOf(const LatencyDistribution::Curve& curve) const {
    constexpr std::size_t kMiddle = LatencyDistribution::kLevels / 2;
    if (by_ != AgentOrderBy::kMedian) return MeanOf(curve);
    return (static_cast<double>(curve[kMiddle - 1]) + static_cast<double>(curve[kMiddle])) / 2;
  }
  static double MeanOf(const LatencyDistribution::Curve& curve) {
    double sum = 0;
    for (const float q : curve) sum += static_cast<double>(q);
    return sum / static_cast<double>(curve.size());
  }

  void FindMedian() {
    std::vector<double> ranks;
    for (const RankedAgent& r : ranked_) ranks.push_back(r.rank);
    const auto middle = ranks.begin() + static_cast<std::ptrdiff_t>(ranks.size() / 2);
    if (!ranks.empty()) std::nth_element(ranks.begin(), middle, ranks.end());
    median_ = ranks.empty() ? 0 : *middle;
  }

  LineMds line_;
  AgentOrderBy by_ = AgentOrderBy::kMean;
  double anchor_ = 0;
  double median_ = 0;
  std::vector<RankedAgent> ranked_;
};

}  // namespace takt

#endif  // TAKT_LEARNING_AGENT_ORDER_H_
