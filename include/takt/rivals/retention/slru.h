// What has had one turn goes before what has had several: SGLang's segmented LRU.
#ifndef TAKT_RIVALS_RETENTION_SLRU_H_
#define TAKT_RIVALS_RETENTION_SLRU_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "takt/base/spec.h"
#include "takt/turns/held.h"

namespace takt {

// Probation until so many uses, then protected; within each, what was used least recently goes first. The value is the
// segment, 0 or 1. SGLang counts the hits of each node of its tree; here uses are the turns of the holding, so that
// what the last turn has added is protected with the rest, and of shared blocks the workflows that hold them.
struct Slru {
  static constexpr std::string_view kName = "slru";
  static constexpr std::size_t kLists = 2;

  std::int32_t uses = 2;  // SGLang's

  std::size_t List(const Held& held) const { return held.uses >= uses ? 1 : 0; }
  double Value(const Held& held, TimePoint) const { return held.uses >= uses ? 1 : 0; }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("uses", self.uses, OptionText{"", "with so many it is protected", 1});
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_RETENTION_SLRU_H_
