// Steps in flight, from plan to result.
#ifndef TAKT_SCHEDULER_STEP_RING_H_
#define TAKT_SCHEDULER_STEP_RING_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "takt/base/id.h"
#include "takt/model/step.h"
#include "takt/state/running_set.h"

namespace takt {
struct SchedulerCounters;
}

namespace takt::internal {

// Contents of a plan besides its entries.
struct Notices {
  std::vector<KvMove> moves;
  std::vector<Preemption> preempted;
  std::vector<Failure> failed;
  std::vector<RequestId> released;
  std::vector<DroppedPrefix> dropped;
  std::vector<CacheHint> hints;
  std::vector<HostChunk> host_chunks;
};

struct Step {
  StepPlan plan;
  Notices notices;  // storage of the plan's other views
  std::vector<PlanEntry> entries;  // storage of plan.run, which may be shorter
  bool in_flight = false;
  std::uint16_t bits = 0;  // bits of this step in Row::in_flight
  std::uint64_t standing_plan = 0;  // number of this standing plan; 0: it has no standing rows
  std::size_t standing = 0;  // number of entries of standing rows, which are first
};

// Holds the steps in flight, one step under construction, and an empty step that answers calls after the end. The
// addresses of steps do not change when the scheduler is moved, because the host holds plans that refer to `entries`.
class StepRing {
 public:
  static constexpr int kMostInFlight = 3;

  // `first`: number of the first plan. Each step has room for `entries` entries.
  StepRing(StepId first, std::size_t entries) : last_(first.value - 1) {
    steps_->back().plan.idle = Idle::kEnded;
    for (std::size_t i = 0; i + 1 < steps_->size(); ++i) {
      Step& step = (*steps_)[i];
      step.bits = internal::Row::Bits(static_cast<int>(i));
      step.entries.resize(entries);
    }
  }

  // Makes room for this number of entries in the next plan. `last` may point to the start of the storage, and is
  // updated.
  void MakeRoom(std::size_t entries, const PlanEntry*& last) {
    std::vector<PlanEntry>& all = Unused().entries;
    if (entries <= all.size()) return;
    const bool points_there = last == all.data();
    all.resize(std::max(entries, 2 * all.size()));
    if (points_there) last = all.data();
  }

  // Returns a step that is not in flight, with the next number.
  Step& Next() {
    Step& next = Unused();
    next.plan.id = {++last_};
    return next;
  }
  void Depart(Step& step) { step.in_flight = true, ++in_flight_; }
  void Return(Step& step) { step.in_flight = false, --in_flight_; }

  // Returns this step if it is in flight; otherwise null.
  Step* Find(StepId id) {
    const auto found = std::ranges::find_if(*steps_, [id](const Step& s) { return s.in_flight && s.plan.id == id; });
    return found == steps_->end() ? nullptr : &*found;
  }

  int in_flight() const { return in_flight_; }
  bool full() const { return in_flight_ == kMostInFlight; }
  std::uint64_t last() const { return last_; }  // number of the last plan
  const StepPlan& after_the_end() const { return steps_->back().plan; }

  std::array<Step, kMostInFlight + 2>& steps() { return *steps_; }
  const std::array<Step, kMostInFlight + 2>& steps() const { return *steps_; }

 private:
  friend struct takt::SchedulerCounters;

  Step& Unused() { return *std::ranges::find(*steps_, false, &Step::in_flight); }

  std::unique_ptr<std::array<Step, kMostInFlight + 2>> steps_ = std::make_unique<std::array<Step, kMostInFlight + 2>>();
  std::uint64_t last_ = 0;
  int in_flight_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_STEP_RING_H_
