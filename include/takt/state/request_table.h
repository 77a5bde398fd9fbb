// All living requests of one scheduler, by slot or by id.
#ifndef TAKT_STATE_REQUEST_TABLE_H_
#define TAKT_STATE_REQUEST_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "takt/base/age_list.h"
#include "takt/base/random.h"
#include "takt/base/slot_table.h"
#include "takt/model/step.h"
#include "takt/state/request_parts.h"
#include "takt/state/request_state.h"
#include "takt/state/request_status.h"

namespace takt {

namespace internal {

// A pending change of a request's lane or KV, whatever its status. Lanes and blocks are freed when the change is over.
enum class Transit : std::uint8_t {
  kNone,
  kDraining,  // the request has left its lane, but steps in flight use the lane
  kMovingOut,  // KV is moving to host memory
  kMovingIn,  // KV is moving to the GPU
  kPinned,  // the request has ended, but a connector reads its KV
};

struct Record {
  RequestState state = {};
  RequestStatus status = RequestStatus::kUnknown;
  Transit transit = Transit::kNone;
  KvAction leave_action = KvAction::kDrop;  // action on the KV after the transit
  bool came_back = false;  // listed by KeptKv as waiting with KV
  bool holds = false;  // listed by KeptKv as holding KV without a lane
  bool pinned = false;  // a connector reads its KV
  bool gated = false;  // the gate refused it
  bool last_turn = false;  // no later turn follows in the request's branch
  std::int8_t ceiling_class = -1;  // class in which its row counts, if there are ceilings; -1: none
  bool recovers = false;  // the request ran before its last admission, so cache hits are its own blocks
  TimePoint pinned_until = kUnset;  // end of the pin that the request's prefix gets at the request's end; unset: no pin
  std::uint32_t lane = kNoLane;
  // Known tokens: prompt, tool results and output of all sequences.
  std::int32_t known = 0;
  std::int32_t computed = 0;  // known tokens with KV on the GPU or in host memory; valid without a lane
  std::int32_t arrived = 0;  // known tokens whose KV arrived from elsewhere; used if nothing is computed
  std::int32_t was_computed = 0;  // number of computed tokens when the KV was last dropped, which are recomputed
  std::int32_t blocks = 0;  // KV blocks on the GPU; valid without a lane
  std::int32_t cpu_blocks = 0;  // KV blocks in host memory
  std::uint64_t refused_at = 0;  // number of the plan in which the oracle last refused to admit the request
  std::int32_t cached = 0;  // prompt tokens in the oracle's prefix cache
  std::uint64_t cached_at = 0;  // OracleRound::hits_of when `cached` was read
  std::int32_t shared_chunks = 0;  // prefix chunks that the request refers to; their blocks are included in `blocks`
  // Number of prefix chunks that are being loaded from host memory, and number of these that are still valid.
  std::int32_t fetching = 0, fetched = 0;
  std::int32_t overtaken = 0;  // number of requests with an adapter that passed this one while it waited for its own
  std::int32_t passed = 0;  // number of requests that passed this request while it lacked memory or room
  std::uint64_t listed_in = 0;  // number of the last walk past the head of the queue that listed the request
  std::uint64_t prefix_seen_at = 0;  // number of the last plan in which the request waited for a row's prefix
  std::uint64_t prefix_since = 0;  // value of commits + 1 when the cached chunks of that prefix last increased
  std::int32_t prefix_chunks = 0;  // number of cached chunks of that prefix
  std::int32_t recomputed = 0;  // known tokens computed again after their KV was dropped
  std::uint64_t fits_since = 0;  // first plan since which only the watermark has excluded the request; 0: none
  AgeLink siblings = {};  // in the list of its workflow's requests, newest first; used after FollowWorkflows
};

class RequestTable : public IdTable<RequestId, Record> {
 public:
  void Reserve(std::size_t n) {
    if (follows_) flows_.Reserve(n);
    IdTable::Reserve(n);
  }
  void KeyHashes(std::uint64_t seed) {
    IdTable::KeyHashes(seed);
    flows_.KeyHashes(Mix64(seed));
  }

  // Indexes requests by workflow from now on. O(slots) the first time.
  void FollowWorkflows() {
    if (follows_) return;
    flows_.Reserve(capacity());
    follows_ = true;
    for (Slot slot = 0; slot < slots(); ++slot) {
      if ((*this)[slot].status != RequestStatus::kUnknown) Follow(slot);
    }
  }
  // Calls each(Record&) for each request of the workflow. O(these requests).
  template <class Each>
  void ForEachOf(WorkflowId workflow, Each&& each) {
    const Slot* newest = flows_.Get(workflow);
    for (Slot i = newest != nullptr ? *newest : kNoSlot; i != kNoSlot; i = (*this)[i].siblings.newer) each((*this)[i]);
  }

  // Makes room for the data of the request's spans, in the slot that Insert takes next.
  void MakeRoomFor(const Request& request) {
    if (RequestParts::Any(request)) parts_.MakeRoom(MakeSlot(), request);
  }

  // Adds a record. `request.id` must be new, and room must be available.
  Slot Insert(const Request& request) {
    const Slot slot = IdTable::Insert(request.id);
    Record& record = (*this)[slot];
    record = {.state = {.request = request, .slot = slot}, .came_back = record.came_back, .holds = record.holds};
    hashes_ += request.prefix.hashes.size();
    if (RequestParts::Any(request)) parts_.Keep(slot, record.state.request);
    if (follows_) Follow(slot);
    return slot;
  }

  void Salt(Slot slot) { parts_.Salt(slot, (*this)[slot].state.request); }

  void Erase(Slot slot) {
    Record& record = (*this)[slot];
    if (follows_) Unfollow(slot);
    record.status = RequestStatus::kUnknown;
    hashes_ -= record.state.request.prefix.hashes.size();
    record.state.request.prefix = {}, record.state.request.scores = {};
    IdTable::Erase(slot, record.state.request.id);
  }

  std::size_t hashes() const { return hashes_; }

  // Prefetches memory that Erase will write, or that an admission will read.
  void PrefetchErase(Slot slot) const { IdTable::Prefetch((*this)[slot].state.request.id); }
  void Prefetch(Slot slot) const {
    const char* record = reinterpret_cast<const char*>(&(*this)[slot]);
    for (std::size_t at = 0; at < sizeof(Record); at += 64) __builtin_prefetch(record + at);
  }

 private:
  void Follow(Slot slot) {
    const WorkflowId workflow = (*this)[slot].state.request.workflow;
    if (!workflow) return;
    Slot flow = flows_.Find(workflow);
    if (flow == kNoSlot) flow = flows_.Insert(workflow, kNoSlot);
    const Slot next = std::exchange(flows_[flow], slot);
    (*this)[slot].siblings = {kNoSlot, next};
    if (next != kNoSlot) (*this)[next].siblings.older = slot;
  }
  void Unfollow(Slot slot) {
    const WorkflowId workflow = (*this)[slot].state.request.workflow;
    if (!workflow) return;
    const AgeLink link = std::exchange((*this)[slot].siblings, {});
    if (link.newer != kNoSlot) (*this)[link.newer].siblings.older = link.older;
    if (link.older != kNoSlot) {
      (*this)[link.older].siblings.newer = link.newer;
      return;
    }
    const Slot flow = flows_.Find(workflow);
    flows_[flow] = link.newer;
    if (link.newer == kNoSlot) flows_.Erase(flow, workflow);
  }

  RequestParts parts_;
  bool follows_ = false;
  IdTable<WorkflowId, Slot> flows_;  // newest request of each workflow
  std::size_t hashes_ = 0;
};

}  // namespace internal
}  // namespace takt

#endif  // TAKT_STATE_REQUEST_TABLE_H_
