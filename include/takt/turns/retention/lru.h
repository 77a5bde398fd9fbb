// Evicts the least recently used KV first.
#ifndef TAKT_TURNS_RETENTION_LRU_H_
#define TAKT_TURNS_RETENTION_LRU_H_

#include <cstddef>
#include <string_view>

#include "takt/turns/held.h"

namespace takt {

// Ranks by the end of the last use, like vLLM's free list. The value is minus the age [s].
struct Lru {
  static constexpr std::string_view kName = "lru";
  static constexpr std::size_t kLists = 1;

  std::size_t List(const Held&) const { return 0; }
  double Value(const Held& held, TimePoint now) const { return ToSeconds(Between(now, held.since)); }
};

}  // namespace takt

#endif  // TAKT_TURNS_RETENTION_LRU_H_
