// KV kept for requests without a row.
#ifndef TAKT_SCHEDULER_KEPT_KV_H_
#define TAKT_SCHEDULER_KEPT_KV_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "takt/base/full_key.h"
#include "takt/base/indexed_heap.h"

namespace takt::internal {

// Two lists of requests that hold KV without a row: all of them, and the waiting ones. A list may also contain requests
// that have ended or have a row again. A walk of the list drops these requests. Each request has a flag per list; the
// flag is true if the list contains the request.
class KeptKv {
 public:
  // A request whose KV may be dropped. Waiting requests lose their KV before paused and blocked requests do.
  struct Holder {
    bool waits = false;
    FullRank rank = {};  // rank as a victim
    Slot slot = kNoSlot;
    std::int32_t blocks = 0;

    bool operator<(const Holder& o) const { return std::pair(waits, rank) < std::pair(o.waits, o.rank); }
  };

  void Reserve(std::size_t slots) { came_back_.reserve(slots), holders_.reserve(slots), droppable_.reserve(slots + 1); }

  // ---- waiting requests with KV -----------------------------------------------------------------------------------

  bool nobody_came_back() const { return came_back_.empty(); }
  // Lower bound of the blocks that each of these requests lacks.
  std::int32_t least_need() const { return least_need_; }

  void CameBack(Slot slot, std::int32_t need, bool& listed) {
    least_need_ = came_back_.empty() ? need : std::min(least_need_, need);
    if (!std::exchange(listed, true)) came_back_.push_back(slot);
  }

  // Calls visit(slot) while more() returns true. visit returns the blocks that the request needs beyond its own, or
  // nullopt to remove it from the list.
  template <class More, class Visit>
  void VisitCameBack(More&& more, Visit&& visit) {
    std::int32_t least = std::numeric_limits<std::int32_t>::max();
    std::size_t left = 0, i = 0;
    for (; i < came_back_.size() && more(); ++i) {
      const Slot slot = came_back_[i];
      const std::optional<std::int32_t> need = visit(slot);
      if (!need) continue;
      came_back_[left++] = slot;
      least = std::min(least, *need);
    }
    if (i == came_back_.size()) least_need_ = least;
    came_back_.erase(came_back_.begin() + static_cast<std::ptrdiff_t>(left),
                     came_back_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  // ---- all requests with KV ---------------------------------------------------------------------------------------

  void Hold(Slot slot, bool& listed) {
    if (!std::exchange(listed, true)) holders_.push_back(slot);
  }

  // Collects the droppable holders, once per plan. holds(slot) returns true if the request still has KV and no row.
  // holder_of(slot) returns nullopt if its KV must stay.
  template <class Holds, class HolderOf>
  void Rank(std::uint64_t plan, Holds&& holds, HolderOf&& holder_of) {
    if (std::exchange(ranked_for_, plan) == plan) return;
    std::erase_if(holders_, [&](Slot slot) { return !holds(slot); });
    droppable_.clear();
    held_by_waiting_ = 0;
    for (Slot slot : holders_) {
      const std::optional<Holder> holder = holder_of(slot);
      if (!holder) continue;
      droppable_.push_back(*holder);
      held_by_waiting_ += holder->waits ? holder->blocks : 0;
    }
    std::make_heap(droppable_.begin(), droppable_.end());
  }
  std::int64_t held_by_waiting() const { return held_by_waiting_; }  // blocks of the ranked holders

  // Calls drop(slot) for the worst holder, and then the next, until drop returns true. Waiting requests come first;
  // paused and blocked ones follow unless `waiting`. Skips `spared`. Returns false if no call returned true.
  template <class Drop>
  bool DropWorst(Slot spared, bool waiting, Drop&& drop) {
    std::optional<Holder> passed;
    bool dropped = false;
    while (!dropped && !droppable_.empty() && (droppable_.front().waits || !waiting)) {
      std::pop_heap(droppable_.begin(), droppable_.end());
      const Holder worst = droppable_.back();
      droppable_.pop_back();
      if (worst.slot == spared) {
        passed = worst;
        continue;
      }
      held_by_waiting_ -= worst.waits ? worst.blocks : 0;
      dropped = drop(worst.slot);
    }
    if (passed) {
      droppable_.push_back(*passed);
      std::push_heap(droppable_.begin(), droppable_.end());
    }
    return dropped;
  }

 private:
  std::vector<Slot> came_back_;
  std::int32_t least_need_ = 0;
  std::vector<Slot> holders_;
  std::vector<Holder> droppable_;  // heap with the worst on top
  std::uint64_t ranked_for_ = 0;  // plan of the last Rank call
  std::int64_t held_by_waiting_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_KEPT_KV_H_
