// Evicts the KV with the fewest turns first.
#ifndef TAKT_TURNS_RETENTION_LFU_H_
#define TAKT_TURNS_RETENTION_LFU_H_

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "takt/turns/held.h"

namespace takt {

// The value is the number of turns, at most 63. Ties by last use, oldest first.
struct Lfu {
  static constexpr std::string_view kName = "lfu";
  static constexpr std::size_t kLists = 64;

  std::size_t List(const Held& held) const { return static_cast<std::size_t>(std::clamp(held.uses, 0, 63)); }
  double Value(const Held& held, TimePoint) const { return std::clamp(held.uses, 0, 63); }
};

}  // namespace takt

#endif  // TAKT_TURNS_RETENTION_LFU_H_
