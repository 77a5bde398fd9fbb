// Finds the running request that computes a chunk of a prompt next.
#ifndef TAKT_SCHEDULER_PREFIX_LEADERS_H_
#define TAKT_SCHEDULER_PREFIX_LEADERS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "takt/base/id_map.h"
#include "takt/model/step.h"

namespace takt::internal {

// Maps each lane to at most one chunk, named by its hash, and each chunk to one lane. Chunks of different sizes may
// share a hash: the caller compares. All calls are O(1) and allocate nothing after Reserve.
class PrefixLeaders {
 public:
  void KeyHashes(std::uint64_t seed) { lanes_.SetKey(seed); }
  void Reserve(std::size_t lanes) {
    if (lanes <= leads_.size()) return;
    lanes_.Reserve(lanes);
    leads_.resize(lanes);
  }

  // Records that the row of this lane computes this chunk next, unless another row does.
  void Lead(std::uint32_t lane, std::uint64_t hash) {
    Leave(lane);
    if (lane < leads_.size() && lanes_.Insert(hash, lane)) leads_[lane] = {hash, true};
  }
  void Leave(std::uint32_t lane) {
    if (lane < leads_.size() && std::exchange(leads_[lane].any, false)) lanes_.Erase(leads_[lane].hash);
  }
  // Returns kNoLane if no row computes the chunk next.
  std::uint32_t Find(std::uint64_t hash) const { return leads_.empty() ? kNoLane : lanes_.Find(hash); }

 private:
  struct Leads {
    std::uint64_t hash = 0;
    bool any = false;
  };

  IdMap lanes_;
  std::vector<Leads> leads_;  // by lane
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_PREFIX_LEADERS_H_
