// Plans standing rows, all at once.
#ifndef TAKT_SCHEDULER_STANDING_H_
#define TAKT_SCHEDULER_STANDING_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "takt/scheduler/state.h"
#include "takt/scheduler/kv.h"

namespace takt::internal {

// Invariant: the entries of standing rows are those of the last plan, advanced by one token.
class Standing {
 public:
  Standing(EngineState& s, Kv& kv) : s_(s), kv_(kv) {}

  // Maximum block size for standing rows, because RunningSet keeps a count for each token of a block.
  static constexpr std::int32_t kMostBlockTokens = 1 << 16;

  bool MayStand() const { return kv_.block_tokens >= 0 && kv_.block_tokens <= kMostBlockTokens; }

  // Plans all standing rows at once: their entries are those of the last plan, advanced by one token. Removes rows that
  // have left from the order. Returns how many places of the order were covered before the removal.
  std::size_t PlanStanding() {
    const auto give_up = [this] {
      s_.running.StandNoMoreFrom(0);
      return std::size_t{0};
    };
    if (s_.running.front() == 0) return 0;
    if (!MayStand() || s_.counts.seqs > s_.budget.limits.max_seqs) return give_up();
    do {
      if (!FindGaps() || std::cmp_greater(s_.running.front() - n_gaps_, s_.budget.tokens)) return give_up();
    } while (s_.running.StopAtCaps());
    const std::size_t front = s_.running.front();
    if (front == n_gaps_) return give_up();
    if (!Grow(s_.running.growing())) return give_up();

    std::vector<std::uint32_t>& order = s_.running.order();
    PlanEntry* to = s_.draft.entries;
    const PlanEntry* from = s_.draft.last;
    std::size_t kept = 0, at = 0;
    s_.running.disturbed().clear();
    for (std::size_t i = 0; i <= n_gaps_; ++i) {
      const bool last = i == n_gaps_;
      const std::size_t end = last ? front : gaps_[i].place;
      const std::size_t n = end - at;
      TAKT_ASSERT(n == 0 || (from->lane == order[at] && (from + n - 1)->lane == order[end - 1]));
      if (to != from) std::copy(from, from + n, to);
#pragma GCC unroll 8
      for (std::size_t e = 0; e < n; ++e) ++to[e].position;
      if (kept != at) std::copy(order.data() + at, order.data() + end, order.data() + kept);
      to += n, from += n, kept += n;
      if (last) break;
      if (from->lane == order[end]) ++from;  // the row was in the last plan
      if (!gaps_[i].gone) {
        order[kept++] = order[end];
        s_.running.disturbed().push_back(order[end]);
      }
      at = end + 1;
    }
    s_.draft.planned = static_cast<std::size_t>(to - s_.draft.entries);
    s_.draft.of->standing = s_.draft.planned;
    s_.draft.of->standing_plan = s_.running.PlanStanding(s_.draft.step);
    s_.budget.tokens -= static_cast<std::int32_t>(s_.draft.planned);
    s_.running.SetFront(kept);
    return front;
  }

 private:
  // A place in the standing part whose row is no longer standing.
  struct Gap {
    std::size_t place = 0;
    bool gone = false;
  };
  static constexpr std::size_t kMostGaps = 16;  // maximum gaps; with more, rows are planned one by one
  // kQuiet: the row yields no entry and stays unchanged.
  enum class Disturbed : std::uint8_t { kGone, kQuiet, kToPlan };

  // Allocates or requests blocks for the growing rows. Returns false if there are too few.
  bool Grow(std::int32_t blocks) {
    if (blocks == 0) return true;
    if (kv_.FreeBlocks() < blocks) return false;
    if (kv_.oracle == nullptr) {
      kv_.ledger.Allocate(blocks);
      return true;
    }
    kv_.round.AddRows(blocks, [this](auto add) {
      s_.running.VisitGrowing([&](std::uint32_t lane, RequestId request, std::int32_t held) {
        add(lane, {request, {held}, {held + kv_.block_tokens}, false, false});
      });
    });
    return true;
  }

  // Returns the state of a row that is no longer standing.
  Disturbed WhatBecameOf(const Row& row) const {
    if (row.state == RowState::kFree || row.state == RowState::kLeaving) return Disturbed::kGone;
    if (row.state == RowState::kMoving) return Disturbed::kQuiet;
    const bool at_cap =
        row.in_flight != 0 && !row.prefilling && row.expected >= row.cap;  // the row's last token is in flight
    return at_cap && row.sequences == s_.Sequences(s_.table[row.slot]) ? Disturbed::kQuiet : Disturbed::kToPlan;
  }

  // Finds the places of disturbed lanes in the order, sorted. Returns false if there are too many. The standing part
  // ends before the first disturbed row that must be planned like any other.
  bool FindGaps() {
    std::vector<std::uint32_t>& disturbed = s_.running.disturbed();
    if (disturbed.size() > kMostGaps) return false;
    const std::vector<std::uint32_t>& order = s_.running.order();
    std::size_t end = s_.running.front();
    n_gaps_ = 0;
    for (const std::uint32_t lane : disturbed) {
      const std::size_t place = PlaceOf(std::span(order).first(s_.running.front()), lane);
      const Disturbed what = WhatBecameOf(s_.running.Stored(lane));
      if (what == Disturbed::kToPlan) end = std::min(end, place);
      gaps_[n_gaps_++] = {place, what == Disturbed::kGone};
    }
    const auto first = gaps_.begin();
    std::ranges::sort(first, first + n_gaps_, {}, &Gap::place);
    if (end < s_.running.front()) {
      while (n_gaps_ > 0 && gaps_[n_gaps_ - 1].place >= end) --n_gaps_;
      s_.running.StandNoMoreFrom(end);
      disturbed.clear();
      for (std::size_t i = 0; i < n_gaps_; ++i) disturbed.push_back(order[gaps_[i].place]);
    }
    return true;
  }

  EngineState& s_;
  Kv& kv_;
  std::array<Gap, kMostGaps> gaps_;
  std::size_t n_gaps_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_STANDING_H_
