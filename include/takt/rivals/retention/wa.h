// Bailian's workload-aware policy: evicts the block that is least likely to be used again within its lifetime.
#ifndef TAKT_RIVALS_RETENTION_WA_H_
#define TAKT_RIVALS_RETENTION_WA_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/turns/held.h"
#include "takt/turns/return_curve.h"

namespace takt {

// The value is the probability of a use between age a and a + life, with exponential gaps per category:
//
//  P = p_k (exp(-a / m_k) - exp(-(a + life) / m_k))
//
// p_k: share of the category's gaps that end. m_k: mean of the category's gaps. Both come from the category's return
// curve. Within a category, older blocks have less value. Among equal blocks, the deepest is evicted first.
//
// Wang et al., "KVCache Cache in the Wild" (2506.02634). Departures: three categories (after a tool, after a user's
// turn, others) replace the request's type and turn. The mean is learnt online, not fitted to a trace. All blocks have
// the category of their turn, not only the heads.
struct Wa {
  static constexpr std::string_view kName = "wa";
  static constexpr std::size_t kLists = 3;

  double life_s = 60;  // time that a block stays in the cache [s], estimated as in the paper
  const ReturnCurves* curves = nullptr;  // return curves, which outlive the policy; null: mean gap `life_s`, all end

  std::size_t List(const Held& held) const {
    return held.return_class == ReturnClass::kUser                                                   ? 2
           : held.return_class == ReturnClass::kTool || held.return_class >= ReturnClass::kFirstTool ? 1
                                                                                                     : 0;
  }

  double Value(const Held& held, TimePoint now) const {
    constexpr std::uint32_t kClasses[kLists] = {ReturnClass::kUnknown, ReturnClass::kTool, ReturnClass::kUser};
    double share = 1, mean = life_s;
    if (curves != nullptr) {
      const ReturnCurve& curve = curves->Of(kClasses[List(held)]);
      double sum = 0;
      for (std::size_t i = 0; i < ReturnCurve::kBins; ++i) {
        const double middle = (ReturnCurve::Edge(i) + ReturnCurve::Edge(i + 1)) / 2;
        sum += Rounded((curve.survival[i] - curve.survival[i + 1]) * middle);
      }
      share = curve.survival[0] - curve.survival[ReturnCurve::kBins];
      mean = share > 0 ? sum / share : 0;
    }
    if (!(mean > 0)) return 0;
    const double age = std::max(ToSeconds(Between(held.since, now)), 0.0);
    return Rounded(share * exact::Exp(-age / mean)) * (1 - exact::Exp(-life_s / mean));
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("life_s", self.life_s, OptionText{"s", "time that a block stays in the cache", 1e-3});
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_RETENTION_WA_H_
