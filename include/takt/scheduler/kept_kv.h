// KV that is kept for requests which have no row.
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

// Two lists: of those that hold KV without a row, whatever they wait for, and of those of them that wait to run. Both
// may name some that have their rows back or have ended; these are dropped as a list is read. A flag of each request
// says that the list has it.
class KeptKv {
 public:
  // One whose KV may be dropped. Those that wait give it up before those that are paused or blocked.
  struct Holder {
    bool waits = false;
    FullRank rank = {};  // as a victim
    Slot slot = kNoSlot;
    std::int32_t blocks = 0;

    bool operator<(const Holder& o) const { return std::pair(waits, rank) < std::pair(o.waits, o.rank); }
  };

  void Reserve(std::size_t slots) { came_back_.reserve(slots), holders_.reserve(slots), droppable_.reserve(slots + 1); }

  // ---- those that wait to run -------------------------------------------------------------------------------------

  bool nobody_came_back() const { return came_back_.empty(); }
  // Blocks: none of them needs fewer beyond its own.
  std::int32_t least_need() const { return least_need_; }

  void CameBack(Slot slot, std::int32_t need, bool& listed) {
    least_need_ = came_back_.empty() ? need : std::min(least_need_, need);
    if (!std::exchange(listed, true)) came_back_.push_back(slot);
  }

  // visit(slot) as long as more(): what it needs beyond its own blocks, or nothing where it leaves the list.
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

  // ---- all that hold KV -------------------------------------------------------------------------------------------

  void Hold(Slot slot, bool& listed) {
    if (!std::exchange(listed, true)) holders_.push_back(slot);
  }

  // Once a plan: holds(slot), whether it still has KV and no row; holder_of(slot), nothing where its KV may not go.
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
  std::int64_t held_by_waiting() const { return held_by_waiting_; }  // blocks, of those that are ranked

  // drop(slot) for the worst, and the next, until it is true: of those that wait, and where `waiting` is false of the
  // others after them; never for `spared`. False where it was for none.
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
  std::vector<Holder> droppable_;  // a heap, the worst on top
  std::uint64_t ranked_for_ = 0;  // which plan
  std::int64_t held_by_waiting_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_KEPT_KV_H_
