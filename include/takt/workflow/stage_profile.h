// What the calls of each stage cost, and what comes after them, as learnt from workflows that have ended.
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

// What is still to come in a workflow: the cost of the longest chain of stages, and how many stages that is.
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

// Running means by call site, and of what follows by call site and visit (a loop's third round has less before it than
// its first). A mean weighs about the last `memory` observations, so that it follows a workload that changes.
class StageProfile {
 public:
  static constexpr std::uint32_t kVisits = 8;  // later visits of one workflow count as the last of these

  explicit StageProfile(std::int64_t memory = 1000, std::size_t most_sites = 4096)
      : memory_(std::max<std::int64_t>(1, memory)), most_sites_(most_sites) {}

  // Storage for so many sites. Those beyond `most_sites` are not learnt, so that ids without end take no memory.
  void Reserve(std::size_t sites) { sites_.Reserve(std::min(sites, most_sites_)); }

  // A stage cost so much, a parallel one counted once [s].
  void Learn(StageId site, double cost_s) {
    if (Site* s = At(site)) s->cost.Add(cost_s, memory_);
  }
  // And so much came after its visit (from 0) to it.
  void LearnAfter(StageId site, std::uint32_t visit, const Outlook& after) {
    Site* s = At(site);
    if (s == nullptr) return;
    const std::uint32_t v = std::min(visit, kVisits - 1);
    s->cost_after[v].Add(after.cost_s, memory_);
    s->stages_after[v].Add(after.stages, memory_);
  }

  // 0 where nothing was learnt.
  double CostOf(StageId site) const {
    const Site* s = sites_.Get(site);
    return s == nullptr ? 0 : s->cost.mean;
  }
  // As of the newest visit up to this one that was learnt; nothing where none was.
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

  // Null where there is no room, or no site.
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
