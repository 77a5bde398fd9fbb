// The expected stages of one workflow that have not begun.
#ifndef TAKT_WORKFLOW_EXPECTED_REST_H_
#define TAKT_WORKFLOW_EXPECTED_REST_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "takt/base/id.h"
#include "takt/model/workflow.h"
#include "takt/workflow/stage_profile.h"

namespace takt::internal {

// Invariant: left_ has a bit for each remaining entry among the first ExpectedStages::kMost.
class ExpectedRest {
 public:
  ExpectedRest() = default;
  explicit ExpectedRest(std::shared_ptr<const ExpectedStages> list) : list_(std::move(list)) {
    const std::size_t n = list_ ? std::min(list_->stages.size(), ExpectedStages::kMost) : 0;
    left_ = n == 0 ? 0 : UINT64_MAX >> (ExpectedStages::kMost - n);
  }

  // Returns true if the host has set a list, which may be empty.
  explicit operator bool() const { return list_ != nullptr; }

  // Removes the first entry of the call site, and all entries that this site ends.
  void Begin(StageId site) {
    bool met = false;
    for (std::uint64_t left = left_; left != 0; left &= left - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(left));
      const ExpectedStages::Stage& e = list_->stages[i];
      const bool is_it = !met && e.stage == site;
      met |= is_it;
      if (is_it || (e.ended_by && e.ended_by == site)) left_ &= ~(std::uint64_t{1} << i);
    }
  }

  // Returns the work of the remaining entries if they run one after the other.
  Outlook Sum(const StageProfile& profile) const {
    Outlook sum;
    for (std::uint64_t left = left_; left != 0; left &= left - 1) {
      const ExpectedStages::Stage& e = list_->stages[static_cast<std::size_t>(std::countr_zero(left))];
      sum.cost_s += IsCost(e.cost_s) ? e.cost_s : profile.CostOf(e.stage);
      ++sum.stages;
    }
    return sum;
  }

 private:
  std::shared_ptr<const ExpectedStages> list_;
  std::uint64_t left_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_WORKFLOW_EXPECTED_REST_H_
