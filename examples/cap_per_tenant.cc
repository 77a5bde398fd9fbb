// A policy that declines: in order of arrival, but at most two requests of a tenant at a time.
#include <cstdio>
#include <unordered_map>
#include <unordered_set>

#include "takt/scheduler.h"

using namespace takt;

struct CapPerTenant {
  static constexpr std::string_view kName = "cap_per_tenant";
  RankKey Key(const RequestState&) const { return {0}; }

  bool Admits(const RequestState& r, TimePoint) const {
    const auto of = begun.find(r.request.tenant.value);
    return of == begun.end() || of->second.contains(r.request.id.value) || of->second.size() < 2;
  }
  void Admitted(const RequestState& r, TimePoint) { begun[r.request.tenant.value].insert(r.request.id.value); }
  void Ends(const RequestState& r, TimePoint) { begun[r.request.tenant.value].erase(r.request.id.value); }

  std::unordered_map<std::uint64_t, std::unordered_set<std::uint64_t>> begun;  // requests in progress, by tenant
};

int main() {
  auto scheduler = BasicScheduler<CapPerTenant>::Create({.kv_blocks = {1000}}, {});
  if (!scheduler.ok()) return 1;

  for (std::uint64_t id = 1; id <= 4; ++id) {  // of tenant 1, except the last
    scheduler->On(Arrived{{.id = {id}, .tenant = {id < 4 ? 1u : 2u}, .prompt_tokens = {100}}}, {});
  }
  while (scheduler->alive() > 0) {
    const StepPlan& plan = scheduler->Plan({}, {});
    std::printf("runs:");
    std::vector<RowResult> ended;
    for (const PlanEntry& e : plan.run) {
      std::printf(" %d", static_cast<int>(e.request.value));
      ended.push_back({e.request, e.lane, 1, 0, RowResult::kFinished});
    }
    std::printf("\n");
    scheduler->Commit({plan.id, ended}, {});
  }
}
