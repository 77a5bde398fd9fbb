// When the next turn of a workflow comes, by the time that has passed since the last one ended.
#ifndef TAKT_TURNS_RETURN_CURVE_H_
#define TAKT_TURNS_RETURN_CURVE_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/base/rounded.h"

namespace takt {

// What a turn has ended with, as far as its host tells: with what, or when the next one is expected; further classes
// are single tools, from kFirstTool on.
struct ReturnClass {
  static constexpr std::uint32_t kUnknown = 0, kTool = 1, kUser = 2, kSubAgent = 3, kFirstExpected = 4, kFirstTool = 12;

  // Of those that are expected within 1, 4, 16, 64, 256, 1,024, 4,096 s, and later. A class and not the time itself:
  // where hosts err, or lie, by a factor, the class learns what comes true.
  static std::uint32_t Expected(double seconds) {
    std::uint32_t its_class = kFirstExpected;
    for (double most = 1; seconds > most && its_class + 1 < kFirstTool; most *= 4) ++its_class;
    return its_class;
  }
};

// Of one class: which share of gaps lasts longer than an age, at 42 edges two to an octave (0, 1/4, 3/8, 1/2, 3/4, 1,
// 1.5, ... 2^18 s), and linear between. Some workflows never return, so that the last value need not be 0; beyond the
// last edge nobody returns. Reading is O(1).
struct ReturnCurve {
  static constexpr std::size_t kBins = 41;

  std::array<double, kBins + 1> survival = {};
  std::array<double, kBins + 1> gain = {};  // from each edge to the next; 0 from the last one on

  // The bin that holds the age; kBins beyond the last edge. What is no age is 0.
  static std::size_t BinOf(double age_s) {
    const double quarters = 4 * age_s;
    if (!(quarters >= 1)) return 0;
    if (quarters >= 0x1p20) return kBins;
    // the exponent, and the first digit after the leading one
    return static_cast<std::size_t>((std::bit_cast<std::uint64_t>(quarters) >> 51) - 2 * 1023 + 1);
  }

  // Where a bin begins [s].
  static double Edge(std::size_t bin) {
    if (bin == 0) return 0;
    const std::uint64_t bits = (static_cast<std::uint64_t>(bin - 1) + 2 * 1023) << 51;
    return Rounded(std::bit_cast<double>(bits) / 4);
  }
  static double Width(std::size_t bin) { return Edge(bin + 1) - Edge(bin); }

  double Survival(double age_s) const {
    const std::size_t bin = BinOf(age_s);
    if (bin == kBins) return survival[kBins];
    const double share = std::max(age_s - Edge(bin), 0.0) / Width(bin);
    return survival[bin] - Rounded((survival[bin] - survival[bin + 1]) * share);
  }

  // Returns per second of those that have not returned at this age.
  double Hazard(double age_s) const {
    const std::size_t bin = BinOf(age_s);
    const double alive = Survival(age_s);
    return bin == kBins || !(alive > 0) ? 0 : (survival[bin] - survival[bin + 1]) / Width(bin) / alive;
  }

  // The best ratio of returns to time held [1/s] for which it can be held on from this age, as of the edge before it:
  //   G(a) = max over h of (S(a) - S(a + h)) / integral of S from a to a + h.
  // The hazard where that falls; where it rises first, what it is worth to sit the rise out.
  double Gain(double age_s) const { return gain[BinOf(age_s)]; }

  // Computes `gain`. Between two edges the ratio falls at most once and then rises, since S is linear there: the
  // maximum is at an edge.
  void FindGain() {
    gain[kBins] = 0;
    for (std::size_t from = 0; from < kBins; ++from) {
      double held = 0, best = 0;
      for (std::size_t to = from + 1; to <= kBins; ++to) {
        held += Rounded((survival[to - 1] + survival[to]) / 2 * Width(to - 1));
        if (held > 0) best = std::max(best, (survival[from] - survival[to]) / held);
      }
      gain[from] = best;
    }
  }
};

// By class; what is not there is as the unknown.
struct ReturnCurves {
  std::vector<ReturnCurve> classes = std::vector<ReturnCurve>(1);

  const ReturnCurve& Of(std::uint32_t its_class) const { return classes[its_class < classes.size() ? its_class : 0]; }
};

}  // namespace takt

#endif  // TAKT_TURNS_RETURN_CURVE_H_
