// Which blocks of prompts have been named before, in a workload.
#ifndef TAKT_SRC_WORKLOAD_SEEN_PREFIXES_H_
#define TAKT_SRC_WORKLOAD_SEEN_PREFIXES_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <unordered_set>

#include "takt/workload/workload.h"

namespace takt {

// Asked call by call, in the order of the workload.
class SeenPrefixes {
 public:
  explicit SeenPrefixes(const Workload& workload) : workload_(&workload) {}

  // The runs of another workflow are other blocks.
  void NextWorkflow() { runs_.clear(); }

  // Leading blocks of the call that one before it has had. From now on all of them are known.
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
  // Of the run's beginning.
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
  std::map<std::uint64_t, std::uint64_t> runs_;  // of the workflow at hand: first id, end; neither meet nor touch
  std::int64_t distinct_runs_ = 0;
};

}  // namespace takt

#endif  // TAKT_SRC_WORKLOAD_SEEN_PREFIXES_H_
