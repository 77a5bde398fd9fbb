// The best value that a set of trade-offs offers at a cost, and the margin of one set over another.
#ifndef TAKT_BENCH_LAB_CHIMERA_FRONTIER_H_
#define TAKT_BENCH_LAB_CHIMERA_FRONTIER_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace takt {

struct TradeOff {
  double cost = 0, value = 0;

  friend bool operator==(const TradeOff&, const TradeOff&) = default;
};

// The points that no other point dominates, by ascending cost and therefore ascending value.
inline std::vector<TradeOff> FrontierOf(std::vector<TradeOff> points) {
  std::ranges::sort(points, [](const TradeOff& a, const TradeOff& b) {
    return a.cost != b.cost ? a.cost < b.cost : a.value > b.value;
  });
  std::vector<TradeOff> frontier;
  for (const TradeOff& p : points) {
    if (frontier.empty() || p.value > frontier.back().value) frontier.push_back(p);
  }
  return frontier;
}

// Interpolates linearly between points of the frontier; constant beyond the last point. `cost` must be at least the
// first point's.
inline double ValueAt(std::span<const TradeOff> frontier, double cost) {
  for (std::size_t i = 1; i < frontier.size(); ++i) {
    const TradeOff &a = frontier[i - 1], &b = frontier[i];
    if (cost < b.cost) return a.value + (b.value - a.value) * ((cost - a.cost) / (b.cost - a.cost));
  }
  return frontier.back().value;
}

struct FrontierGap {
  double mean = 0;  // the first frontier's value less the second's
  double from = 0, to = 0;  // costs that both reach
};

// The area between two frontiers over their common range of costs, divided by its width. Empty if they have no common
// range.
inline std::optional<FrontierGap> GapBetween(const std::vector<TradeOff>& ours, const std::vector<TradeOff>& theirs) {
  const std::vector<TradeOff> a = FrontierOf(ours), b = FrontierOf(theirs);
  if (a.empty() || b.empty()) return std::nullopt;
  const auto dearest = [](const std::vector<TradeOff>& all) { return std::ranges::max(all, {}, &TradeOff::cost).cost; };
  FrontierGap gap{0, std::max(a.front().cost, b.front().cost), std::min(dearest(ours), dearest(theirs))};
  if (!(gap.from < gap.to)) return std::nullopt;
  std::vector<double> bends = {gap.from, gap.to};
  for (const std::vector<TradeOff>* all : {&a, &b}) {
    for (const TradeOff& p : *all) {
      if (p.cost > gap.from && p.cost < gap.to) bends.push_back(p.cost);
    }
  }
  std::ranges::sort(bends);
  const auto difference = [&](double cost) { return ValueAt(a, cost) - ValueAt(b, cost); };
  double area = 0;
  for (std::size_t i = 1; i < bends.size(); ++i) {
    area += (bends[i] - bends[i - 1]) * (difference(bends[i - 1]) + difference(bends[i])) / 2;  // straight between them
  }
  gap.mean = area / (gap.to - gap.from);
  return gap;
}

}  // namespace takt

#endif  // TAKT_BENCH_LAB_CHIMERA_FRONTIER_H_
