// Sources of requests for an AdmissionWalk. A source calls tries(slot) for each request, as long as that returns true.
#ifndef TAKT_SCHEDULER_CANDIDATES_H_
#define TAKT_SCHEDULER_CANDIDATES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "takt/scheduler/gate.h"
#include "takt/scheduler/kept_kv.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/prefixes.h"
#include "takt/scheduler/search_memory.h"
#include "takt/scheduler/state.h"

namespace takt::internal {

// Requests that wait with KV of their own, in the order in which they came back, if the blocks that they lack are free.
struct CameBack {
  EngineState& s;
  Kv& kv;
  KeptKv& kept;

  std::int32_t Room() const { return std::max(kv.FreeBlocks() - (s.counts.rows > 0 ? kv.watermark : 0), 0); }
  bool any() const { return !kept.nobody_came_back() && kept.least_need() <= Room(); }

  template <class Tries>
  void operator()(Tries&& tries) const {
    const auto has_place = [this] {
      return s.budget.tokens > 0 && s.counts.seqs < s.budget.limits.max_seqs && s.counts.rows < s.options.max_running;
    };
    kept.VisitCameBack(has_place, [&](Slot slot) -> std::optional<std::int32_t> {
      Record& record = s.table[slot];
      record.came_back = record.status == RequestStatus::kWaiting && record.lane == kNoLane && record.blocks > 0;
      if (!record.came_back) return std::nullopt;
      const std::int32_t need = std::max(kv.BlocksFor(record) - record.blocks, 0);
      if (record.transit == Transit::kNone && need <= Room()) tries(slot);
      return need;
    });
  }
};

// Waiting requests in the order of the queue, if the gate may keep out most of them. Mostly the first ones run, or the
// rest waits for them. So the others are listed once these have been tried. A search that is not of all ends after
// Gate::kMostLooks looks at requests that take no place in the window. Requests that have joined since the last search
// come after these, and change nothing of what the queue waits for.
struct ThroughGate {
  EngineState& s;
  Gate& gate;
  const SearchMemory& memory;
  GatedSearch search;
  std::int32_t window = s.options.admission_window;
  std::size_t most = static_cast<std::size_t>(window);  // to list for now
  const std::size_t all =
      search.whole ? SIZE_MAX : Gate::kMostLooks + most + static_cast<std::size_t>(s.options.max_running);
  std::size_t next = 0;  // in the scheduler's scratch list
  bool refused = false, follows = false;  // requests that the gate keeps out; that wait for a prefix

  template <class Tries>
  void operator()(Tries&& tries) {
    s.scratch.clear();
    List();
    gate.SetStuck(false);
    for (;; ++next) {
      if (next == s.scratch.size()) ListAll();
      search.partly = !search.whole && (search.looks >= Gate::kMostLooks || next == all);
      if (search.partly) break;
      if (next == s.scratch.size()) {
        // If nothing runs, all that wait may keep each other out: the gate is asked about them once more.
        if (!refused || gate.stuck() || s.counts.rows > 0) return;
        gate.SetStuck(true), gate.AskAgain(), next = 0;
      }
      if (s.queue.contains(s.scratch[next]) && !tries(s.scratch[next])) return;
    }
    const WaitsFor reason = s.draft.top_waits_for;
    const Slot head = s.draft.head;
    for (const Slot slot : memory.joined_at_gate()) {
      if (s.queue.contains(slot) && !tries(slot)) break;
    }
    s.draft.top_waits_for = reason, s.draft.head = head;
  }

  // Also called before a row that gives way joins the queue.
  void ListAll() {
    if (std::exchange(most, all) != all) List();
  }
  void List() {
    auto listed = std::ranges::count_if(s.scratch, [this](Slot slot) { return s.queue.contains(slot); });
    s.queue.ForEachInOrder([&](Slot slot) {
      if (--listed < 0) s.scratch.push_back(slot);
      return s.scratch.size() < most;
    });
  }

  // A request was skipped. Returns whether the window allows to go on.
  bool Skipped(const Record& record) {
    const WaitsFor reason = s.draft.top_waits_for;
    refused |= reason == WaitsFor::kGate;
    follows |= reason == WaitsFor::kPrefix;
    const bool counts = reason != WaitsFor::kGate && reason != WaitsFor::kDeclined && reason != WaitsFor::kPrefix &&
                        !s.NeedsLargerStep(record);
    search.looks += counts ? 0 : 1;
    return !counts || --window != 0;
  }
};

// Requests that may fit though the first of the queue does not. If an earlier search holds, only requests that have
// joined since. Otherwise the first of all, which mostly fits, and then all: if none fits, their order does not matter.
struct MayFit {
  EngineState& s;
  Prefixes& prefixes;
  SearchMemory& memory;
  AnySearch& search;
  std::size_t from;  // the place in the list at which it begins, and then that at which it has ended

  template <class Tries>
  void operator()(Tries&& tries) {
    std::size_t first = 0;
    if (search.held) {
      s.scratch.clear();
      for (const Slot slot : memory.joined()) {
        if (s.queue.contains(slot)) ListIfItMay(slot);
      }
      std::ranges::sort(s.scratch, [this](Slot a, Slot b) { return s.queue.IsBefore(a, b); });
      s.scratch.erase(std::unique(s.scratch.begin(), s.scratch.end()), s.scratch.end());
      Visit(tries, first);
    } else if (List(1), Visit(tries, first) && !s.scratch.empty()) {
      List(SIZE_MAX), Visit(tries, from);
    }
    search.none_seems_to_fit = s.scratch.empty();
  }

 private:
  // Visits the list from `place` on, which it moves on, and then the requests before.
  template <class Tries>
  bool Visit(Tries&& tries, std::size_t& place) {
    const std::span<const Slot> all(s.scratch);
    for (std::size_t left = all.size(); left > 0; --left) {
      const Slot slot = all[place % all.size()];
      place = (place + 1) % all.size();
      if (!tries(slot, all.subspan(place))) return false;
    }
    return true;
  }
  void List(std::size_t most) {
    s.scratch.clear();
    s.queue.ForEachInOrder([&](Slot slot) {
      ListIfItMay(slot);
      return s.scratch.size() < most;
    });
  }
  void ListIfItMay(Slot slot) {
    ++s.stats.searched;
    const Record& record = s.table[slot];
    if (search.by_memory) {
      const std::int32_t blocks = prefixes.BlocksNeeded(record, prefixes.HitOf(record));
      if (blocks > search.free) {
        search.least = std::min(search.least, blocks);
        return;
      }
    }
    // If a row lacks memory and some will soon be free, a request that computes gets further. A request that would only
    // be moved in would be moved out again for that row, and so on for ever.
    const bool may = record.refused_at != s.stats.plans && s.queue.Admits(record.state, s.now) &&
                     !(s.draft.short_of_kv && record.cpu_blocks > 0);
    search.passed_over |= !may;
    if (may) s.scratch.push_back(slot);
  }
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_CANDIDATES_H_
