// Virtual counters of service, as in VTC: the counters behind fair_share and bands.
#ifndef TAKT_POLICY_BOOKS_SERVICE_COUNTERS_H_
#define TAKT_POLICY_BOOKS_SERVICE_COUNTERS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "takt/base/rounded.h"
#include "takt/base/skew_heap.h"
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
    if (!text.empty()) text += ';';
    text += std::to_string(w.tenant.value) + ":" + OptionToText(w.weight);
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

// Weights of tokens and tenants.
struct ServiceCosts {
  double w_in = 1, w_out = 2;  // weights of prompt and output tokens; VTC: an output token costs two prompt tokens
  TenantWeights weights = {};

  double Of(Tokens prefill, Tokens output) const {
    return Rounded(w_in * prefill.value) + Rounded(w_out * output.value);
  }

  template <class V>
  static void Visit(auto& costs, V&& visit) {
    visit("w_in", costs.w_in, OptionText{"", "cost of a prompt token"});
    visit("w_out", costs.w_out, OptionText{"", "cost of an output token"});
    visit("weights", costs.weights, OptionText{"", "share of tenants: TENANT:WEIGHT;...; default 1"});
  }
};

namespace internal {

// A counter per group. The lane of a group is in the highest `kLaneBits` bits of its id. Each lane has a floor: a group
// that begins to wait is raised to the least counter of its lane's waiting groups.
//
// The table is bounded. If it is full, groups that do not wait are forgotten. First come groups that would be raised
// anyway, then those with the least service.
template <int kLaneBits>
class ServiceCounters {
 public:
  static constexpr std::size_t kLanes = std::size_t{1} << kLaneBits;
  static constexpr std::size_t Lane(std::uint64_t id) {
    if constexpr (kLaneBits == 0) return 0;
    else return static_cast<std::size_t>(id >> (64 - kLaneBits));
  }

  // `charged` is separate from `lifted_to`, since a small charge would vanish in a large sum.
  struct Group {
    std::uint64_t id = 0;
    double lifted_to = 0, charged = 0, weight = 1;
    HeapLink link = {};  // for an owner that keeps waiting groups in heaps
    bool waits = false;
    bool logged = false;  // true: the group is in moved_

    double counter() const { return lifted_to + charged / weight; }
  };

  void KeyHashes(std::uint64_t seed) { groups_.KeyHashes(seed); }

  // Keeps at least half of the table for groups without a waiting request, so that the table does not grow.
  void Reserve(std::size_t requests) {
    const std::size_t most = std::max(most_, requests + std::max(requests, kLeastIdle));
    groups_.Reserve(most);
    idle_.reserve(most);
    moved_.reserve(most + 1);  // and kAllGroups
    most_ = most;
  }

  // Returns the counter of a group; 0 if it is unknown.
  double Of(std::uint64_t id) const {
    const Group* known = groups_.Get(id);
    return known == nullptr ? 0 : known->counter();
  }

  // Returns the slot of a group. `weight_of(id)` returns the weight of a group that was unknown.
  template <class WeightOf>
  Slot At(std::uint64_t id, WeightOf&& weight_of) {
    if (const Slot known = groups_.Find(id); known != kNoSlot) return known;
    if (groups_.size() >= most_) Forget();
    return groups_.Insert(id, {.id = id, .lifted_to = floors_[Lane(id)], .weight = weight_of(id)});
  }
  Group& operator[](Slot slot) { return groups_[slot]; }
  IdTable<std::uint64_t, Group>& groups() { return groups_; }

  void Charge(Slot slot, double cost) {
    groups_[slot].charged += cost;
    Log(groups_[slot]);
  }

  // A group that waits now waited before only if `least` is null. Otherwise `least` is the least counter of its lane.
  void Waits(Slot slot, bool waits, const double* least) {
    Group& group = groups_[slot];
    group.waits = waits;
    if (least == nullptr) return;
    double& floor = floors_[Lane(group.id)];
    floor = std::max(floor, *least);
    if (!(group.counter() < floor)) return;
    group.lifted_to = floor;
    group.charged = 0;
    Log(group);
  }

  std::vector<std::uint64_t>& moved_groups() {
    for (std::uint64_t id : moved_) {
      if (Group* group = groups_.Get(id)) group->logged = false;
    }
    return moved_;
  }

  // Reports that the keys of all groups may have changed.
  void MoveAll() {
    if (moved_.empty() || moved_.back() != kAllGroups) moved_.push_back(kAllGroups);
  }

  std::size_t size() const { return groups_.size(); }

 private:
  static constexpr std::size_t kLeastIdle = 1024;

  // Forgets groups without a waiting request whose counters are at most their floors. If there are few, forgets up to a
  // quarter of the table, lowest counter first. Doubles the limit if no group can be forgotten, which Reserve prevents.
  void Forget() {
    idle_.clear();
    std::size_t low = 0;
    for (Slot i = 0; i < groups_.slots(); ++i) {
      const Group& group = groups_[i];
      if (group.waits || groups_.Find(group.id) != i) continue;
      idle_.push_back(i);
      if (Above(i) <= 0) ++low;
    }
    const std::size_t drops = std::min(idle_.size(), std::max(low, most_ / 4));
    std::ranges::nth_element(idle_, idle_.begin() + static_cast<std::ptrdiff_t>(drops), {},
                             [this](Slot i) { return std::pair(Above(i), groups_[i].id); });
    for (const Slot i : std::span(idle_).first(drops)) groups_.Erase(i, groups_[i].id);
    std::erase_if(moved_, [this](std::uint64_t id) { return id != kAllGroups && groups_.Find(id) == kNoSlot; });
    if (drops == 0) most_ *= 2;
  }
  // Returns how far a counter is above the floor of its lane.
  double Above(Slot i) const { return groups_[i].counter() - floors_[Lane(groups_[i].id)]; }

  void Log(Group& group) {
    if (!group.logged) moved_.push_back(group.id);
    group.logged = true;
  }

  IdTable<std::uint64_t, Group> groups_;
  std::vector<Slot> idle_;  // scratch of Forget
  std::size_t most_ = kLeastIdle;  // limit on known groups
  std::array<double, kLanes> floors_ = {};  // least counter of a group that begins to wait, by lane
  std::vector<std::uint64_t> moved_;
};

}  // namespace internal
}  // namespace takt

#endif  // TAKT_POLICY_BOOKS_SERVICE_COUNTERS_H_
