// Rows in the order in which they give way.
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

// A row that runs, in the order in which rows give way.
struct Victim {
  bool preemptible = true;
  VictimRank rank = {};

  friend bool operator<(const Victim& a, const Victim& b) {
    return a.preemptible != b.preemptible ? a.preemptible : b.rank < a.rank;
  }
};

// Invariant: keys_ has the rank as a victim, within its group, of every row; once gathered, the heap has all rows that
// run.
class Victims {
 public:
  explicit Victims(EngineState& s) : s_(s) {}

  void Reserve(std::size_t lanes) { keys_.reserve(lanes), heap_.Reserve(lanes); }
  void SetKey(std::uint32_t lane, const RequestState& state) { keys_[lane] = s_.queue.VictimKeyOf(state, s_.now); }
  // A new row.
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
  // visit(lane) from the worst on, as long as it returns true. After Worst.
  template <class Visit>
  void VisitInOrder(Visit&& visit) const {
    heap_.VisitInOrder(visit);
  }

  // Steps of the row before this plan. A row that gives way in this plan does not run the step that was planned for it.
  std::int64_t StepsBefore(const Row& row) const { return row.steps - ((row.in_flight & s_.draft.step) != 0 ? 1 : 0); }

  // Promoted rows are better than all others; then by rank, as of now.
  Victim RankOfRow(std::uint32_t lane) {
    const Row row = s_.running.Look(lane);
    const RequestState& state = s_.StateOfRow(row);
    const FullRank rank = s_.queue.hooks().moving ? s_.queue.VictimRankOf(state, s_.now)
                                                  : FullRank{s_.queue.VictimGroupOf(state), keys_[lane]};
    return {state.request.preemptible, {!s_.queue.PromotedWith(row.slot, StepsBefore(row)), rank}};
  }

  // The row to preempt first; kNoLane where there is none. The first question of a plan looks at all rows, and keeps
  // them in order: their ranks change between plans.
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
  IndexedHeapOf<Victim> heap_;  // by lane, once the plan has needed one
  bool gathered_ = false;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_VICTIMS_H_
