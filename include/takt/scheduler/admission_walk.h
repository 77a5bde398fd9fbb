// Decides which waiting requests a plan tries to admit, and in what order.
#ifndef TAKT_SCHEDULER_ADMISSION_WALK_H_
#define TAKT_SCHEDULER_ADMISSION_WALK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "takt/scheduler/admission.h"
#include "takt/scheduler/candidates.h"
#include "takt/scheduler/ceilings.h"
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

// A source lists candidates in its own order. The walk tries each candidate, and a rule decides whether to continue.
// - The first walk starts at the head of the queue. If needed, this walk goes on past the head or through the gate.
//   - A second walk visits requests that returned from a tool with KV of their own.
//   - A third walk visits all waiting requests if the plan is still empty.
//
// Invariant: a request is admitted before an earlier one only if it may pass that one.
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
      s_.draft.top_waits_for = WaitsFor::kKv;  // running rows have precedence
      return;
    }
    if (kv_.oracle == nullptr && !gate_.open()) return AdmitThroughGate();
    if (kv_.oracle != nullptr) {  // candidates stay in the queue until the oracle answers
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

  // Called if the head of the queue does not fit and no running row can free memory for the head. Any request that fits
  // may then run, one at a time. A plan asks an oracle about at most `admission_window` requests. If the oracle refuses
  // all of these, the next plan asks about the requests after them. Returns true if an entry was planned.
  bool AdmitAny() {
    if (s_.queue.empty() || asks_left_ <= 0) return false;
    const WaitsFor top_waits_for = s_.draft.top_waits_for;
    const Slot head = s_.draft.head;
    gate_.BeginSearch();
    s_.budget.shortest_rest = std::numeric_limits<std::int32_t>::max();  // no started prompt has a chunk in this step
    AnySearch search{.held = memory_.Holds(), .by_memory = top_waits_for == WaitsFor::kKv, .free = kv_.FreeBlocks()};
    MayFit waiting{s_, prefixes_, memory_, search, from_};
    search.gave_up = !Walk(waiting, [&](Slot, Fit fit) {
      search.tried = true;
      if (fit != Fit::kAdmitted) return true;
      if (kv_.oracle != nullptr) --asks_left_, questions_.AskOracle();
      return s_.draft.planned == 0 && asks_left_ > 0;  // a swap-in adds no entry, so try one more request
    });
    if (s_.draft.planned > 0) return true;
    from_ = search.gave_up && !search.held ? waiting.from : 0;
    s_.draft.top_waits_for = top_waits_for;
    s_.draft.head = s_.queue.contains(head) ? head : kNoSlot;
    memory_.Remember(search);
    return false;
  }

 private:
  // Tries each request that `source` visits, unless it was already tried, until `rule` returns false. Returns true if
  // the source was exhausted.
  template <class Source, class Rule>
  bool Walk(Source&& source, Rule&& rule) {
    bool goes_on = true;
    source([&](Slot slot, std::span<const Slot> next = {}, const Fit* tried = nullptr) {
      return goes_on = rule(slot, tried != nullptr ? *tried : admission_.TryAdmit(slot, next));
    });
    return goes_on;
  }

  // Walks past a bounded number of skipped requests. `skipped`: true if the head was just tried and skipped. `pass`:
  // true if the walk may also pass the requests that Passing permits. If a request fails because it can never fit, its
  // memory is free. If this happens before any admission, returns true, and the caller tries the head again.
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
      // An admission of this walk closed the ceiling, so the window does not count the request.
      if (fit == Fit::kSkip && s_.draft.top_waits_for == WaitsFor::kCeiling) ++window.left;
      if (fit != Fit::kAdmitted) return !freed;
      passing_.Admitted(slot);
      // The policy must observe this admission before the next question to the policy.
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

  // Requests after the head that a walk may try.
  struct Window {
    std::int64_t left = 0;  // number of requests that the walk may still try
    std::int64_t followers = 64;  // limit for prefix waiters outside the window
    std::size_t may_ask = 0;  // listed requests that the oracle may be asked about
  };
  Window WindowOf(bool pass) {
    s_.scratch.clear(), ++walks_;
    const std::int32_t rows = kv_.oracle != nullptr ? std::max(s_.budget.limits.max_seqs - s_.counts.seqs, 0) : 0;
    return {.left = std::int64_t{s_.options.admission_window} + (pass ? 1 : 0) + rows};
  }
  // Extends the list to this index. The window does not count requests that no step can run. It does not
  // count those that the policy or a ceiling keeps out, because many of them may wait. With an oracle, the list also
  // includes the requests that the next question may cover.
  void List(Window& window, std::size_t index) {
    const bool all = kv_.oracle == nullptr || s_.queue.hooks().declines;
    const bool asks = s_.counts.seqs + kv_.round.candidate_seqs() < s_.budget.limits.max_seqs &&
                      s_.counts.rows + kv_.round.candidates() < s_.options.max_running;
    const std::size_t needed = index + (asks ? 2 * kv_.round.asks() : 0);
    const auto enough = [&](std::size_t may_ask) { return s_.scratch.size() > index && window.may_ask >= may_ask; };
    if (window.left <= 0 || enough(needed)) return;
    const std::size_t most = all ? SIZE_MAX : std::max(needed + 2, 2 * window.may_ask);
    bool ended = true;  // the window is full, or the queue is exhausted
    const auto visit = [&](Slot slot) {
      Record& record = s_.table[slot];
      ended = true;
      // A request that failed since the last listing may have changed the order of groups.
      if (record.listed_in == walks_ || s_.KeptOut(record)) return true;
      record.listed_in = walks_;
      s_.scratch.push_back(slot);
      const bool counts = !s_.NeedsLargerStep(record) && !(prefixes_.AwaitedPrefix(record) && window.followers-- > 0);
      window.left -= counts ? 1 : 0;
      window.may_ask += OracleQuestions::MayAskOf(record) ? 1u : 0u;
      ended = window.left <= 0 || !enough(most);
      return window.left > 0 && ended;
    };
    if (s_.ceilings != nullptr) s_.ceilings->VisitOpen(visit);
    else s_.queue.ForEachInOrder(visit);
    if (ended) window.left = 0;  // no further requests
  }

  // Makes room for a request that was just stopped, by preempting rows that it outranks. If the head lacks memory, a
  // returned request that can never fit gives up its KV. Returns true if a retry is worthwhile.
  bool MakeRoom(bool first) {
    if (s_.options.preempt == PreemptMode::kByRank && displacing_.MakeWayFor(s_.draft.head)) return true;
    return first && s_.draft.top_waits_for == WaitsFor::kKv && AdmitCameBack();
  }

  // While the head waits for memory, admits requests that returned from a tool and still hold KV. No other request can
  // use their memory before they end. InferCept and LAMPS do the same. Returns true if a request was failed because it
  // can never fit, which freed its KV.
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

  // Walks the queue if the gate refuses requests. If the gate refuses many requests, a plan examines only the first
  // requests and new arrivals. SearchMemory::WholeIsDue decides when to search the whole queue.
  void AdmitThroughGate() {
    gate_.BeginSearch();
    gate_.UpdateState();
    const Slot oldest = gate_.OldestAtDoor();
    if (oldest == kNoSlot && memory_.GateHolds()) {
      gate_.RefuseAsBefore();
      s_.draft.top_waits_for = WaitsFor::kGate;
      return;
    }
    memory_.ForgetGated();
    gate_.ForgetAskTime();
    ranks_.LookUpHits();
    if (oldest != kNoSlot && !AdmitAtDoor(oldest)) return;
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
          if (MakeRoom(true)) return --waiting.next, true;  // retry
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

  // Tries the request that has waited long enough for the gate's door. Returns false if no other request may be
  // admitted before it.
  bool AdmitAtDoor(Slot slot) {
    const double seconds = gate_.PrefillSeconds(s_.table[slot]);
    const Fit fit = admission_.TryAdmit(slot, {}, false);
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
  std::size_t from_ = 0;  // index at which AdmitAny starts: the oracle refused all earlier requests
  std::int32_t asks_left_ = 0;  // number of questions that AdmitAny may still ask the oracle in this plan
  std::uint64_t walks_ = 0;  // walks past the head of the queue
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_ADMISSION_WALK_H_
