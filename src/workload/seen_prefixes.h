// Finds the blocks of prompts that earlier calls of a workload had.
#ifndef TAKT_SRC_WORKLOAD_SEEN_PREFIXES_H_
#define TAKT_SRC_WORKLOAD_SEEN_PREFIXES_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <unordered_set>

#include "takt/workload/workload.h"

namespace takt {

// Call it for each call, in the order of the workload.
class SeenPrefixes {
 public:
  explicit SeenPrefixes(const Workload& workload) : workload_(&workload) {}

  // The runs of another workflow are different blocks.
  void NextWorkflow() { runs_.clear(); }

  // Returns the number of leading blocks that an earlier call had. Adds all blocks of this call.
  std::int64_t Add(const WorkloadCall& call) {
    const auto hashes = workload_->hashes_of(call);
    const auto miss = std::ranges::find_if(hashes, [&](std::uint64_t h) { return !hashes_.contains(h); });
    hashes_.insert(hashes.begin(), hashes.end());
    std::int64_t seen = miss - hashes.begin();
    for (const PrefixRun& run : workload_->runs_of(call)) {
      const std::int64_t known = Known(run);
      seen += known;
      if (known < run.count) break;
    }
    for (const PrefixRun& run : workload_->runs_of(call)) AddRun(run);
    return seen;
  }

  std::int64_t distinct() const { return distinct_runs_ + std::ssize(hashes_); }

 private:
  // Returns the number of known blocks at the front of the run.
  std::int64_t Known(const PrefixRun& run) const {
    const auto after = runs_.upper_bound(run.first);
    if (after == runs_.begin()) return 0;
    const std::uint64_t end = std::prev(after)->second;
    return end <= run.first ? 0 : static_cast<std::int64_t>(std::min<std::uint64_t>(end - run.first, run.count));
  }

  void AddRun(const PrefixRun& run) {
    std::uint64_t first = run.first, end = first + run.count;
    auto at = runs_.upper_bound(first);
    if (at != runs_.begin() && std::prev(at)->second >= first) --at;
    for (; at != runs_.end() && at->first <= end; at = runs_.erase(at)) {
      first = std::min(first, at->first);
      end = std::max(end, at->second);
      distinct_runs_ -= static_cast<std::int64_t>(at->second - at->first);
    }
    runs_.emplace(first, end);
    distinct_runs_ += static_cast<std::int64_t>(end - first);
  }

  const Workload* workload_;
  std::unordered_set<std::uint64_t> hashes_;
  std::map<std::uint64_t, std::uint64_t> runs_;  // of the current workflow: first id, end; disjoint and not adjacent
  std::int64_t distinct_runs_ = 0;
};

}  // namespace takt

#endif  // TAKT_SRC_WORKLOAD_SEEN_PREFIXES_H_
