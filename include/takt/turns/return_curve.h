// Distribution of the time until a workflow's next turn, given the time since the last turn ended.
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

// Class of a turn's end. The host reports why the turn ended or when it expects the next one. Each class from
// kFirstTool on is a single tool.
struct ReturnClass {
  static constexpr std::uint32_t kUnknown = 0, kTool = 1, kUser = 2, kSubAgent = 3, kFirstExpected = 4, kFirstTool = 12;

  // Returns the class of turns expected within 1, 4, 16, 64, 256, 1,024 or 4,096 s, or later. Each class learns the
  // actual times, so a host may err by a constant factor.
  static std::uint32_t Expected(double seconds) {
    std::uint32_t return_class = kFirstExpected;
    for (double most = 1; seconds > most && return_class + 1 < kFirstTool; most *= 4) ++return_class;
    return return_class;
  }
};

// Survival curve of one class: the share of gaps that last longer than an age. The curve is linear between 42 edges,
// two per octave (0, 1/4, 3/8, 1/2, 3/4, 1, 1.5, ... 2^18 s). Its last value may exceed 0, because some workflows never
// return. No return is expected after 2^18 s. Reads are O(1).
struct ReturnCurve {
  static constexpr std::size_t kBins = 41;

  std::array<double, kBins + 1> survival = {};
  std::array<double, kBins + 1> gain = {};  // gain from each edge to the next; 0 from the last edge on

  // Returns the bin of an age; kBins after the last edge. Negative ages and NaN are in bin 0.
  static std::size_t BinOf(double age_s) {
    const double quarters = 4 * age_s;
    if (!(quarters >= 1)) return 0;
    if (quarters >= 0x1p20) return kBins;
    // exponent and first fraction bit of the floating-point number
    return static_cast<std::size_t>((std::bit_cast<std::uint64_t>(quarters) >> 51) - 2 * 1023 + 1);
  }

  // Returns the start of a bin [s].
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

  // Returns the rate [1/s] at which workflows return, among those that are away at this age.
  double Hazard(double age_s) const {
    const std::size_t bin = BinOf(age_s);
    const double alive = Survival(age_s);
    return bin == kBins || !(alive > 0) ? 0 : (survival[bin] - survival[bin + 1]) / Width(bin) / alive;
  }

  // Returns the maximum expected returns per second held [1/s] from this age on, as of the preceding edge:
  //   G(a) = max over h of (S(a) - S(a + h)) / integral of S from a to a + h.
  // If the hazard falls, this is the hazard. If it rises first, this is the value of waiting for the rise.
  double Gain(double age_s) const { return gain[BinOf(age_s)]; }

  // Computes `gain`. Between two edges S is linear, so the ratio may fall and then rise. Its maximum is at an edge.
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

// Curves by class; classes without a curve use the unknown class.
struct ReturnCurves {
  std::vector<ReturnCurve> classes = std::vector<ReturnCurve>(1);

  const ReturnCurve& Of(std::uint32_t return_class) const {
    return classes[return_class < classes.size() ? return_class : 0];
  }
};

}  // namespace takt

#endif  // TAKT_TURNS_RETURN_CURVE_H_
