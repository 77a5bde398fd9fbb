// Moves of KV between GPU and host memory that have not ended.
#ifndef TAKT_SCHEDULER_MOVE_LIST_H_
#define TAKT_SCHEDULER_MOVE_LIST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "takt/base/id.h"
#include "takt/base/slot_table.h"
#include "takt/model/step.h"

namespace takt::internal {

struct Move {
  MoveId id;
  Slot slot = kNoSlot;
  KvAction action = KvAction::kOut;
};

class MoveList {
 public:
  void Reserve(std::size_t moves) { moves_.Reserve(moves); }
  // Makes room for `more` moves; grows by doubling.
  void MakeRoom(std::size_t more) {
    if (more > moves_.room()) moves_.Reserve(std::max(moves_.slots() + more, 2 * moves_.capacity()));
  }

  bool empty() const { return moves_.size() == 0; }

  MoveId Begin(Slot slot, KvAction action) {
    const MoveId id{++last_};
    moves_.Insert(id, {id, slot, action});
    return id;
  }

  // Returns null if the id is unknown.
  const Move* Find(MoveId id) const { return moves_.Get(id); }

  // Ends and returns the move with this id; nullopt if it is unknown.
  std::optional<Move> End(MoveId id) {
    const Slot at = moves_.Find(id);
    if (at == kNoSlot) return std::nullopt;
    moves_.Erase(at, id);
    return moves_[at];
  }

 private:
  IdTable<MoveId, Move> moves_;
  std::uint64_t last_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_MOVE_LIST_H_
