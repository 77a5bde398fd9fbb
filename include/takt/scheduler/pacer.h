// Chooses the prompt tokens of a step so that running requests keep their pace.
#ifndef TAKT_SCHEDULER_PACER_H_
#define TAKT_SCHEDULER_PACER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"
#include "takt/base/time.h"
#include "takt/model/engine_pace.h"
#include "takt/model/step.h"
#include "takt/scheduler/step_ring.h"

namespace takt::internal {

// A step gives each decoding row one token, so its time is the rows' time between tokens. The time is predicted as
//
//   base * (step_s + sequence_s * decodes + context_s * context) + slope * prefill_s * (prompt tokens)
//
// with the coefficients of StepPace, and two factors that are learned from measured steps. The prompt tokens are the
// largest number whose predicted time is within `aim` of the smallest target among the running requests. `aim` falls
// after each late step, and rises slowly otherwise, so that about 1 % of the steps are late (Robbins and Monro, 1951).
//
// A step's time is measured from its plan, or from the result before it if that came later, to its result.
//
// Invariant: the numbers of running requests by target equal a recount.
class Pacer {
 public:
  static constexpr std::int32_t kUnlimited = std::numeric_limits<std::int32_t>::max();

  // `pace` [s]: target of requests without one of their own; 0: none. `least`: minimum prompt tokens of a step.
  Pacer(double pace, std::int32_t least) : pace_(FromSeconds(pace)), least_(std::max(least, 1)) {}

  void Reserve(std::size_t rows) { targets_.reserve(rows); }

  // Replaces the target of requests without one of their own, and the minimum.
  void SetDefault(double pace, std::int32_t least) {
    const std::int64_t requests = defaults_;
    for (std::int64_t i = 0; i < requests; ++i) Remove(Duration::zero());
    pace_ = FromSeconds(pace), least_ = std::max(least, 1);
    for (std::int64_t i = 0; i < requests; ++i) Add(Duration::zero());
  }

  // Called when a request with this target begins to run, and when it no longer runs. Requests without a target count
  // too.
  void Add(Duration pace) {
    defaults_ += pace > Duration::zero() ? 0 : 1;
    const Duration target = TargetOf(pace);
    if (target <= Duration::zero()) return;
    auto at = std::ranges::lower_bound(targets_, target, {}, &Target::pace);
    if (at == targets_.end() || at->pace != target) at = targets_.insert(at, {target, 0});
    ++at->requests;
  }
  void Remove(Duration pace) {
    defaults_ -= pace > Duration::zero() ? 0 : 1;
    const Duration target = TargetOf(pace);
    if (target <= Duration::zero()) return;
    const auto at = std::ranges::lower_bound(targets_, target, {}, &Target::pace);
    if (--at->requests == 0) targets_.erase(at);
  }

  // Begins a plan. Returns its prompt tokens. `align`: alignment of chunks.
  std::int32_t BeginPlan(std::int32_t align) {
    paced_ = kUnlimited;
    if (targets_.empty() || decodes_ == 0) return paced_;
    const double target = Rounded(aim_ * ToSeconds(targets_.front().pace));
    const double left = target - Base(decodes_, context_);
    const double tokens = left > 0 ? left / Rounded(slope_ * kPace.prefill_s) : 0;
    floor_ = std::max(least_, align);
    paced_ = std::max(floor_, static_cast<std::int32_t>(std::min(tokens, 1e9)));
    return paced_;
  }

  // Ends a plan that runs these entries. O(entries) if a running request has a target.
  void EndPlan(StepId id, std::span<const PlanEntry> run, TimePoint now) {
    limited_ = false;
    decodes_ = context_ = 0;
    if (targets_.empty()) return;  // no pass over the rows without a target
    Planned step{.id = id, .at = now, .target = targets_.front().pace};
    for (const PlanEntry& entry : run) {
      if (entry.prefill()) {
        step.prompts += entry.tokens;
      } else {
        step.decodes += entry.tokens, step.context += entry.position;
      }
      if (!entry.samples()) continue;
      decodes_ += entry.prefill() ? 1 : entry.tokens;
      context_ += entry.position + entry.tokens;
    }
    step.paced = paced_, step.least = floor_;
    limited_ = paced_ != kUnlimited && step.prompts > 0;
    steps_[id.value % steps_.size()] = step;
  }

  // Learns from a step's result. Returns true if the step was paced and late. The aim learns only from steps whose
  // prompt tokens the aim has chosen.
  bool Committed(StepId id, TimePoint now) {
    Planned& step = steps_[id.value % steps_.size()];
    const TimePoint from = std::max(step.at, last_commit_);
    last_commit_ = now;
    if (step.id != id || !id) return false;
    step.id = {};
    const double took = ToSeconds(Between(from, now));
    if (!(took > 0) || step.decodes + step.prompts == 0) return false;
    const double base = Base(step.decodes, step.context);
    const double prompts = Rounded(slope_ * Rounded(kPace.prefill_s * static_cast<double>(step.prompts)));
    // One step moves the prediction by a tenth at most, so that a pause of the host does little harm.
    const double off = std::clamp(exact::Log(took / (base + prompts)), -1.0, 1.0) / 10;
    const double share = prompts / (base + prompts);
    base_ = Clamped(Rounded(base_ * exact::Exp(Rounded(off * (1 - share)))));
    slope_ = Clamped(Rounded(slope_ * exact::Exp(Rounded(off * share))));
    ++learnt_;
    if (step.paced == kUnlimited || step.prompts == 0) return false;
    const bool late = Between(from, now) > step.target;
    if (learnt_ > kSettled && step.paced > step.least && step.prompts <= step.paced) {
      aim_ = std::clamp(aim_ + (late ? -kLearn * (1 - kLate) : kLearn * kLate), 0.25, 1.0);
    }
    return late;
  }

  // Returns the prompt tokens of the newest plan; kUnlimited: it was not paced.
  std::int32_t paced() const { return paced_; }
  // Returns true if the newest plan has prompts and a target.
  bool limited() const { return limited_; }

 private:
  static constexpr StepPace kPace = {};
  static constexpr double kLate = 0.005, kLearn = 0.02;  // aimed share of late steps; step of `aim_`
  static constexpr std::int64_t kSettled = 50;  // measured steps after which the prediction is trusted
  struct Target {
    Duration pace;
    std::int32_t requests = 0;
  };
  struct Planned {
    StepId id = {};
    TimePoint at{};
    Duration target{0};
    std::int64_t decodes = 0, context = 0, prompts = 0;
    std::int32_t paced = kUnlimited, least = 0;
  };

  Duration TargetOf(Duration pace) const { return pace > Duration::zero() ? pace : pace_; }
  double Base(std::int64_t decodes, std::int64_t context) const {
    return Rounded(base_ * (kPace.step_s + Rounded(kPace.sequence_s * static_cast<double>(decodes)) +
                            Rounded(kPace.context_s * static_cast<double>(context))));
  }
  static double Clamped(double factor) { return std::clamp(factor, 0x1p-12, 0x1p12); }

  Duration pace_;
  std::int32_t least_;
  std::int64_t defaults_ = 0;  // running requests without a target of their own
  std::vector<Target> targets_;  // of the running requests, ascending
  double base_ = 1, slope_ = 1, aim_ = 0.9;
  std::int32_t paced_ = kUnlimited, floor_ = 0;
  bool limited_ = false;
  std::int64_t learnt_ = 0;  // measured steps
  std::int64_t decodes_ = 0, context_ = 0;  // of the next step
  std::array<Planned, StepRing::kMostInFlight + 1> steps_ = {};  // by number
  TimePoint last_commit_{};
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_PACER_H_
