// What the host said that is wrong: counted, and kept for it to read.
#ifndef TAKT_SCHEDULER_FAULTS_H_
#define TAKT_SCHEDULER_FAULTS_H_

#include "takt/model/fault.h"
#include "takt/scheduler/state.h"

namespace takt::internal {

// Invariant: the log has as many faults as the counters of Stats that faults() adds up.
class Faults {
 public:
  explicit Faults(EngineState& s) : s_(s) {}

  // The host said what cannot be. `fault` comes without the step, unless it is in a result, and without the time.
  void Blame(std::uint64_t Stats::* counter, Fault fault) {
    ++(s_.stats.*counter);
    if (!fault.step) fault.step = {s_.steps.last()};
    fault.at = s_.now;
    log.Add(fault);
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

  FaultLog log;

 private:
  EngineState& s_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_FAULTS_H_
