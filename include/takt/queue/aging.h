// How long each request has waited, counted in plans in which something ran, and which have been promoted for it.
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

// A counter that grows by one per plan is "waiting since plan i": a heap whose top alone needs a look. O(log n) a call.
// Heap: an IndexedHeapOf a key that a FullKey or a PackedKey makes.
template <class Heap>
class AgingBy {
 public:
  void Reserve(std::size_t n) {
    records_.reserve(n);
    counting_.Reserve(n);
    promoted_.Reserve(n);
  }

  // Steps have run `slot` since it was picked: its count starts anew, and a promotion is used up.
  void Ran(Slot slot, std::int64_t steps) {
    if (steps <= 0 || slot >= records_.size()) return;
    Record& r = records_[slot];
    r.waited = 0;
    if (r.quantum != kForever) r.quantum -= r.quantum < steps ? r.quantum : steps;
  }

  // Starts to wait. True where it is promoted, and then ranked here.
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

  // Starts to be counted, or goes on where it stopped.
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

  // Forgets count and promotion.
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

  // A request that has waited for `threshold` plans, longest first; kNoSlot: none.
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
    std::int64_t since = 0;  // plans_ when the count began; while it is counted
    std::int64_t waited = 0;  // the count, while it is not
    std::int64_t quantum = 0;  // steps that its promotion has left; 0: not promoted
    std::uint64_t promotion = 0;  // its number
  };

  static internal::FullKey Place(std::uint64_t promotion) { return {0, {}, RequestId{promotion}}; }

  std::vector<Record> records_;  // by slot
  Heap counting_;  // waiting and counted, by when the count began, then by when they were enlisted
  Heap promoted_;  // waiting, by number of promotion
  std::int64_t plans_ = 0;
  std::uint64_t promotions_ = 0, enlisted_ = 0;
};

using Aging = AgingBy<IndexedHeap>;

}  // namespace takt::internal

#endif  // TAKT_QUEUE_AGING_H_
