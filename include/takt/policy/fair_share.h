// Fair share among tenants: the tenant with the least service comes first (VTC).
#ifndef TAKT_POLICY_FAIR_SHARE_H_
#define TAKT_POLICY_FAIR_SHARE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "takt/base/rounded.h"
#include "takt/base/slot_table.h"
#include "takt/base/spec.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Weights of tenants: a tenant with twice the weight gets twice the share. As text: "TENANT:WEIGHT;...".
struct TenantWeights {
  struct Weight {
    TenantId tenant = {};
    double weight = 1;
  };
  std::vector<Weight> weights = {};

  // Returns the tenant's weight; 1 if none is set. O(weights), called once per tenant.
  double Of(TenantId tenant) const {
    const auto of = std::ranges::find(weights, tenant, &Weight::tenant);
    return of == weights.end() ? 1 : of->weight;
  }
};

inline std::string OptionToText(const TenantWeights& value) {
  std::string text;
  for (const TenantWeights::Weight& w : value.weights) {
    text += (text.empty() ? "" : ";") + std::to_string(w.tenant.value) + ":" + OptionToText(w.weight);
  }
  return text;
}

inline bool OptionFromText(std::string_view text, const OptionText&, TenantWeights& value) {
  constexpr OptionText kBounds{"", "", 1e-6, 1e6};
  TenantWeights read;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const std::size_t colon = one.find(':');
    if (colon == std::string_view::npos) return false;
    std::uint64_t tenant = 0;
    double weight = 0;
    if (!OptionFromText(one.substr(0, colon), {}, tenant)) return false;
    if (!OptionFromText(one.substr(colon + 1), kBounds, weight)) {
      return false;
    }
    read.weights.push_back({{tenant}, weight});
  }
  value = std::move(read);
  return true;
}

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
// recomputation after a preemption is charged again. If the table is full, tenants without a waiting request are
// forgotten: first those that would be raised anyway, then those with the least service.
class FairShare {
 public:
  static constexpr std::string_view kName = "fair_share";

  struct Options {
    double w_in = 1, w_out = 2;  // weights of prompt and output tokens; VTC: an output token costs two prompt tokens
    TenantWeights weights = {};
  };

  FairShare() = default;
  explicit FairShare(Options options) : options_(std::move(options)) {}

  void KeyHashes(std::uint64_t seed) { tenants_.KeyHashes(seed); }

  RankKey Key(const RequestState&) const { return {}; }
  std::uint64_t Group(const RequestState& r) const { return r.request.tenant.value; }
  RankKey GroupKey(std::uint64_t tenant) const {
    const Tenant* known = tenants_.Get(tenant);
    return {known == nullptr ? 0 : known->counter()};
  }

  // Keeps at least half of the table for tenants without a waiting request, so that the table does not grow.
  void Reserve(std::size_t requests) {
    const std::size_t most = std::max(most_, requests + std::max(requests, kLeastIdle));
    tenants_.Reserve(most);
    idle_.reserve(most);
    moved_.reserve(most);
    most_ = most;
  }

  void Scheduled(const RequestState& r, Tokens prefill, Tokens output) {
    Tenant& tenant = At(r.request.tenant.value);
    tenant.charged += Rounded(options_.w_in * prefill.value) + Rounded(options_.w_out * output.value);
    Log(tenant);
  }

  void GroupSized(std::uint64_t group, std::int64_t waiting, std::optional<RankKey> least) {
    if (least) floor_ = std::max(floor_, least->key);
    Tenant& tenant = At(group);
    tenant.waits = waiting > 0;
    if (!least || !(tenant.counter() < floor_)) return;
    tenant.lifted_to = floor_;
    tenant.charged = 0;
    Log(tenant);
  }

  std::vector<std::uint64_t>& moved_groups() {
    for (std::uint64_t id : moved_) {
      if (Tenant* tenant = tenants_.Get(id)) tenant->logged = false;
    }
    return moved_;
  }

  std::size_t remembered() const { return tenants_.size(); }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("w_in", self.options_.w_in, OptionText{"", "cost of a prompt token"});
    visit("w_out", self.options_.w_out, OptionText{"", "cost of an output token"});
    visit("weights", self.options_.weights, OptionText{"", "share of tenants: TENANT:WEIGHT;...; default 1"});
  }

 private:
  static constexpr std::size_t kLeastIdle = 1024;

  // `charged` is separate from `lifted_to`, since a small charge would vanish in a large sum.
  struct Tenant {
    std::uint64_t id = 0;
    double lifted_to = 0, charged = 0, weight = 1;
    bool waits = false;
    bool logged = false;  // true: the tenant is in moved_

    double counter() const { return lifted_to + charged / weight; }
  };

  Tenant& At(std::uint64_t id) {
    if (Tenant* known = tenants_.Get(id)) return *known;
    if (tenants_.size() >= most_) Forget();
    return tenants_[tenants_.Insert(id, {.id = id, .lifted_to = floor_, .weight = options_.weights.Of({id})})];
  }

  // Forgets tenants without a waiting request whose counters are at most floor_. If there are few, forgets up to a
  // quarter of the table, lowest counter first. Doubles the limit if no tenant can be forgotten, which Reserve
  // prevents.
  void Forget() {
    idle_.clear();
    std::size_t low = 0;
    for (Slot i = 0; i < tenants_.slots(); ++i) {
      const Tenant& tenant = tenants_[i];
      if (tenant.waits || tenants_.Find(tenant.id) != i) continue;
      idle_.push_back(i);
      if (tenant.counter() <= floor_) ++low;
    }
    const std::size_t drops = std::min(idle_.size(), std::max(low, most_ / 4));
    std::ranges::nth_element(idle_, idle_.begin() + static_cast<std::ptrdiff_t>(drops), {},
                             [this](Slot i) { return std::pair(tenants_[i].counter(), tenants_[i].id); });
    for (const Slot i : std::span(idle_).first(drops)) tenants_.Erase(i, tenants_[i].id);
    std::erase_if(moved_, [this](std::uint64_t id) { return tenants_.Find(id) == kNoSlot; });
    if (drops == 0) most_ *= 2;
  }

  void Log(Tenant& tenant) {
    if (!tenant.logged) moved_.push_back(tenant.id);
    tenant.logged = true;
  }

  Options options_;
  IdTable<std::uint64_t, Tenant> tenants_;
  std::vector<Slot> idle_;  // scratch of Forget
  std::size_t most_ = kLeastIdle;  // limit on known tenants
  double floor_ = 0;  // least counter of a tenant that begins to wait
  std::vector<std::uint64_t> moved_;
};

}  // namespace takt

#endif  // TAKT_POLICY_FAIR_SHARE_H_
