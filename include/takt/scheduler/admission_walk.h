// Which waiting requests a plan tries to admit, in what order.
#ifndef TAKT_SCHEDULER_ADMISSION_WALK_H_
#define TAKT_SCHEDULER_ADMISSION_WALK_H_

#include "takt/scheduler/state.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/gate.h"
#include "takt/scheduler/prefixes.h"
#include "takt/scheduler/displacing.h"
#include "takt/scheduler/oracle_questions.h"
#include "takt/scheduler/admission.h"
#include "takt/scheduler/gated_walk.h"
#include "takt/scheduler/kept_walk.h"
#include "takt/scheduler/passing.h"

namespace takt::internal {

// Invariant: no request is admitted before one that it may not pass.
class AdmissionWalk {
 public:
  AdmissionWalk(EngineState& s, Kv& kv, Gate& gate, Prefixes& prefixes, Displacing& displacing,
                OracleQuestions& questions, Admission& admission, Passing& passing, KeptWalk& kept_walk,
                GatedWalk& gated)
      : s_(s),
        kv_(kv),
        gate_(gate),
        prefixes_(prefixes),
        displacing_(displacing),
        questions_(questions),
        admission_(admission),
        passing_(passing),
        kept_walk_(kept_walk),
        gated_(gated) {}

  void AdmitWaiting() {
    if (s_.queue.empty()) return;
    if (s_.draft.short_of_kv) {
      s_.draft.top_waits_for = WaitsFor::kKv;  // rows that run come first
      return;
    }
    if (kv_.oracle != nullptr) {  // candidates stay in the queue until it has answered
      do {
        do {
          AdmitPastTop(false);
        } while (kv_.round.candidates() == 0 && s_.options.preempt == PreemptMode::kByRank &&
                 displacing_.MakeWayFor(s_.draft.head));
      } while (kv_.round.candidates() == 0 && passing_.MayBePassed(s_.draft.head) && AdmitPastTop(true));
      return;
    }
    if (!gate_.open()) return gated_.Admit();
    while (!s_.queue.empty()) {
      const Slot slot = s_.queue.Top();
      switch (admission_.TryAdmit(slot)) {
        case Fit::kAdmitted:
        case Fit::kGone: continue;
        case Fit::kSkip: AdmitPastTop(false); break;
        case Fit::kStop: break;
      }
      if (s_.options.preempt == PreemptMode::kByRank && displacing_.MakeWayFor(s_.draft.head)) continue;
      if (s_.draft.head == slot && s_.draft.top_waits_for == WaitsFor::kKv && kept_walk_.GoOn()) continue;
      if (!passing_.MayBePassed(s_.draft.head) || !AdmitPastTop(true)) return;
    }
  }

 private:
  // Requests that wait for a prefix, and are looked past in one plan without a place in the window.
  static constexpr std::int64_t kMostFollowers = 64;

  // Looks a bounded number of candidates past those that cannot run for reasons of their own, and with `pass` also past
  // those that may be passed: each is, by at most `admission_window` requests, over its whole wait. Those that no step
  // of these limits can run, and those that the policy declines, take no place among these: they may be many, and wait
  // for long. One that waits for its adapter is overtaken by at most `admission_window` requests that use one: from
  // then on those behind it wait until an adapter is out of use, and it gets in. Without any place for adapters there
  // is nothing to wait for. Returns true if a request failed because it can never fit, and left memory, before any was
  // admitted: the caller tries the first again.
  bool AdmitPastTop(bool pass) {
    s_.draft.head = kNoSlot;
    const Slot first = s_.queue.Top();
    const Fit of_first = admission_.TryAdmit(first);
    if (of_first == Fit::kStop && !(pass && passing_.MayBePassed(first))) return false;
    passing_.Begin();
    s_.scratch.clear();
    std::int64_t window = std::int64_t{s_.options.admission_window} + (pass ? 1 : 0);
    if (kv_.oracle != nullptr) window += std::max(s_.budget.limits.max_seqs - s_.counts.seqs, 0);
    std::int64_t followers = kMostFollowers;  // that do not count, since they waited for a prefix in the last plan
    s_.queue.ForEachInOrder([&](Slot slot) {
      const Record& record = s_.table[slot];
      if (!s_.queue.Admits(record.state, s_.now)) return true;
      s_.scratch.push_back(slot);
      const bool counts = !s_.NeedsLargerStep(record) && !(prefixes_.AwaitedPrefix(record) && followers-- > 0);
      window -= counts ? 1 : 0;
      return window > 0;
    });
    std::size_t passed = 0;  // those that wait for their adapters come first in `s_.scratch`
    std::int64_t admitted = 0, most = INT64_MAX;  // that use adapters; so many, until one has been overtaken too often
    const std::int32_t free = kv_.FreeBlocks();
    bool freed = false;
    for (std::size_t i = 0; i < s_.scratch.size() && !passing_.exhausted(); ++i) {
      const Slot slot = s_.scratch[i];
      Record& record = s_.table[slot];
      const bool uses_adapter = static_cast<bool>(record.state.request.adapter);
      if (uses_adapter && admitted >= most) continue;
      const Fit fit = slot == first ? of_first : admission_.TryAdmit(slot, std::span(s_.scratch).subspan(i + 1));
      if (fit == Fit::kStop && !(pass && passing_.LetPass(slot))) break;
      if (fit == Fit::kAdmitted) passing_.Admitted();
      freed = pass && passing_.count() == 0 && fit == Fit::kGone && kv_.FreeBlocks() > free;
      if (freed) break;
      // The policy is to know of each before it is asked about the next.
      if (fit == Fit::kAdmitted && kv_.oracle != nullptr && s_.queue.hooks().declines) questions_.AskOracle();
      if (!uses_adapter || s_.budget.limits.adapters < 1) continue;
      admitted += fit == Fit::kAdmitted ? 1 : 0;
      if (fit != Fit::kSkip || s_.draft.top_waits_for != WaitsFor::kAdapter) continue;
      record.overtaken -= static_cast<std::int32_t>(admitted);  // by those before it
      most = std::min(most, std::int64_t{s_.options.admission_window} - record.overtaken);
      s_.scratch[passed++] = slot;
    }
    for (Slot slot : std::span(s_.scratch).first(passed))
      s_.table[slot].overtaken += static_cast<std::int32_t>(admitted);
    passing_.End();
    return freed;
  }

  EngineState& s_;
  Kv& kv_;
  Gate& gate_;
  Prefixes& prefixes_;
  Displacing& displacing_;
  OracleQuestions& questions_;
  Admission& admission_;
  Passing& passing_;
  KeptWalk& kept_walk_;
  GatedWalk& gated_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_ADMISSION_WALK_H_
