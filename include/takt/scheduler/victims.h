// Rows in the order in which they are preempted.
#ifndef TAKT_SCHEDULER_VICTIMS_H_
#define TAKT_SCHEDULER_VICTIMS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "takt/base/full_key.h"
#include "takt/base/indexed_heap.h"
#include "takt/scheduler/state.h"

namespace takt::internal {

// Position of a running row in the order of preemption.
struct Victim {
  bool preemptible = true;
  std::int32_t lost = 0;  // VictimChoice::kLeastLost: computed tokens, which a preemption would lose
  VictimRank rank = {};

  friend bool operator<(const Victim& a, const Victim& b) {
    if (a.preemptible != b.preemptible) return a.preemptible;
    if (a.lost != b.lost && a.rank.unpromoted == b.rank.unpromoted) return a.lost < b.lost;
    return b.rank < a.rank;
  }
};

// Invariant: keys_ has the victim key of every row, within its group. Once gathered, the heap has all running rows.
class Victims {
 public:
  explicit Victims(EngineState& s) : s_(s) {}

  void Reserve(std::size_t lanes) { keys_.reserve(lanes), heap_.Reserve(lanes); }
  void SetKey(std::uint32_t lane, const RequestState& state) { keys_[lane] = s_.queue.VictimKeyOf(state, s_.now); }
  // Adds a new row.
  void Join(std::uint32_t lane, const RequestState& state, bool runs) {
    if (lane >= keys_.size()) keys_.resize(std::size_t{lane} + 1);
    SetKey(lane, state);
    if (gathered_ && runs) heap_.Push(lane, RankOfRow(lane));
  }
  void Leave(std::uint32_t lane) {
    if (heap_.contains(lane)) heap_.Erase(lane);
  }
  void EndPlan() {
    heap_.Clear();
    gathered_ = false;
  }
  // Calls visit(lane), worst row first, until it returns false. Requires a previous call of Worst in this plan.
  template <class Visit>
  void VisitInOrder(Visit&& visit) const {
    heap_.VisitInOrder(visit);
  }

  // Returns the number of steps that ran the row before this plan. If this plan preempts the row, the row's planned
  // step does not run.
  std::int64_t StepsBefore(const Row& row) const { return row.steps - ((row.in_flight & s_.draft.step) != 0 ? 1 : 0); }

  // Returns the current victim rank of a row. Promoted rows are preempted last.
  Victim RankOfRow(std::uint32_t lane) {
    const Row row = s_.running.Look(lane);
    const RequestState& state = s_.StateOfRow(row);
    const FullRank rank = s_.queue.hooks().moving ? s_.queue.VictimRankOf(state, s_.now)
                                                  : FullRank{s_.queue.VictimGroupOf(state), keys_[lane]};
    const std::int32_t lost = s_.options.victims == VictimChoice::kLeastLost ? row.computed : 0;
    return {state.request.preemptible, lost, {!s_.queue.PromotedWith(row.slot, StepsBefore(row)), rank}};
  }

  // Returns the row to preempt first; kNoLane if there is none. The first call in a plan ranks all rows, because ranks
  // change between plans.
  std::uint32_t Worst(bool preemptible_only) {
    if (!std::exchange(gathered_, true)) {
      for (std::uint32_t lane : s_.running.order()) {
        if (s_.Runs(s_.running.Stored(lane)) && !heap_.contains(lane)) heap_.Push(lane, {});
      }
      heap_.UpdateAll([this](std::uint32_t lane) { return RankOfRow(lane); });
    }
    const std::uint32_t worst = heap_.Top();
    return preemptible_only && worst != kNoLane && !heap_.TopKey().preemptible ? kNoLane : worst;
  }

 private:
  EngineState& s_;
  std::vector<FullKey> keys_;  // by lane
  IndexedHeapOf<Victim> heap_;  // by lane; filled when a plan first needs it
  bool gathered_ = false;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_VICTIMS_H_
