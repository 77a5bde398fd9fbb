// What policies of retention are shown of blocks that nobody uses now, and what such a policy is.
#ifndef TAKT_TURNS_HELD_H_
#define TAKT_TURNS_HELD_H_

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "takt/base/count.h"
#include "takt/base/id.h"
#include "takt/base/time.h"

namespace takt {

// The last blocks of a holding, which would go first.
struct Held {
  WorkflowId workflow = {};     // none: shared, or of a request without a workflow
  std::uint64_t branch = 0;     // of the workflow
  std::uint32_t its_class = 0;  // what the turn has ended with, as ReturnClass; 0 where there is no one workflow
  std::int32_t uses = 1;        // turns that the holding has had; of shared blocks: workflows that hold them
  TimePoint since = {};         // end of the last turn that used them
  std::int32_t tokens = 0;      // of the context, up to the end of these blocks
  std::int32_t block_tokens = 16;  // tokens of a block
  TimePoint awaited = kNever;  // when its workflow's next turn arrived, which waits here; kNever: none does, or shared
  std::int32_t context = 0;  // tokens of the workflow's context when that turn ended; 0: not known, or shared
  bool copied = false;  // the next tier has a copy: to lose them costs a load
};

// Answers: what is one of these blocks worth? The smallest value goes first, the longest unused among equals. As the
// tail of a holding shrinks, the value of what is its tail then must not rise, but where its list changes.
template <class P>
concept RetentionPolicy = requires(const P& p, const Held& held, TimePoint now) {
  { p.Value(held, now) } -> std::same_as<double>;
};

// Optional: lists (0 .. kLists - 1) within which the order of age is taken for the order of value, so that a victim is
// found by a look at their heads. A list must not depend on time, and as the tail shrinks one that it has left must
// not come again. Without them each plan that evicts costs a look at all holdings.
template <class P>
concept ListedRetention = RetentionPolicy<P> && requires(const P& p, const Held& held) {
  { p.List(held) } -> std::same_as<std::size_t>;
  { P::kLists + std::size_t{0} } -> std::same_as<std::size_t>;
};

// Optional: the value of a block whose workflow waits here for its next turn. Such blocks go last, whatever it is.
template <class P>
concept AwaitedRetention = requires(const P& p, const Held& held) {
  { p.AwaitedValue(held) } -> std::same_as<double>;
};

// Blocks in the order in which they would go: dead first, then by value, then what hosts have pinned, then what a
// waiting turn will use.
enum class HeldTier : std::uint8_t { kDead, kHeld, kPinned, kAwaited };

// Some blocks, one behind the other, which would go next; the last one goes first.
struct HeldVictim {
  Held held;  // as of the last of them
  HeldTier tier = HeldTier::kDead;
  std::int32_t chunks = 0;
  std::int32_t blocks = 0;
  double value = 0;  // of all of them, to the retention policy: exact where a block's is linear in its depth
};

// What a workflow's branch has in the cache.
struct Holding {
  std::int32_t tokens = 0;  // from the start of its context on
  std::int32_t own_from = 0;  // those from here on are in no other workflow's context
  std::uint32_t its_class = 0;
  std::int32_t uses = 0;  // turns
  TimePoint since = {};  // end of the last one
  bool awaited = false;  // its next turn waits here
  bool in_use = false;  // a request that runs uses it to its end
  bool pinned = false;

  friend bool operator==(const Holding&, const Holding&) = default;
};

// What a branch of a workflow has in the cache, and what would become of it.
struct HeldExplanation {
  Tokens tokens{0};  // from the start of its context on; 0: it holds nothing
  Tokens own{0};  // of these, the last ones, which are in no other workflow's context
  std::uint32_t its_class = 0;  // what its last turn has ended with, as ReturnClass
  std::int32_t turns = 0;  // that have ended
  TimePoint since = kUnset;  // end of the last one
  bool awaited = false;  // its next turn waits here: its blocks go last
  bool in_use = false;  // a request that runs uses it to its end: nothing of it can go
  TimePoint pinned_until = kUnset;  // its blocks go after all that is not pinned; unset: no pin
  double value = 0;  // of its last block, to the retention policy; of hold_value: seconds of work saved per second held
  double price = 0;  // the same of the block that would go next; 0: a dead one, or none could go
  Blocks ahead{0};  // blocks that would go before its first one
  WorkflowId next = {};  // whose block would go next; none: nobody's alone
  std::uint64_t next_branch = 0;  // of that workflow
};

}  // namespace takt

#endif  // TAKT_TURNS_HELD_H_
