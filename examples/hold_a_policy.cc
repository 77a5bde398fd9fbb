// A policy that holds another: tenants are served alike, as under FairShare, and within a tenant the shortest prompt
// comes first. Pass on each hook of the inner policy, since a missing hook is not called.
#include <cstdio>
#include <optional>

#include "takt/policy/fair_share.h"
#include "takt/scheduler.h"

using namespace takt;

class TenantShortestPrompt {
 public:
  static constexpr std::string_view kName = "tenant_shortest_prompt";

  RankKey Key(const RequestState& r) const { return {static_cast<double>(r.request.prompt_tokens.value)}; }

  // Between tenants: as fair_share.
  void KeyHashes(std::uint64_t seed) { tenants_.KeyHashes(seed); }
  void Reserve(std::size_t requests) { tenants_.Reserve(requests); }
  std::uint64_t Group(const RequestState& r) const { return tenants_.Group(r); }
  RankKey GroupKey(std::uint64_t tenant) const { return tenants_.GroupKey(tenant); }
  void GroupSized(std::uint64_t tenant, std::int64_t waiting, std::optional<RankKey> least) {
    tenants_.GroupSized(tenant, waiting, least);
  }
  void Scheduled(const RequestState& r, Tokens prefill, Tokens output) { tenants_.Scheduled(r, prefill, output); }
  void ScheduledGroup(std::uint64_t tenant, Tokens prefill, Tokens output) {
    tenants_.ScheduledGroup(tenant, prefill, output);
  }
  std::vector<std::uint64_t>& moved_groups() { return tenants_.moved_groups(); }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    FairShare::VisitOptions(self.tenants_, visit);
  }

 private:
  FairShare tenants_;
};
static_assert(HooksOf<TenantShortestPrompt>() == HooksOf<FairShare>());

int main() {
  auto scheduler = BasicScheduler<TenantShortestPrompt>::Create({.kv_blocks = {1000}}, {});
  if (!scheduler.ok()) return 1;

  std::uint64_t id = 0;
  for (int prompt : {900, 300, 600, 800}) {  // the last request is of tenant 2, which has had no service
    scheduler->On(Arrived{{.id = {++id}, .tenant = {id < 4 ? 1u : 2u}, .prompt_tokens = {prompt}}}, {});
  }
  for (int step = 0; step < 4; ++step) {
    const StepPlan& plan = scheduler->Plan({}, {.max_seqs = 1});
    const PlanEntry& e = plan.run.front();
    std::printf("request %d runs, %d tokens\n", static_cast<int>(e.request.value), e.tokens);
    const RowResult ended[] = {{e.request, e.lane, 1, 0, RowResult::kFinished}};
    scheduler->Commit({plan.id, ended}, {});
  }
}
