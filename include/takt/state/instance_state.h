// An instance as placement policies see it.
#ifndef TAKT_STATE_INSTANCE_STATE_H_
#define TAKT_STATE_INSTANCE_STATE_H_

#include <cstdint>

#include "takt/model/instance.h"

namespace takt {

struct InstanceState {
  Instance instance;  // description from the host, except that `life` is never 0
  const InstanceProfile* profile = nullptr;  // profile of the instance; null: the host named none
  std::uint32_t slot = 0;  // small index, unique among the instances that are up; reused
  InstanceReport report{};  // newest report; zeros before the first
  bool reported = false;  // true: the instance has reported
  std::int64_t outstanding = 0;  // number of requests placed on this instance that have not ended
  std::int64_t since_report = 0;  // number of requests placed on this instance after the newest report
  std::int64_t tokens_since_report = 0;  // prompt tokens of these requests
  std::uint64_t last_placed = 0;   // sequence number of the last placement on this instance, from 1; 0: none yet
};

}  // namespace takt

#endif  // TAKT_STATE_INSTANCE_STATE_H_
