// Evicts the KV with the fewest tokens first.
#ifndef TAKT_TURNS_RETENTION_SHORTEST_H_
#define TAKT_TURNS_RETENTION_SHORTEST_H_

#include <string_view>

#include "takt/turns/held.h"

namespace takt {

// The value is the number of tokens up to the end of the blocks, so a partly evicted holding stays the shortest.
// ThunderAgent also pauses the smallest first. Has no lists: each plan that evicts looks at all holdings.
struct Shortest {
  static constexpr std::string_view kName = "shortest";

  double Value(const Held& held, TimePoint) const { return held.tokens; }
};

}  // namespace takt

#endif  // TAKT_TURNS_RETENTION_SHORTEST_H_
