// Learns per class of gap how long workflows stay away between two turns. Gaps that have not ended also count.
#ifndef TAKT_TURNS_RETURN_TIMES_H_
#define TAKT_TURNS_RETURN_TIMES_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "takt/base/branch_table.h"
#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"
#include "takt/base/time.h"
#include "takt/model/event.h"
#include "takt/turns/return_curve.h"

namespace takt {

struct ReturnTimesOptions {
  std::uint32_t classes = 64;  // number of classes: ReturnClass's, then one per tool; gaps of others count as unknown
  double window = 4096;  // number of gaps of a class after which earlier counts are halved; at least 2
  double prior_weight = 16;  // weight of the prior, in gaps per bin; above 0
  // Maximum open gaps and, in a scheduler, maximum holdings, at most 65,536. Beyond them, the oldest gap of the largest
  // tenant is dropped (BranchTable) and not learned from.
  std::uint32_t max_open = 65536;
  std::int64_t refresh = 256;  // number of returns after which the curves are computed again
  std::uint64_t hash_seed = 0;  // seed of the hashes of gaps, like SchedulerOptions::hash_seed
};

// Learned counts of one class, for saving and loading. One per bin of ReturnCurve; the last is after all edges.
struct ReturnCounts {
  using Bins = std::array<double, ReturnCurve::kBins + 1>;
  Bins ended = {};  // number of gaps that ended in the bin
  Bins lost = {};  // number of gaps that were last observed in the bin
  Bins seen = {};  // observed share of the bin, summed over the lost gaps

  friend bool operator==(const ReturnCounts&, const ReturnCounts&) = default;
};

// Kaplan-Meier estimator on the bins of ReturnCurve. A bin's hazard is the share of gaps at risk in it that end in it.
// Open and lost gaps are at risk for as long as they were observed (censoring). Old counts are halved.
//
// Bins with few observations are drawn towards a prior with a weight of prior_weight gaps:
//   single tool -> all tools -> kToolHazards;  user -> kUserHazards;
//   sub-agent, unknown, expected -> the pool of all gaps -> a mix of the tool and user priors, 5.7 % of it users'.
// These hazards come from 493 recorded sessions of coding agents, and assume no returns after 4,096 s. Other workloads
// replace them within a few hundred turns.
//
// Two bounds limit how much a client that opens many gaps can change the curves of others:
//   - A tenant's gaps weigh at most as much as those of all others together, or as kFew gaps if that is more. Without
//     other tenants, they weigh in full. Tenants that have not returned yet, or have no name, count as one tenant here.
//   - The open gaps of one workflow weigh at most kMostOfWorkflow gaps.
//
// Deterministic. Unknown branches, invalid ages and times that run backwards have no effect. Memory is allocated only
// if more gaps are open than ever before.
class ReturnTimes {
 public:
  // Return rates [1/s] between the edges 0, 4, 8, 16, ... 2,048 s.
  static constexpr std::array<double, 11> kToolHazards = {0.003, 0.10,  0.11,  0.053,  0.022, 0.013,
                                                          0.007, 0.004, 0.001, 0.0003, 0.0002};
  static constexpr std::array<double, 11> kUserHazards = {0.004, 0.003, 0.005,  0.002,  0.002, 0.001,
                                                          0.002, 0.001, 0.0004, 0.0003, 0.0002};
  static constexpr double kUserShare = 0.057;  // share of turns that end with a wait for the user
  static constexpr double kMostOfWorkflow = 64, kFew = 16;  // gaps

  explicit ReturnTimes(const ReturnTimesOptions& options = {}) : options_(options) {
    options_.classes = std::max(options.classes, ReturnClass::kFirstTool);
    options_.window = std::max(options.window, 2.0);
    options_.prior_weight = std::max(options.prior_weight, 1e-6);
    options_.refresh = std::max<std::int64_t>(options.refresh, 1);
    options_.max_open = std::max(options.max_open, 1u);
    counts_.resize(options_.classes);
    away_.resize(options_.classes);
    curves_.classes.resize(options_.classes);
    open_.KeyHashes(options.hash_seed);
    Refresh({});
  }

  // Opens the gap of a branch whose turn has ended. If it is open, the newest report counts.
  void Began(const BranchName& name, std::uint32_t return_class, TimePoint now) {
    Slot i = open_.Find(name.workflow, name.branch);
    if (i != kNoSlot) {
      open_.Use(i, name.tenant ? name.tenant : open_[i].name.tenant);
    } else {
      if (open_.size() >= options_.max_open) open_.Erase(open_.Crowded());
      i = open_.Insert({{name}});
    }
    open_[i].return_class = Known(return_class);
    open_[i].since = now;
  }

  // Sets the class of an open gap, which may be reported late or again. Returns false if the gap is not open.
  bool SetClass(WorkflowId workflow, std::uint64_t branch, std::uint32_t return_class) {
    const Slot i = open_.Find(workflow, branch);
    if (i != kNoSlot) open_[i].return_class = Known(return_class);
    return i != kNoSlot;
  }
  bool IsOpen(WorkflowId workflow, std::uint64_t branch) const { return open_.Find(workflow, branch) != kNoSlot; }
  // Returns the unknown class if the gap is not open.
  std::uint32_t ClassOf(WorkflowId workflow, std::uint64_t branch) const {
    const Slot i = open_.Find(workflow, branch);
    return i != kNoSlot ? open_[i].return_class : ReturnClass::kUnknown;
  }

  // Returns the class of the turn's end. Requires e.why != kOver.
  std::uint32_t ClassOf(const TurnEnded& e) const {
    if (e.expected > Duration::zero()) return Known(ReturnClass::Expected(ToSeconds(e.expected)));
    switch (e.why) {
      case TurnWhy::kTool:
        if (e.tool && e.tool.value <= options_.classes - ReturnClass::kFirstTool) {
          return ReturnClass::kFirstTool + static_cast<std::uint32_t>(e.tool.value) - 1;
        }
        return ReturnClass::kTool;
      case TurnWhy::kUser: return ReturnClass::kUser;
      case TurnWhy::kChildren: return ReturnClass::kSubAgent;
      case TurnWhy::kUnknown:
      case TurnWhy::kOver: break;
    }
    return ReturnClass::kUnknown;
  }

  void MakeRoom(std::size_t n) { open_.MakeRoom(std::min<std::size_t>(n, options_.max_open)); }

  // Ends a gap because the branch's next turn has arrived. Returns false if the gap is not open.
  bool Returned(WorkflowId workflow, std::uint64_t branch, TimePoint now) {
    const Slot i = open_.Find(workflow, branch);
    if (i == kNoSlot) return false;
    const BranchName name = open_[i].name;
    Close(i, now, true);
    const std::size_t new_share = open_.Returned(name);
    if (new_share != open_.kNoShare) {
      seen_[open_.kCommon] += std::exchange(seen_[new_share], 0);
      if (name.tenant) --seen_[open_.kCommon], ++seen_[new_share];
    }
    if (++since_refresh_ >= options_.refresh) Refresh(now);
    return true;
  }

  // Ends the observation of a gap, because the branch is over or the host has lost it.
  bool Lost(WorkflowId workflow, std::uint64_t branch, TimePoint now) {
    const Slot i = open_.Find(workflow, branch);
    if (i == kNoSlot) return false;
    Close(i, now, false);
    return true;
  }
  // Ends the observation of all gaps of a workflow.
  void Lost(WorkflowId workflow, TimePoint now) {
    open_.ForEachBranch(workflow, [&](Slot i) { Close(i, now, false); });
  }

  // Learns a gap observed elsewhere for `seconds`. `ended`: true if the workflow returned then; false if the
  // observation stopped. Takes effect at the next Refresh.
  void Learn(std::uint32_t return_class, double seconds, bool ended) { Learn(return_class, seconds, ended, 1); }

  // Computes the curves from learned counts and open gaps. O(open + classes), some microseconds per class.
  void Refresh(TimePoint now) {
    since_refresh_ = 0;
    std::fill(away_.begin(), away_.end(), ReturnCounts{});
    ReturnCounts all;
    for (Slot i = 0; i < open_.slots(); ++i) {
      if (!open_.Has(i)) continue;
      const double seconds = SecondsOf(i, now), weight = WeightOf(i);
      Count(away_[open_[i].return_class], seconds, false, weight);
      if (open_[i].return_class >= ReturnClass::kFirstTool) Count(away_[ReturnClass::kTool], seconds, false, weight);
      Count(all, seconds, false, weight);
    }
    static_assert(ReturnClass::kTool < ReturnClass::kFirstTool);
    const ReturnCurve tools = Prior(kToolHazards), users = Prior(kUserHazards);
    ReturnCurve mix, pool;
    for (std::size_t i = 0; i <= ReturnCurve::kBins; ++i) {
      mix.survival[i] = Rounded((1 - kUserShare) * tools.survival[i]) + Rounded(kUserShare * users.survival[i]);
    }
    Estimate(pool_, all, mix, pool);
    for (std::uint32_t k = 0; k < options_.classes; ++k) {
      const bool single = k >= ReturnClass::kFirstTool;
      const ReturnCurve& behind = single                    ? curves_.classes[ReturnClass::kTool]
                                  : k == ReturnClass::kTool ? tools
                                  : k == ReturnClass::kUser ? users
                                                            : pool;
      Estimate(counts_[k], away_[k], behind, curves_.classes[k]);
      curves_.classes[k].FindGain();
    }
  }

  // The curves of the last Refresh.
  const ReturnCurves& curves() const { return curves_; }
  double Survival(std::uint32_t return_class, double age_s) const { return curves_.Of(return_class).Survival(age_s); }
  double Hazard(std::uint32_t return_class, double age_s) const { return curves_.Of(return_class).Hazard(age_s); }
  double Gain(std::uint32_t return_class, double age_s) const { return curves_.Of(return_class).Gain(age_s); }

  std::uint32_t classes() const { return options_.classes; }
  std::size_t open() const { return open_.size(); }

  // For saving and loading. Open gaps are not included. Invalid counts are refused.
  const ReturnCounts& counts(std::uint32_t return_class) const { return counts_[Known(return_class)]; }
  const ReturnCounts& pool() const { return pool_; }
  bool Restore(std::uint32_t return_class, const ReturnCounts& counts) {
    return return_class < options_.classes && Restore(counts_[return_class], counts);
  }
  bool RestorePool(const ReturnCounts& counts) { return Restore(pool_, counts); }

 private:
  struct Open : BranchRecord {
    std::uint32_t return_class = 0;
    TimePoint since = {};
  };

  std::uint32_t Known(std::uint32_t return_class) const { return return_class < options_.classes ? return_class : 0; }

  double SecondsOf(Slot i, TimePoint now) const { return std::max(ToSeconds(Between(open_[i].since, now)), 0.0); }

  // Returns the weight of an open gap.
  double WeightOf(Slot i) const {
    const std::size_t share = open_.TenantShareOf(i);
    const double own = seen_[share] + static_cast<double>(open_.TenantShareSize(share));
    const double others = all_seen_ + static_cast<double>(open_.size()) - own;
    const double of_tenant = others > 0 ? std::min(1.0, std::max(others, kFew) / own) : 1;
    return of_tenant * std::min(1.0, kMostOfWorkflow / static_cast<double>(open_.BranchesOf(i)));
  }

  void Close(Slot i, TimePoint now, bool ended) {
    const std::uint32_t return_class = open_[i].return_class;
    const std::size_t share = open_.TenantShareOf(i);
    const double seconds = SecondsOf(i, now), weight = WeightOf(i);
    open_.Erase(i);
    Learn(return_class, seconds, ended, weight);
    ++seen_[share], ++all_seen_;
    if (all_seen_ < options_.window) return;
    all_seen_ = 0;
    for (double& seen : seen_) seen /= 2, all_seen_ += seen;
  }

  void Learn(std::uint32_t return_class, double seconds, bool ended, double weight) {
    return_class = Known(return_class);
    Add(counts_[return_class], seconds, ended, weight);
    if (return_class >= ReturnClass::kFirstTool) Add(counts_[ReturnClass::kTool], seconds, ended, weight);
    Add(pool_, seconds, ended, weight);
  }

  static void Count(ReturnCounts& counts, double seconds, bool ended, double weight) {
    const std::size_t bin = ReturnCurve::BinOf(seconds);
    if (ended) {
      counts.ended[bin] += weight;
      return;
    }
    counts.lost[bin] += weight;
    if (bin >= ReturnCurve::kBins) return;
    const double share = std::min((seconds - ReturnCurve::Edge(bin)) / ReturnCurve::Width(bin), 1.0);
    counts.seen[bin] = std::min(counts.seen[bin] + Rounded(weight * share), counts.lost[bin]);
  }

  void Add(ReturnCounts& counts, double seconds, bool ended, double weight) const {
    double sum = 0;
    for (std::size_t i = 0; i <= ReturnCurve::kBins; ++i) sum += counts.ended[i] + counts.lost[i];
    if (sum >= options_.window) {
      for (ReturnCounts::Bins* bins : {&counts.ended, &counts.lost, &counts.seen}) {
        for (double& count : *bins) count /= 2;
      }
    }
    Count(counts, seconds, ended, weight);
  }

  static bool Restore(ReturnCounts& own, const ReturnCounts& counts) {
    for (const ReturnCounts::Bins* bins : {&counts.ended, &counts.lost, &counts.seen}) {
      for (const double count : *bins) {
        if (!(count >= 0 && count <= 1e15)) return false;
      }
    }
    for (std::size_t i = 0; i <= ReturnCurve::kBins; ++i) {
      if (counts.seen[i] > counts.lost[i]) return false;
    }
    own = counts;
    return true;
  }

  // Returns the survival curve of a table of hazards, which are constant between its ages.
  static ReturnCurve Prior(const std::array<double, 11>& hazards) {
    ReturnCurve curve;
    double exponent = 0;
    for (std::size_t i = 0; i <= ReturnCurve::kBins; ++i) {
      curve.survival[i] = exact::Exp(-exponent);
      if (i == ReturnCurve::kBins || ReturnCurve::Edge(i) >= 4096) continue;
      std::size_t row = 0;
      for (double from = 4; row + 1 < hazards.size() && ReturnCurve::Edge(i) >= from; from *= 2) ++row;
      exponent += Rounded(hazards[row] * ReturnCurve::Width(i));
    }
    return curve;
  }

  // Estimates the survival curve from `learnt` and `away`, drawn towards the prior `behind`.
  void Estimate(const ReturnCounts& learnt, const ReturnCounts& away, const ReturnCurve& behind,
                ReturnCurve& curve) const {
    constexpr std::size_t kBins = ReturnCurve::kBins;
    double later = 0;  // number of gaps that reach the end of the bin
    std::array<double, kBins> returns;
    for (std::size_t i = kBins + 1; i-- > 0;) {
      const double ended = learnt.ended[i], lost = learnt.lost[i] + away.lost[i];
      if (i < kBins) {
        const double at_risk = later + ended + learnt.seen[i] + away.seen[i];
        const double before = behind.survival[i];
        const double expected = before > 0 ? (before - behind.survival[i + 1]) / before : 0;
        returns[i] = (ended + Rounded(options_.prior_weight * expected)) / (at_risk + options_.prior_weight);
      }
      later += ended + lost;
    }
    curve.survival[0] = 1;
    for (std::size_t i = 0; i < kBins; ++i) {
      curve.survival[i + 1] = Rounded(curve.survival[i] * (1 - std::clamp(returns[i], 0.0, 1.0)));
    }
  }

  ReturnTimesOptions options_;
  std::vector<ReturnCounts> counts_, away_;  // by class: learned; open as of the last Refresh
  ReturnCounts pool_;
  ReturnCurves curves_;
  BranchTable<Open> open_;
  // Closed gaps per tenant's share, halved like the counts; kCommon: tenants without a share.
  std::array<double, BranchTable<Open>::kShares + 1> seen_ = {};
  double all_seen_ = 0;
  std::int64_t since_refresh_ = 0;
};

}  // namespace takt

#endif  // TAKT_TURNS_RETURN_TIMES_H_
