// Hints for a host that manages its own prefix cache, about workflows between turns.
#ifndef TAKT_TURNS_TURN_HINTS_H_
#define TAKT_TURNS_TURN_HINTS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "takt/base/branch_table.h"
#include "takt/turns/return_times.h"
#include "takt/model/event.h"
#include "takt/model/step.h"
#include "takt/turns/retention/hold_value.h"

namespace takt {

// Expresses HoldValue as hints for hosts with their own eviction: TensorRT-LLM's priority and duration of a token
// range, vLLM's proposed priority and TTL, and Dynamo's hints. To find the price, contexts in use
// are added first, then other contexts by falling value. The price is the value of the context that fills the cache; 0
// if all contexts fit. The price is computed once per second from at most kMostSeen branches.
//   priority = 35 + 5 round(log2(v / price)), from 15 to 55; 35, which is TensorRT-LLM's default, at the price or
//              if all contexts fit
//   until    = the edge of the curve at which v falls below the price
//
// v is the value of the context's middle block, because a hint covers the whole context.
//
// Unknown branches and times that run backwards have no effect. Memory is allocated only if more branches are known
// than ever before.
class TurnHints {
 public:
  static constexpr std::size_t kMostSeen = 1024;
  static constexpr int kMiddle = 35, kStep = 5, kMostSteps = 4;

  explicit TurnHints(const HoldValue& value = {}, const ReturnTimesOptions& times = {})
      : value_(value), times_(times), most_(std::max(times.max_open, 1u)) {
    branches_.KeyHashes(times.hash_seed);
    value_.curves = &times_.curves();
    seen_.reserve(kMostSeen);
  }
  TurnHints(const TurnHints&) = delete;  // value_ points to the curves of times_
  TurnHints& operator=(const TurnHints&) = delete;

  void MakeRoom(std::size_t n) {
    n = std::min(n, most_);
    branches_.MakeRoom(n);
    times_.MakeRoom(n);
  }

  void SetCapacity(std::int64_t tokens) { capacity_ = tokens; }

  const ReturnTimes& times() const { return times_; }
  double price() const { return price_; }
  std::size_t branches() const { return branches_.size(); }

  // Records that a request of the branch has arrived.
  void Began(const BranchName& name, TimePoint now) {
    times_.Returned(name.workflow, name.branch, now);
    if (branches_.Find(name.workflow, name.branch) != kNoSlot) branches_.Returned(name);
    Know(name).here = true;
  }

  // Records that a request of the branch has ended with `context` tokens. Returns a hint.
  CacheHint Ended(const BranchName& name, Tokens context, TimePoint now) {
    Branch& known = Know(name);
    known.here = false;
    known.tokens = std::max(context.value, 0);
    known.since = now;
    if (!times_.IsOpen(name.workflow, name.branch)) times_.Began(name, ReturnClass::kUnknown, now);
    known.return_class = times_.ClassOf(name.workflow, name.branch);
    return HintOf(known, now);
  }

  // Returns a drop hint after the last request of a branch; nullopt if the branch has another request.
  std::optional<CacheHint> EndedLast(WorkflowId workflow, std::uint64_t branch) const {
    if (branches_.Find(workflow, branch) != kNoSlot) return std::nullopt;
    return CacheHint{.workflow = workflow, .branch = branch, .action = CacheAction::kDrop};
  }

  // Returns a hint; nullopt if the branch is unknown, or is over and held nothing.
  std::optional<CacheHint> On(const TurnEnded& e, TimePoint now) {
    const Slot i = branches_.Find(e.workflow, e.branch);
    if (e.why == TurnWhy::kOver) {
      times_.Lost(e.workflow, e.branch, now);
      if (i == kNoSlot) return std::nullopt;
      return Forget(i);
    }
    const std::uint32_t return_class = times_.ClassOf(e);
    if (!times_.SetClass(e.workflow, e.branch, return_class)) {
      times_.Began(i != kNoSlot ? branches_[i].name : BranchName{e.workflow, e.branch}, return_class, now);
    }
    if (i == kNoSlot || branches_[i].here) return std::nullopt;
    branches_[i].return_class = return_class;
    CacheHint hint = HintOf(branches_[i], now);
    if (e.pin > Duration::zero()) hint.until = std::max(hint.until, After(now, e.pin));
    return hint;
  }

  // Returns a hint to fetch the context by e.when.
  std::optional<CacheHint> On(const TurnExpected& e, TimePoint now) {
    const Slot i = branches_.Find(e.workflow, e.branch);
    if (i == kNoSlot || branches_[i].here) return std::nullopt;
    Branch& known = branches_[i];
    times_.Lost(e.workflow, e.branch, now);
    known.return_class = ReturnClass::Expected(ToSeconds(e.when) - ToSeconds(now));
    known.since = now;
    times_.Began(known.name, known.return_class, now);
    CacheHint hint = HintOf(known, now);
    hint.action = CacheAction::kFetch;
    hint.until = e.when;
    return hint;
  }

  // Calls emit(hint) for each branch of the workflow.
  template <class Emit>
  void On(const WorkflowEnded& e, TimePoint now, Emit&& emit) {
    times_.Lost(e.workflow, now);
    branches_.ForEachBranch(e.workflow, [&](Slot i) { emit(Forget(i)); });
  }

 private:
  struct Branch : BranchRecord {
    std::int32_t tokens = 0;
    std::uint32_t return_class = 0;
    TimePoint since = {};
    bool here = false;  // true: a request of the branch is alive
  };
  struct Seen {
    double value = 0;
    double tokens = 0;
  };

  Branch& Know(const BranchName& name) {
    Slot i = branches_.Find(name.workflow, name.branch);
    if (i == kNoSlot) {
      if (branches_.size() >= most_) branches_.Erase(branches_.Crowded());
      i = branches_.Insert({{name}});
    } else {
      branches_.Use(i, name.tenant);
    }
    return branches_[i];
  }

  CacheHint Forget(Slot i) {
    const BranchName gone = branches_[i].name;
    branches_.Erase(i);
    return {.workflow = gone.workflow, .branch = gone.branch, .action = CacheAction::kDrop};
  }

  double CostOf(const Branch& of) const { return value_.Cost({.tokens = of.tokens / 2, .block_tokens = 1}); }
  double ValueOf(const Branch& of, TimePoint now) const {
    return value_.Value(
        {.return_class = of.return_class, .since = of.since, .tokens = of.tokens / 2, .block_tokens = 1}, now);
  }

  void FindPrice(TimePoint now) {
    if (priced_ && Between(priced_at_, now) < std::chrono::seconds(1)) return;
    priced_ = true, priced_at_ = now;
    seen_.clear();
    const std::size_t stride = (branches_.slots() + kMostSeen - 1) / kMostSeen;
    double room = static_cast<double>(capacity_);
    for (std::size_t i = 0; i < branches_.slots(); i += stride) {
      if (!branches_.Has(static_cast<Slot>(i))) continue;
      const Branch& of = branches_[static_cast<Slot>(i)];
      const double tokens = static_cast<double>(of.tokens) * static_cast<double>(stride);
      if (of.here) room -= tokens;
      else seen_.push_back({ValueOf(of, now), tokens});
    }
    std::ranges::sort(seen_, [](const Seen& a, const Seen& b) {
      return a.value != b.value ? a.value > b.value : a.tokens < b.tokens;
    });
    price_ = 0;
    for (const Seen& one : seen_) {
      room -= one.tokens;
      if (room >= 0) continue;
      price_ = one.value;
      break;
    }
  }

  CacheHint HintOf(const Branch& of, TimePoint now) {
    FindPrice(now);
    CacheHint hint{.workflow = of.name.workflow, .branch = of.name.branch, .until = kNever, .tokens = {of.tokens}};
    hint.priority = kMiddle;
    if (!(price_ > 0)) return hint;
    const double value = ValueOf(of, now);
    int steps = 0;
    for (double ratio = value / price_; ratio >= 1.4142135623730951 && steps < kMostSteps; ratio /= 2) ++steps;
    for (double ratio = value / price_; ratio < 0.70710678118654757 && steps > -kMostSteps; ratio *= 2) --steps;
    hint.priority = static_cast<std::uint8_t>(kMiddle + kStep * steps);
    const ReturnCurve& curve = times_.curves().Of(HoldValue::ClassOf({.return_class = of.return_class}));
    const double cost = CostOf(of);
    hint.until = now;
    if (value < price_) return hint;
    for (std::size_t bin = ReturnCurve::BinOf(ToSeconds(Between(of.since, now))); bin < ReturnCurve::kBins; ++bin) {
      if (Rounded(curve.gain[bin] * cost) < price_) break;
      hint.until = After(of.since, FromSeconds(ReturnCurve::Edge(bin + 1)));
    }
    return hint;
  }

  HoldValue value_;
  ReturnTimes times_;
  std::size_t most_;
  std::int64_t capacity_ = 0;
  BranchTable<Branch> branches_;
  bool priced_ = false;
  TimePoint priced_at_ = {};
  double price_ = 0;
  std::vector<Seen> seen_;
};

}  // namespace takt

#endif  // TAKT_TURNS_TURN_HINTS_H_
