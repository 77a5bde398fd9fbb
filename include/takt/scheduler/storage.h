// Reserves a scheduler's storage before each call.
#ifndef TAKT_SCHEDULER_STORAGE_H_
#define TAKT_SCHEDULER_STORAGE_H_

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "takt/base/random.h"
#include "takt/scheduler/parts.h"
#include "takt/state/call_desk.h"
#include "takt/turns/gates/price.h"
#include "takt/turns/retention/hold_value.h"

namespace takt::internal {

// Each call first reserves all memory that it may need. If that allocation fails, nothing has changed. Afterwards the
// scheduler allocates nothing in this call.
class Storage {
 public:
  // Reserves memory for the number of requests in the options.
  Storage(Parts& parts, const SchedulerOptions& options) : p_(parts) {
    const auto requests = static_cast<std::size_t>(options.reserve_requests);
    const std::size_t rows = RowsOf(options, requests);
    p_.state.table.KeyHashes(options.hash_seed);
    p_.state.queue.KeyHashes(options.hash_seed);
    p_.kv.ledger.KeyHashes(options.hash_seed);
    p_.prefixes.KeyHashes(options.hash_seed);
    p_.lives.fresh().KeyHashes(Mix64(options.hash_seed));
    p_.ceilings.KeyHashes(Mix64(options.hash_seed));
    if (options.shed == Shed::kWorst) p_.state.queue.TrackWorst();
    if (options.begun_first) p_.state.queue.PutBegunFirst();
    ReserveLanes(3 * rows + 64);  // running, admitted and departing rows
    const auto reserve_lists = [rows, requests](auto& lists) {
      lists.moves.reserve(2 * rows + requests), lists.preempted.reserve(2 * rows);
      lists.failed.reserve(2 * rows + requests), lists.released.reserve(2 * rows + requests);
    };
    for (Step& step : p_.state.steps.steps()) {
      if (!step.entries.empty()) reserve_lists(step.notices);
    }
    reserve_lists(p_.state.notices);
    p_.resting.moves().Reserve(2 * rows + requests);
    ReserveSlots(requests);
    if (p_.kv.ledger.holdings() != nullptr) {  // assumes chunks of at least this size; the table grows for smaller ones
      const std::int64_t chunks = std::int64_t{options.kv_blocks.value} * options.kv_block_tokens.value / 512;
      const std::int64_t most_chunks = std::clamp<std::int64_t>(64 * options.reserve_requests, 64, 1 << 20);
      p_.kv.ledger.MakeRoom(static_cast<std::size_t>(std::clamp<std::int64_t>(chunks, 64, most_chunks)));
      p_.kv.ledger.dropped().reserve(p_.kv.ledger.chunk_capacity());
      for (Step& step : p_.state.steps.steps()) step.notices.dropped.reserve(p_.kv.ledger.chunk_capacity());
      if (p_.kv.ledger.copies() != nullptr) {
        const std::int64_t copies = std::int64_t{options.prefix_cpu_blocks.value} * options.kv_block_tokens.value / 512;
        p_.kv.ledger.MakeRoomToCopy(static_cast<std::size_t>(std::clamp<std::int64_t>(copies, 64, most_chunks)));
      }
    }
    if (p_.standing.MayStand()) p_.state.running.SetBlocks(p_.kv.block_tokens, p_.kv.oracle != nullptr);
  }

  // Maximum rows for this number of requests.
  static std::size_t RowsOf(const SchedulerOptions& options, std::size_t requests) {
    return std::min(static_cast<std::size_t>(options.max_running), requests);
  }

  // Makes room for an event.
  template <class E>
  void MakeRoomFor(const E& event) {
    MakeRoomForNotices(2, 1);
    if constexpr (std::same_as<E, Arrived>) {
      if (!p_.state.table.HasSlot() && p_.state.table.slots() >= p_.state.slots_reserved)
        ReserveSlots(std::max<std::size_t>(2 * p_.state.slots_reserved, 16));
      p_.state.table.MakeRoomFor(event.request);
      if (p_.turns.Holds())
        p_.kv.ledger.MakeRoomToHold(p_.state.table.size() + 1), p_.turns.times()->MakeRoom(p_.state.table.size() + 1);
      if (p_.turns.hints() != nullptr) p_.turns.hints()->MakeRoom(p_.state.table.size() + 1);
    }
    if constexpr (std::same_as<E, MoveDone>) {
      const Move* move = p_.resting.moves().Find(event.move);
      if (move != nullptr && move->action == KvAction::kFetch) {
        p_.kv.ledger.MakeRoom(p_.state.table[move->slot].state.request.prefix.hashes.size());
      }
    }
    if constexpr (std::same_as<E, TurnEnded> || std::same_as<E, WorkflowEnded>) {
      // A host that reports turns gets takt's own retention policy and gate by default.
      if (event.workflow && !p_.turns.Holds() && p_.kv.ledger.holdings() != nullptr)
        p_.turns.Hold(HoldValue{}, Price{}, {});
      if (event.workflow && p_.turns.hints() == nullptr && p_.kv.oracle != nullptr) p_.turns.SetHints(HoldValue{}, {});
      if (p_.turns.hints() != nullptr)
        p_.turns.hints()->MakeRoom(p_.state.table.size() + 1),
            MakeRoom(p_.state.notices.hints, p_.turns.hints()->branches() + 1);
    }
    if constexpr (std::same_as<E, TurnEnded> || std::same_as<E, TurnExpected>) {
      if (p_.turns.hints() != nullptr) MakeRoom(p_.state.notices.hints, 1);
      if (p_.turns.Holds()) p_.turns.times()->MakeRoom(p_.state.table.size() + 1);
    }
  }

  // Makes room for other options.
  void MakeRoomFor(const SchedulerOptions& to) {
    p_.lives.fresh().ReserveFor(to, p_.state.slots_reserved);
    p_.ceilings.Reserve(to, p_.state.slots_reserved);
    if (to.reserve_output > 0) p_.reserve.Reserve(lanes_reserved_);
    if (p_.kv.ledger.holdings() != nullptr && to.prefix_wait > 0) p_.prefixes.Reserve(lanes_reserved_);
  }

  // Makes room for a plan.
  void MakeRoomForPlan() {
    // Each request ends at most once. Each row may move in or out, and all rows may be replaced within a plan. A paused
    // request may move out.
    const std::size_t rows = RowsOf(p_.state.options, p_.state.table.size());
    p_.state.steps.MakeRoom(2 * rows, p_.state.draft.last);  // preempted rows leave gaps
    MakeRoomForNotices(p_.state.table.size() + 1, 2 * rows + p_.pauses.reviews());
    MakeRoom(p_.state.notices.preempted, 2 * rows);
    p_.state.running.MakeRoom(rows);
    if (lanes_reserved_ < p_.state.running.capacity()) ReserveLanes(p_.state.running.capacity());
  }

  // Makes room for the result of this step.
  void MakeRoomForResult(const Step& step) {
    const std::span<const PlanEntry> run = step.plan.run;
    MakeRoomForNotices(run.size(), run.size());
    if (p_.kv.ledger.holdings() != nullptr) {
      std::size_t chunks = 0;
      for (const PlanEntry& entry : run) {
        if (!entry.prefill()) continue;
        chunks += p_.state.table[p_.state.running.Stored(entry.lane).slot].state.request.prefix.hashes.size();
      }
      p_.kv.ledger.MakeRoom(chunks);
    }
  }

 private:
  // Reserves memory for requests in slots 0 .. n - 1 in any state. No list holds a slot twice.
  void ReserveSlots(std::size_t slots) {
    p_.state.table.Reserve(slots);
    p_.state.queue.Reserve(slots);
    p_.lives.fresh().Reserve(slots);
    p_.state.ended.reserve(slots), p_.state.scratch.reserve(slots);
    p_.ceilings.Reserve(p_.state.options, slots);
    p_.passing.Reserve(slots);
    p_.memory.Reserve(slots);
    p_.resting.Reserve(slots);
    p_.gate.Reserve(slots);
    p_.pauses.Reserve(slots);
    p_.state.slots_reserved = slots;
  }

  void ReserveLanes(std::size_t lanes) {
    Draft& draft = p_.state.draft;
    p_.state.running.Reserve(lanes);
    if (p_.reserve.on()) p_.reserve.Reserve(lanes);
    p_.victims.Reserve(lanes);
    p_.state.queue.ReserveLanes(lanes);
    draft.entry_of_lane.reserve(lanes), draft.served.reserve(lanes), draft.prompts.reserve(lanes);
    draft.offers.reserve(lanes), p_.state.left_out.reserve(lanes), p_.kv.round.ReserveLanes(lanes);
    p_.state.adapters.Reserve(lanes);
    p_.state.pacer.Reserve(lanes);
    if (p_.kv.oracle != nullptr) p_.kv.round.Reserve(lanes);
    lanes_reserved_ = p_.state.running.capacity();
    if (p_.kv.ledger.holdings() != nullptr && p_.state.options.prefix_wait > 0) p_.prefixes.Reserve(lanes_reserved_);
  }

  void MakeRoomForNotices(std::size_t ends, std::size_t moves) {
    MakeRoom(p_.state.notices.failed, ends), MakeRoom(p_.state.notices.released, ends);
    if (p_.turns.hints() != nullptr) MakeRoom(p_.state.notices.hints, ends);
    MakeRoom(p_.state.notices.moves, moves), p_.resting.moves().MakeRoom(moves);
    p_.kv.ledger.MakeRoomToDrop();
    p_.kv.ledger.MakeRoomToCopy(p_.state.table.hashes());
  }

  Parts& p_;
  std::size_t lanes_reserved_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_STORAGE_H_
