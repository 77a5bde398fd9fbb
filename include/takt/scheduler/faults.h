// Faults of the host: counted, and kept for it to read.
#ifndef TAKT_SCHEDULER_FAULTS_H_
#define TAKT_SCHEDULER_FAULTS_H_

#include <cstdint>

#include "takt/model/fault.h"
#include "takt/scheduler/state.h"
#include "takt/state/call_desk.h"

namespace takt::internal {

// Invariant: the desk's log has as many faults as the counters of Stats that faults() adds up.
class Faults {
 public:
  explicit Faults(EngineState& s) : s_(s) {}

  // `fault` comes without the step, unless it is in a result, and without the time.
  void Blame(std::uint64_t Stats::* counter, Fault fault) {
    if (!fault.step) fault.step = {s_.steps.last()};
    desk.Blame(s_.stats.*counter, fault);
  }
  // The same for what the counters of failures count already.
  void Blame(Fault fault) {
    fault.step = {s_.steps.last()};
    desk.Blame(fault);
  }

  void UnknownRequest(RequestId id) {
    Blame(&Stats::events_unknown, {.kind = FaultKind::kUnknownRequest, .request = id});
  }

  void OutOfPlace(RequestId id) { Blame(&Stats::events_out_of_place, {.kind = FaultKind::kOutOfPlace, .request = id}); }

  void Absurd(RequestId id, int predictions) {
    for (; predictions > 0; --predictions) {
      Blame(&Stats::estimates_absurd, {.kind = FaultKind::kAbsurdEstimate, .request = id});
    }
  }

  // The slot of a request that has not ended; kNoSlot, and counted, where there is none.
  Slot Living(RequestId id) {
    const Slot slot = s_.table.Find(id);
    if (slot != kNoSlot && s_.table[slot].status != RequestStatus::kDead) return slot;
    UnknownRequest(id);
    return kNoSlot;
  }

  CallDesk desk;

 private:
  EngineState& s_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_FAULTS_H_
