// KV memory that the host owns: the scheduler asks, the host answers.
#ifndef TAKT_KV_KV_ORACLE_H_
#define TAKT_KV_KV_ORACLE_H_

#include <cstdint>
#include <span>

#include "takt/model/request.h"
#include "takt/model/step.h"

namespace takt {

// A wish of one plan: whole blocks for `want` tokens of context where blocks for `have` are held. Of several sequences,
// all together; blocks that they share count once.
struct KvReservation {
  RequestId request = {};
  Tokens have{0};
  Tokens want{0};
  bool admission = false;  // the request is not running yet
  bool granted = false;  // the answer
};

// How much KV memory the host has.
struct KvSnapshot {
  Blocks total{0};  // of an empty cache, for "can never fit"
  Blocks free{0};  // usable now
  Blocks pending{0};  // released, usable after a KvFreed event
};

// Implemented by hosts that keep their own block manager (vLLM's allocate_slots, a radix tree, an arena). Called
// only from inside On, Plan and Commit of the scheduler that holds it, never after that scheduler is gone. Must not
// call back. Block ids never cross this boundary.
class KvOracle {
 public:
  virtual ~KvOracle() = default;

  virtual Tokens block_tokens() const = 0;  // granularity of reservations: 1 to 2^20, the same always

  // At most once in each On, Plan and Commit, and once more after each Reserve or Release of that call, however many
  // requests run: takt keeps the sum of what it wishes for.
  virtual KvSnapshot Snapshot() const = 0;

  // Prompt tokens of a waiting request that the host's prefix cache holds now.
  virtual Tokens CachedTokens(const Request& request) = 0;

  // Once per plan; in the order of importance. Sets `granted` of each, all of it or nothing. Wishes of one call fit
  // into the free blocks of the snapshot together. What is refused is left out of this plan, keeps what it has, and is
  // asked for again: no request is preempted or failed for a refusal, only where the counts above say that memory is
  // missing. So they should not promise what Reserve keeps back. Again in the same plan only where nothing runs: after
  // another has given way for want of memory, and for up to SchedulerOptions::admission_window waiting requests, one at
  // a time.
  virtual void Reserve(StepId step, std::span<KvReservation> wishes) = 0;

  // Gives back all that a request holds on the GPU: kDrop (it ended, or its KV is dropped), or kOut (its KV has been
  // moved to the host's memory). Returns the blocks usable *now*; the others follow with a KvFreed event.
  virtual Blocks Release(RequestId request, KvAction action) = 0;

  // Undoes reservations that Reserve granted in the same plan. No plan of today gives back what was granted to it.
  virtual void Rollback(StepId step, std::span<const KvReservation> granted) = 0;
};

}  // namespace takt

#endif  // TAKT_KV_KV_ORACLE_H_
