// Moves of KV between the GPU and the host's memory that have not ended.
#ifndef TAKT_SCHEDULER_MOVE_LIST_H_
#define TAKT_SCHEDULER_MOVE_LIST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "takt/base/id.h"
#include "takt/base/indexed_heap.h"
#include "takt/model/step.h"

namespace takt::internal {

struct Move {
  MoveId id;
  Slot slot = kNoSlot;
  KvAction action = KvAction::kOut;
};

class MoveList {
 public:
  void Reserve(std::size_t moves) { moves_.reserve(moves); }
  // Room for so many more; grows by doubling.
  void MakeRoom(std::size_t more) {
    if (moves_.capacity() - moves_.size() < more) moves_.reserve(std::max(moves_.size() + more, 2 * moves_.capacity()));
  }

  bool empty() const { return moves_.empty(); }

  MoveId Begin(Slot slot, KvAction action) {
    moves_.push_back({{++last_}, slot, action});
    return moves_.back().id;
  }

  // Null where there is none.
  const Move* Find(MoveId id) const {
    const auto move = std::ranges::find(moves_, id, &Move::id);
    return move != moves_.end() ? &*move : nullptr;
  }

  // The move of that name, which ends with this; nothing where there is none.
  std::optional<Move> End(MoveId id) {
    const auto move = std::ranges::find(moves_, id, &Move::id);
    if (move == moves_.end()) return std::nullopt;
    const Move ended = *move;
    moves_.erase(move);
    return ended;
  }

 private:
  std::vector<Move> moves_;
  std::uint64_t last_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_MOVE_LIST_H_
