// Bands of priorities: strict priority between bands, fair by tokens inside a band, with minimum shares.
#ifndef TAKT_POLICY_BANDS_H_
#define TAKT_POLICY_BANDS_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "takt/base/names.h"
#include "takt/base/random.h"
#include "takt/base/rounded.h"
#include "takt/base/skew_heap.h"
#include "takt/base/spec.h"
#include "takt/policy/books/service_counters.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Bands by rising priority number. A band begins at its priority and ends before the next band. A request below the
// first band is in the first band. As text: "PRIORITY:SHARE;...".
struct BandShares {
  static constexpr std::size_t kMost = 16;
  struct Band {
    std::int32_t priority = 0;  // least priority of the band
    double share = 0;  // minimum share of computed tokens while the band waits [0, 1]
  };
  std::vector<Band> bands = {};  // empty: one band

  // Returns the index of a request's band. Bands after the last possible one are part of it.
  std::size_t Of(std::int32_t priority) const {
    std::size_t band = 0;
    for (std::size_t i = 1; i < std::min(bands.size(), kMost); ++i) band = priority >= bands[i].priority ? i : band;
    return band;
  }
};

inline std::string OptionToText(const BandShares& value) {
  std::string text;
  for (const BandShares::Band& b : value.bands) {
    if (!text.empty()) text += ';';
    text += OptionToText(b.priority);
    if (b.share > 0) text.append(":").append(OptionToText(b.share));
  }
  return text;
}

inline bool OptionFromText(std::string_view text, const OptionText&, BandShares& value) {
  constexpr OptionText kPriorities{"", "", static_cast<double>(std::numeric_limits<std::int32_t>::min())};
  constexpr OptionText kShares{"", "", 0, 1};
  BandShares read;
  double sum = 0;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    BandShares::Band band;
    const std::size_t colon = one.find(':');
    if (!OptionFromText(one.substr(0, colon), kPriorities, band.priority)) return false;
    if (colon != std::string_view::npos && !OptionFromText(one.substr(colon + 1), kShares, band.share)) return false;
    sum += band.share;
    if (read.bands.size() == BandShares::kMost || !(sum <= 1 + 1e-9)) return false;
    if (!read.bands.empty() && band.priority <= read.bands.back().priority) return false;
    read.bands.push_back(band);
  }
  value = std::move(read);
  return true;
}
inline std::string WishOf(const BandShares&, const OptionText&) {
  return "must be PRIORITY:SHARE;... with rising priorities, shares of 0 to 1 that add up to at most 1, and at most 16 "
         "bands";
}

// Orders requests by band, then by the virtual counter of their tenant or workflow in this band, then by arrival. The
// counters are those of FairShare, one set per band.
//
// Minimum shares: a band has a balance of tokens. While one of its requests waits, each computed token of any request
// adds the band's share to the balance. Each computed token of its own requests takes 1. Once the balance reaches
// `quantum`, the band comes before all bands that are not owed, until its balance is 0. Balances stay within
// kMostQuanta * quantum. While a band does not wait, its balance grows to 0 at most. So idle time earns nothing.
//
// Limits. Group ids hold the band exactly, and 59 bits of the tenant or workflow. Two names of 2^59 or more share a
// counter with probability 2^-59. Group keys hold the band exactly, and counters to 1 part in 2^46. If a band becomes
// owed or paid, the queue reads all group keys: O(waiting groups), at most twice per `quantum` tokens.
//
// Source: takt's own. The counters are those of VTC (OSDI 2024); the shares follow deficit round robin.
class Bands {
 public:
  static constexpr std::string_view kName = "bands";
  static constexpr double kMostQuanta = 16;

  enum class By : std::uint8_t { kTenant, kWorkflow };
  friend constexpr auto NamesOf(By) { return std::to_array<std::string_view>({"tenant", "workflow"}); }

  struct Options {
    BandShares bands = {};
    By by = By::kTenant;  // a request without a workflow counts as one of its own
    double quantum = 2048;  // [tokens]
    ServiceCosts costs = {};  // of the counters inside a band; minimum shares count each token as 1
  };

  Bands() = default;
  explicit Bands(Options options) : options_(std::move(options)) {}

  void KeyHashes(std::uint64_t seed) { counters_.KeyHashes(seed); }
  void Reserve(std::size_t requests) { counters_.Reserve(requests); }

  // Requests of more urgent bands have smaller keys, so that they may preempt others by rank.
  RankKey Key(const RequestState& r) const { return {static_cast<double>(options_.bands.Of(r.request.priority))}; }

  std::uint64_t Group(const RequestState& r) const {
    const Request& q = r.request;
    const std::uint64_t band = std::uint64_t{options_.bands.Of(q.priority)} << kBandShift;
    if (options_.by == By::kTenant) return band | Folded(q.tenant.value);
    if (q.workflow.value != 0) return band | Folded(q.workflow.value);
    return band | kSingle | Folded(q.id.value);
  }

  // Positive doubles rank as their bits do. The bits are: 0, 0, the band's place (5 bits), the counter's highest bits.
  RankKey GroupKey(std::uint64_t group) const {
    const std::size_t band = Counters::Lane(group);
    const std::uint64_t place = lanes_[band].owed ? band : BandShares::kMost + band;
    const std::uint64_t counter = std::bit_cast<std::uint64_t>(counters_.Of(group)) << 1 >> 7;  // without the sign
    return {std::bit_cast<double>(place << kPlaceShift | counter)};
  }

  void Scheduled(const RequestState& r, Tokens prefill, Tokens output) { ScheduledGroup(Group(r), prefill, output); }
  void ScheduledGroup(std::uint64_t group, Tokens prefill, Tokens output) {
    const Slot slot = At(group);
    Lane& lane = LaneOf(slot);
    Detach(slot);
    counters_.Charge(slot, options_.costs.Of(prefill, output));
    Attach(slot);
    const double tokens = static_cast<double>(prefill.value) + output.value;
    lane.used += tokens, computed_ += tokens;
  }

  void GroupSized(std::uint64_t id, std::int64_t waiting, std::optional<RankKey>) {
    const Slot slot = At(id);
    Lane& lane = LaneOf(slot);
    if (counters_[slot].waits == (waiting > 0)) return;
    Settle(lane);
    if (waiting > 0) {
      const double least = lane.root != kNoSlot ? counters_[lane.root].counter()
                           : lane.waited_last   ? counters_.Of(*lane.waited_last)
                                                : 0;
      counters_.Waits(slot, true, &least);
      Attach(slot);
    } else {
      Detach(slot);
      counters_.Waits(slot, false, nullptr);
      lane.waited_last = id;
    }
  }

  // Decides which bands are owed their minimum share.
  void PlanBegins(TimePoint) {
    for (std::size_t i = 0; i < std::min(options_.bands.bands.size(), BandShares::kMost); ++i) {
      Lane& lane = lanes_[i];
      if (!(options_.bands.bands[i].share > 0)) continue;
      Settle(lane);
      const bool owed = lane.owed ? lane.balance > 0 : lane.balance >= options_.quantum;
      if (std::exchange(lane.owed, owed) != owed && lane.root != kNoSlot) counters_.MoveAll();
    }
  }

  std::vector<std::uint64_t>& moved_groups() { return counters_.moved_groups(); }

  KeyParts Explain(const RequestState& r) const {
    KeyParts parts;
    const std::uint64_t group = Group(r);
    parts.Add("band", static_cast<double>(Counters::Lane(group)));
    parts.Add("counter", counters_.Of(group));
    parts.Add("balance", lanes_[Counters::Lane(group)].balance);
    return parts;
  }

  std::size_t remembered() const { return counters_.size(); }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("bands", self.options_.bands, OptionText{"", "bands and minimum shares: PRIORITY:SHARE;..."});
    visit("by", self.options_.by, OptionText{"", "groups inside a band"});
    visit("quantum", self.options_.quantum, OptionText{"tokens", "balance at which a band is owed", 1, 1e9});
    ServiceCosts::Visit(self.options_.costs, visit);
  }

 private:
  static constexpr int kBandShift = 60, kPlaceShift = 57;
  static constexpr std::uint64_t kSingle = std::uint64_t{1} << 59;  // the rest is a request's id
  using Counters = internal::ServiceCounters<4>;
  static_assert(Counters::kLanes == BandShares::kMost);

  struct Lane {
    Slot root = kNoSlot;  // heap of its waiting groups, by counter
    std::optional<std::uint64_t> waited_last = {};  // group that waited last
    double used = 0;  // tokens of its requests since it was settled
    double settled = 0;  // value of computed_ when it was settled
    double balance = 0;
    bool owed = false;
  };

  static std::uint64_t Folded(std::uint64_t name) { return name < kSingle ? name : Mix64(name) >> 5; }

  Slot At(std::uint64_t group) {
    return counters_.At(group, [this](std::uint64_t id) {
      if (options_.by != By::kTenant) return 1.0;
      for (const TenantWeights::Weight& w : options_.costs.weights.weights) {
        if (Folded(w.tenant.value) == (id & (kSingle - 1))) return w.weight;
      }
      return 1.0;
    });
  }
  Lane& LaneOf(Slot slot) { return lanes_[Counters::Lane(counters_[slot].id)]; }

  bool Before(Slot a, Slot b) {
    const double one = counters_[a].counter(), other = counters_[b].counter();
    return one != other ? one < other : counters_[a].id < counters_[b].id;
  }
  // Adds a group to its band's heap, or removes it, if it waits.
  void Attach(Slot slot) {
    if (!counters_[slot].waits) return;
    Lane& lane = LaneOf(slot);
    lane.root = PushHeap<&Counters::Group::link>(counters_.groups(), lane.root, slot,
                                                 [this](Slot a, Slot b) { return Before(a, b); });
  }
  void Detach(Slot slot) {
    if (!counters_[slot].waits) return;
    Lane& lane = LaneOf(slot);
    lane.root = EraseFromHeap<&Counters::Group::link>(counters_.groups(), lane.root, slot,
                                                      [this](Slot a, Slot b) { return Before(a, b); });
  }

  // Brings the balance up to date. Call it before the band begins or ceases to wait.
  void Settle(Lane& lane) {
    const std::size_t i = static_cast<std::size_t>(&lane - lanes_.data());
    const double share = i < options_.bands.bands.size() ? options_.bands.bands[i].share : 0;
    const double earned = Rounded(share * (computed_ - lane.settled)), most = kMostQuanta * options_.quantum;
    const bool waits = lane.root != kNoSlot;
    const double paid = lane.balance - lane.used;
    lane.balance = std::clamp(waits ? paid + earned : std::max(paid, std::min(paid + earned, 0.0)), -most, most);
    lane.used = 0, lane.settled = computed_;
  }

  Options options_;
  Counters counters_;
  std::array<Lane, BandShares::kMost> lanes_ = {};
  double computed_ = 0;  // all tokens that steps have computed
};

}  // namespace takt

#endif  // TAKT_POLICY_BANDS_H_
