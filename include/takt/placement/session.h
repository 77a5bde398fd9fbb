// Keeps each workflow on its instance.
#ifndef TAKT_PLACEMENT_SESSION_H_
#define TAKT_PLACEMENT_SESSION_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/books/residence.h"

namespace takt {

// Chooses the instance of the workflow's last turn, or the one with more reported blocks of the prompt; otherwise the
// instance with the fewest requests.
class SessionPlacement : public Residence {
 public:
  static constexpr std::string_view kName = "session";

  double Score(const RequestState&, const InstanceState& i, TimePoint) const {
    return (i.slot == home() ? 0x1p40 : 0) - Requests(i.slot);
  }
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_SESSION_H_
