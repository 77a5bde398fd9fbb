// The time of the next use of each workflow's branch, which only a simulator knows.
#ifndef TAKT_RIVALS_RETENTION_NEXT_USES_H_
#define TAKT_RIVALS_RETENTION_NEXT_USES_H_

#include <cstddef>
#include <cstdint>

#include "takt/base/branch_table.h"
#include "takt/base/id.h"
#include "takt/base/time.h"

namespace takt {

// A table of next uses. A look-up is O(1).
class NextUses {
 public:
  // Sets the next use of a branch. kNever, the default: no further use.
  void Set(WorkflowId workflow, std::uint64_t branch, TimePoint at) {
    const Slot i = uses_.Find(workflow, branch);
    if (i == kNoSlot) {
      if (at != kNever) uses_.Insert({{{workflow, branch}}, at});
    } else if (at == kNever) {
      uses_.Erase(i);
    } else {
      uses_[i].at = at;
    }
  }

  TimePoint Of(WorkflowId workflow, std::uint64_t branch) const {
    const Slot i = uses_.Find(workflow, branch);
    return i != kNoSlot ? uses_[i].at : kNever;
  }

  std::size_t size() const { return uses_.size(); }

 private:
  struct Use : BranchRecord {
    TimePoint at = kNever;
  };

  BranchTable<Use> uses_;
};

}  // namespace takt

#endif  // TAKT_RIVALS_RETENTION_NEXT_USES_H_
