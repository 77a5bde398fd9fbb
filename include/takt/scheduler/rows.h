// Plans the running rows.
#ifndef TAKT_SCHEDULER_ROWS_H_
#define TAKT_SCHEDULER_ROWS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "takt/scheduler/state.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/ceilings.h"
#include "takt/scheduler/lives.h"
#include "takt/scheduler/entries.h"
#include "takt/scheduler/row_room.h"
#include "takt/scheduler/standing.h"

namespace takt::internal {

// Invariant: each running row is planned at most once. Drafts and long prompts get the budget that the other rows
// leave.
class Rows {
 public:
  Rows(EngineState& s, Kv& kv, Lives& lives, Entries& entries, RowRoom& room, Standing& standing)
      : s_(s), kv_(kv), lives_(lives), entries_(entries), room_(room), standing_(standing) {}

  // Plans all rows in order of admission, and removes rows that have left from the order.
  void PlanRunning() {
    s_.running.BeginWalk();
    const std::size_t stood = standing_.PlanStanding();
    std::vector<std::uint32_t>& order = s_.running.order();
    std::size_t kept = s_.running.front();
    std::size_t planned = s_.draft.planned;
    const bool may_stand = standing_.MayStand();
    std::int32_t budget = s_.budget.tokens;
    const std::uint16_t step = s_.draft.step;
    const bool crowded = s_.counts.seqs > s_.budget.limits.max_seqs;  // the limit has fallen: not all rows may run
    for (std::size_t i = stood; i < order.size(); ++i) {
      const std::uint32_t lane = order[i];
      Row& row = s_.running.Stored(lane);  // it is not standing
      const std::int32_t n = row.sequences;
      if (row.state == RowState::kSteady && n <= budget && !crowded &&
          (row.scheduled + n <= row.ceiling || (row.expected < row.cap && room_.SpareRoom(lane, row.scheduled + n))))
          [[likely]] {
        order[kept++] = lane;
        s_.draft.entries[planned++] = {row.request, lane, n, row.scheduled, 0, PlanEntry::kSamples};
        row.scheduled += n;
        row.expected += n;
        row.in_flight |= step;
        ++row.steps;
        budget -= n;
        if (kept == s_.running.front() + 1 && n == 1 && may_stand) s_.running.Stand(lane);
      } else if (row.state != RowState::kFree && row.state != RowState::kLeaving) {
        order[kept++] = lane;
        s_.draft.planned = planned, s_.budget.tokens = budget;
        PlanRow(lane);
        planned = s_.draft.planned, budget = s_.budget.tokens;
      }
    }
    order.resize(kept);
    s_.draft.planned = planned, s_.budget.tokens = budget;
    s_.draft.plan->tokens = {std::max(s_.budget.limits.tokens.value, 0) - budget};
  }

  void PlanPrefills() {
    s_.running.StandNoMoreFrom(0);
    s_.running.BeginWalk();
    std::erase_if(s_.running.order(), [this](std::uint32_t lane) {
      const RowState state = s_.running[lane].state;
      return state == RowState::kFree || state == RowState::kLeaving;
    });
    for (std::size_t i = 0; i < s_.running.order().size(); ++i) {
      const std::uint32_t lane = s_.running.order()[i];
      if (s_.running[lane].prefilling) PlanRow(lane);
    }
  }

  void PlanDecodes() {
    for (std::size_t i = 0; i < s_.running.order().size(); ++i) {
      const std::uint32_t lane = s_.running.order()[i];
      const Row& row = s_.running[lane];
      const bool planned = (row.in_flight & s_.draft.step) != 0;  // in the first pass of this step
      if (!row.prefilling && !planned) PlanRow(lane);
    }
  }

  // Plans started prompts after the decoding rows. Prompts that must be computed whole come first. A prompt that does
  // not end in this step leaves room for other prompts, running or waiting. PlanLongPrompts plans its chunk after
  // admissions, from its share and the rest of the budget.
  void PlanPrompts() {
    std::vector<StartedPrompt>& prompts = s_.draft.prompts;
    bool whole_waits = false;
    std::erase_if(prompts, [&](const StartedPrompt& prompt) {
      const Row& row = s_.running.Stored(prompt.lane);
      if (!s_.Runs(row)) return true;  // it was preempted for a decoding row
      const Request& r = s_.table[row.slot].state.request;
      const std::int32_t whole = r.prompt_tokens.value - row.scheduled;
      if (r.chunkable || whole <= 0) return false;
      if (!PlanPrompt(prompt.lane)) whole_waits |= s_.budget.WouldFit(whole);
      return true;
    });
    const bool others_wait = !s_.queue.empty() && !whole_waits;
    const bool crowded = s_.counts.seqs > s_.budget.limits.max_seqs;  // the limit has fallen: earlier rows come first
    const std::int32_t share = s_.budget.ShareOfPrompt(crowded ? 1 : prompts.size() + (others_wait ? 1 : 0));
    std::size_t kept = 0;
    for (const StartedPrompt& prompt : prompts) {
      const Row& row = s_.running.Stored(prompt.lane);
      const std::int32_t rest = row.expected - row.scheduled, left = s_.budget.ForPrompts();
      std::int32_t aside = 0;
      if (rest <= left || share >= left) {
        if (PlanPrompt(prompt.lane) || kept == 0) continue;  // PlanLongPrompts retries it
      } else {
        aside = s_.budget.LeastChunk(s_.table[row.slot].state.request, row.scheduled, rest, share);
        s_.budget.SetAside(aside, true);
        if (aside > 0) s_.budget.shortest_rest = std::min(s_.budget.shortest_rest, rest);
      }
      prompts[kept++] = {prompt.lane, aside};
    }
    prompts.resize(kept);
    // Start no other prompts while a prompt that must be computed whole still waits.
    if (whole_waits) s_.budget.prefill = 0;
  }

  void PlanLongPrompts() {
    std::erase_if(s_.draft.prompts, [this](const StartedPrompt& prompt) {
      s_.budget.GiveBack(prompt.aside, true);
      return PlanPrompt(prompt.lane);
    });
    if (s_.draft.short_of_kv) {  // the other prompts share the budget of the prompt that lacks memory
      for (const StartedPrompt& prompt : s_.draft.prompts) PlanPrompt(prompt.lane);
    }
    s_.draft.prompts.clear();
  }

  // Gives draft tokens the budget and memory that are left at the end of a plan. If the budget is too small for all
  // drafts, rows get equal parts. Rows that were served least recently are the first to get blocks and the remaining
  // tokens. O(rows with drafts), plus a sort if not all drafts fit.
  void PlanDrafts() {
    std::vector<DraftOffer>& offers = s_.draft.offers;
    const bool short_of_kv = s_.draft.short_of_kv || s_.draft.top_waits_for == WaitsFor::kKv;
    std::int32_t spare = short_of_kv ? 0 : std::max(kv_.FreeBlocks() - kv_.watermark, 0);
    const auto blocks_for = [this](const DraftOffer& offer) {
      const Row& row = s_.running.Stored(offer.lane);
      const std::int32_t lacks = offer.tokens - (row.capacity - row.scheduled);
      return lacks > 0 ? (lacks - 1) / kv_.block_tokens + 1 : 0;
    };
    std::int64_t tokens = 0, blocks = 0;
    std::erase_if(offers, [&](DraftOffer& offer) {
      if (s_.draft.entries[offer.entry].lane == kNoLane) return true;  // its row was preempted
      const Row& row = s_.running.Stored(offer.lane);
      offer.tokens = offer.all = std::min(offer.all, row.cap - row.expected);
      tokens += offer.tokens, blocks += blocks_for(offer);
      return offer.tokens <= 0;
    });
    const bool in_turn = tokens > s_.budget.tokens || blocks > spare;
    if (in_turn) std::ranges::sort(offers, {}, [this](const DraftOffer& offer) { return s_.draft.served[offer.lane]; });
    std::array<std::int32_t, 256> rows = {};  // number of rows for each number of drafts with memory
    tokens = 0;
    for (DraftOffer& offer : offers) {
      const Row& row = s_.running.Stored(offer.lane);
      const std::int32_t lacks = blocks_for(offer), gets = kv_.round.Asks(offer.lane) ? 0 : std::min(lacks, spare);
      if (gets < lacks) offer.tokens = row.capacity - row.scheduled + gets * kv_.block_tokens;
      spare -= gets, tokens += offer.tokens;
      ++rows[static_cast<std::size_t>(offer.tokens)];
    }
    // number of drafts per row, and number of rows that get one draft more
    std::int32_t part = std::numeric_limits<std::int32_t>::max(), more = 0;
    if (tokens > s_.budget.tokens) {
      part = 0, more = std::max(s_.budget.tokens, 0);
      for (auto wanting = static_cast<std::int32_t>(offers.size()) - rows[0]; more >= wanting;
           wanting -= rows[static_cast<std::size_t>(part)])
        more -= wanting, ++part;
    }
    for (const DraftOffer& offer : offers) {
      const Row& row = s_.running.Stored(offer.lane);
      std::int32_t n = std::min(offer.tokens, part);
      if (offer.tokens > part && more > 0) ++n, --more;
      if (row.scheduled + n > row.capacity) room_.SpareRoom(offer.lane, row.scheduled + n);
      if (in_turn && (n == offer.all || n > part)) s_.draft.served[offer.lane] = ++s_.draft.turn;
      entries_.AddDrafts(s_.draft.entries[offer.entry], n);
    }
    offers.clear();
  }

 private:
  // Plans one row in any state, with one token per sequence, if this step can run it. PlanPrompts and PlanDrafts follow
  // after all rows have their own tokens.
  void PlanRow(std::uint32_t lane) {
    Row& row = s_.running[lane];
    if (!s_.Runs(row)) return;
    Record& record = s_.table[row.slot];
    if (row.sequences != s_.Sequences(record)) {
      if (row.in_flight > 0) return;
      Shrink(row, record);
    }
    s_.Refresh(row, record);
    if (row.known >= row.cap) {
      if (row.in_flight > 0) return;  // the row's last step is done, but an earlier step is in flight
      s_.draft.displaced = true;
      return lives_.EndAtCap(row.slot);
    }
    if (row.left_out) return;
    if (row.prefilling) {
      s_.draft.prompts.push_back({lane, 0});
      return;
    }
    const std::int32_t n = row.expected - row.scheduled;
    if (n <= 0 || n > s_.budget.tokens || s_.Crowds(row)) return;
    if (row.expected >= row.cap) return;  // the row's last token is in flight
    if (row.scheduled + n > row.capacity && !room_.Room(lane, row.scheduled + n)) return;
    const std::int32_t drafts = row.sequences == 1 ? +row.drafts : 0;
    entries_.Emit(lane, n, 0);
    if (drafts > 0) s_.draft.offers.push_back({s_.draft.planned - 1, lane, drafts, drafts});
  }

  // Plans the next chunk of a started prompt, as large as the budget allows. Returns false if too little is left for
  // any chunk.
  bool PlanPrompt(std::uint32_t lane) {
    const Row& row = s_.running.Stored(lane);  // it is not standing
    if (!s_.Runs(row) || s_.Crowds(row)) return true;
    const Request& r = s_.table[row.slot].state.request;
    const std::int32_t left = row.expected - row.scheduled, n = s_.budget.Chunk(r, row.scheduled, left);
    s_.draft.crowded |= n == 0 && left > 0 && s_.budget.HasRoom() && s_.budget.Fits(r, row.scheduled, left);
    if (n <= 0) return false;
    if (row.scheduled + n <= row.capacity || room_.Room(lane, row.scheduled + n))
      entries_.Emit(lane, n, PlanEntry::kPrefill);
    return true;
  }

  // Removes ended sequences from a row that no step in flight uses.
  void Shrink(Row& row, Record& record) {
    const std::int32_t left = s_.Sequences(record);
    const std::int32_t base = row.known - row.sequences * row.generated;
    const std::int32_t behind = row.known - row.computed;
    s_.counts.seqs -= row.sequences - left;
    if (s_.ceilings != nullptr) s_.ceilings->Shrank(record, row.sequences - left);
    row.known = base + left * row.generated;
    // In a decoding row, the last token of each sequence is not computed. A recomputing row keeps its computed share.
    row.computed = behind == row.sequences ? row.known - left
                   : row.computed <= base  ? row.computed
                                           : base + (row.computed - base) / row.sequences * left;
    row.sequences = static_cast<std::uint16_t>(left);
    row.scheduled = row.computed;
    row.expected = row.known;
    record.known = row.known;
    record.state.generated = {row.generated};
    if (kv_.Counts()) {
      const std::int32_t blocks = std::min(row.blocks, kv_.BlocksFor(record));
      kv_.ledger.Free(row.blocks - blocks);
      row.blocks = blocks;
    }
    row.capacity = kv_.CapacityOf(record, row.blocks);
    s_.Refresh(row, record);
  }

  EngineState& s_;
  Kv& kv_;
  Lives& lives_;
  Entries& entries_;
  RowRoom& room_;
  Standing& standing_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_ROWS_H_
