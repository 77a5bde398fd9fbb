// Which requests a walk of the queue may let pass a request that was stopped.
#ifndef TAKT_SCHEDULER_PASSING_H_
#define TAKT_SCHEDULER_PASSING_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "takt/scheduler/kv.h"
#include "takt/scheduler/prefixes.h"
#include "takt/scheduler/state.h"

namespace takt::internal {

// One search: who was stopped and is passed, and how many have passed. Over its whole wait a request is passed by at
// most `admission_window` others.
//
// Invariant: count() requests were admitted since Begin; no request that was passed has been passed too often.
class Passing {
 public:
  Passing(EngineState& s, Kv& kv, Prefixes& prefixes) : s_(s), kv_(kv), prefixes_(prefixes) {}

  void Reserve(std::size_t slots) { passed_.reserve(slots); }

  void Begin() {
    passed_.clear();
    passing_ = 0, most_passing_ = INT64_MAX;
  }

  // Whether those behind a request that was just stopped may be let in before it. It has never run and holds nothing,
  // and fewer than `admission_window` have passed it. It lacks room in this step, or memory that is not about to be
  // free.
  bool MayBePassed(Slot slot) const {
    const bool lacks_room = s_.draft.top_waits_for == WaitsFor::kBudget;
    if (slot == kNoSlot || !(lacks_room || s_.draft.top_waits_for == WaitsFor::kKv)) return false;
    const Record& record = s_.table[slot];
    if (record.state.taken || record.blocks > 0 || record.passed >= s_.options.admission_window) return false;
    if (s_.queue.promoted(slot)) return false;
    if (lacks_room) return s_.budget.HasRoom();
    const std::int64_t need = std::int64_t{prefixes_.BlocksNeeded(record, prefixes_.HitOf(record))} +
                              (s_.counts.rows > 0 ? kv_.watermark : 0);
    return need > kv_.FreeBlocks() + kv_.Pending();
  }

  // The search goes on behind a request that was just stopped. False: those behind it wait.
  bool LetPass(Slot slot) {
    if (!MayBePassed(slot)) return false;
    if (passed_.empty()) stopped_for_ = s_.draft.top_waits_for;
    passed_.push_back(slot);
    Record& record = s_.table[slot];
    record.passed -= static_cast<std::int32_t>(passing_);  // by those before it
    most_passing_ = std::min(most_passing_, std::int64_t{s_.options.admission_window} - record.passed);
    return true;
  }

  // Counts who was passed. The first of them is what the queue waits for.
  void End() {
    if (passed_.empty()) return;
    for (Slot slot : passed_) s_.table[slot].passed += static_cast<std::int32_t>(passing_);
    s_.draft.head = passed_.front();
    s_.draft.top_waits_for = stopped_for_;
  }

  void Admitted() { ++passing_; }
  std::int64_t count() const { return passing_; }
  // No more may pass one of those that were passed.
  bool exhausted() const { return passing_ >= most_passing_; }
  bool passes_any() const { return !passed_.empty(); }

 private:
  EngineState& s_;
  Kv& kv_;
  Prefixes& prefixes_;
  std::vector<Slot> passed_;  // those that lack memory or room, and that others pass
  std::int64_t passing_ = 0, most_passing_ = 0;  // admissions of this search, and how many it allows
  WaitsFor stopped_for_ = WaitsFor::kNothing;  // of the first of `passed_`
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_PASSING_H_
