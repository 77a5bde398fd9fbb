// Calls of a host on one object: their times, faults and storage.
#ifndef TAKT_STATE_CALL_DESK_H_
#define TAKT_STATE_CALL_DESK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/base/id.h"
#include "takt/base/time.h"
#include "takt/model/fault.h"

namespace takt::internal {

template <class T>
[[gnu::noinline, gnu::cold]] void Grow(std::vector<T>& list, std::size_t more) {
  list.reserve(std::max(list.size() + more, 2 * list.capacity()));
}
// Makes room for `more` elements. The capacity grows by doubling.
template <class T>
void MakeRoom(std::vector<T>& list, std::size_t more) {
  if (list.capacity() - list.size() < more) [[unlikely]]
    Grow(list, more);
}

// A call asks MayEnter, makes room, and changes the object between Enter and Leave.
//
// Invariant: now() never decreases. Between calls inside() is true only if an exception left a call incomplete; the
// object has then ended. A flag is used because the headers also compile without exceptions.
class CallDesk {
 public:
  void Begin() { log_.Begin(); }
  // Returns false, and adds a fault, if an earlier call is incomplete or another call is inside.
  bool MayEnter(std::uint64_t& calls_after_end, StepId step = {}) {
    if (!inside_) return true;
    Blame(calls_after_end, {.kind = FaultKind::kEnded, .step = step});
    return false;
  }
  // Returns the time of the call. A time earlier than a previous call's is a fault, and the latest time is used.
  TimePoint Enter(TimePoint now, std::uint64_t& clock_stepped_back, StepId step = {}) {
    inside_ = true;
    if (now < now_) {
      Blame(clock_stepped_back, {.kind = FaultKind::kClockBack,
                                 .step = step,
                                 .received = now.time_since_epoch().count(),
                                 .expected = now_.time_since_epoch().count()});
    }
    return now_ = std::max(now_, now);
  }
  void Leave() { inside_ = false; }

  // Adds a fault of the host. The desk sets its time.
  void Blame(Fault fault) {
    fault.at = now_;
    log_.Add(fault);
  }
  void Blame(std::uint64_t& counter, const Fault& fault) {
    ++counter;
    Blame(fault);
  }
  // Returns the faults since Begin.
  Ignored Summary(std::uint64_t dead_rows = 0) const { return log_.Summary(dead_rows); }

  TimePoint now() const { return now_; }
  bool inside() const { return inside_; }
  FaultLog& log() { return log_; }
  const FaultLog& log() const { return log_; }

 private:
  FaultLog log_;
  TimePoint now_ = kUnset;
  bool inside_ = false;
};

}  // namespace takt::internal

#endif  // TAKT_STATE_CALL_DESK_H_
