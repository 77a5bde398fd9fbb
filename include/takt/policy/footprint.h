// Least remaining footprint first: the request whose workflow will cost the engine least.
#ifndef TAKT_POLICY_FOOTPRINT_H_
#define TAKT_POLICY_FOOTPRINT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "takt/base/spec.h"
#include "takt/base/time.h"
#include "takt/policy/books/footprint_book.h"
#include "takt/policy/rank_policy.h"
#include "takt/workflow/slo_budget.h"

namespace takt {

// Visits the options of FootprintBook, for policies that contain one.
template <class Options, class V>
void VisitFootprintOptions(Options& options, V&& visit) {
  auto& pace = options.pace;
  visit("step_s", pace.step_s, OptionText{"s", "fixed time of a step", 0, 1e3});
  visit("prefill_s", pace.prefill_s, OptionText{"s/token", "time that a prefill token adds to a step", 0, 1e3});
  visit("sequence_s", pace.sequence_s, OptionText{"s", "time that a decoding sequence adds to a step", 0, 1e3});
  visit("context_s", pace.context_s, OptionText{"s/token", "time that a token of context adds to a step", 0, 1e3});
  visit("price_rate", options.price_rate, OptionText{"", "learning rate of the resources' prices", 0, 1});
  visit("learn", options.learn, OptionText{"", "learn missing predictions and correct the host's"});
  visit("idle_s", options.idle_s,
        OptionText{"s", "time without a call after which a workflow counts as ended", 0, 1e9});
}

// Key: engine seconds that the rest of the request's workflow will take, as FootprintBook estimates when the request
// joins the queue. Its mean latency is low, and its tail is unbounded: a large request waits as long as any smaller one
// waits. With `hopeless_last`, requests that can no longer meet their deadline come last. See
// docs/reference/policies/footprint.md.
class Footprint {
 public:
  static constexpr std::string_view kName = "footprint";

  void set_pace(const StepPace& pace) { book_.options().pace = pace; }

  void Reserve(std::size_t requests) { book_.Reserve(requests), hopeless_at_.reserve(requests); }
  void KeyHashes(std::uint64_t seed) { book_.KeyHashes(seed); }
  void Enters(const RequestState& r, TimePoint now) {
    book_.Enters(r, now);
    if (!hopeless_last_) return;
    if (r.slot >= hopeless_at_.size()) hopeless_at_.resize(r.slot + std::size_t{1}, kNever);
    const bool bound = r.request.deadline != kNever;
    hopeless_at_[r.slot] = bound ? Later(r.request.deadline, -book_.PathSeconds(r)) : kNever;
    if (bound && hopeless_at_[r.slot] <= now) hopeless_at_[r.slot] = kUnset;
  }
  void Ends(const RequestState& r, TimePoint now) {
    book_.Ends(r, now);
    if (r.slot < hopeless_at_.size()) hopeless_at_[r.slot] = kNever;
  }
  PolicyHooks hooks() const {
    PolicyHooks hooks = HooksOf<Footprint>();
    hooks.timed = hopeless_last_;
    return hooks;
  }
  // Learnt means, and corrections of the host's predictions.
  std::vector<std::uint64_t> SaveLearnt() const { return book_.Save(); }
  bool LoadLearnt(std::span<const std::uint64_t> words) { return book_.Load(words); }
  void PlanEnds(const QueuePressure& pressure, TimePoint) { book_.PlanEnds(pressure); }
  RankKey Key(const RequestState& r) const { return {book_.Left(r) + (HopelessAt(r) == kUnset ? kBehindAll : 0)}; }
  TimePoint ChangesAt(const RequestState& r) const {
    const TimePoint at = HopelessAt(r);
    return at == kUnset ? kNever : at;
  }
  void Change(const RequestState& r, TimePoint) { hopeless_at_[r.slot] = kUnset; }
  KeyParts Explain(const RequestState& r) const {
    KeyParts parts;
    parts.Add("C_s", book_.Left(r));
    parts.Add("truth", book_.Truth(r));
    parts.Add("p_tokens", book_.prices().tokens);
    parts.Add("p_sequences", book_.prices().sequences);
    parts.Add("p_kv", book_.prices().kv);
    if (hopeless_last_) parts.Add("hopeless", HopelessAt(r) == kUnset ? 1 : 0);
    return parts;
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("hopeless_last", self.hopeless_last_,
          OptionText{"", "rank requests that can no longer meet their deadline last"});
    VisitFootprintOptions(self.book_.options(), visit);
  }

 private:
  static constexpr double kBehindAll = 1e9;  // [s]

  TimePoint HopelessAt(const RequestState& r) const {
    return r.slot < hopeless_at_.size() ? hopeless_at_[r.slot] : kNever;
  }

  FootprintBook book_;
  bool hopeless_last_ = false;
  std::vector<TimePoint> hopeless_at_;  // by slot: when the deadline can no longer be met; kUnset: it has come
};

}  // namespace takt

#endif  // TAKT_POLICY_FOOTPRINT_H_
