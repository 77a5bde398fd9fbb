// Autellix's rule: short calls anywhere, long calls on their program's instance.
#ifndef TAKT_RIVALS_PLACEMENT_AUTELLIX_H_
#define TAKT_RIVALS_PLACEMENT_AUTELLIX_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/books/residence.h"

namespace takt {

// A prompt of at most `short_tokens` goes to the instance with the fewest requests. A longer prompt goes to the
// instance of its workflow's last turn. Without such an instance, it goes to the instance with the fewest requests.
class AutellixPlacement : public Residence {
 public:
  static constexpr std::string_view kName = "autellix";

  double short_tokens = 2048;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("short_tokens", self.short_tokens, OptionText{"tokens", "longest prompt that goes to any instance", 0, 1e9});
  }

  double Score(const RequestState&, const InstanceState& i, TimePoint) const {
    const bool stays = prompt() > short_tokens && i.slot == home();
    return (stays ? 0x1p40 : 0) - Requests(i.slot);
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_PLACEMENT_AUTELLIX_H_
