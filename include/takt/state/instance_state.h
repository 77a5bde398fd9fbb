// An instance as placement policies see it.
#ifndef TAKT_STATE_INSTANCE_STATE_H_
#define TAKT_STATE_INSTANCE_STATE_H_

#include <cstdint>

#include "takt/model/instance.h"

namespace takt {

struct InstanceState {
  Instance instance;  // as the host described it; `life` is never 0
  const InstanceProfile* profile = nullptr;  // null: no profile was named
  std::uint32_t slot = 0;  // small index, unique among the instances that are up; reused
  InstanceReport report{};  // newest report; zeros before the first
  bool reported = false;  // true: there is a report
  std::int64_t outstanding = 0;    // requests placed here that have not ended
  std::int64_t since_report = 0;   // requests placed here after the newest report
  std::int64_t tokens_since_report = 0;  // prompt tokens of these requests
  std::uint64_t last_placed = 0;   // sequence number of the last placement on this instance, from 1; 0: none yet
};

}  // namespace takt

#endif  // TAKT_STATE_INSTANCE_STATE_H_
