// When each workflow's branch comes back: what a simulator knows, and nobody else.
#ifndef TAKT_RETENTION_NEXT_USES_H_
#define TAKT_RETENTION_NEXT_USES_H_

#include <cstddef>
#include <cstdint>

#include "takt/base/id.h"
#include "takt/base/random.h"
#include "takt/base/slot_table.h"
#include "takt/base/time.h"

namespace takt {

// O(1) a look-up. Of two branches whose names meet in one hash, one in 2^64, the second is not known.
class NextUses {
 public:
  // kNever: it does not come back, which is also what is known of a branch that was never told.
  void Set(WorkflowId workflow, std::uint64_t branch, TimePoint at) {
    const std::uint64_t key = KeyOf(workflow, branch);
    const Slot i = uses_.Find(key);
    if (i == kNoSlot) {
      if (at != kNever) uses_.Insert(key, {workflow, branch, at});
    } else if (Is(uses_[i], workflow, branch)) {
      if (at == kNever) uses_.Erase(i, key);
      else uses_[i].at = at;
    }
  }

  TimePoint Of(WorkflowId workflow, std::uint64_t branch) const {
    const Use* use = uses_.Get(KeyOf(workflow, branch));
    return use != nullptr && Is(*use, workflow, branch) ? use->at : kNever;
  }

  std::size_t size() const { return uses_.size(); }

 private:
  struct Use {
    WorkflowId workflow = {};
    std::uint64_t branch = 0;
    TimePoint at = kNever;
  };
  static bool Is(const Use& use, WorkflowId workflow, std::uint64_t branch) {
    return use.workflow == workflow && use.branch == branch;
  }
  static std::uint64_t KeyOf(WorkflowId workflow, std::uint64_t branch) {
    return Mix64(Mix64(workflow.value) + branch);
  }

  IdTable<std::uint64_t, Use> uses_;
};

}  // namespace takt

#endif  // TAKT_RETENTION_NEXT_USES_H_
