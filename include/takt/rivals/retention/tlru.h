// Tail-optimized LRU: first evicts blocks that the next turn does not need, then the least recently used blocks.
#ifndef TAKT_RIVALS_RETENTION_TLRU_H_
#define TAKT_RIVALS_RETENTION_TLRU_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "takt/base/spec.h"
#include "takt/turns/held.h"

namespace takt {

// A block is spare if, without it, the next turn finds at most xi of its tokens uncached:
//
//  context + Q - (tokens - block) <= xi
//
// context: the workflow's context after its last turn. Q: tokens that a turn adds. tokens: depth at which the block
// ends. The value is 0 for spare blocks and 1 for other blocks. Among equal values, the least recently used block is
// evicted first. Shared blocks and blocks of an unknown context are not spare.
//
// Zhang et al., "Tail-Optimized Caching for LLM Inference" (2510.15152). Departure: Q is a mean over all turns, not per
// conversation.
struct Tlru {
  static constexpr std::string_view kName = "tlru";
  static constexpr std::size_t kLists = 2;

  std::int64_t xi = 4096;
  std::int64_t next = 3000;  // Q: tokens that a turn adds

  std::size_t List(const Held& held) const {
    if (!held.workflow || held.context <= 0) return 1;
    const std::int64_t cached = std::int64_t{held.tokens} - held.block_tokens;
    return held.context - cached <= xi - next ? 0 : 1;
  }
  double Value(const Held& held, TimePoint) const { return static_cast<double>(List(held)); }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    constexpr double kMost = 1 << 28;
    visit("xi", self.xi, OptionText{"tokens", "uncached tokens that a turn tolerates", 0, kMost});
    visit("next", self.next, OptionText{"tokens", "tokens that a turn adds to its context", 0, kMost});
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_RETENTION_TLRU_H_
