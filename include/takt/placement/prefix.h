// The instance with the longest cached prefix.
#ifndef TAKT_PLACEMENT_PREFIX_H_
#define TAKT_PLACEMENT_PREFIX_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/books/residence.h"

namespace takt {

// Chooses the instance with the most cached tokens of the prompt; ties: fewest requests.
class PrefixPlacement : public Residence {
 public:
  static constexpr std::string_view kName = "prefix";

  double Score(const RequestState&, const InstanceState& i, TimePoint) const {
    return Cached(i.slot) - Rounded(Requests(i.slot) * 0x1p-30);
  }
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_PREFIX_H_
