// Fair share among tenants: the tenant with the least service comes first (VTC).
#ifndef TAKT_POLICY_FAIR_SHARE_H_
#define TAKT_POLICY_FAIR_SHARE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "takt/policy/books/service_counters.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Orders tenants by virtual counter, and requests of a tenant by arrival.
//
//  counter = sum of (w_in * prompt tokens computed + w_out * output tokens) / weight
//
// When a tenant begins to wait, its counter is raised to the least counter of the waiting tenants. If none waits, it is
// raised to the counter of the tenant that waited last. So idle time earns no credit.
//
// Source: Sheng et al., Fairness in Serving Large Language Models (OSDI 2024), Algorithm 2.
//
// Departures: tokens are charged when a step has computed them, not at admission. So cached prefixes cost nothing, and
// recomputation after a preemption is charged again. The table of counters is bounded (ServiceCounters).
class FairShare {
 public:
  static constexpr std::string_view kName = "fair_share";

  using Options = ServiceCosts;

  FairShare() = default;
  explicit FairShare(Options options) : options_(std::move(options)) {}

  void KeyHashes(std::uint64_t seed) { tenants_.KeyHashes(seed); }

  RankKey Key(const RequestState&) const { return {}; }
  std::uint64_t Group(const RequestState& r) const { return r.request.tenant.value; }
  RankKey GroupKey(std::uint64_t tenant) const { return {tenants_.Of(tenant)}; }

  void Reserve(std::size_t requests) { tenants_.Reserve(requests); }

  void Scheduled(const RequestState& r, Tokens prefill, Tokens output) { ScheduledGroup(Group(r), prefill, output); }
  void ScheduledGroup(std::uint64_t tenant, Tokens prefill, Tokens output) {
    tenants_.Charge(At(tenant), options_.Of(prefill, output));
  }

  void GroupSized(std::uint64_t tenant, std::int64_t waiting, std::optional<RankKey> least) {
    tenants_.Waits(At(tenant), waiting > 0, least ? &least->key : nullptr);
  }

  std::vector<std::uint64_t>& moved_groups() { return tenants_.moved_groups(); }

  std::size_t remembered() const { return tenants_.size(); }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    ServiceCosts::Visit(self.options_, visit);
  }

 private:
  Slot At(std::uint64_t tenant) {
    return tenants_.At(tenant, [this](std::uint64_t id) { return options_.weights.Of({id}); });
  }

  Options options_;
  internal::ServiceCounters<0> tenants_;
};

}  // namespace takt

#endif  // TAKT_POLICY_FAIR_SHARE_H_
