// Requests that go on with their own KV though a request before them waits for memory.
#ifndef TAKT_SCHEDULER_KEPT_WALK_H_
#define TAKT_SCHEDULER_KEPT_WALK_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "takt/scheduler/admission.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/resting_kv.h"
#include "takt/scheduler/state.h"

namespace takt::internal {

// Invariant: it leaves the head of the queue, and what that waits for, as they are.
class KeptWalk {
 public:
  KeptWalk(EngineState& s, Kv& kv, RestingKv& resting, Admission& admission)
      : s_(s), kv_(kv), resting_(resting), admission_(admission) {}

  // The first waits for memory, and some of that is held by one that has come back from a tool to its kept KV: that
  // goes on, since no other gets that memory before it ends. So do InferCept and LAMPS. True: one of them can never
  // fit, so that what it held is free.
  bool GoOn() {
    const auto room = [this] { return std::max(kv_.FreeBlocks() - (s_.counts.rows > 0 ? kv_.watermark : 0), 0); };
    const auto full = [this] {
      return s_.budget.tokens <= 0 || s_.counts.seqs >= s_.budget.limits.max_seqs ||
             s_.counts.rows >= s_.options.max_running;
    };
    if (resting_.kept().nobody_came_back() || resting_.kept().least_need() > room()) return false;
    const Slot head = s_.draft.head;
    bool freed = false;
    resting_.kept().VisitCameBack([&] { return !full(); },
                                  [&](Slot slot) -> std::optional<std::int32_t> {
                                    Record& record = s_.table[slot];
                                    record.came_back = record.status == RequestStatus::kWaiting &&
                                                       record.lane == kNoLane && record.blocks > 0;
                                    if (!record.came_back) return std::nullopt;
                                    const std::int32_t need = std::max(kv_.BlocksFor(record) - record.blocks, 0);
                                    if (record.transit == Transit::kNone && need <= room())
                                      freed |= admission_.TryAdmit(slot) == Fit::kGone;
                                    return need;
                                  });
    s_.draft.top_waits_for = WaitsFor::kKv;
    s_.draft.head = head;
    return freed;
  }

 private:
  EngineState& s_;
  Kv& kv_;
  RestingKv& resting_;
  Admission& admission_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_KEPT_WALK_H_
