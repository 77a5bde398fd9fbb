// Sources of requests for an AdmissionWalk. A source calls tries(slot) for each request until the call returns false.
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

// Waiting requests that hold KV and whose missing blocks are free, in order of return.
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

// Waiting requests in queue order, for a gate that may refuse most of them. The source first lists a window of
// requests, which usually suffices. Other requests are listed on demand. A partial search examines at most
// Gate::kMostLooks requests that the window does not count, and then the requests that joined since the last search.
struct ThroughGate {
  EngineState& s;
  Gate& gate;
  const SearchMemory& memory;
  GatedSearch search;
  std::int32_t window = s.options.admission_window;
  std::size_t most = static_cast<std::size_t>(window);  // maximum requests to list for now
  const std::size_t all =
      search.whole ? SIZE_MAX : Gate::kMostLooks + most + static_cast<std::size_t>(s.options.max_running);
  std::size_t next = 0;  // index into the scheduler's scratch list
  bool refused = false, follows = false;  // whether the gate refused a request; whether one waits for a prefix

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
        // If nothing runs, the waiting requests may block each other, so ask the gate about each once more.
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

  // Also called before a preempted row joins the queue.
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

  // Counts a skipped request. Returns true if the window is not exhausted.
  bool Skipped(const Record& record) {
    const WaitsFor reason = s.draft.top_waits_for;
    refused |= reason == WaitsFor::kGate;
    follows |= reason == WaitsFor::kPrefix;
    const bool counts = reason != WaitsFor::kGate && reason != WaitsFor::kDeclined && reason != WaitsFor::kCeiling &&
                        reason != WaitsFor::kPrefix && !s.NeedsLargerStep(record);
    search.looks += counts ? 0 : 1;
    return !counts || --window != 0;
  }
};

// Requests that may fit although the head of the queue does not. If the last search is still valid, only requests that
// joined after it are visited. Otherwise the first request is visited alone, and then all others.
struct MayFit {
  EngineState& s;
  Prefixes& prefixes;
  SearchMemory& memory;
  AnySearch& search;
  std::size_t from;  // list index at which the search starts, and later the index at which it ended

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
  // Visits the list from `place` to the end and then from the start. Advances `place`.
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
    const std::int32_t blocks = search.by_memory ? prefixes.BlocksNeeded(record, prefixes.HitOf(record)) : 0;
    if (search.by_memory && blocks > search.free) {
      search.least = std::min(search.least, blocks);
      return;
    }
    // If a row waits for memory, it would soon evict a request that is swapped in now. So skip requests that need a
    // swap-in.
    const bool may =
        record.refused_at != s.stats.plans && !s.KeptOut(record) && !(s.draft.short_of_kv && record.cpu_blocks > 0);
    search.passed_over |= !may;
    if (may) s.scratch.push_back(slot);
  }
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_CANDIDATES_H_
