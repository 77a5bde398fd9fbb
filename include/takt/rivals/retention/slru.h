// SGLang's segmented LRU: evicts KV that one turn used before KV that several turns used.
#ifndef TAKT_RIVALS_RETENTION_SLRU_H_
#define TAKT_RIVALS_RETENTION_SLRU_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "takt/base/spec.h"
#include "takt/turns/held.h"

namespace takt {

// KV is on probation until `uses` uses, then protected. The least recently used is evicted first within a segment. The
// value is the segment, 0 or 1. SGLang counts hits per tree node. Here uses are turns of the workflow, so tokens of the
// last turn are also protected. For shared blocks, uses are the workflows that hold the blocks.
struct Slru {
  static constexpr std::string_view kName = "slru";
  static constexpr std::size_t kLists = 2;

  std::int32_t uses = 2;  // number of uses from which on KV is protected; default: SGLang's

  std::size_t List(const Held& held) const { return held.uses >= uses ? 1 : 0; }
  double Value(const Held& held, TimePoint) const { return held.uses >= uses ? 1 : 0; }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("uses", self.uses, OptionText{"", "uses from which KV is protected", 1});
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_RETENTION_SLRU_H_
