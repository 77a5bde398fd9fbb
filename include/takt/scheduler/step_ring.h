// Steps from their plans to their results.
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

// What a plan says besides its entries.
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
  Notices said;  // storage of the plan's other views
  std::vector<PlanEntry> entries;  // storage of plan.run, which the first so many of them are
  bool in_flight = false;
  std::uint16_t bits = 0;  // of this step in Row::in_flight
  std::uint64_t standing_plan = 0;  // its number among the plans with rows that stand; 0: it has none
  std::size_t standing = 0;  // entries of rows that stood, the first
};

// As many as may be in flight, one that is being planned, and one that stays empty: the answer to a question after the
// end. They lie at an address that stays when the scheduler is moved: the host holds plans, which look into `entries`.
class StepRing {
 public:
  static constexpr int kMostInFlight = 3;

  // `first` is the number of the first plan; each has room for so many entries.
  StepRing(StepId first, std::size_t entries) : last_(first.value - 1) {
    steps_->back().plan.idle = Idle::kEnded;
    for (std::size_t i = 0; i + 1 < steps_->size(); ++i) {
      Step& step = (*steps_)[i];
      step.bits = internal::Row::Bits(static_cast<int>(i));
      step.entries.resize(entries);
    }
  }

  // Room for so many entries in the next plan. `last`, which may point to the first of its storage, follows it.
  void MakeRoom(std::size_t entries, const PlanEntry*& last) {
    std::vector<PlanEntry>& all = Unused().entries;
    if (entries <= all.size()) return;
    const bool points_there = last == all.data();
    all.resize(std::max(entries, 2 * all.size()));
    if (points_there) last = all.data();
  }

  // One that is not in flight, under the next number.
  Step& Next() {
    Step& next = Unused();
    next.plan.id = {++last_};
    return next;
  }
  void Depart(Step& step) { step.in_flight = true, ++in_flight_; }
  void Return(Step& step) { step.in_flight = false, --in_flight_; }

  // That step in flight; null where there is none.
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
