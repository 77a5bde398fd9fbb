// takt's default: first come, first served, with a head start for what costs the engine little.
#ifndef TAKT_POLICY_BOOSTED_FOOTPRINT_H_
#define TAKT_POLICY_BOOSTED_FOOTPRINT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/policy/footprint.h"
#include "takt/policy/books/footprint_book.h"
#include "takt/policy/rank_policy.h"
#include "takt/workflow/slo_budget.h"

namespace takt {

enum class BoostPreset : std::uint8_t {
  kDefault,  // mean and tail
  kTail,     // a third of what the tail may exceed: the tail of first come, first served, and some of the mean
  kMean,     // the order of footprint: the least mean latency, whatever the tail
  kGoodput,  // likewise, and a request that can no longer meet its deadline comes after all that can
};
constexpr auto NamesOf(BoostPreset) { return std::to_array<std::string_view>({"default", "tail", "mean", "goodput"}); }

// Key [s]:
//
//   t - kappa V~ ln(Cw / min(C, Cw)) - delta V (1 - min(B / B~, 1))
//
// t: arrival of the workflow, or the call's less `horizon_s` where that is later. C: what the rest of the workflow will
// cost the engine (FootprintBook). V: how long the engine will be busy with all that it has (at least `least_drain_s`).
// V~: what that was on average, as the calls that came found it; beyond the last kMemory they are forgotten, but not
// while V exceeds V~, so that V~ is half of V in a backlog that grows, however long; at most kMostUsual V. So head
// starts are small beside a backlog far above the usual, where the waits of the tail are made, and large beside others.
//
// kappa = (`tail_factor` - 1) h^2 (kSteady p + kGrowing u (1 - p)). p: how much the backlog comes and goes, from the
// share of the last kRecent calls that found less of it than V~: 0 where none did, 1 from a quarter on. Where it comes
// and goes, a boost of V~ ln(1 / C) is best for the tail itself (an M/G/1 with light tails: Yu and Scully, Strongly
// tail-optimal scheduling in the light-tailed M/G/1, 2024), and kSteady makes kappa 1 at the default's `tail_factor`;
// where it grows, whatever is passed to the mean the tail pays. u = 3 (1 - 1 / q), 0 to 1, h = q / 3, 1 to 2, and
// q = E[C^2] / E[C]^2 of recent workflows: where sizes are alike nothing is gained, and where few giants have most of
// the work, few wait longer. Cw: the size below which 0.95 of the work lies; a larger request is a giant, and giants
// are served as they came.
//
// B: the time from when the workflow came to its deadline, where it has one; B~: what that usually is. A workflow
// that is given half the usual time waits less; more than the usual, or no deadline, changes nothing, and neither do
// deadlines where all are given the same (FootprintBook::Tightness). delta = `deadline_weight`.
//
// All of it is read once, when a request joins the queue; what is revised while it waits changes C alone. No call is
// passed by one that comes more than twice the horizon later: `horizon_s` for its workflow's age, and as much for
// its head start. So no counter against starvation is needed. docs/reference/policies/boosted_footprint.md derives
// that, and says where the order loses.
class BoostedFootprint {
 public:
  static constexpr std::string_view kName = "boosted_footprint";

  BoostedFootprint() = default;
  explicit BoostedFootprint(BoostPreset preset) { options_.preset = preset; }

  void set_pace(const StepPace& pace) { book_.options().pace = pace; }

  void Reserve(std::size_t requests) { book_.Reserve(requests), calls_.reserve(requests); }
  void KeyHashes(std::uint64_t seed) { book_.KeyHashes(seed); }
  void Enters(const RequestState& r, TimePoint now) {
    book_.Enters(r, now);
    if (r.slot >= calls_.size()) calls_.resize(r.slot + std::size_t{1});
    Call& call = calls_[r.slot];
    if (by_size()) {
      call = {.key = book_.Left(r)};
      if (options_.preset == BoostPreset::kGoodput) Deadline(r, now, call);
      return;
    }
    if (call.enqueued != r.enqueued) {
      const double drain = book_.Drain();
      if (call.enqueued == kUnset) Found(drain);
      const double own = ToSeconds(r.request.arrival);
      call = {.arrival = std::clamp(ToSeconds(r.request.workflow_arrival), own - options_.horizon_s, own),
              .drain = std::max(drain, options_.least_drain_s),
              .usual = std::max(std::min(usual_drain_, kMostUsual * drain), options_.least_drain_s),
              .kappa = kappa(),
              .cut = book_.works().cut(),
              .tail = book_.works().tail(),
              .tightness = book_.Tightness(r),
              .enqueued = r.enqueued};
    }
    call.cost = book_.Left(r);
    const double start = SizeStart(call) + DeadlineStart(call);
    call.key = call.arrival - std::min(start, options_.horizon_s);
  }
  void Ends(const RequestState& r, TimePoint now) {
    book_.Ends(r, now);
    if (r.slot < calls_.size()) calls_[r.slot] = {};
  }
  // The means of what hosts did not tell, and what their predictions have come true to.
  std::vector<std::uint64_t> SaveLearnt() const { return book_.Save(); }
  bool LoadLearnt(std::span<const std::uint64_t> words) { return book_.Load(words); }
  void PlanEnds(const QueuePressure& pressure, TimePoint) { book_.PlanEnds(pressure); }
  RankKey Key(const RequestState& r) const { return {r.slot < calls_.size() ? calls_[r.slot].key : 0}; }

  TimePoint ChangesAt(const RequestState& r) const {
    return r.slot < calls_.size() ? calls_[r.slot].hopeless_at : kNever;
  }
  void Change(const RequestState& r, TimePoint) { GiveUp(calls_[r.slot]); }

  double kappa() const {
    const double heavy = book_.works().Heaviness(), swings = std::min(4 * less_, 1.0);
    const double weight = Rounded(kSteady * swings) + Rounded(kGrowing * book_.works().Unequal() * (1 - swings));
    return (options_.tail_factor - 1) * Share() * (heavy * heavy) * weight;
  }

  KeyParts Explain(const RequestState& r) const {
    KeyParts parts;
    if (r.slot >= calls_.size()) return parts;
    const Call& call = calls_[r.slot];
    parts.Add("C_s", book_.Left(r));
    if (!by_size()) {
      parts.Add("arrival_s", call.arrival);
      parts.Add("V_s", call.drain);
      parts.Add("usual_s", call.usual);
      parts.Add("kappa", call.kappa);
      parts.Add("q", call.tail);
      parts.Add("Cw_s", call.cut);
      parts.Add("deadline_s", DeadlineStart(call));
      parts.Add("truth", book_.Truth(r));
    }
    Footprint::ExplainPrices(book_, parts);
    return parts;
  }

  const FootprintBook& book() const { return book_; }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    auto& o = self.options_;
    visit("preset", o.preset, OptionText{"", "default | tail | mean | goodput"});
    visit("tail_factor", o.tail_factor,
          OptionText{"x", "p99 over that of fcfs, about, before the preset's; 1: no head starts by size", 1, 1e6});
    visit("least_drain_s", o.least_drain_s, OptionText{"s", "the backlog counts as at least", 0, 1e6});
    visit("horizon_s", o.horizon_s, OptionText{"s", "a head start is at most", 0, 1e9});
    visit("deadline_weight", o.deadline_weight,
          OptionText{"", "delta, before the preset's; 0 ignores deadlines", 0, 1e6});
    VisitFootprintOptions(self.book_.options(), visit);
  }

 private:
  static constexpr double kBehindAll = 1e9;  // [s]
  static constexpr double kMemory = 4096;  // calls that the usual backlog is of, while there is no more than that
  static constexpr double kMostUsual = 8;  // times the backlog of the moment: one that was cancelled is soon forgotten
  static constexpr double kRecent = 256;  // calls that tell whether the backlog comes and goes
  // Of head starts, for each 1 that the tail may exceed that of fcfs by.
  static constexpr double kSteady = 20.0 / 3, kGrowing = 3;

  struct Call {
    double key = 0, cost = 0;
    // As of when it joined the queue.
    double arrival = 0, drain = 0, usual = 0, kappa = 0, cut = 0, tail = 0, tightness = 0;
    TimePoint enqueued = kUnset;
    TimePoint hopeless_at = kNever;
  };
  struct Options {
    BoostPreset preset = BoostPreset::kDefault;
    double tail_factor = 1.15;
    double deadline_weight = 1;
    double least_drain_s = 1;
    double horizon_s = 3600;
  };

  bool by_size() const { return options_.preset == BoostPreset::kMean || options_.preset == BoostPreset::kGoodput; }

  double Share() const { return options_.preset == BoostPreset::kTail ? 1.0 / 3 : 1; }

  double DeadlineStart(const Call& call) const {
    return Rounded(options_.deadline_weight * Share() * call.drain * call.tightness);
  }

  void Found(double drain) {
    const bool less = drain < usual_drain_;
    if (less) came_ = std::min(came_, kMemory);
    usual_drain_ += (drain - usual_drain_) / ++came_;
    less_ += ((less ? 1 : 0) - less_) / std::min(came_, kRecent);
  }

  // In seconds. So that none exceeds the horizon, and the order by size stays, all are scaled down where that of
  // the least possible request would.
  double SizeStart(const Call& call) const {
    const double least = book_.LeastCost();
    if (!(call.cost < call.cut) || !(least < call.cut)) return 0;
    const double scale = std::min(call.kappa * call.usual, options_.horizon_s / exact::Log(call.cut / least));
    return Rounded(scale * exact::Log(call.cut / std::max(call.cost, least)));
  }

  // From `hopeless_at` on the rest of the workflow's longest path does not end in time.
  void Deadline(const RequestState& r, TimePoint now, Call& call) const {
    if (r.request.deadline == kNever) return;
    const double path = book_.PathSeconds(r);
    if (SecondsBetween(now, r.request.deadline) < path) return GiveUp(call);
    call.hopeless_at = Later(r.request.deadline, -path);
  }
  static void GiveUp(Call& call) {
    call.key += kBehindAll;
    call.hopeless_at = kNever;
  }

  Options options_;
  FootprintBook book_;
  std::vector<Call> calls_;  // by slot
  // Calls, the backlog that they found [s], and the share of them that found less than that.
  double came_ = 0, usual_drain_ = 0, less_ = 0;
};

}  // namespace takt

#endif  // TAKT_POLICY_BOOSTED_FOOTPRINT_H_
