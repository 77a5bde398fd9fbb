// What a search through all that wait has found out.
#ifndef TAKT_SCHEDULER_SEARCH_MEMORY_H_
#define TAKT_SCHEDULER_SEARCH_MEMORY_H_

#include "takt/scheduler/state.h"

namespace takt::internal {

// A search through all that wait found none that fits, and would again, as long as it holds.
struct VainSearch {
  StepLimits limits = {};
  std::int32_t free = 0;  // blocks that are not enough for anybody
  std::int32_t rows = 0, seqs = 0;
  std::uint64_t adapters = 0, host_changes = 0, prefixes = 0;
  bool by_memory = false;    // requests that need more than what was free were not tried
  bool passed_over = false;  // some did not need more
  bool holds = false;
};

// Invariant: while `vain` holds, each waiting request was looked at by that search, or is among those that joined.
class SearchMemory {
 public:
  explicit SearchMemory(EngineState& s) : s_(s) {}

  void Reserve(std::size_t slots) { joined_.reserve(slots + 1); }
  const VainSearch& vain() const { return vain_; }
  const std::vector<Slot>& joined() const { return joined_; }
  // A search has just ended.
  void Remember(const VainSearch& search) {
    vain_ = search;
    joined_.clear();
  }

  // The next search for a request that fits is to look at it.
  void NoteJoined(Slot slot) {
    if (!vain_.holds || s_.table[slot].status != RequestStatus::kWaiting) return;
    joined_.push_back(slot);
    if (joined_.size() > s_.table.size()) vain_.holds = false;  // some of them many times: all are looked at instead
    if (!vain_.holds) joined_.clear();
  }

 private:
  EngineState& s_;
  VainSearch vain_;
  std::vector<Slot> joined_;  // while that holds: those that have joined the queue, or may be looked at, since
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_SEARCH_MEMORY_H_
