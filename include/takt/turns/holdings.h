// Prompts in the KV cache, the workflows whose turns left them there, and the order of eviction.
#ifndef TAKT_TURNS_HOLDINGS_H_
#define TAKT_TURNS_HOLDINGS_H_

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "takt/base/id.h"
#include "takt/base/random.h"
#include "takt/model/step.h"
#include "takt/turns/held.h"
#include "takt/turns/holding_table.h"
#include "takt/turns/pin_book.h"
#include "takt/turns/prefix_tree.h"
#include "takt/turns/retention/any_retention.h"
#include "takt/turns/victim_order.h"

namespace takt {

// The turn that used blocks, and how it ended.
struct HeldTurn {
  WorkflowId workflow = {};  // workflow of the turn; none: the blocks are ranked only by age
  std::uint64_t branch = 0;  // branch of the workflow, such as its main line or a sub-agent
  std::uint32_t return_class = 0;
  bool over = false;  // true: no further turn will come, so the branch holds nothing
  TenantId tenant = {};
  TimePoint pinned_until = kUnset;  // end of the pin; unset: no pin
};

namespace internal {

// The cached part of a prompt.
struct PrefixHit {
  std::int32_t chunks = 0;  // number of the prompt's first chunks that are in the cache
  std::int32_t idle = 0;  // number of these that no request refers to now
};

// Combines the tree of prompts (PrefixTree), the holdings of branches (HoldingTable), their pins (PinBook) and the
// eviction order (VictimOrder). A node without children and without running requests can be evicted, from its end.
//
// When a turn of a branch ends, its blocks become the branch's holding. Blocks that only the previous turn used are
// dead, unless others hold them. Dead blocks are evicted first. Shared blocks count once, and stay while any of their
// workflows has later blocks here. After that they rank as blocks of the unknown class, by last use.
//
// Pinned blocks are evicted after all others, oldest use first. The pins of each tenant and of all tenants are bounded;
// further pins are refused.
//
// Invariant: after each call every node is in its line of victims, or in none. `referenced` counts the blocks that a
// request refers to; `idle` counts all others. Memory is allocated only if there is more to store than ever before.
//
// Holdings are limited by kMostHoldings or BoundHoldings. Beyond the limit, the oldest holding of the largest tenant
// ends (crowded_out; see BranchTable), and pinned holdings end last. A tenant that floods the table thus ends its own
// holdings. So workflows that never return do not use up memory.
class Holdings {
 public:
  static constexpr std::size_t kMostHoldings = 65536;

  explicit Holdings(AnyRetention policy = {}, Tokens block_tokens = {16}) : order_(std::move(policy), block_tokens) {}

  void KeyHashes(std::uint64_t seed) {
    tree_.KeyHashes(seed), table_.KeyHashes(Mix64(seed)), pins_.KeyHashes(Mix64(seed + 3));
  }

  // Makes room for n more chunks (MakeRoom) or holdings (MakeRoomToHold); grows by doubling.
  void MakeRoom(std::size_t n) {
    tree_.MakeRoom(n);
    order_.MakeRoom(tree_.nodes().capacity());
    if (stack_.capacity() < tree_.nodes().capacity()) stack_.reserve(tree_.nodes().capacity());
  }
  void MakeRoomToHold(std::size_t n) {
    table_.MakeRoom(n);
    pins_.Reserve(table_.capacity());
  }

  const AnyRetention& policy() const { return order_.appraiser().policy(); }
  // After this call, SetPolicy with this policy allocates nothing.
  void MakeRoomFor(const AnyRetention& policy) { order_.MakeRoomFor(policy, tree_.nodes().capacity()); }
  // Sets the retention policy and sorts all idle nodes again. O(n log n).
  void SetPolicy(AnyRetention policy) {
    MakeRoomFor(policy);
    order_.SetPolicy(view(), std::move(policy), stack_);
  }

  // Starts a call: inputs of the policy, such as times and curves, may have changed.
  void BeginCall() { order_.BeginCall(); }

  std::int32_t referenced() const { return referenced_; }  // number of blocks that a request refers to
  std::int32_t idle() const { return idle_; }  // number of blocks that can be evicted
  std::uint64_t uses() const { return uses_; }  // number of times that an unused chunk came into use
  std::size_t chunks() const { return tree_.size(); }
  std::size_t capacity() const { return tree_.capacity(); }
  std::size_t holdings() const { return table_.size(); }
  // Sets the maximum number of holdings, at most kMostHoldings.
  void BoundHoldings(std::size_t most) { most_holdings_ = std::clamp<std::size_t>(most, 1, kMostHoldings); }

  // --- Prompts. Hashes name chunks of `blocks` blocks each, from the first one on. ---

  PrefixHit Find(std::span<const std::uint64_t> hashes, std::int32_t blocks) const;
  // Adds a request's reference to chunks that Find found.
  void Acquire(std::span<const std::uint64_t> hashes, std::int32_t blocks);
  // Adds the chunk of the last hash, with one reference. A request must refer to the chunks before it. Returns false if
  // the chunk exists.
  bool Publish(std::span<const std::uint64_t> hashes, std::int32_t blocks);
  // Takes back a request's chunks when its turn ends or it is preempted. These chunks replace the previous holding of
  // the turn's branch. The next tier has copies of the first `copied` chunks.
  void Release(std::span<const std::uint64_t> hashes, std::int32_t blocks, const HeldTurn& turn, TimePoint now,
               std::int32_t copied = 0);
  // Marks the chunks from `first` on, which a request refers to, and all chunks after them as lost. Find ignores them.
  void Spoil(std::span<const std::uint64_t> hashes, std::int32_t first, std::int32_t blocks);
  // Loses all chunks.
  void SpoilAll();
  // Records that the next tier no longer has this chunk.
  void Uncopy(std::uint64_t hash, std::int32_t blocks);

  // --- Workflows. Unknown names have no effect. ---

  // Sets the class of the last turn's end, which may be reported late or again.
  void SetClass(WorkflowId workflow, std::uint64_t branch, std::uint32_t return_class);
  // Records that the branch's next turn waits, or no longer waits. A turn that ends is not awaited.
  void Await(WorkflowId workflow, std::uint64_t branch, bool awaited, TimePoint now = {});
  // Ranks the holding as if a turn of this class had used it now. An awaited branch stays awaited.
  void Touch(WorkflowId workflow, std::uint64_t branch, std::uint32_t return_class, TimePoint now);
  // Ends the holding of a branch, or of all branches of a workflow. Blocks that no other workflow holds become dead.
  void End(WorkflowId workflow, std::uint64_t branch) {
    if (const Slot h = table_.Find(workflow, branch); h != kNoSlot) EndHolding(h);
  }
  void End(WorkflowId workflow) {
    table_.ForEachBranch(workflow, [this](Slot h) { EndHolding(h); });
  }

  // Returns the branch's holding; all 0 if the branch holds nothing. O(nodes of its path).
  Holding Find(WorkflowId workflow, std::uint64_t branch) const;
  // Returns the value of the branch's last block; 0 if the branch holds nothing.
  double ValueOf(WorkflowId workflow, std::uint64_t branch, TimePoint now) {
    const Slot h = table_.Find(workflow, branch);
    if (h == kNoSlot) return 0;
    order_.SetNow(now);
    const PrefixNode& tip = nodes()[table_.TipOf(h)];
    return order_.appraiser().ValueOf(view(), tip, tip.end);
  }
  // Returns the tenant of the branch; none if the branch holds nothing.
  TenantId TenantOf(WorkflowId workflow, std::uint64_t branch) const {
    const Slot h = table_.Find(workflow, branch);
    return h == kNoSlot ? TenantId{} : table_[h].name.tenant;
  }
  // Calls visit(workflow, branch, Holding) for each holding, without `own_from`.
  template <class Visit>
  void ForEach(Visit&& visit) const {
    table_.ForEach([&](Slot h) { visit(table_[h].name.workflow, table_[h].name.branch, HoldingOf(h)); });
  }
  // Number of evictions of blocks that a waiting turn would have used.
  std::uint64_t awaited_lost() const { return awaited_lost_; }
  // Number of holdings that ended because there were too many, and number of pinned ones among these.
  std::uint64_t crowded_out() const { return crowded_out_; }
  std::uint64_t pins_crowded_out() const { return pins_crowded_out_; }

  // --- Pins. ---

  // Sets the maximum pinned blocks per tenant and in total.
  void BoundPins(std::int32_t of_one, std::int32_t of_all) { pins_.Bound(of_one, of_all); }
  // Pins a holding until this time, in place of an earlier pin; unset: removes the pin. Has no effect if the branch
  // holds nothing or its next turn waits. Returns false if the tenant would pin too much.
  bool Pin(WorkflowId workflow, std::uint64_t branch, TimePoint until) {
    const Slot h = table_.Find(workflow, branch);
    return h == kNoSlot || Pin(h, until);
  }
  // Ends the pins that are due.
  void EndPins(TimePoint now);
  TimePoint next_pin_end() const { return pins_.next(); }
  std::size_t pins() const { return pins_.size(); }
  std::int32_t pinned() const { return pins_.blocks(); }  // number of pinned blocks, as of their pins
  std::uint64_t pins_broken() const { return pins_broken_; }  // number of times that pinned blocks were evicted
  std::uint64_t pins_refused() const { return pins_.refused(); }
  TimePoint PinnedUntil(WorkflowId workflow, std::uint64_t branch) const {
    const Slot h = table_.Find(workflow, branch);
    return h == kNoSlot ? kUnset : table_[h].pinned_until;
  }

  // --- Eviction. ---

  // Calls take(const HeldVictim&) in eviction order until `blocks` blocks were passed. If take returns bool, false
  // stops the walk. Returns the number of blocks passed, which is smaller if too few can be evicted. Changes nothing.
  template <class Take>
  std::int32_t Walk(std::int32_t blocks, TimePoint now, Take&& take) {
    const CacheView cache = view();
    return order_.Walk(cache, blocks, now, [&](const VictimOrder::Run& run) {
      const HeldVictim victim = order_.VictimOf(cache, run);
      if constexpr (std::same_as<decltype(take(victim)), bool>) return take(victim);
      else return take(victim), true;
    });
  }
  // The value lost by evicting these blocks, and the number of blocks that can be evicted.
  struct Loss {
    double value = 0;
    std::int32_t blocks = 0;
  };
  Loss LossOf(std::int32_t blocks, TimePoint now) {
    Loss loss;
    loss.blocks = Walk(blocks, now, [&loss](const HeldVictim& victim) { loss.value += victim.value; });
    return loss;
  }
  // Evicts this number of blocks, rounded up to a whole chunk. Returns the number of evicted blocks, which is smaller
  // if too few blocks are idle.
  std::int32_t Evict(std::int32_t blocks, TimePoint now);

  // Returns the chunks that left the cache since the last call and have not returned. Allocates nothing after
  // MakeRoomToDrop.
  std::vector<DroppedPrefix>& dropped() {
    std::erase_if(dropped_, [&](const DroppedPrefix& chunk) {
      return tree_.FindChunk(chunk.hash, chunk.blocks.value) != kNoSlot;
    });
    return dropped_;
  }
  // `more`: chunks published before the next call of this function.
  void MakeRoomToDrop(std::size_t more = 0) {
    const std::size_t room = dropped_.size() + tree_.size() + more;
    if (room > dropped_.capacity()) dropped_.reserve(std::max(room, tree_.capacity()));
  }

 private:
  CacheView view() { return {tree_.nodes(), table_}; }
  PrefixNodes& nodes() { return tree_.nodes(); }
  const PrefixNodes& nodes() const { return tree_.nodes(); }
  void Relist(Slot n) { order_.Relist(view(), n); }
  void Unlist(Slot n) { order_.Unlist(nodes(), n); }

  // Nodes:
  void Split(Slot chunk);
  Slot MergeUp(Slot n);
  Slot Shrink(Slot n, std::int32_t end);

  // Holdings:
  Holding HoldingOf(Slot h) const;
  void Hold(const HeldTurn& turn, Slot tip, TimePoint now);
  bool Pin(Slot h, TimePoint until);
  void Unpin(Slot h);
  void EndHolding(Slot h);

  PrefixTree tree_;
  HoldingTable table_;
  PinBook pins_;
  VictimOrder order_;
  std::size_t most_holdings_ = kMostHoldings;
  std::int32_t referenced_ = 0, idle_ = 0;
  std::uint64_t uses_ = 0, stamp_ = 0;
  std::uint64_t awaited_lost_ = 0, pins_broken_ = 0, crowded_out_ = 0, pins_crowded_out_ = 0;
  std::vector<DroppedPrefix> dropped_;
  std::vector<Slot> stack_;  // scratch
};

}  // namespace internal
}  // namespace takt

#include "takt/turns/holdings_verbs.h"

#endif  // TAKT_TURNS_HOLDINGS_H_
