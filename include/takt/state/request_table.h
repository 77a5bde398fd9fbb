// All living requests of one scheduler: records by slot, found by id.
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

// What still happens to its KV, whatever its status: lanes and blocks are given back when it is over.
enum class Transit : std::uint8_t {
  kNone,
  kDraining,   // left its lane; steps in flight name it
  kMovingOut,  // KV on its way to the host's memory
  kMovingIn,   // and back
  kPinned,     // it has ended, and somebody reads it
};

struct Record {
  RequestState state = {};
  RequestStatus status = RequestStatus::kUnknown;
  Transit transit = Transit::kNone;
  KvAction leave_action = KvAction::kDrop;  // what becomes of the KV once the transit is over
  bool came_back = false;  // is in the scheduler's list of those that wait, perhaps, with KV of theirs
  bool holds = false;  // is in the scheduler's list of those that may hold KV without a lane
  bool pinned = false;  // somebody reads its KV
  bool gated = false;  // the gate has kept it out
  bool last_turn = false;  // nothing comes after it in its branch
  bool recovers = false;  // it ran before it was last admitted: hits are its own blocks
  TimePoint pinned_until = kUnset;  // what it leaves in the prefix cache, once it has ended; unset: no pin
  std::uint32_t lane = kNoLane;
  // Known tokens are prompt, tools' answers and output of all sequences together.
  std::int32_t known = 0;
  std::int32_t computed = 0;  // of these, with KV on the GPU or in the host's memory; valid without a lane
  std::int32_t arrived = 0;  // of these, with KV that came from elsewhere, to start with where nothing is computed
  std::int32_t was_computed = 0;  // before its KV was last dropped: what is computed below is work done twice
  std::int32_t blocks = 0;  // KV blocks on the GPU; valid without a lane
  std::int32_t cpu_blocks = 0;  // KV blocks in the host's memory
  std::uint64_t refused_at = 0;  // the plan, by count, in which the host's oracle last refused to let it in
  std::int32_t cached = 0;  // tokens that the oracle's prefix cache had of its prompt
  std::uint64_t cached_at = 0;  // OracleRound::hits_of when it was asked
  std::int32_t shared_chunks = 0;  // leading prefix chunks it refers to; contained in blocks
  // Of its prefix chunks, so many stay in the host's memory while they are being loaded, and so many are good then.
  std::int32_t fetching = 0, fetched = 0;
  std::int32_t overtaken = 0;  // times that another with an adapter was let in while it waited for its own
  std::int32_t passed = 0;  // times that another was let in before it while it lacked memory or room
  std::uint64_t prefix_seen_at = 0;  // the plan, by count, that last let it wait for a prefix that a row computes
  std::uint64_t prefix_since = 0;  // steps committed, plus 1, when the chunks found of that prefix last became more
  std::int32_t prefix_chunks = 0;  // these chunks
  std::uint64_t fits_since = 0;  // the plan, by count, since which only the watermark keeps it out; 0: other reasons do
  AgeLink siblings = {};  // in the list of its workflow's requests, the newest first, once FollowWorkflows was called
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

  // From here on requests are found by their workflows, too. O(slots) the first time.
  void FollowWorkflows() {
    if (follows_) return;
    flows_.Reserve(capacity());
    follows_ = true;
    for (Slot slot = 0; slot < slots(); ++slot) {
      if ((*this)[slot].status != RequestStatus::kUnknown) Follow(slot);
    }
  }
  // each(Record&) of each request of the workflow. O(these).
  template <class Each>
  void ForEachOf(WorkflowId workflow, Each&& each) {
    const Slot* newest = flows_.Get(workflow);
    for (Slot i = newest != nullptr ? *newest : kNoSlot; i != kNoSlot; i = (*this)[i].siblings.newer) each((*this)[i]);
  }

  // Room for what the request's spans see, in the slot that Insert takes next.
  void MakeRoomFor(const Request& request) {
    if (RequestParts::Any(request)) parts_.MakeRoom(MakeSlot(), request);
  }

  // A fresh record; `request.id` must not be there, and there is room for it.
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

  // Prefix hashes of all of them.
  std::size_t hashes() const { return hashes_; }

  // Brings what Erase will touch, or what admission will read, into the cache.
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
  IdTable<WorkflowId, Slot> flows_;  // the newest request of each workflow
  std::size_t hashes_ = 0;
};

}  // namespace internal
}  // namespace takt

#endif  // TAKT_STATE_REQUEST_TABLE_H_
