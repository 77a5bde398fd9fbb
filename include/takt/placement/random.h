// A random instance, with equal chances.
#ifndef TAKT_PLACEMENT_RANDOM_H_
#define TAKT_PLACEMENT_RANDOM_H_

#include <cstdint>
#include <string_view>

#include "takt/base/random.h"
#include "takt/base/spec.h"
#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"

namespace takt {

// Each instance draws a number for each request from the seed and the two ids; the largest number wins. Choices do not
// depend on earlier choices. When an instance comes or goes, only its own requests move. A request that is placed again
// goes to the same instance if that instance is up.
struct RandomPlacement {
  static constexpr std::string_view kName = "random";
  static constexpr bool kScoresCompare = false;

  std::int64_t seed = 1;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("seed", self.seed, OptionText{"", "seed of the random draws"});
  }

  double Score(const RequestState& r, const InstanceState& i, TimePoint) const {
    const std::uint64_t drawn =
        Mix64(Mix64(Mix64(static_cast<std::uint64_t>(seed)) ^ r.request.id.value) ^ i.instance.id.value);
    return static_cast<double>(drawn >> 11) * 0x1p-53;
  }
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_RANDOM_H_
