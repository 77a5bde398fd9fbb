// Holds KV for a fixed time after each turn. In each of the two groups, before and after expiry, the least recently
// used KV is evicted first.
#ifndef TAKT_TURNS_RETENTION_TTL_H_
#define TAKT_TURNS_RETENTION_TTL_H_

#include <cstddef>
#include <string_view>

#include "takt/base/spec.h"
#include "takt/turns/held.h"

namespace takt {

// The value is 1 before the time expires and 0 afterwards. The order is that of Lru. Only gates use the value.
struct Ttl {
  static constexpr std::string_view kName = "ttl";
  static constexpr std::size_t kLists = 1;

  double seconds = 120;  // time for which KV is held [s]; default: covers nine tenths of the gaps after tools

  std::size_t List(const Held&) const { return 0; }
  double Value(const Held& held, TimePoint now) const { return ToSeconds(Between(held.since, now)) < seconds ? 1 : 0; }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("seconds", self.seconds, OptionText{"s", "how long after a turn its blocks are held"});
  }
};

}  // namespace takt

#endif  // TAKT_TURNS_RETENTION_TTL_H_
