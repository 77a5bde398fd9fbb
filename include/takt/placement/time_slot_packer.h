// Packs requests into instances by their predicted memory in each time slot (Kairos).
#ifndef TAKT_PLACEMENT_TIME_SLOT_PACKER_H_
#define TAKT_PLACEMENT_TIME_SLOT_PACKER_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "takt/base/id_map.h"
#include "takt/base/spec.h"
#include "takt/model/agent_ranks.h"
#include "takt/model/cost_model.h"
#include "takt/placement/placement_policy.h"

namespace takt {

// A request's KV is assumed to grow linearly, prompt + decode_rate * time, and to be freed at its predicted end. The
// predicted time is AgentRank::execution_s of the newest Epoch. If that is unknown, it is the estimated output divided
// by the rate. Without an estimate, it is unknown_s. The policy sums the KV of each instance by time slot. With
// `cost_batch`, the rate of an instance comes from its cost model.
//
// An instance is available if the request fits into its KV cache in each slot that it spans. The available instance
// with the lowest peak over these slots gets the request. If none is available, the request stays in the router's
// queue. An instance without requests is always available.
//
// A request that ends early frees its slots at once. An instance is suspended by a report of a full cache (`danger`) or
// of new preemptions. A report without new preemptions and with at most `recovered` of the cache in use ends the
// suspension. With `late`, a request that outlives its prediction counts in the current slot. A request's start is its
// placement, and then its first step once that is reported.
//
// Source: Kairos, section 6. Departures: the paper does not count late requests, and has no rule for empty instances. A
// decision costs O(slots spanned) per instance and does not allocate.
class TimeSlotPacker {
 public:
  static constexpr std::string_view kName = "time_slot_packer";
  static constexpr std::size_t kHorizon = 240;  // number of time slots; later slots are ignored

  // Options, which must not change after the first use.
  double slot_s = 0.5;
  double decode_rate = 25;  // KV tokens per second of a running request, from the engine's profile
  // Number of sequences in the step from which an instance's cost model yields its decode rate. A small KV cache may
  // limit this number. 0: every instance has decode_rate.
  std::int32_t cost_batch = 0;
  std::int32_t cost_context = 600;  // mean context of these sequences [tokens]
  double unknown_s = 10;
  double danger = 0.95, recovered = 0.85;  // used shares of the KV cache that suspend and readmit an instance
  bool late = true;

  void Observe(const RouterEvent& event, TimePoint now) {
    Advance(now);
    if (const auto* reported = std::get_if<InstanceReported>(&event)) {
      const std::uint32_t slot = slot_of_.Find(reported->instance.value);
      if (slot != kNoSlot) Judge(instances_[slot], reported->report);
    } else if (const auto* down = std::get_if<InstanceDown>(&event)) {
      slot_of_.Erase(down->instance.value);
    }
  }
  void Observe(const Epoch& epoch, TimePoint now) {
    Advance(now);
    if (epoch.agent_ranks != nullptr) table_ = epoch.agent_ranks;
  }

  void Up(const InstanceState& i, TimePoint now) {
    Advance(now);
    if (i.slot >= instances_.size()) instances_.resize(std::size_t{i.slot} + 1);
    if (i.slot >= width_) Widen(std::size_t{i.slot} + 1);
    Account& account = instances_[i.slot];
    account.kv_tokens = static_cast<double>(i.instance.kv_tokens.value);
    if (!slot_of_.Insert(i.instance.id.value, i.slot)) return;  // the instance was reported again
    account.suspended = false;
    account.preempted = 0;
    account.rate = RateOf(i);
    for (std::size_t row = 0; row < kHorizon; ++row) {
      used_[row * width_ + i.slot] = 0;
      growth_[row * width_ + i.slot] = Growth(account.rate, static_cast<std::int64_t>(row));
    }
  }

  void Prepare(const RequestState& r, TimePoint now) {
    Advance(now);
    std::int32_t longest = 0;
    for (std::size_t i = 0; i < instances_.size(); ++i) {
      spans_[i] = static_cast<std::int32_t>(SpannedBy(r, instances_[i].rate));
      longest = std::max(longest, spans_[i]);
    }
    FindPeaks(PromptOf(r), longest);
  }

  double Score(const RequestState&, const InstanceState& i, TimePoint) const {
    const Account& account = instances_[i.slot];
    const bool empty = i.outstanding == 0;
    if (account.suspended && !empty) return -std::numeric_limits<double>::infinity();
    const auto peak = static_cast<double>(peaks_[i.slot]);
    if (account.kv_tokens > 0 && peak > account.kv_tokens && !empty) return -std::numeric_limits<double>::infinity();
    return -peak;
  }

  void Placed(const RequestState& r, const InstanceState& i, TimePoint now) {
    Advance(now);
    if (r.slot >= held_.size()) held_.resize(std::size_t{r.slot} + 1);
    Held& held = held_[r.slot];
    const std::int64_t spanned = SpannedBy(r, instances_[i.slot].rate);
    held = {.instance = i.slot,
            .prompt = PromptOf(r),
            .spanned = spanned,
            .begin = now_slot_,
            .end = now_slot_ + spanned,
            .is_held = true};
    Add(held, true);
    Expect(r.slot);
  }

  void Started(const RequestState& r, const InstanceState&, TimePoint now) {
    Advance(now);
    Held& held = held_[r.slot];
    if (!held.is_held || held.begin == now_slot_) return;
    Unexpect(r.slot);
    Add(held, false);
    held.begin = now_slot_;
    held.end = now_slot_ + held.spanned;
    Add(held, true);
    Expect(r.slot);
  }

  void Released(const RequestState& r, const InstanceState&, TimePoint now) {
    Advance(now);
    Held& held = held_[r.slot];
    if (!held.is_held) return;
    Unexpect(r.slot);
    Add(held, false);
    held.is_held = false;
  }

  // Returns the KV tokens that an instance is expected to hold `ahead` slots from now.
  double Expected(std::uint32_t instance, std::size_t ahead) const {
    return ahead < kHorizon ? static_cast<double>(At(now_slot_ + static_cast<std::int64_t>(ahead), instance)) : 0;
  }
  bool suspended(std::uint32_t instance) const { return instances_[instance].suspended; }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("slot", self.slot_s, OptionText{"s", "length of a slot", 1e-3, 1e3});
    visit("decode_rate", self.decode_rate, OptionText{"tokens/s", "growth of a request's KV", 0, 1e6});
    visit("cost_batch", self.cost_batch,
          OptionText{"sequences", "batch at which cost models give the decode rate; 0: decode_rate for all", 0, 1e6});
    visit("cost_context", self.cost_context, OptionText{"tokens", "mean context in that batch", 1, 1e7});
    visit("unknown", self.unknown_s, OptionText{"s", "running time of a call without a prediction", 0, 1e5});
    visit("danger", self.danger, OptionText{"share", "KV cache use at which an instance is suspended"});
    visit("recovered", self.recovered, OptionText{"share", "KV cache use at or below which a suspension ends"});
    visit("late", self.late, OptionText{"", "count requests that outlive their prediction"});
  }

 private:
  static constexpr std::size_t kLanes = 8;  // instances per row step, for vector instructions
  static constexpr double kMost = 1 << 22;  // maximum counted tokens of a request, so that sums of floats stay exact

  struct Account {
    double kv_tokens = 0;
    double rate = 0;  // KV tokens per second of a running request
    std::int64_t preempted = 0;  // preemptions in the newest report
    bool suspended = false;
  };
  struct Held {
    std::uint32_t instance = 0;
    float prompt = 0;  // tokens
    std::int64_t spanned = 0;  // number of predicted slots
    std::int64_t begin = 0, end = 0;  // slots since the epoch: [begin, end)
    bool is_held = false;
    std::uint32_t before = kNoSlot, after = kNoSlot;  // neighbours in the list of requests that end in this slot
  };

  // Returns the whole tokens that a request has generated by the end of its k-th slot.
  float Growth(double rate, std::int64_t k) const {
    return static_cast<float>(static_cast<std::int64_t>(std::min(kMost, rate * slot_s * static_cast<double>(k + 1))));
  }

  float GrowthOf(const Held& held, std::int64_t k) const { return Growth(instances_[held.instance].rate, k); }

  double RateOf(const InstanceState& i) const {
    const PreparedCostModel* cost = i.profile != nullptr ? i.profile->cost.get() : nullptr;
    if (cost_batch <= 0 || cost == nullptr) return decode_rate;
    const std::int64_t context = std::max(cost_context, 1), kv = i.instance.kv_tokens.value;
    const std::int64_t most = kv > 0 ? std::min<std::int64_t>(kv / context, cost_batch) : cost_batch;
    const std::int64_t n = std::max<std::int64_t>(std::min(most, i.instance.capacity), 1);
    const double step = ToSeconds(cost->StepLatency({.decodes = n, .decode_context = n * context, .samples = n}));
    return step > 0 ? 1 / step : decode_rate;
  }

  static float PromptOf(const RequestState& r) {
    return static_cast<float>(std::min(r.request.prompt_tokens.value, static_cast<std::int32_t>(kMost)));
  }

  double ExpectedSeconds(const RequestState& r, double rate) const {
    const double reported = table_ ? table_->Of(r.request.agent).execution_s : 0;
    if (reported > 0) return reported;
    const Estimate& output = r.request.output_tokens;
    return output.known() && rate > 0 ? output.Quantile(0.5) / rate : unknown_s;
  }

  std::int64_t SpannedBy(const RequestState& r, double rate) const {
    return static_cast<std::int64_t>(std::ceil(std::clamp(ExpectedSeconds(r, rate) / slot_s, 1.0, double{kHorizon})));
  }

  std::size_t RowOf(std::int64_t slot) const { return static_cast<std::size_t>(slot) % kHorizon * width_; }
  float& At(std::int64_t slot, std::uint32_t instance) { return used_[RowOf(slot) + instance]; }
  float At(std::int64_t slot, std::uint32_t instance) const { return used_[RowOf(slot) + instance]; }

  // Finds the peaks of all instances at once, row by row.
  void FindPeaks(float prompt, std::int32_t longest) {
    std::ranges::fill(peaks_, 0.0f);
    std::size_t row = RowOf(now_slot_);
    for (std::int32_t k = 0; k < longest; ++k) {
      Raise(peaks_.data(), &used_[row], &growth_[static_cast<std::size_t>(k) * width_], spans_.data(), k, width_);
      row = After(row);
    }
    for (float& peak : peaks_) peak += prompt;
  }

  // Instances whose span has ended by slot k keep their peak.
  static void Raise(float* __restrict peaks, const float* __restrict used, const float* __restrict growth,
                    const std::int32_t* __restrict spans, std::int32_t k, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const float sum = k < spans[i] ? used[i] + growth[i] : 0.0f;
      peaks[i] = sum > peaks[i] ? sum : peaks[i];
    }
  }

  std::size_t After(std::size_t row) const { return row + width_ < used_.size() ? row + width_ : 0; }

  void Add(const Held& held, bool adds) {
    const std::int64_t first = std::max(held.begin, now_slot_);
    const std::int64_t last = std::min(held.end, now_slot_ + static_cast<std::int64_t>(kHorizon));
    if (first >= last) return;
    std::size_t row = RowOf(first);
    for (std::int64_t age = first - held.begin; age < last - held.begin; ++age) {
      const auto k = static_cast<std::size_t>(age);
      const float tokens = held.prompt + (k < kHorizon ? growth_[k * width_ + held.instance] : GrowthOf(held, age));
      used_[row + held.instance] += adds ? tokens : -tokens;
      row = After(row);
    }
  }

  // Makes room for n instances.
  void Widen(std::size_t n) {
    const std::size_t width = std::max(2 * width_, (n + kLanes - 1) / kLanes * kLanes);
    for (std::vector<float>* table : {&used_, &growth_}) {
      std::vector<float> wider(kHorizon * width, 0.0f);
      for (std::size_t row = 0; row < kHorizon; ++row) {
        std::copy_n(table->begin() + static_cast<std::ptrdiff_t>(row * width_), width_,
                    wider.begin() + static_cast<std::ptrdiff_t>(row * width));
      }
      table->swap(wider);
    }
    width_ = width;
    peaks_.resize(width);
    spans_.resize(width);
  }

  // ---- time -----------------------------------------------------------------------------------------------------

  void Advance(TimePoint now) {
    const auto slot = static_cast<std::int64_t>(std::max(0.0, std::floor(ToSeconds(now) / slot_s)));
    if (ends_.empty()) Begin(slot);
    if (slot - now_slot_ > static_cast<std::int64_t>(kHorizon)) return Leap(slot);
    while (now_slot_ < slot) {
      const auto row = used_.begin() + static_cast<std::ptrdiff_t>(RowOf(now_slot_));
      std::fill_n(row, width_, 0.0f);
      ++now_slot_;
      Overdue();
    }
  }

  void Begin(std::int64_t slot) {
    now_slot_ = slot;
    ends_.assign(kHorizon + 1, kNoSlot);
  }

  // All slots have passed, so every remaining request is late.
  void Leap(std::int64_t slot) {
    now_slot_ = slot;
    std::ranges::fill(used_, 0.0f);
    std::ranges::fill(ends_, kNoSlot);
    for (std::uint32_t at = 0; at < held_.size(); ++at) {
      Held& held = held_[at];
      if (!held.is_held) continue;
      if (late) {
        held.end = now_slot_ + 1;
        At(now_slot_, held.instance) += held.prompt + GrowthOf(held, now_slot_ - held.begin);
      }
      Expect(at);
    }
  }

  // Extends requests that should have ended by one slot.
  void Overdue() {
    std::uint32_t& list = ends_[static_cast<std::size_t>(now_slot_) % ends_.size()];
    std::uint32_t at = list;
    list = kNoSlot;
    while (at != kNoSlot) {
      Held& held = held_[at];
      const std::uint32_t next = held.after;
      held.before = held.after = kNoSlot;
      if (late) {
        At(now_slot_, held.instance) += held.prompt + GrowthOf(held, held.end - held.begin);
        ++held.end;
        Expect(at);
      }
      at = next;
    }
  }

  void Expect(std::uint32_t slot) {
    Held& held = held_[slot];
    held.before = kNoSlot;
    if (held.end <= now_slot_) {  // the request's predicted end has passed
      held.after = kNoSlot;
      return;
    }
    std::uint32_t& list = ends_[static_cast<std::size_t>(held.end) % ends_.size()];
    held.after = list;
    if (list != kNoSlot) held_[list].before = slot;
    list = slot;
  }

  void Unexpect(std::uint32_t slot) {
    Held& held = held_[slot];
    if (held.end <= now_slot_) return;
    if (held.after != kNoSlot) held_[held.after].before = held.before;
    (held.before == kNoSlot ? ends_[static_cast<std::size_t>(held.end) % ends_.size()] : held_[held.before].after) =
        held.after;
    held.before = held.after = kNoSlot;
  }

  void Judge(Account& account, const InstanceReport& report) const {
    const bool preempts = report.preempted > account.preempted;
    account.preempted = report.preempted;
    if (account.kv_tokens <= 0) return;
    const double share = report.kv_used.value / account.kv_tokens;
    if (preempts || share >= danger) account.suspended = true;
    else if (share <= recovered) account.suspended = false;
  }

  std::vector<Account> instances_;  // by slot
  std::vector<float> used_;  // tokens per slot and instance, in a ring of slots
  std::size_t width_ = 0;  // width of a row in used_
  std::vector<float> growth_;  // Growth of each instance, by the slots since a request's start
  std::vector<float> peaks_;  // peak of each instance with the current request
  std::vector<std::int32_t> spans_;  // predicted slots of the current request, by instance
  std::vector<Held> held_;  // by request's slot
  std::vector<std::uint32_t> ends_;  // the first request that ends in each slot
  IdMap slot_of_;  // slots of the instances that are up
  std::shared_ptr<const AgentRanks> table_;
  std::int64_t now_slot_ = 0;
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_TIME_SLOT_PACKER_H_
