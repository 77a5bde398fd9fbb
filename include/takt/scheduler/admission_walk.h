// Which waiting requests a plan tries to admit, in what order.
#ifndef TAKT_SCHEDULER_ADMISSION_WALK_H_
#define TAKT_SCHEDULER_ADMISSION_WALK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "takt/scheduler/admission.h"
#include "takt/scheduler/candidates.h"
#include "takt/scheduler/displacing.h"
#include "takt/scheduler/gate.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/oracle_questions.h"
#include "takt/scheduler/passing.h"
#include "takt/scheduler/prefixes.h"
#include "takt/scheduler/ranks.h"
#include "takt/scheduler/resting_kv.h"
#include "takt/scheduler/search_memory.h"
#include "takt/scheduler/state.h"
#include "takt/scheduler/victims.h"

namespace takt::internal {

// All walks are one: a source visits candidates in its order, each is tried, and a rule decides whether the walk goes
// on. A plan walks from the front of the queue and past the first, or through the gate; among requests that have come
// back to their KV; and among all that wait, if the plan is still empty.
//
// Invariant: no request is admitted before one that it may not pass.
class AdmissionWalk {
 public:
  AdmissionWalk(EngineState& s, Kv& kv, SearchMemory& memory, Gate& gate, Prefixes& prefixes, RestingKv& resting,
                Victims& victims, Ranks& ranks, Displacing& displacing, OracleQuestions& questions,
                Admission& admission, Passing& passing)
      : s_(s),
        kv_(kv),
        memory_(memory),
        gate_(gate),
        prefixes_(prefixes),
        resting_(resting),
        victims_(victims),
        ranks_(ranks),
        displacing_(displacing),
        questions_(questions),
        admission_(admission),
        passing_(passing) {}

  void BeginPlan() { asks_left_ = std::max(s_.options.admission_window, 1); }

  void AdmitWaiting() {
    if (s_.queue.empty()) return;
    if (s_.draft.short_of_kv) {
      s_.draft.top_waits_for = WaitsFor::kKv;  // rows that run come first
      return;
    }
    if (kv_.oracle == nullptr && !gate_.open()) return AdmitThroughGate();
    if (kv_.oracle != nullptr) {  // candidates stay in the queue until it has answered
      do {
        AdmitPastFirst(false);
      } while (kv_.round.candidates() == 0 &&
               (MakeRoom(false) || (passing_.MayBePassed(s_.draft.head) && AdmitPastFirst(true))));
      return;
    }
    const auto front = [this](auto&& tries) {
      while (!s_.queue.empty() && tries(s_.queue.Top())) {
      }
    };
    Walk(front, [this](Slot, Fit fit) {
      if (fit == Fit::kAdmitted || fit == Fit::kGone) return true;
      if (fit == Fit::kSkip) AdmitPastFirst(false, true);
      return MakeRoom(fit == Fit::kStop) || (passing_.MayBePassed(s_.draft.head) && AdmitPastFirst(true));
    });
  }

  // The first does not fit, but nothing runs that it could wait for. So any request that fits may run, one at a time.
  // An oracle is asked for at most admission_window of them in a plan. If it refuses all, the next plan asks for those
  // behind them. Returns whether an entry was planned.
  bool AdmitAny() {
    if (s_.queue.empty() || asks_left_ <= 0) return false;
    const WaitsFor top_waits_for = s_.draft.top_waits_for;
    const Slot head = s_.draft.head;
    gate_.BeginSearch();
    s_.budget.shortest_rest = std::numeric_limits<std::int32_t>::max();  // no started prompt has a part of this step
    AnySearch search{.held = memory_.Holds(), .by_memory = top_waits_for == WaitsFor::kKv, .free = kv_.FreeBlocks()};
    MayFit waiting{s_, prefixes_, memory_, search, from_};
    search.gave_up = !Walk(waiting, [&](Slot, Fit fit) {
      search.tried = true;
      if (fit != Fit::kAdmitted) return true;
      if (kv_.oracle != nullptr) --asks_left_, questions_.AskOracle();
      return s_.draft.planned == 0 && asks_left_ > 0;  // its KV may be on the way back: then another may run
    });
    if (s_.draft.planned > 0) return true;
    from_ = search.gave_up && !search.held ? waiting.from : 0;
    s_.draft.top_waits_for = top_waits_for;
    s_.draft.head = s_.queue.contains(head) ? head : kNoSlot;
    memory_.Remember(search);
    return false;
  }

 private:
  // Tries each request that `source` visits, unless it was tried before, until `rule` is false. Returns whether the
  // source came to its end.
  template <class Source, class Rule>
  bool Walk(Source&& source, Rule&& rule) {
    bool goes_on = true;
    source([&](Slot slot, std::span<const Slot> next = {}, const Fit* tried = nullptr) {
      return goes_on = rule(slot, tried != nullptr ? *tried : admission_.TryAdmit(slot, next));
    });
    return goes_on;
  }

  // Walks a bounded number of requests past those that are skipped for reasons of their own; `skipped`: so was the
  // first, just now. With `pass` it also passes requests that Passing allows to pass. Returns true if a request failed
  // because it can never fit, and left memory, before any was admitted: the caller tries the first again.
  bool AdmitPastFirst(bool pass, bool skipped = false) {
    s_.draft.head = kNoSlot;
    const Slot first = s_.queue.Top();
    const Fit of_first = skipped ? Fit::kSkip : admission_.TryAdmit(first);
    if (of_first == Fit::kStop && !(pass && passing_.MayBePassed(first))) return false;
    Window window = WindowOf(pass);
    passing_.Begin();
    const std::int32_t free = kv_.FreeBlocks();
    bool freed = false;
    const auto rule = [&](Slot slot, Fit fit) {
      if (fit == Fit::kStop) return pass && passing_.LetPass(slot);
      if (fit == Fit::kGone) freed = pass && passing_.admitted() == 0 && kv_.FreeBlocks() > free;
      if (fit == Fit::kSkip && s_.draft.top_waits_for == WaitsFor::kAdapter) passing_.PassWithoutAdapter(slot);
      if (fit != Fit::kAdmitted) return !freed;
      passing_.Admitted(slot);
      // The policy is asked about the next request when it knows of this one.
      if (kv_.oracle != nullptr && s_.queue.hooks().declines) questions_.AskOracle();
      return !passing_.exhausted();
    };
    const auto listed = [&](auto&& tries) {
      for (std::size_t i = 0;; ++i) {
        List(window, i);
        if (i >= s_.scratch.size()) return;
        const Slot slot = s_.scratch[i];
        const bool may = passing_.MayTakeAdapter(slot);
        if (may && !tries(slot, std::span(s_.scratch).subspan(i + 1), slot == first ? &of_first : nullptr)) return;
      }
    };
    Walk(listed, rule);
    passing_.End();
    return freed;
  }

  // Requests past the first that a walk may try.
  struct Window {
    std::int64_t left = 0;  // places
    std::int64_t followers = 64;  // that waited for a prefix in the last plan: the first take no place in the window
    std::size_t may_ask = 0;  // listed, and perhaps to be asked about
  };
  Window WindowOf(bool pass) {
    s_.scratch.clear();
    const std::int32_t rows = kv_.oracle != nullptr ? std::max(s_.budget.limits.max_seqs - s_.counts.seqs, 0) : 0;
    return {.left = std::int64_t{s_.options.admission_window} + (pass ? 1 : 0) + rows};
  }
  // Requests that no step of these limits can run, and requests that the policy declines, take no place in the window:
  // they may be many, and wait for long. The window is listed as far as the request at this index. Of an oracle's
  // candidates, which stay in the queue, those are listed, too, that the next question may be about.
  void List(Window& window, std::size_t index) {
    const bool all = kv_.oracle == nullptr || s_.queue.hooks().declines;
    const bool asks = s_.counts.seqs + kv_.round.candidate_seqs() < s_.budget.limits.max_seqs &&
                      s_.counts.rows + kv_.round.candidates() < s_.options.max_running;
    const std::size_t needed = index + (asks ? 2 * kv_.round.asks() : 0);
    const auto enough = [&](std::size_t may_ask) { return s_.scratch.size() > index && window.may_ask >= may_ask; };
    if (window.left <= 0 || enough(needed)) return;
    const std::size_t most = all ? SIZE_MAX : std::max(needed + 2, 2 * window.may_ask);
    auto before = std::ranges::count_if(s_.scratch, [this](Slot slot) { return s_.queue.contains(slot); });
    bool ended = true;  // the window, or the queue
    s_.queue.ForEachInOrder([&](Slot slot) {
      const Record& record = s_.table[slot];
      ended = true;
      if (!s_.queue.Admits(record.state, s_.now) || --before >= 0) return true;
      s_.scratch.push_back(slot);
      const bool counts = !s_.NeedsLargerStep(record) && !(prefixes_.AwaitedPrefix(record) && window.followers-- > 0);
      window.left -= counts ? 1 : 0;
      window.may_ask += OracleQuestions::MayAskOf(record) ? 1u : 0u;
      ended = window.left <= 0 || !enough(most);
      return window.left > 0 && ended;
    });
    if (ended) window.left = 0;  // there are no more
  }

  // Makes room for a request that was just stopped: rows that it outranks give way, or, if it is the first and lacks
  // memory, a request that can never fit gives up its KV. Returns whether it is worth trying again.
  bool MakeRoom(bool first) {
    if (s_.options.preempt == PreemptMode::kByRank && displacing_.MakeWayFor(s_.draft.head)) return true;
    return first && s_.draft.top_waits_for == WaitsFor::kKv && AdmitCameBack();
  }

  // The first waits for memory, and requests that have come back from a tool hold some. They go on, since no other
  // request gets that memory before they end. InferCept and LAMPS do so, too. Returns true if one of them can never
  // fit, so that what it held is free.
  bool AdmitCameBack() {
    CameBack came_back{s_, kv_, resting_.kept()};
    if (!came_back.any()) return false;
    const Slot head = s_.draft.head;
    bool freed = false;
    Walk(came_back, [&](Slot, Fit fit) {
      freed |= fit == Fit::kGone;
      return true;
    });
    s_.draft.top_waits_for = WaitsFor::kKv;
    s_.draft.head = head;
    return freed;
  }

  // Requests that the gate keeps out are passed. If they are many, a plan looks at the first of them, and at those that
  // have joined the queue since. A search of all comes at times (SearchMemory::WholeIsDue).
  void AdmitThroughGate() {
    gate_.BeginSearch();
    gate_.TellGate();
    const Slot elder = gate_.Elder();
    if (elder == kNoSlot && memory_.GateHolds()) {
      gate_.RefuseAsBefore();
      s_.draft.top_waits_for = WaitsFor::kGate;
      return;
    }
    memory_.ForgetGated();
    gate_.ForgetAskTime();
    ranks_.LookUpHits();
    if (elder != kNoSlot && !AdmitElder(elder)) return;
    passing_.Begin();
    ThroughGate waiting{s_, gate_, memory_, {.whole = memory_.WholeIsDue()}};
    GatedSearch& search = waiting.search;
    const bool ended = Walk(waiting, [&](Slot slot, Fit fit) {
      if (fit == Fit::kStop) {
        if (search.partly) return false;
        if (!passing_.passes_any()) {
          const bool by_rank = s_.options.preempt == PreemptMode::kByRank;
          const std::uint32_t worst = by_rank && waiting.most < waiting.all ? victims_.Worst(true) : kNoLane;
          if (worst != kNoLane && displacing_.Outranks(slot, worst)) waiting.ListAll();
          if (MakeRoom(true)) return --waiting.next, true;  // once more
        }
        return passing_.LetPass(slot) && --waiting.window != 0;
      }
      if (fit == Fit::kAdmitted) passing_.Admitted(slot);
      if (passing_.exhausted()) return false;
      if (s_.counts.rows > 0) gate_.SetStuck(false);
      return fit != Fit::kSkip || search.partly || waiting.Skipped(s_.table[slot]);
    });
    passing_.End();
    search.stopped = !ended && !search.partly;
    search.in_vain = !search.stopped && waiting.refused && !waiting.follows && !passing_.passes_any();
    if (search.in_vain) s_.draft.top_waits_for = WaitsFor::kGate;
    memory_.Remember(search);
  }

  // Tries the request that the door admits. Returns false if no other request may be admitted before it fits.
  bool AdmitElder(Slot elder) {
    const double seconds = gate_.PrefillSeconds(s_.table[elder]);
    const Fit fit = admission_.TryAdmit(elder, {}, false);
    if (fit == Fit::kAdmitted) gate_.UseDoor(seconds);
    return fit != Fit::kStop && !(fit == Fit::kSkip && s_.draft.top_waits_for == WaitsFor::kAdapter);
  }

  EngineState& s_;
  Kv& kv_;
  SearchMemory& memory_;
  Gate& gate_;
  Prefixes& prefixes_;
  RestingKv& resting_;
  Victims& victims_;
  Ranks& ranks_;
  Displacing& displacing_;
  OracleQuestions& questions_;
  Admission& admission_;
  Passing& passing_;
  std::size_t from_ = 0;  // AdmitAny begins there: an oracle has refused the requests before it
  std::int32_t asks_left_ = 0;  // of an oracle, for AdmitAny, in this plan
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_ADMISSION_WALK_H_
