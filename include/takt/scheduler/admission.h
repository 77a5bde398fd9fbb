// Decides whether a waiting request fits a step.
#ifndef TAKT_SCHEDULER_ADMISSION_H_
#define TAKT_SCHEDULER_ADMISSION_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "takt/scheduler/state.h"
#include "takt/scheduler/ceilings.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/gate.h"
#include "takt/scheduler/prefixes.h"
#include "takt/scheduler/lives.h"
#include "takt/scheduler/new_rows.h"
#include "takt/scheduler/oracle_questions.h"
#include "takt/scheduler/output_reserve.h"

namespace takt::internal {

enum class Fit : std::uint8_t { kAdmitted, kGone, kSkip, kStop };

// Invariant: a request that does not fit gets another reason for waiting, and nothing else changes.
class Admission {
 public:
  Admission(EngineState& s, Kv& kv, OutputReserve& reserve, Gate& gate, Prefixes& prefixes, Lives& lives,
            NewRows& new_rows, OracleQuestions& questions)
      : s_(s),
        kv_(kv),
        reserve_(reserve),
        gate_(gate),
        prefixes_(prefixes),
        lives_(lives),
        new_rows_(new_rows),
        questions_(questions) {}

  // Moves a waiting request to the running set if it fits this step. `next` lists the requests that may be tried after
  // it.
  Fit TryAdmit(Slot slot, std::span<const Slot> next = {}, bool through_gate = true) {
    const auto skip = [this](WaitsFor reason) {
      s_.draft.top_waits_for = reason;
      return Fit::kSkip;
    };
    const auto stop = [this, slot](WaitsFor reason) {
      s_.draft.top_waits_for = reason;
      s_.draft.head = slot;
      return Fit::kStop;
    };
    Record& record = s_.table[slot];
    const Request& r = record.state.request;
    if (const WaitsFor reason = s_.PassedOverFor(record); reason != WaitsFor::kNothing) {
      if (reason == WaitsFor::kCeiling) s_.ceilings->Keep(slot);
      return skip(reason);
    }
    const auto rows = s_.counts.rows + kv_.round.candidates();
    const std::int32_t seqs = s_.counts.seqs + kv_.round.candidate_seqs() + r.sequences;
    if (seqs > s_.budget.limits.max_seqs) return stop(WaitsFor::kSequences);
    if (rows >= s_.options.max_running) {
      ++s_.stats.short_of_rows;
      return stop(WaitsFor::kSequences);
    }
    if (record.cpu_blocks > 0) return TrySwapIn(slot);

    // The request may already have KV of its own or a cached prefix.
    std::int32_t start = record.computed;
    const PrefixHit hit = prefixes_.HitOf(record);
    if (hit.chunks > 0) start = hit.chunks * r.prefix.block_tokens.value;
    if (kv_.oracle != nullptr && start == 0 && record.blocks == 0) {
      start = questions_.CachedOf(slot, next);
    }
    if (record.computed == 0 && record.blocks == 0) start = std::max(start, prefixes_.ArrivedOf(record));
    // The row computes the rest of the prompt after the load. If the load fails, one step must be able to compute all
    // of it.
    std::int32_t copies = prefixes_.CopiesOf(record);
    if (copies > 0 && !s_.budget.Fits(r, start, record.known - start)) copies = 0;
    if (copies * r.prefix.block_tokens.value <= start) copies = 0;
    if (copies == 0 && kv_.ChunkBlocks(record) > 0 && prefixes_.AwaitsPrefix(record, hit.chunks))
      return skip(WaitsFor::kPrefix);
    std::int32_t n = record.known - start;
    const bool decodes = n == r.sequences && record.state.generated.value > 0;
    if (copies > 0) {
      if (!MayMoveIn((copies - hit.chunks) * kv_.ChunkBlocks(record))) return stop(WaitsFor::kMove);
    } else if (decodes) {
      if (n > s_.budget.tokens) return stop(WaitsFor::kBudget);
    } else {
      const std::int32_t rest = std::exchange(n, s_.budget.Chunk(r, start, n));
      if (n > 0 && !s_.budget.MayStart(n, rest)) return skip(WaitsFor::kBudget);
      if (n == 0) {
        if (s_.budget.Fits(r, start, record.known - start)) {
          s_.draft.crowded |=
              s_.budget.HasRoom() && (kv_.block_tokens == 0 || prefixes_.BlocksNeeded(record, hit) <= kv_.FreeBlocks());
          return stop(WaitsFor::kBudget);
        }
        const std::int32_t most = s_.options.max_step_tokens.value;
        if (r.chunkable || most == 0 || r.prompt_tokens.value - start <= most) return skip(WaitsFor::kBudget);
        lives_.Fail(slot, FailReason::kNeverFits);
        return Fit::kGone;
      }
    }

    const std::int32_t blocks = std::max(kv_.BlocksFor(record), record.blocks);
    if (kv_.block_tokens > 0) {
      const std::int32_t need = blocks - record.blocks - prefixes_.SharedBlocks(record, hit);
      const std::int32_t free = kv_.FreeBlocks();
      if (need > 0 && need > free - Spared(slot, need, free)) {
        if (!Outgrows(blocks)) return stop(WaitsFor::kKv);
        lives_.Fail(slot, FailReason::kNeverFits);
        return Fit::kGone;
      }
      const std::int32_t there = std::max(start, copies * r.prefix.block_tokens.value);
      if (through_gate && !gate_.open() &&
          !gate_.LetsIn(record, blocks - record.blocks - hit.chunks * kv_.ChunkBlocks(record), there)) {
        return skip(WaitsFor::kGate);
      }
    }
    if (kv_.oracle != nullptr) {
      questions_.Wish(slot, {slot, start, n, !decodes}, blocks);
      s_.budget.SetAside(n, !decodes);
      return Fit::kAdmitted;
    }
    if (kv_.Counts()) {
      const std::int32_t chunk_blocks = hit.chunks > 0 ? kv_.ChunkBlocks(record) : 0;
      if (hit.chunks > 0) {
        kv_.ledger.Acquire(kv_.Hashes(record, 0, hit.chunks), chunk_blocks);
        record.shared_chunks = hit.chunks;
      }
      kv_.ledger.Allocate(blocks - record.blocks - hit.chunks * chunk_blocks);
    }
    record.blocks = blocks;
    if (copies > 0) {
      new_rows_.Fetch(slot, start, copies);
    } else {
      new_rows_.Admit(slot, start, n);
    }
    reserve_.Admitted(record.lane);
    return Fit::kAdmitted;
  }

 private:
  // Admits a request whose KV must be swapped in.
  Fit TrySwapIn(Slot slot) {
    const Record& record = s_.table[slot];
    const std::int32_t blocks = std::max(kv_.BlocksFor(record), record.cpu_blocks);
    const std::int32_t free = kv_.FreeBlocks();
    const bool fits = blocks <= free - Spared(slot, blocks, free);
    const bool allowed = MayMoveIn(record.cpu_blocks);
    if (!fits && Outgrows(blocks)) {
      lives_.Fail(slot, FailReason::kNeverFits);
      return Fit::kGone;
    }
    if (!fits || !allowed) {
      s_.draft.top_waits_for = fits ? WaitsFor::kMove : WaitsFor::kKv;
      s_.draft.head = slot;
      return Fit::kStop;
    }
    s_.budget.swap_in -= record.cpu_blocks;
    if (kv_.oracle != nullptr) {
      questions_.Wish(slot, {.slot = slot, .start = record.computed, .tokens = 0}, blocks);
    } else {
      kv_.ledger.Allocate(blocks);
      new_rows_.SwapIn(slot, blocks);
      reserve_.Admitted(record.lane);
    }
    return Fit::kAdmitted;
  }

  // Returns the number of free blocks that admissions must leave for the growth of running rows. The number is the
  // watermark or the reserve for outputs, or 0 if nothing runs. Without a reserve, it is one block per sequence if the
  // watermark alone has kept out the head of the queue for `admission_window` plans.
  std::int32_t Spared(Slot slot, std::int32_t need, std::int32_t free) {
    if (s_.counts.rows == 0) return 0;
    if (reserve_.on())
      return static_cast<std::int32_t>(std::min<std::int64_t>(reserve_.Spare(s_.table[slot]), 1 << 30));
    std::uint64_t& fits_since = s_.table[slot].fits_since;
    if (need > free) {
      fits_since = 0;
    } else if (need > free - kv_.watermark && (s_.draft.head == kNoSlot || s_.draft.head == slot)) {
      if (fits_since == 0) fits_since = s_.stats.plans;
      if (std::cmp_greater_equal(s_.stats.plans - fits_since, s_.options.admission_window)) {
        return std::min(kv_.watermark, s_.counts.seqs + s_.Sequences(s_.table[slot]));
      }
    }
    return kv_.watermark;
  }

  // Returns true if the KV cache is smaller than this many blocks. Arrival checks the ledger's total, but an oracle's
  // total can shrink later.
  bool Outgrows(std::int32_t blocks) const { return kv_.oracle != nullptr && blocks > kv_.TotalBlocks(); }

  // The first move of a step may exceed the swap-in limit. Otherwise KV larger than the limit could never move.
  bool MayMoveIn(std::int32_t blocks) const {
    return blocks <= s_.budget.swap_in ||
           (s_.budget.swap_in == s_.budget.limits.swap_in.value && s_.budget.swap_in > 0);
  }

  EngineState& s_;
  Kv& kv_;
  OutputReserve& reserve_;
  Gate& gate_;
  Prefixes& prefixes_;
  Lives& lives_;
  NewRows& new_rows_;
  OracleQuestions& questions_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_ADMISSION_H_
