// Counts the plans that each request has waited through, and promotes long waiters.
#ifndef TAKT_QUEUE_AGING_H_
#define TAKT_QUEUE_AGING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/base/full_key.h"
#include "takt/base/indexed_heap.h"
#include "takt/policy/rank_policy.h"

namespace takt::internal {

// Only plans that ran a request count. A count grows by one per plan, so the number of its first plan is stored
// instead. Then only the top of a heap must be checked. O(log n) per call. `Heap`: an IndexedHeapOf a key that a
// FullKey or PackedKey can construct.
template <class Heap>
class AgingBy {
 public:
  void Reserve(std::size_t n) {
    records_.reserve(n);
    counting_.Reserve(n);
    promoted_.Reserve(n);
  }

  // Records the steps that ran a request since it was picked. They reset the request's count and use up its promotion.
  void Ran(Slot slot, std::int64_t steps) {
    if (steps <= 0 || slot >= records_.size()) return;
    Record& r = records_[slot];
    r.waited = 0;
    if (r.quantum != kForever) r.quantum -= r.quantum < steps ? r.quantum : steps;
  }

  // Starts a wait. Returns true if the request is promoted, and adds it to promoted().
  bool Join(Slot slot, bool counts) {
    if (slot >= records_.size()) records_.resize(std::size_t{slot} + 1);
    const Record& r = records_[slot];
    if (r.quantum > 0) {
      promoted_.Push(slot, Place(r.promotion));
      return true;
    }
    if (counts) Enlist(slot);
    return false;
  }

  // Starts or resumes the count.
  void Enlist(Slot slot) {
    if (counting_.contains(slot)) return;
    Record& r = records_[slot];
    r.since = plans_ - r.waited;
    counting_.Push(slot, PackedKey::OfTime(TimePoint(Duration(r.since)), {}, RequestId{++enlisted_}));
  }

  void Delist(Slot slot) {
    if (!counting_.contains(slot)) return;
    counting_.Erase(slot);
    Record& r = records_[slot];
    r.waited = plans_ - r.since;
  }

  // Clears the count. A promotion stays.
  void ResetCount(Slot slot) {
    if (slot >= records_.size()) return;
    const bool counting = counting_.contains(slot);
    Delist(slot);
    records_[slot].waited = 0;
    if (counting) Enlist(slot);
  }

  void Reset(Slot slot) {
    if (slot >= records_.size()) return;
    const bool counting = counting_.contains(slot);
    Delist(slot);
    records_[slot] = {};
    if (counting) Enlist(slot);
  }

  void ResetAll() {
    std::ranges::fill(records_, Record{});
    counting_.Clear();
    promoted_.Clear();
  }

  void PlanEnds(bool something_ran) { plans_ += something_ran ? 1 : 0; }

  // Returns the request that has waited longest, if it has waited `threshold` plans; otherwise kNoSlot.
  Slot Overdue(std::int64_t threshold) const {
    const Slot first = counting_.Top();
    return first != kNoSlot && plans_ - records_[first].since >= threshold ? first : kNoSlot;
  }

  void Promote(Slot slot, std::int64_t quantum) {
    Delist(slot);
    Record& r = records_[slot];
    r.waited = 0;
    r.quantum = quantum;
    r.promotion = ++promotions_;
    promoted_.Push(slot, Place(r.promotion));
  }

  bool PromotedWith(Slot slot, std::int64_t steps) const {
    return slot < records_.size() && records_[slot].quantum > steps;
  }

  const Heap& promoted() const { return promoted_; }
  void Pick(Slot slot) { promoted_.Erase(slot); }
  std::uint64_t promotions() const { return promotions_; }

 private:
  struct Record {
    std::int64_t since = 0;  // value of plans_ when the count began; used while it is counted
    std::int64_t waited = 0;  // the count; used while it is not counted
    std::int64_t quantum = 0;  // remaining steps of its promotion; 0: not promoted
    std::uint64_t promotion = 0;  // number of its promotion
  };

  static internal::FullKey Place(std::uint64_t promotion) { return {0, {}, RequestId{promotion}}; }

  std::vector<Record> records_;  // by slot
  Heap counting_;  // waiting and counted, by start of the count, then by order of enlistment
  Heap promoted_;  // waiting, by number of promotion
  std::int64_t plans_ = 0;
  std::uint64_t promotions_ = 0, enlisted_ = 0;
};

using Aging = AgingBy<IndexedHeap>;

}  // namespace takt::internal

#endif  // TAKT_QUEUE_AGING_H_
