// The mean cost of each stage's calls, and the mean work after each stage, learnt from ended workflows.
#ifndef TAKT_WORKFLOW_STAGE_PROFILE_H_
#define TAKT_WORKFLOW_STAGE_PROFILE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "takt/base/id.h"
#include "takt/base/slot_table.h"

namespace takt {

// The remaining work of a workflow: cost and number of stages of its longest chain.
struct Outlook {
  double cost_s = 0;
  double stages = 0;

  friend constexpr bool operator==(const Outlook&, const Outlook&) = default;
};

namespace internal {

inline bool Longer(const Outlook& a, const Outlook& b) {
  return std::tie(a.cost_s, a.stages) > std::tie(b.cost_s, b.stages);
}
inline bool IsCost(double s) { return s > 0 && s <= 1e15; }

}  // namespace internal

// Running means of the cost of a call, by call site. Running means of the work after a call, by call site and visit.
// Later rounds of a loop have less work left. A mean counts as at most `memory` observations, so that it adapts.
class StageProfile {
 public:
  static constexpr std::uint32_t kVisits = 8;  // number of visits with their own mean; later visits count as the last

  explicit StageProfile(std::int64_t memory = 1000, std::size_t most_sites = 4096)
      : memory_(std::max<std::int64_t>(1, memory)), most_sites_(most_sites) {}

  // Reserves memory for `sites`. Sites beyond `most_sites` are not learnt, which bounds memory.
  void Reserve(std::size_t sites) { sites_.Reserve(std::min(sites, most_sites_)); }

  // Learns the cost of a stage [s]; a parallel stage is counted once.
  void Learn(StageId site, double cost_s) {
    if (Site* s = At(site)) s->cost.Add(cost_s, memory_);
  }
  // Learns the work after a visit (from 0) to the site.
  void LearnAfter(StageId site, std::uint32_t visit, const Outlook& after) {
    Site* s = At(site);
    if (s == nullptr) return;
    const std::uint32_t v = std::min(visit, kVisits - 1);
    s->cost_after[v].Add(after.cost_s, memory_);
    s->stages_after[v].Add(after.stages, memory_);
  }

  // Returns the mean cost [s]; 0 if nothing was learnt.
  double CostOf(StageId site) const {
    const Site* s = sites_.Get(site);
    return s == nullptr ? 0 : s->cost.mean;
  }
  // Returns the mean work after the newest learnt visit up to this one; zero if none was learnt.
  Outlook After(StageId site, std::uint32_t visit) const {
    const Site* s = sites_.Get(site);
    if (s == nullptr) return {};
    for (std::uint32_t v = std::min(visit, kVisits - 1) + 1; v-- > 0;) {
      if (s->cost_after[v].count > 0) return {s->cost_after[v].mean, s->stages_after[v].mean};
    }
    return {};
  }
  std::size_t sites() const { return sites_.size(); }

 private:
  struct Mean {
    double mean = 0;
    std::int64_t count = 0;

    void Add(double x, std::int64_t memory) {
      if (!(x >= 0 && x <= 1e15)) return;
      count = std::min(count + 1, memory);
      mean += (x - mean) / static_cast<double>(count);
    }
  };
  struct Site {
    Mean cost;
    std::array<Mean, kVisits> cost_after = {}, stages_after = {};
  };

  // Returns the site's entry; null if there is no room or no site.
  Site* At(StageId id) {
    if (!id) return nullptr;
    if (Site* known = sites_.Get(id)) return known;
    return sites_.size() < most_sites_ ? &sites_[sites_.Insert(id)] : nullptr;
  }

  std::int64_t memory_;
  std::size_t most_sites_;
  IdTable<StageId, Site> sites_;
};

}  // namespace takt

#endif  // TAKT_WORKFLOW_STAGE_PROFILE_H_
