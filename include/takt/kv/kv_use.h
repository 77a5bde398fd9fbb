// The use of KV memory.
#ifndef TAKT_KV_KV_USE_H_
#define TAKT_KV_KV_USE_H_

#include "takt/base/count.h"

namespace takt {

struct KvUse {
  Blocks total{0}, used{0}, free{0}, cached{0}, pending{0};  // `cached`: blocks of idle prefixes, included in `free`
  Blocks cpu_total{0}, cpu_used{0};
  Blocks cpu_cached{0};  // blocks of prefixes in host memory, not included in cpu_used

  friend constexpr bool operator==(const KvUse&, const KvUse&) = default;
};

}  // namespace takt

#endif  // TAKT_KV_KV_USE_H_
