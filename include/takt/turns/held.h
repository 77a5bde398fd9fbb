// The concept of a retention policy, and the cached blocks without a request that it ranks.
#ifndef TAKT_TURNS_HELD_H_
#define TAKT_TURNS_HELD_H_

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "takt/base/count.h"
#include "takt/base/id.h"
#include "takt/base/time.h"

namespace takt {

// The last blocks of a holding (a branch's cached KV), which would be evicted first.
struct Held {
  WorkflowId workflow = {};  // workflow that holds the blocks; none: several hold them, or no workflow does
  std::uint64_t branch = 0;  // branch of the workflow
  std::uint32_t return_class = 0;  // ReturnClass of the last turn's end; 0 if several workflows or none hold the blocks
  std::int32_t uses = 1;  // number of turns of the holding; for shared blocks, number of workflows that hold them
  TimePoint since = {};  // end of the last turn that used the blocks
  std::int32_t tokens = 0;  // context tokens up to the end of these blocks
  std::int32_t block_tokens = 16;  // tokens per block
  // arrival of the workflow's next turn if it waits; kNever: no turn waits, or the blocks are shared
  TimePoint awaited = kNever;
  // context tokens of the workflow at the end of its last turn; 0: unknown, or the blocks are shared
  std::int32_t context = 0;
  bool copied = false;  // true: the next tier has a copy, so eviction costs only a load
};

// Value returns the value of one block. The smallest value is evicted first; ties by last use, oldest first. Within one
// list, an earlier block of a holding must not have a higher value than a later one.
template <class P>
concept RetentionPolicy = requires(const P& p, const Held& held, TimePoint now) {
  { p.Value(held, now) } -> std::same_as<double>;
};

// Optional: lists (0 .. kLists - 1) in order of last use, which replaces the order of value. A victim is found at their
// heads. A list must not depend on time. The blocks of a holding that are in one list must be consecutive. Without
// lists, each plan that evicts looks at all holdings.
template <class P>
concept ListedRetention = RetentionPolicy<P> && requires(const P& p, const Held& held) {
  { p.List(held) } -> std::same_as<std::size_t>;
  { P::kLists + std::size_t{0} } -> std::same_as<std::size_t>;
};

// Optional: the value of a block whose workflow's next turn waits. Such blocks are evicted last, whatever the value.
template <class P>
concept AwaitedRetention = requires(const P& p, const Held& held) {
  { p.AwaitedValue(held) } -> std::same_as<double>;
};

// Eviction order: dead blocks, then others by value, then pinned blocks, then blocks that a waiting turn will use.
enum class HeldTier : std::uint8_t { kDead, kHeld, kPinned, kAwaited };

// Consecutive blocks that would be evicted next, last block first.
struct HeldVictim {
  Held held;  // the holding as of the last of these blocks
  HeldTier tier = HeldTier::kDead;
  std::int32_t chunks = 0;
  std::int32_t blocks = 0;
  double value = 0;  // value of these blocks by the retention policy; exact if a block's value is linear in its depth
};

// The cached KV of a workflow's branch.
struct Holding {
  std::int32_t tokens = 0;  // cached tokens from the start of the branch's context
  std::int32_t own_from = 0;  // first token that no other workflow's context contains
  std::uint32_t return_class = 0;
  std::int32_t uses = 0;  // number of turns
  TimePoint since = {};  // end of the last turn
  bool awaited = false;  // true: the branch's next turn waits
  bool in_use = false;  // true: a running request uses the whole holding
  bool pinned = false;

  friend bool operator==(const Holding&, const Holding&) = default;
};

// The cached KV of a workflow's branch, and its place in the eviction order.
struct HeldExplanation {
  Tokens tokens{0};  // cached tokens from the start of the branch's context; 0: none
  Tokens own{0};  // tokens at the end of these that no other workflow's context contains
  std::uint32_t return_class = 0;  // ReturnClass of the last turn's end
  std::int32_t turns = 0;  // number of ended turns
  TimePoint since = kUnset;  // end of the last turn
  bool awaited = false;  // true: the branch's next turn waits, so its blocks are evicted last
  bool in_use = false;  // true: a running request uses the whole holding, so nothing can be evicted
  TimePoint pinned_until = kUnset;  // end of the pin; pinned blocks are evicted after unpinned ones; unset: no pin
  // value of the branch's last block for the retention policy; hold_value: seconds of work saved per second held
  double value = 0;
  double price = 0;  // value of the block that would be evicted next; 0: a dead block, or none
  Blocks ahead{0};  // number of other blocks that would be evicted before this holding's first block
  // workflow of the block that would be evicted next; none: several workflows hold it, or none does
  WorkflowId next = {};
  std::uint64_t next_branch = 0;  // branch of that workflow
};

}  // namespace takt

#endif  // TAKT_TURNS_HELD_H_
