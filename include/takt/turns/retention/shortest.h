// What has the fewest tokens goes first.
#ifndef TAKT_TURNS_RETENTION_SHORTEST_H_
#define TAKT_TURNS_RETENTION_SHORTEST_H_

#include <string_view>

#include "takt/turns/held.h"

namespace takt {

// The value is the number of tokens up to the end of the blocks, so that a holding once begun goes on being the
// shortest: ThunderAgent pauses the smallest first. Without lists: each plan that evicts costs a look at all holdings.
struct Shortest {
  static constexpr std::string_view kName = "shortest";

  double Value(const Held& held, TimePoint) const { return held.tokens; }
};

}  // namespace takt

#endif  // TAKT_TURNS_RETENTION_SHORTEST_H_
