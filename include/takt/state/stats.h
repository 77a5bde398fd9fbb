// Counters of a scheduler since its creation. See docs/reference/stats.md.
#ifndef TAKT_STATE_STATS_H_
#define TAKT_STATE_STATS_H_

#include <cstdint>

namespace takt {

// X(name, unit that it counts)
#define TAKT_STATS(X)                                                                            \
  X(arrived, "requests accepted")                                                                \
  X(finished, "requests that the host reported as finished")                                     \
  X(cancelled, "requests cancelled while alive")                                                 \
  X(failed_invalid, "requests refused as invalid")                                               \
  X(failed_id_in_use, "requests refused because their id was still in use")                      \
  X(failed_never_fits, "requests too large for an empty engine")                                 \
  X(failed_kv_exhausted, "requests whose context outgrew the whole KV cache")                    \
  X(failed_expired, "requests that waited past expires_at or a time limit")                      \
  X(failed_shed, "requests shed because the queue was full")                                     \
  X(failed_draining, "requests that arrived after Drain")                                        \
  X(failed_host, "requests that the host reported as failed")                                    \
  X(plans, "calls of Plan")                                                                      \
  X(plans_idle, "plans that ran nothing")                                                        \
  X(commits, "steps resolved")                                                                   \
  X(commits_unknown, "results for a step that is not in flight")                                 \
  X(rows_scheduled, "entries of all plans")                                                      \
  X(rows_absent, "entries without a result: no progress")                                        \
  X(rows_dead, "results of requests that ended or were preempted after the plan")                \
  X(rows_unknown, "results that match no entry of their step")                                   \
  X(rows_invalid, "results with invalid token counts, clamped to the entry")                     \
  X(tokens_prefill, "known tokens computed")                                                     \
  X(tokens_output, "new tokens, over all sequences")                                             \
  X(tokens_cached, "prompt tokens found in the prefix cache when a request first runs")          \
  X(tokens_recomputed, "known tokens computed again after their KV was dropped")                 \
  X(tokens_void, "tokens in flight that were discarded")                                         \
  X(admitted, "requests moved from waiting to running")                                          \
  X(preempted_recompute, "preemptions that dropped the KV")                                      \
  X(preempted_swap, "preemptions that swapped the KV out")                                       \
  X(preempted_by_rank, "preemptions for a better rank, included in the two above")               \
  X(kv_reclaimed, "idle requests whose KV was dropped so that others could run")                 \
  X(kv_stalls, "rows left out of a step for lack of KV")                                         \
  X(searched, "waiting requests searched because nothing else could run")                        \
  X(moves_out, "KV moves to the host's memory")                                                  \
  X(moves_in, "KV moves back")                                                                   \
  X(pauses_let_go, "paused requests whose KV was dropped or swapped because the tool took long") \
  X(moves_failed, "KV moves that the host reported as failed")                                   \
  X(promoted, "promotions by aging")                                                             \
  X(events_unknown, "events that name no living request, or no move in flight")                  \
  X(events_out_of_place, "events that the state of their request does not allow; ignored")       \
  X(keys_not_a_number, "rank keys that were NaN, taken as +infinity")                            \
  X(estimates_absurd, "absurd estimates (NaN, infinite, negative, endless), taken as unknown")   \
  X(kv_lost, "requests whose KV the host lost, in full or in part")                              \
  X(clock_stepped_back, "calls with a time before an earlier call, which was used instead")      \
  X(oracle_refused, "KV reservations that the host's oracle refused")                            \
  X(calls_after_end, "calls after an exception ended the scheduler; ignored")                    \
  X(short_of_rows, "times that only max_running kept out a request")                             \
  X(steps_paced, "steps with prompts and a target for the pace")                                 \
  X(steps_late, "of these, steps that took longer than the target")                              \
  X(gate_refused, "times that the gate refused a request that fit")                              \
  X(gate_doors, "requests admitted by the door after a long wait at the gate")                   \
  X(pins_refused, "pins refused: above pin_share per tenant or half the cache in all")           \
  X(pins_broken, "times that pinned KV was evicted because nothing else was left")               \
  X(holdings_crowded_out, "holdings ended by a full table: the oldest of the largest tenant")    \
  X(pins_crowded_out, "pinned holdings among these")                                             \
  X(tokens_recovered, "tokens found in the prefix cache when a request runs again")              \
  X(tokens_loaded, "prompt tokens loaded from the host's memory, also cached or recovered")      \
  X(limits_misaligned, "plans whose limits have no room for any chunk of chunk_align tokens")    \
  X(failed_quota, "requests shed because their tenant had too many waiting requests or tokens")

struct Stats {
#define TAKT_STATS_FIELD(name, text) std::uint64_t name = 0;
  TAKT_STATS(TAKT_STATS_FIELD)
#undef TAKT_STATS_FIELD

  // Returns the number of invalid inputs from the host (model/fault.h). 0: no faults found.
  constexpr std::uint64_t faults() const {
    return failed_invalid + failed_id_in_use + commits_unknown + rows_unknown + rows_invalid + events_unknown +
           events_out_of_place + estimates_absurd + clock_stepped_back + calls_after_end + limits_misaligned;
  }

  friend constexpr bool operator==(const Stats&, const Stats&) = default;
};

}  // namespace takt

#endif  // TAKT_STATE_STATS_H_
