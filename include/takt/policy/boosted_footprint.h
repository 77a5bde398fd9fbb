// takt's default: first come, first served, with a head start for workflows that cost the engine little.
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
  kDefault,  // balance of mean and tail latency
  kTail,  // the tail exceeds that of fcfs by a third of the default's excess; the mean gains less
  kMean,  // the order of footprint: least mean latency, unlimited tail latency
  kGoodput,  // the order of kMean, but requests that can no longer meet their deadlines are last
};
constexpr auto NamesOf(BoostPreset) { return std::to_array<std::string_view>({"default", "tail", "mean", "goodput"}); }

// Key [s]:
//
//  t - kappa V~ ln(Cw / min(C, Cw)) - delta V (1 - min(B / B~, 1))
//
// t: arrival of the workflow, or of the call less `horizon_s`, if that is later. C: remaining cost of the workflow
// (FootprintBook). Cw: size below which 0.95 of the work lies; larger workflows are giants and get no head start.
//
// V: time until the engine's current work is done, at least `least_drain_s`. V~: average of V at the arrivals of calls,
// at most kMostUsual V. V~ covers the last kMemory calls, and more while V exceeds V~. In a growing backlog V~ is thus
// half of V. So head starts are small relative to an unusual backlog, which causes the longest waits.
//
// kappa = (`tail_factor` - 1) h^2 (kSteady p + kGrowing u (1 - p)). p: how often the backlog shrinks. p is 0 if none of
// the last kRecent calls found a backlog below V~, and 1 if at least a quarter did. q = E[C^2] / E[C]^2 of recent
// workflows, u = 3 (1 - 1 / q) in [0, 1], h = q / 3 in [1, 2]. If the backlog comes and goes, a boost of V~ ln(1 / C)
// gives the best tail. Source: Yu and Scully, Strongly tail-optimal scheduling in the light-tailed M/G/1,
// 2024. kSteady makes kappa 1 at the default `tail_factor`. In a growing backlog, every gain in the mean costs the
// tail. If all sizes are equal, the mean stays as it is. If a few giants have most of the work, only the giants
// wait longer.
//
// B: time from the workflow's arrival to its deadline. B~: its usual value. A workflow with less time than usual waits
// less. More time, no deadline, or equal deadlines for all have no effect (FootprintBook::Tightness). delta =
// `deadline_weight`.
//
// All terms are read once, when a request joins the queue; later revisions change C only. A call is never passed by one
// that arrives more than twice `horizon_s` later: once for the workflow's age, once for the head start. So no guard
// against starvation is needed. docs/reference/policies/boosted_footprint.md derives this and names the order's
// weaknesses.
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
  // Learnt means, and corrections of the host's predictions.
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
          OptionText{"x", "rough target for p99 relative to fcfs, scaled by the preset; 1: no head start by size", 1,
                     1e6});
    visit("least_drain_s", o.least_drain_s, OptionText{"s", "minimum of the backlog", 0, 1e6});
    visit("horizon_s", o.horizon_s, OptionText{"s", "maximum head start", 0, 1e9});
    visit("deadline_weight", o.deadline_weight,
          OptionText{"", "weight of deadlines, scaled by the preset; 0: ignored", 0, 1e6});
    VisitFootprintOptions(self.book_.options(), visit);
  }

 private:
  static constexpr double kBehindAll = 1e9;  // [s]
  static constexpr double kMemory = 4096;  // number of calls over which the backlog is averaged
  static constexpr double kMostUsual = 8;  // largest ratio of V~ to V, so that a cancelled backlog is soon forgotten
  static constexpr double kRecent = 256;  // number of calls from which p is computed
  // Factors of kappa, per unit of `tail_factor` - 1.
  static constexpr double kSteady = 20.0 / 3, kGrowing = 3;

  struct Call {
    double key = 0, cost = 0;
    // Values at the time when the call joined the queue.
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

  // Returns the head start by size [s]. If the cheapest request's head start would exceed the horizon, all head starts
  // are scaled down, which keeps the order.
  double SizeStart(const Call& call) const {
    const double least = book_.LeastCost();
    if (!(call.cost < call.cut) || !(least < call.cut)) return 0;
    const double scale = std::min(call.kappa * call.usual, options_.horizon_s / exact::Log(call.cut / least));
    return Rounded(scale * exact::Log(call.cut / std::max(call.cost, least)));
  }

  // Sets the time from which on the workflow can no longer meet its deadline.
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
  // Number of calls, mean backlog that a call found [s], and share of calls that found less than this mean.
  double came_ = 0, usual_drain_ = 0, less_ = 0;
};

}  // namespace takt

#endif  // TAKT_POLICY_BOOSTED_FOOTPRINT_H_
