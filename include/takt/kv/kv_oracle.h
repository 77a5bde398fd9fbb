// KV memory owned by the host: the scheduler asks, and the host answers.
#ifndef TAKT_KV_KV_ORACLE_H_
#define TAKT_KV_KV_ORACLE_H_

#include <cstdint>
#include <span>

#include "takt/model/request.h"
#include "takt/model/step.h"

namespace takt {

// Consequence of a refused reservation.
enum class KvRefusal : std::uint8_t {
  kForNow,  // the request keeps its memory and is left out of this plan; a later plan asks again
  kForEver,  // the request fails: kNeverFits if it is not running yet, otherwise kKvExhausted
};

// A reservation of one plan: whole blocks for `want` context tokens, including the blocks for `have` tokens that the
// request holds. Both sum over all sequences and count shared blocks once.
struct KvReservation {
  RequestId request = {};
  Tokens have{0};
  Tokens want{0};
  bool admission = false;  // the request is not running yet
  bool granted = false;  // answer of the oracle
  KvRefusal refusal = KvRefusal::kForNow;  // consequence of a refusal; ignored if granted
};

// Asks how many prompt tokens of a waiting request are in the host's prefix cache now.
struct KvHit {
  const Request* request = nullptr;  // waiting request, valid during the call
  Tokens tokens{0};  // answer of the oracle
};

// The host's KV memory.
struct KvSnapshot {
  // Capacity of an empty cache; larger requests can never fit. If the capacity shrinks, a waiting request that needs
  // more fails at its turn (kNeverFits). A running request fails when it needs more (kKvExhausted). The total must
  // include memory that is only temporarily unavailable.
  Blocks total{0};
  Blocks free{0};  // number of blocks usable now
  Blocks pending{0};  // number of released blocks that are usable after a KvFreed event
};

// Implemented by hosts with their own block manager, such as vLLM's allocate_slots, a radix tree or an arena. The
// scheduler calls it only inside Create, On, Plan, Commit and kv, and never after its own destruction. It must not call
// back. Block ids never cross this interface.
class KvOracle {
 public:
  virtual ~KvOracle() = default;

  virtual Tokens block_tokens() const = 0;  // Returns the tokens per block of reservations, 1 to 2^20; must not change.

  // Called at most once in each On, Plan and Commit, and once more after each Reserve or Release of that call. More
  // requests do not cause more calls, because takt sums its own reservations. The scheduler's kv() also calls it.
  virtual KvSnapshot Snapshot() const = 0;

  // Sets `tokens` of each hit. The first question of a plan covers one request, the next up to two, then up to four,
  // and so on, up to 64. These requests may be admitted next. A request is in another question of the plan only after a
  // Reserve.
  virtual void CachedTokens(std::span<KvHit> hits) = 0;

  // Called once per plan, most important reservation first. Sets `granted` of each reservation, in full or not at all,
  // and optionally `refusal`. All reservations of a call fit into the snapshot's free blocks together. A refusal
  // preempts no request; too few free blocks in the snapshot do. So the snapshot must not include memory that Reserve
  // withholds.
  //
  // If nothing runs, the plan calls Reserve again after a preemption for lack of memory. The plan then also calls it
  // for up to SchedulerOptions::admission_window waiting requests, one at a time. If the policy declines requests
  // (DecliningPolicy), Reserve is called after each admission.
  virtual void Reserve(StepId step, std::span<KvReservation> wishes) = 0;

  // Frees all GPU memory of a request. kDrop: it ended or its KV is dropped. kOut: its KV moved to host memory. Returns
  // the number of these blocks that are usable now; a KvFreed event reports the other blocks.
  virtual Blocks Release(RequestId request, KvAction action) = 0;
};

}  // namespace takt

#endif  // TAKT_KV_KV_ORACLE_H_
