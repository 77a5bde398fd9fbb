// Decides which waiting requests a walk of the queue may pass, and limits how many requests pass each waiting request.
#ifndef TAKT_SCHEDULER_PASSING_H_
#define TAKT_SCHEDULER_PASSING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/scheduler/kv.h"
#include "takt/scheduler/prefixes.h"
#include "takt/scheduler/state.h"

namespace takt::internal {

// Requests that one walk passes for one reason. Each passed request counts the later requests that were admitted first.
struct Passed {
  std::vector<Slot> slots;
  std::int64_t admitted = 0, most = INT64_MAX;  // admissions in this walk: so far, and maximum

  void Begin() { slots.clear(), admitted = 0, most = INT64_MAX; }
  // Continues the walk after this request. The request's count does not include earlier admissions of this walk.
  void Pass(Slot slot, std::int32_t& count, std::int32_t window) {
    count -= static_cast<std::int32_t>(admitted);
    most = std::min(most, std::int64_t{window} - count);
    slots.push_back(slot);
  }
};

// The passing rule of a walk. A request that lacks memory or room stops the walk unless others may pass it. A request
// that waits for its adapter stops only requests with adapters, and only after `admission_window` of these passed it.
//
// Invariant: at most `admission_window` other requests pass a waiting request.
class Passing {
 public:
  Passing(EngineState& s, Kv& kv, Prefixes& prefixes) : s_(s), kv_(kv), prefixes_(prefixes) {}

  void Reserve(std::size_t slots) { stopped_.slots.reserve(slots), without_adapter_.slots.reserve(slots); }
  void Begin() { stopped_.Begin(), without_adapter_.Begin(); }

  // Returns true if later requests may be admitted before one that was just stopped. The stopped request must have
  // never run, hold no KV, and have been passed by fewer than `admission_window` others. It must lack room in this
  // step, or lack memory that will not be free soon.
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

  // Passes a request that was just stopped. Returns false if that is not allowed. Then all later requests wait.
  bool LetPass(Slot slot) {
    if (!MayBePassed(slot)) return false;
    if (stopped_.slots.empty()) stopped_for_ = s_.draft.top_waits_for;
    stopped_.Pass(slot, s_.table[slot].passed, s_.options.admission_window);
    return true;
  }
  // Passes a request that waits for its adapter. If the limits allow no adapters, the request delays no other request.
  void PassWithoutAdapter(Slot slot) {
    if (s_.budget.limits.adapters < 1) return;
    without_adapter_.Pass(slot, s_.table[slot].overtaken, s_.options.admission_window);
  }
  // Returns false if this request would take an adapter before requests that have waited long enough for theirs.
  bool MayTakeAdapter(Slot slot) const {
    return without_adapter_.admitted < without_adapter_.most || !s_.table[slot].state.request.adapter;
  }

  void Admitted(Slot slot) {
    ++stopped_.admitted;
    without_adapter_.admitted += s_.table[slot].state.request.adapter ? 1 : 0;
  }
  std::int64_t admitted() const { return stopped_.admitted; }
  // Returns true if no further request may pass a stopped one.
  bool exhausted() const { return stopped_.admitted >= stopped_.most; }
  bool passes_any() const { return !stopped_.slots.empty(); }

  // Ends the walk. The queue waits for the first request that was stopped.
  void End() {
    for (const Slot slot : stopped_.slots) s_.table[slot].passed += static_cast<std::int32_t>(stopped_.admitted);
    for (const Slot slot : without_adapter_.slots)
      s_.table[slot].overtaken += static_cast<std::int32_t>(without_adapter_.admitted);
    if (!passes_any()) return;
    s_.draft.head = stopped_.slots.front();
    s_.draft.top_waits_for = stopped_for_;
  }

 private:
  EngineState& s_;
  Kv& kv_;
  Prefixes& prefixes_;
  Passed stopped_;  // requests that lack memory or room
  Passed without_adapter_;  // requests that wait for their adapter
  WaitsFor stopped_for_ = WaitsFor::kNothing;  // of the first request in `stopped_`
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_PASSING_H_
