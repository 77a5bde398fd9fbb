// Measured times of a stage's calls, for hosts that have better data than a cost model.
#ifndef TAKT_MODEL_STAGE_TIMES_H_
#define TAKT_MODEL_STAGE_TIMES_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "takt/base/id.h"
#include "takt/base/time.h"

namespace takt {

// Maps a stage and a profile name to a time. Immutable once it is shared.
class StageTimes {
 public:
  // Sets or replaces a time. Negative times become 0.
  void Set(StageId stage, std::string_view profile, Duration time) {
    const auto at = Position(stage, profile);
    const auto index = at - entries_.begin();
    if (!Is(at, stage, profile)) entries_.insert(at, {stage, std::string(profile), {}});
    entries_[static_cast<std::size_t>(index)].time = std::max(time, Duration{0});
  }

  // Returns null if the time is unknown. The pointer is valid until the next Set.
  const Duration* Find(StageId stage, std::string_view profile) const {
    const auto at = Position(stage, profile);
    return Is(at, stage, profile) ? &at->time : nullptr;
  }

 private:
  struct Entry {
    StageId stage;
    std::string profile;
    Duration time{0};
  };

  std::vector<Entry>::const_iterator Position(StageId stage, std::string_view profile) const {
    return std::lower_bound(entries_.begin(), entries_.end(), std::pair(stage, profile),
                            [](const Entry& e, const std::pair<StageId, std::string_view>& key) {
                              return std::tie(e.stage, e.profile) < std::tie(key.first, key.second);
                            });
  }
  bool Is(std::vector<Entry>::const_iterator at, StageId stage, std::string_view profile) const {
    return at != entries_.end() && at->stage == stage && at->profile == profile;
  }

  std::vector<Entry> entries_;  // sorted by stage, then profile
};

}  // namespace takt

#endif  // TAKT_MODEL_STAGE_TIMES_H_
