// KV memory that the host owns: the scheduler asks, the host answers.
#ifndef TAKT_KV_KV_ORACLE_H_
#define TAKT_KV_KV_ORACLE_H_

#include <cstdint>
#include <span>

#include "takt/model/request.h"
#include "takt/model/step.h"

namespace takt {

// What becomes of a request whose wish is refused.
enum class KvRefusal : std::uint8_t {
  kForNow,   // it keeps what it has, is left out of this plan, and is asked for again
  kForEver,  // it fails: kNeverFits where it is not running yet, kKvExhausted where it is
};

// A wish of one plan: whole blocks for `want` tokens of context where blocks for `have` are held. Of several sequences,
// all together; blocks that they share count once.
struct KvReservation {
  RequestId request = {};
  Tokens have{0};
  Tokens want{0};
  bool admission = false;  // the request is not running yet
  bool granted = false;  // the answer
  KvRefusal refusal = KvRefusal::kForNow;  // read where it is not granted
};

// A question about a waiting request: how many tokens of its prompt does the host's prefix cache hold now?
struct KvHit {
  const Request* request = nullptr;  // valid within the call
  Tokens tokens{0};  // the answer
};

// How much KV memory the host has.
struct KvSnapshot {
  // Of an empty cache, for "can never fit". It may change between calls: what waits and needs more fails when its turn
  // comes (kNeverFits), what runs and comes to need more then (kKvExhausted). Memory that is only out of use for a
  // while should stay in the total.
  Blocks total{0};
  Blocks free{0};  // usable now
  Blocks pending{0};  // released, usable after a KvFreed event
};

// Implemented by hosts that keep their own block manager (vLLM's allocate_slots, a radix tree, an arena). Called
// only from inside Create, On, Plan, Commit and kv of the scheduler that holds it, never after that scheduler is gone.
// Must not call back. Block ids never cross this boundary.
class KvOracle {
 public:
  virtual ~KvOracle() = default;

  virtual Tokens block_tokens() const = 0;  // granularity of reservations: 1 to 2^20, the same always

  // At most once in each On, Plan and Commit, and once more after each Reserve or Release of that call, however many
  // requests run: takt keeps the sum of what it wishes for. The scheduler's kv() asks each time.
  virtual KvSnapshot Snapshot() const = 0;

  // Sets `tokens` of each. The first question of a plan is about one request, the next about up to two, then four, and
  // so on up to 64: those that it would let in next. A request is asked about again only after a Reserve.
  virtual void CachedTokens(std::span<KvHit> hits) = 0;

  // Once per plan; in the order of importance. Sets `granted` of each, all of it or nothing, and perhaps `refusal`.
  // Wishes of one call fit into the free blocks of the snapshot together. No request is preempted for a refusal, only
  // where the counts above say that memory is missing. So they should not promise what Reserve keeps back. Again in the
  // same plan only where nothing runs: after another has given way for want of memory, and for up to
  // SchedulerOptions::admission_window waiting requests, one at a time. And for each that is let in by itself where the
  // policy declines (DecliningPolicy).
  virtual void Reserve(StepId step, std::span<KvReservation> wishes) = 0;

  // Gives back all that a request holds on the GPU: kDrop (it ended, or its KV is dropped), or kOut (its KV has been
  // moved to the host's memory). Returns the blocks usable *now*; the others follow with a KvFreed event.
  virtual Blocks Release(RequestId request, KvAction action) = 0;
};

}  // namespace takt

#endif  // TAKT_KV_KV_ORACLE_H_
