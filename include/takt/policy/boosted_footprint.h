// takt's default: first come, first served, with a head start for what costs the engine little.
#ifndef TAKT_POLICY_BOOSTED_FOOTPRINT_H_
#define TAKT_POLICY_BOOSTED_FOOTPRINT_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "takt/policy/footprint.h"
#include "takt/policy/footprint_book.h"
#include "takt/policy/policy_spec.h"
#include "takt/policy/rank_policy.h"
#include "takt/state/slo_budget.h"

namespace takt {

enum class BoostPreset : std::uint8_t {
  kDefault,  // mean and tail
  kTail,     // a third of the boost: the tail of first come, first served, and some of the mean
  kMean,     // the order of footprint: the least mean latency, whatever the tail
  kGoodput,  // likewise, and who can no longer meet its deadline comes after all who can
};

inline constexpr std::string_view kBoostPresetNames[] = {"default", "tail", "mean", "goodput"};

inline std::string OptionToText(BoostPreset value) {
  return std::string(kBoostPresetNames[static_cast<std::size_t>(value)]);
}
inline bool OptionFromText(std::string_view text, const OptionText&, BoostPreset& value) {
  const auto* const found = std::ranges::find(kBoostPresetNames, text);
  if (found == std::end(kBoostPresetNames)) return false;
  value = static_cast<BoostPreset>(found - std::begin(kBoostPresetNames));
  return true;
}

// Key [s]:
//
//   t - kappa V ln(Cw / min(C, Cw)) - delta V (1 - min(B / B~, 2))
//
// t: arrival of the workflow, or the call's less `horizon_s` where that is later. C: what the rest of the workflow will
// cost the engine (FootprintBook). V: how long the engine will be busy with all that it has (at least `least_drain_s`),
// so that head starts grow with the backlog, and vanish with it. kappa = `boost` h^4 with h = max(1, q / 3) and
// q = E[C^2] / E[C]^2 of recent workflows: where works are unequal an order by size gains much, where they are alike
// little. Cw: the size below which a share w = 1 - 1.5 / (q h) of the work lies, 0.15 to 0.8; who is larger is a giant,
// and giants are served as they came. w is about what giants pay: the work that may pass them.
//
// B: the time from the workflow's arrival to its deadline, where it has one; B~: what that usually is (a geometric
// mean over workflows). Who is given half the usual time waits less, who is given twice that waits longer; where all
// are given the same nothing changes. delta = `deadline_weight`. A call of which Request::compute is told has a
// deadline of its own (a router's budgets), which says nothing of its workflow's time, and is not looked at.
//
// All of it is read once, when a request joins the queue; what is revised while it waits changes C alone. Nobody is
// passed by a call that comes more than three times the horizon later: `horizon_s` for its workflow's age, as much for
// its head start, and as much for the other's delay. So no counter against starvation is needed.
// docs/policies/boosted_footprint.md derives that, and says where the order loses.
class BoostedFootprint {
 public:
  static constexpr std::string_view kName = "boosted_footprint";

  BoostedFootprint() = default;
  explicit BoostedFootprint(BoostPreset preset) { options_.preset = preset; }

  void set_pace(const StepPace& pace) { book_.options().pace = pace; }

  void Reserve(std::size_t requests) { book_.Reserve(requests), calls_.reserve(requests); }
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
      const double oldest = ToSeconds(r.request.arrival) - options_.horizon_s;
      call = {.arrival = std::max(ToSeconds(r.request.workflow_arrival), oldest),
              .drain = std::max(book_.Drain(), options_.least_drain_s),
              .kappa = kappa(),
              .cut = book_.works().cut(),
              .tightness = Tightness(r.request, call.enqueued == kUnset),
              .enqueued = r.enqueued};
    }
    call.cost = book_.Left(r);
    const double start = SizeStart(call) + DeadlineStart(call);
    call.key = call.arrival - std::clamp(start, -options_.horizon_s, options_.horizon_s);
  }
  void Ends(const RequestState& r, TimePoint now) {
    book_.Ends(r, now);
    if (r.slot < calls_.size()) calls_[r.slot] = {};
  }
  void PlanEnds(const QueuePressure& pressure, TimePoint) { book_.PlanEnds(pressure); }
  RankKey Key(const RequestState& r) const { return {r.slot < calls_.size() ? calls_[r.slot].key : 0}; }

  TimePoint ChangesAt(const RequestState& r) const {
    return r.slot < calls_.size() ? calls_[r.slot].hopeless_at : kNever;
  }
  void Change(const RequestState& r, TimePoint) { GiveUp(calls_[r.slot]); }

  double kappa() const {
    const double heavy = book_.works().Heaviness(book_.options().shares);
    return options_.boost * Share() * (heavy * heavy) * (heavy * heavy);
  }

  KeyParts Explain(const RequestState& r) const {
    KeyParts parts;
    if (r.slot >= calls_.size()) return parts;
    const Call& call = calls_[r.slot];
    parts.Add("C_s", book_.Left(r));
    if (!by_size()) {
      parts.Add("arrival_s", call.arrival);
      parts.Add("V_s", call.drain);
      parts.Add("kappa", call.kappa);
      parts.Add("q", book_.works().tail());
      parts.Add("Cw_s", call.cut);
      parts.Add("deadline_s", DeadlineStart(call));
      parts.Add("truth", book_.truth());
    }
    Footprint::ExplainPrices(book_, parts);
    return parts;
  }

  const FootprintBook& book() const { return book_; }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    auto& o = self.options_;
    visit("preset", o.preset, OptionText{"", "default | tail | mean | goodput"});
    visit("boost", o.boost, OptionText{"", "k0: weight of the head start, before the preset's", 0, 1e6});
    visit("least_drain_s", o.least_drain_s, OptionText{"s", "the backlog counts as at least", 0, 1e6});
    visit("horizon_s", o.horizon_s, OptionText{"s", "a head start or a delay is at most", 0, 1e9});
    visit("deadline_weight", o.deadline_weight,
          OptionText{"", "delta, before the preset's; 0 ignores deadlines", 0, 1e6});
    auto& book = self.book_.options();
    visit("heavy_tail", book.shares.heavy_tail, OptionText{"", "q from which a tail is heavy", 1, 1e6});
    visit("least_share", book.shares.least, OptionText{"share", "of the work lies below the cut, at least", 0, 1});
    visit("most_share", book.shares.most, OptionText{"share", "of the work lies below the cut, at most", 0, 1});
    VisitFootprintOptions(book, visit);
  }

 private:
  static constexpr double kBehindAll = 1e9;  // [s]

  struct Call {
    double key = 0, cost = 0;
    // As of when it joined the queue.
    double arrival = 0, drain = 0, kappa = 0, cut = 0;
    double tightness = 0;  // 1 - B / B~, within -1 and 1
    TimePoint enqueued = kUnset;
    TimePoint hopeless_at = kNever;
  };
  struct Options {
    BoostPreset preset = BoostPreset::kDefault;
    double boost = 0.85;
    double deadline_weight = 0.6;
    double least_drain_s = 1;
    double horizon_s = 3600;
  };

  bool by_size() const { return options_.preset == BoostPreset::kMean || options_.preset == BoostPreset::kGoodput; }

  double Share() const { return options_.preset == BoostPreset::kTail ? 1.0 / 3 : 1; }

  // By how much its workflow's time is shorter than the usual, as a share of that; each workflow is learnt from once,
  // within bounds.
  double Tightness(const Request& q, bool first) {
    if (q.deadline == kNever || q.compute > Duration::zero()) return 0;
    constexpr double kForget = 0.998, kMostStep = 3;
    const double time = SecondsBetween(q.workflow_arrival, q.deadline);
    const double x = std::log(std::clamp(time, 1e-3, 1e9));
    if (first && time > 0 && q.arrival <= q.workflow_arrival) {
      const double step = deadlines_ > 0 ? std::clamp(x - usual_time_, -kMostStep, kMostStep) : x;
      deadlines_ = kForget * deadlines_ + 1;
      usual_time_ += step / deadlines_;
    }
    if (!(deadlines_ > 0)) return 0;
    return time > 0 ? 1 - std::min(std::exp(x - usual_time_), 2.0) : 1;
  }
  double DeadlineStart(const Call& call) const {
    return options_.deadline_weight * Share() * call.drain * call.tightness;
  }

  // In seconds. So that nobody's exceeds the horizon, and the order by size stays, all are scaled down where that of
  // the least possible request would.
  double SizeStart(const Call& call) const {
    const double least = book_.LeastCost();
    if (!(call.cost < call.cut) || !(least < call.cut)) return 0;
    const double scale = std::min(call.kappa * call.drain, options_.horizon_s / std::log(call.cut / least));
    return scale * std::log(call.cut / std::max(call.cost, least));
  }

  // From `hopeless_at` on the rest of the workflow's longest path does not end in time.
  void Deadline(const RequestState& r, TimePoint now, Call& call) const {
    if (r.request.deadline == kNever) return;
    const Duration path = FromSeconds(book_.PathSeconds(r));
    const bool over = r.request.deadline < now || r.request.deadline - now < path;
    if (over) return GiveUp(call);
    call.hopeless_at = r.request.deadline - path;
  }
  static void GiveUp(Call& call) {
    call.key += kBehindAll;
    call.hopeless_at = kNever;
  }

  Options options_;
  FootprintBook book_;
  double deadlines_ = 0, usual_time_ = 0;  // of workflows: how many count, and the mean of ln B
  std::vector<Call> calls_;  // by slot
};

}  // namespace takt

#endif  // TAKT_POLICY_BOOSTED_FOOTPRINT_H_
