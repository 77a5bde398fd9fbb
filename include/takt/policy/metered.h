// Soft quotas of tokens per second for any policy: tenants beyond their quota come after all others.
#ifndef TAKT_POLICY_METERED_H_
#define TAKT_POLICY_METERED_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "takt/base/rounded.h"
#include "takt/base/slot_table.h"
#include "takt/base/spec.h"
#include "takt/base/time_heap.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/rank_policy.h"

namespace takt {

struct MeteredOptions {
  double rate = 1000, burst = 10'000;  // [tokens/s], [tokens]
  TenantWeights weights = {};  // factors of rate and burst
};

// Ranks as the inner policy does, in two groups: tenants within their quota, then tenants beyond it. A tenant's bucket
// holds at most `burst` tokens and gains `rate` tokens per second, times the tenant's weight. Each token that a step
// computes takes one, and a bucket may owe tokens. A tenant is beyond its quota while its bucket owes tokens. Its
// requests still run if the engine has room, so no capacity stays idle.
//
// The inner policy must not group and must not choose. Times come from plans. O(log tenants) per served request.
template <RankPolicy P>
class Metered : public P {
 public:
  using Options = MeteredOptions;

  Metered() = default;
  explicit Metered(P inner, Options options = {}) : P(std::move(inner)), options_(std::move(options)) {}

  const P& inner() const { return *this; }
  const Options& options() const { return options_; }
  std::string name() const { return "metered(" + NameOf(inner()) + ")"; }
  std::string spec() const {
    const std::string changed = ChangedOptions(*this, Metered(inner()));
    return "metered(" + SpecOf(inner()) + (changed.empty() ? "" : "," + changed) + ")";
  }
  PolicyHooks hooks() const {
    PolicyHooks hooks = HooksOf(inner());
    hooks.groups = hooks.group_log = hooks.scheduled = hooks.begins = true;
    hooks.group_charges = !HooksOf(inner()).scheduled;
    hooks.group_watch = hooks.chooses = false;
    return hooks;
  }

  void Reserve(std::size_t requests) {
    if constexpr (ReservePolicy<P>) P::Reserve(requests);
    most_ = std::max(most_, requests + std::max(requests, kLeastIdle));
    tenants_.Reserve(most_), owing_.Reserve(most_);
    moved_.reserve(most_), idle_.reserve(most_);
  }
  void KeyHashes(std::uint64_t seed) {
    if constexpr (HashingPolicy<P>) P::KeyHashes(seed);
    tenants_.KeyHashes(seed);
  }

  std::uint64_t Group(const RequestState& r) const { return r.request.tenant.value; }
  RankKey GroupKey(std::uint64_t tenant) const {
    const Slot slot = tenants_.Find(tenant);
    return {slot != kNoSlot && owing_.contains(slot) ? 1.0 : 0.0};
  }
  std::vector<std::uint64_t>& moved_groups() { return moved_; }

  // Ends the debts that have been repaid.
  void PlanBegins(TimePoint now) {
    if constexpr (PlanBeginPolicy<P>) {
      if (HooksOf(inner()).begins) P::PlanBegins(now);
    }
    now_ = std::max(now_, now);
    while (!owing_.empty() && owing_.next() <= now_) moved_.push_back(tenants_[owing_.Pop()].id);
  }

  bool Scheduled(const RequestState& r, Tokens prefill, Tokens output, std::int64_t steps) {
    Charge(r.request.tenant.value, std::int64_t{prefill.value} + output.value);
    return ReportStep(static_cast<P&>(*this), r, prefill, output, steps);
  }

  void ScheduledGroup(std::uint64_t tenant, Tokens prefill, Tokens output) {
    Charge(tenant, std::int64_t{prefill.value} + output.value);
  }

  std::size_t remembered() const { return tenants_.size(); }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("rate", self.options_.rate, OptionText{"tokens/s", "tokens per second of each tenant", 1e-3, 1e12});
    visit("burst", self.options_.burst, OptionText{"tokens", "tokens that a tenant can save up", 1, 1e12});
    visit("weights", self.options_.weights, OptionText{"", "factors of tenants: TENANT:WEIGHT;...; default 1"});
  }

 private:
  static constexpr std::size_t kLeastIdle = 1024;

  // Time at which the bucket is full again. It is empty while that is later than burst / rate from now.
  struct Tenant {
    std::uint64_t id = 0;
    TimePoint full_at = kUnset;
    double weight = 1;
  };

  void Charge(std::uint64_t id, std::int64_t tokens) {
    if (tokens <= 0) return;
    Slot slot = tenants_.Find(id);
    if (slot == kNoSlot) {
      if (tenants_.size() >= most_) Forget();
      slot = tenants_.Insert(id, {.id = id, .weight = options_.weights.Of({id})});
    }
    Tenant& tenant = tenants_[slot];
    const double seconds = static_cast<double>(tokens) / Rounded(options_.rate * tenant.weight);
    tenant.full_at = After(std::max(tenant.full_at, now_), FromSeconds(seconds));
    const TimePoint repaid = Before(tenant.full_at, FromSeconds(options_.burst / options_.rate));
    if (repaid <= now_) return;
    if (!owing_.contains(slot)) moved_.push_back(id);
    owing_.Erase(slot);
    owing_.Push(slot, repaid, {}, RequestId{id});
  }

  // Forgets tenants whose buckets are full, or the quarter that is full first. Tenants that owe tokens stay. Doubles
  // the limit if all owe.
  void Forget() {
    idle_.clear();
    std::size_t full = 0;
    for (Slot i = 0; i < tenants_.slots(); ++i) {
      if (tenants_.Find(tenants_[i].id) != i || owing_.contains(i)) continue;
      idle_.push_back(i);
      full += tenants_[i].full_at <= now_ ? 1u : 0u;
    }
    const std::size_t drops = std::min(idle_.size(), std::max(full, most_ / 4));
    std::ranges::nth_element(idle_, idle_.begin() + static_cast<std::ptrdiff_t>(drops), {},
                             [this](Slot i) { return std::pair(tenants_[i].full_at, tenants_[i].id); });
    for (const Slot i : std::span(idle_).first(drops)) tenants_.Erase(i, tenants_[i].id);
    if (drops == 0) most_ *= 2;
  }

  Options options_;
  IdTable<std::uint64_t, Tenant> tenants_;
  TimeHeap owing_;  // tenants beyond their quota, by the time at which the debt is repaid
  std::vector<Slot> idle_;  // scratch of Forget
  std::vector<std::uint64_t> moved_;
  std::size_t most_ = kLeastIdle;  // limit on known tenants
  TimePoint now_ = kUnset;
};

template <class P>
Metered(P) -> Metered<P>;

}  // namespace takt

#endif  // TAKT_POLICY_METERED_H_
