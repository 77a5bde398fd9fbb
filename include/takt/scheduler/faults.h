// Faults of the host: counted, and kept in a log.
#ifndef TAKT_SCHEDULER_FAULTS_H_
#define TAKT_SCHEDULER_FAULTS_H_

#include <cstdint>

#include "takt/model/fault.h"
#include "takt/scheduler/state.h"
#include "takt/state/call_desk.h"

namespace takt::internal {

// Invariant: the log has counted Stats::faults() faults.
class Faults {
 public:
  explicit Faults(EngineState& s) : s_(s) {}

  // Counts and logs a fault. Sets the fault's time. Sets the step if the fault has none.
  void Blame(std::uint64_t Stats::* counter, Fault fault) {
    if (!fault.step) fault.step = {s_.steps.last()};
    desk.Blame(s_.stats.*counter, fault);
  }
  // Logs a fault that is already counted as a failed request.
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

  // Returns the slot of a living request. Otherwise counts a fault and returns kNoSlot.
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
