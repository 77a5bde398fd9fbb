// Remembers the results of searches of the queue, so that the next search need not repeat them.
#ifndef TAKT_SCHEDULER_SEARCH_MEMORY_H_
#define TAKT_SCHEDULER_SEARCH_MEMORY_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "takt/scheduler/ceilings.h"
#include "takt/scheduler/gate.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/state.h"

namespace takt::internal {

// A search for any waiting request that fits.
struct AnySearch {
  bool held = false;  // the last search is still valid: only newer requests are searched
  bool by_memory = false;  // the head lacks memory: skip requests that need more than `free` blocks
  std::int32_t free = 0;  // free blocks when the search began
  std::int32_t least = std::numeric_limits<std::int32_t>::max();  // minimum blocks that an untried request needs
  // whether one was tried; whether one was skipped, but not for lack of memory
  bool tried = false, passed_over = false;
  bool none_seems_to_fit = false;
  bool gave_up = false;  // the search ended early because the oracle refused enough requests
};

// A search for waiting requests that the gate admits.
struct GatedSearch {
  bool whole = false, partly = false;  // whether the search may try all waiting requests; whether it tried only some
  bool stopped = false;  // the search ended at a request that does not fit
  bool in_vain = false;  // the gate refused all waiting requests
  std::size_t looks = 0;  // examined requests that the window does not count
};

// Invariant: the valid search examined every waiting request except those listed as joined later.
class SearchMemory {
 public:
  SearchMemory(EngineState& s, Kv& kv, Gate& gate) : s_(s), kv_(kv), gate_(gate) {}

  void Reserve(std::size_t slots) { joined_.reserve(slots + 1), joined_at_gate_.reserve(Gate::kMostLooks); }

  // Records a request that joined the queue.
  void NoteEntered(Slot slot) {
    if (!gate_.open() && joined_at_gate_.size() < Gate::kMostLooks) joined_at_gate_.push_back(slot);
    NoteJoined(slot);
  }
  // Records a request that joined the queue or may fit from now on. The next search for any request examines it.
  void NoteJoined(Slot slot) {
    if (!holds_ || s_.table[slot].status != RequestStatus::kWaiting) return;
    joined_.push_back(slot);
    if (joined_.size() > s_.table.size()) holds_ = false;  // some are listed twice, so search all requests instead
    if (!holds_) joined_.clear();
  }

  // Returns true if a new search would find no request, because no more room is free than in the last search.
  bool Holds() const {
    return holds_ && seen_ == Now() && kv_.FreeBlocks() <= free_ && s_.counts.rows >= rows_ &&
           s_.counts.seqs >= seqs_ && (!by_memory_ || s_.draft.top_waits_for == WaitsFor::kKv);
  }
  const std::vector<Slot>& joined() const { return joined_; }  // requests that joined since that search
  // Remembers a search that found no request.
  void Remember(const AnySearch& search) {
    // If every request needs more than the free blocks, the gate, the policy and moves cannot help.
    const bool all_need_more =
        search.by_memory && search.none_seems_to_fit && !search.passed_over && !(search.held && some_fit_);
    const std::int32_t enough =
        search.tried ? std::min(search.free, kv_.FreeBlocks()) : std::max(search.free, search.least - 1);
    free_ = search.held ? std::min(free_, enough) : enough;
    if (!search.held || search.tried) rows_ = s_.counts.rows, seqs_ = s_.counts.seqs;
    // The step may have used up its moves, or the oracle may grant later what it refused.
    // Newer requests are searched in order of keys, which a policy that chooses does not follow.
    holds_ = !s_.queue.hooks().chooses &&
             (all_need_more ||
              (!s_.queue.hooks().declines && !s_.draft.short_of_kv && gate_.open() && kv_.ledger.copies() == nullptr &&
               !s_.draft.refused && !search.gave_up && s_.budget.swap_in >= s_.budget.limits.swap_in.value));
    by_memory_ = search.by_memory, some_fit_ = !all_need_more;
    seen_ = Now();
    joined_.clear();
  }

  // Returns true if the gate would again refuse all waiting requests.
  bool GateHolds() const {
    return gated_.in_vain && !(gated_.partly && s_.stats.plans >= whole_at_) && changes_ == gate_.changes() &&
           gated_ceilings_ == CeilingsVersion() && !gate_.AskIsDue() &&
           Between(gated_at_, s_.now) < std::chrono::milliseconds(50);
  }
  // Returns true if the next gated search may try all waiting requests. On average it looks at Gate::kMostLooks of them
  // per plan.
  bool WholeIsDue() const { return s_.counts.rows == 0 || s_.stats.plans >= whole_at_; }
  // The first Gate::kMostLooks requests that joined since the last gated search that was not stopped.
  const std::vector<Slot>& joined_at_gate() const { return joined_at_gate_; }
  // Forgets both searches, for example because the options have changed.
  void Forget() { holds_ = gated_.in_vain = false, joined_.clear(); }
  void ForgetGated() { gated_.in_vain = false; }
  void Remember(const GatedSearch& search) {
    gated_ = search;
    if (search.whole) whole_at_ = s_.stats.plans + search.looks / Gate::kMostLooks;
    if (!search.stopped) joined_at_gate_.clear();
    changes_ = gate_.changes(), gated_ceilings_ = CeilingsVersion(), gated_at_ = s_.now;
  }

 private:
  // Conditions under which the search stays valid.
  struct Seen {
    StepLimits limits = {};
    std::uint64_t adapters = 0, host_changes = 0, prefixes = 0, ceilings = 0;
    bool operator==(const Seen&) const = default;
  };
  Seen Now() const {
    return {s_.budget.limits, s_.adapters.version(), kv_.changes, kv_.ledger.prefixes_used(), CeilingsVersion()};
  }
  std::uint64_t CeilingsVersion() const { return s_.ceilings != nullptr ? s_.ceilings->version() : 0; }

  EngineState& s_;
  Kv& kv_;
  Gate& gate_;
  // The last search for any request. It found no request for `free_` blocks. `some_fit_`: some requests needed no more
  // than these.
  bool holds_ = false, by_memory_ = false, some_fit_ = false;
  Seen seen_;
  std::int32_t free_ = 0, rows_ = 0, seqs_ = 0;
  std::vector<Slot> joined_;  // requests that joined since the last search, used while holds_ is true
  GatedSearch gated_;
  std::uint64_t whole_at_ = 0, changes_ = 0;  // plan at which a whole search is due; Gate::changes() after the last
                                              // gated search
  std::uint64_t gated_ceilings_ = 0;  // Ceilings::version() after it
  TimePoint gated_at_ = {};
  std::vector<Slot> joined_at_gate_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_SEARCH_MEMORY_H_
