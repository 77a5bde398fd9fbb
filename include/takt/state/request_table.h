// All living requests of one scheduler: records by slot, found by id.
#ifndef TAKT_STATE_REQUEST_TABLE_H_
#define TAKT_STATE_REQUEST_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/base/id_map.h"
#include "takt/model/step.h"
#include "takt/state/request_state.h"

namespace takt {

inline constexpr std::uint32_t kNoLane = UINT32_MAX;

// Where a request stands.
enum class RequestStatus : std::uint8_t {
  kUnknown,  // not here (any more)
  kWaiting,  // in the ranked set
  kRunning,  // has a lane
  kPaused,   // in a tool call
  kBlocked,  // until Unblocked
  kDead,     // ended, but a step or a move in flight names it
};

// What still happens to its KV, whatever its status: lanes and blocks are given back when it is over.
enum class Transit : std::uint8_t {
  kNone,
  kDraining,   // left its lane; steps in flight name it
  kMovingOut,  // KV on its way to the host's memory
  kMovingIn,   // and back
};

struct Record {
  RequestState state = {};
  RequestStatus status = RequestStatus::kUnknown;
  Transit transit = Transit::kNone;
  KvAction leave_action = KvAction::kDrop;  // what becomes of the KV once the transit is over
  bool came_back = false;  // is in the scheduler's list of those that wait, perhaps, with KV of theirs
  bool holds = false;  // is in the scheduler's list of those that may hold KV without a lane
  std::uint32_t lane = kNoLane;
  // Known tokens are prompt, tools' answers and output of all sequences together.
  std::int32_t known = 0;
  std::int32_t computed = 0;  // of these, with KV on the GPU or in the host's memory; valid without a lane
  std::int32_t was_computed = 0;  // before its KV was last dropped: what is computed below is work done twice
  std::int32_t blocks = 0;  // KV blocks on the GPU; valid without a lane
  std::int32_t cpu_blocks = 0;  // KV blocks in the host's memory
  std::uint64_t refused_at = 0;  // the plan, by count, in which the host's oracle last refused to let it in
  std::int32_t shared_chunks = 0;  // leading prefix chunks it refers to; contained in blocks
  std::int32_t overtaken = 0;  // times that another with an adapter was let in while it waited for its own
};

// Slots are reused last in, first out, so that a busy scheduler stays in cache. No allocation within the reserve.
class RequestTable {
 public:
  void Reserve(std::size_t n) {
    records_.reserve(n);
    free_.reserve(n);
    ids_.Reserve(n);
  }

  void KeyHashes(std::uint64_t seed) { ids_.SetKey(seed); }

  // Whether Insert makes no slot that there was not before.
  bool HasSlot() const { return !free_.empty(); }

  std::size_t size() const { return ids_.size(); }
  std::size_t slots() const { return records_.size(); }
  Record& operator[](std::uint32_t slot) { return records_[slot]; }
  const Record& operator[](std::uint32_t slot) const { return records_[slot]; }

  // The slot of a request that is not erased, or IdMap::kAbsent.
  std::uint32_t Find(RequestId id) const { return ids_.Find(id.value); }

  // A fresh record; `request.id` must not be there.
  std::uint32_t Insert(const Request& request) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(records_.size()));
      records_.emplace_back();
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    ids_.Insert(request.id.value, slot);
    records_[slot] = {.state = {.request = request, .slot = slot},
                      .came_back = records_[slot].came_back,
                      .holds = records_[slot].holds};
    return slot;
  }

  void Erase(std::uint32_t slot) {
    Record& record = records_[slot];
    ids_.Erase(record.state.request.id.value);
    record.status = RequestStatus::kUnknown;
    record.state.request.prefix.reset();
    free_.push_back(slot);
  }

  // Brings what Erase will touch, or what admission will read, into the cache.
  void PrefetchErase(std::uint32_t slot) const { ids_.Prefetch(records_[slot].state.request.id.value); }
  void Prefetch(std::uint32_t slot) const {
    const char* record = reinterpret_cast<const char*>(&records_[slot]);
    for (std::size_t at = 0; at < sizeof(Record); at += 64) __builtin_prefetch(record + at);
  }

 private:
  std::vector<Record> records_ = {};
  std::vector<std::uint32_t> free_ = {};
  IdMap ids_;
};

}  // namespace takt

#endif  // TAKT_STATE_REQUEST_TABLE_H_
