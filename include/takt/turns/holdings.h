// Which prompts are in the KV cache, by the workflows whose turns left them there, and which blocks go first.
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

// The turn that used blocks, and what it has ended with.
struct HeldTurn {
  WorkflowId workflow = {};  // none: its blocks are nobody's, and go by their age alone
  std::uint64_t branch = 0;  // of the workflow: its main line, its sub-agents
  std::uint32_t its_class = 0;
  bool over = false;  // nothing comes after it: it holds nothing
  TenantId tenant = {};
  TimePoint pinned_until = kUnset;  // unset: no pin
};

namespace internal {

// How much of a prompt is there.
struct PrefixHit {
  std::int32_t chunks = 0;  // leading chunks that are there
  std::int32_t idle = 0;  // of these, how many no request refers to now
};

// Joins the tree of prompts (PrefixTree), the holdings of branches (HoldingTable), their pins (PinBook) and the order
// of victims (VictimOrder). A node that has no node below it and that no running request uses can go, from its end.
//
// When a turn of a workflow's branch ends, its blocks are the branch's holding. Blocks that its last turn had held and
// this one does not are dead, unless others hold them, and go first. Blocks in several workflows' contexts count once,
// stay as long as one of these has blocks behind them here, and then go by the age of their last use by anyone, as of
// an unknown class.
//
// Pinned blocks go after all that are not pinned, the longest unused first. A tenant's pins are bounded, and so are
// those of all; more are refused.
//
// Invariant: after each call every node is in the line of victims that it belongs to, or in none; `referenced` and
// `idle` count the blocks of nodes that a request refers to, and of all others. Nothing is allocated unless there is
// more than ever before.
//
// Holdings are at most kMostHoldings, or what BoundHoldings says. Of more, one is taken to be over (crowded_out): of
// the largest share of BranchTable the one whose last turn ended first, pinned ones last. So a tenant that floods the
// table ends holdings of its own, and workflows that never come back cost no more, though blocks that others hold, too,
// stay.
class Holdings {
 public:
  static constexpr std::size_t kMostHoldings = 65536;

  explicit Holdings(AnyRetention policy = {}, Tokens block_tokens = {16}) : order_(std::move(policy), block_tokens) {}

  void KeyHashes(std::uint64_t seed) {
    tree_.KeyHashes(seed), table_.KeyHashes(Mix64(seed)), pins_.KeyHashes(Mix64(seed + 3));
  }

  // Room for n more chunks, and for n more holdings, without allocation; grows by doubling.
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
  // SetPolicy of this policy allocates nothing.
  void MakeRoomFor(const AnyRetention& policy) { order_.MakeRoomFor(policy, tree_.nodes().capacity()); }
  // Another order from here on: all that could go is listed anew. O(n log n).
  void SetPolicy(AnyRetention policy) {
    MakeRoomFor(policy);
    order_.SetPolicy(view(), std::move(policy), stack_);
  }

  // What the policy reads may have changed since: times, curves.
  void BeginCall() { order_.BeginCall(); }

  std::int32_t referenced() const { return referenced_; }  // blocks that a request refers to
  std::int32_t idle() const { return idle_; }  // blocks that could go
  std::uint64_t uses() const { return uses_; }  // times that unused chunks came into use
  std::size_t chunks() const { return tree_.size(); }
  std::size_t capacity() const { return tree_.capacity(); }
  std::size_t holdings() const { return table_.size(); }
  // Maximum holdings: at most kMostHoldings.
  void BoundHoldings(std::size_t most) { most_holdings_ = std::clamp<std::size_t>(most, 1, kMostHoldings); }

  // --- Prompts. All hashes of one call are those of chunks of `blocks` blocks each, from the first one on. ---

  PrefixHit Find(std::span<const std::uint64_t> hashes, std::int32_t blocks) const;
  // A request refers to chunks that Find has found.
  void Acquire(std::span<const std::uint64_t> hashes, std::int32_t blocks);
  // The last of the hashes becomes a chunk with one reference, of the request that refers to those before it; false
  // if it is there already.
  bool Publish(std::span<const std::uint64_t> hashes, std::int32_t blocks);
  // A request gives its chunks back: its turn has ended, or it was preempted. They become the holding of the turn's
  // branch, in place of what that had. The next tier has a copy of the first `copied` of them.
  void Release(std::span<const std::uint64_t> hashes, std::int32_t blocks, const HeldTurn& turn, TimePoint now,
               std::int32_t copied = 0);
  // The chunks from `first` on, to which a request refers, are lost, and all that follow them: they are found no more.
  void Spoil(std::span<const std::uint64_t> hashes, std::int32_t first, std::int32_t blocks);
  // The same of all chunks that are there.
  void SpoilAll();
  // The next tier has this chunk no more.
  void Uncopy(std::uint64_t hash, std::int32_t blocks);

  // --- Workflows. Names that hold nothing here are harmless. ---

  // A late report, or a new one, of what the last turn has ended with.
  void SetClass(WorkflowId workflow, std::uint64_t branch, std::uint32_t its_class);
  // Its next turn waits here, or does not after all. A turn that ends is not awaited.
  void Await(WorkflowId workflow, std::uint64_t branch, bool awaited, TimePoint now = {});
  // As if a turn had used now what the branch holds, which ended with this class. A branch that is awaited stays so.
  void Touch(WorkflowId workflow, std::uint64_t branch, std::uint32_t its_class, TimePoint now);
  // Nothing comes after the branch's last turn, or the workflow's: what it alone holds is dead.
  void End(WorkflowId workflow, std::uint64_t branch) {
    if (const Slot h = table_.Find(workflow, branch); h != kNoSlot) EndHolding(h);
  }
  void End(WorkflowId workflow) {
    table_.ForEachBranch(workflow, [this](Slot h) { EndHolding(h); });
  }

  // All 0 if it holds nothing. O(nodes of its path).
  Holding Find(WorkflowId workflow, std::uint64_t branch) const;
  // Of its last block, to the policy; 0 if it holds nothing.
  double ValueOf(WorkflowId workflow, std::uint64_t branch, TimePoint now) {
    const Slot h = table_.Find(workflow, branch);
    if (h == kNoSlot) return 0;
    order_.SetNow(now);
    const PrefixNode& tip = nodes()[table_.TipOf(h)];
    return order_.appraiser().ValueOf(view(), tip, tip.end);
  }
  // None if it holds nothing.
  TenantId TenantOf(WorkflowId workflow, std::uint64_t branch) const {
    const Slot h = table_.Find(workflow, branch);
    return h == kNoSlot ? TenantId{} : table_[h].name.tenant;
  }
  // tell(workflow, branch, Holding) of each; without `own_from`.
  template <class Tell>
  void ForEach(Tell&& tell) const {
    table_.ForEach([&](Slot h) { tell(table_[h].name.workflow, table_[h].name.branch, HoldingOf(h)); });
  }
  // Times that blocks went although a waiting turn would have used them.
  std::uint64_t awaited_lost() const { return awaited_lost_; }
  // Holdings that ended because there were too many, and of these, pinned ones.
  std::uint64_t crowded_out() const { return crowded_out_; }
  std::uint64_t pins_crowded_out() const { return pins_crowded_out_; }

  // --- Pins. ---

  // Blocks that one tenant may have pinned, and all of them together.
  void BoundPins(std::int32_t of_one, std::int32_t of_all) { pins_.Bound(of_one, of_all); }
  // Until then, in place of an earlier pin; unset: no longer. Nothing, if it holds nothing or is awaited.
  // False: more than its tenant may pin.
  bool Pin(WorkflowId workflow, std::uint64_t branch, TimePoint until) {
    const Slot h = table_.Find(workflow, branch);
    return h == kNoSlot || Pin(h, until);
  }
  // Ends the pins whose time has come.
  void EndPins(TimePoint now);
  TimePoint next_pin_end() const { return pins_.next(); }
  std::size_t pins() const { return pins_.size(); }
  std::int32_t pinned() const { return pins_.blocks(); }  // blocks, as many as there were when they were pinned
  std::uint64_t pins_broken() const { return pins_broken_; }  // times that pinned blocks went
  std::uint64_t pins_refused() const { return pins_.refused(); }
  TimePoint PinnedUntil(WorkflowId workflow, std::uint64_t branch) const {
    const Slot h = table_.Find(workflow, branch);
    return h == kNoSlot ? kUnset : table_[h].pinned_until;
  }

  // --- Eviction. ---

  // Calls take(const HeldVictim&) for what would go next, in order, until there are as many blocks, or take returns
  // false, if it returns anything. Returns their sum; less if no more could go. Changes nothing.
  template <class Take>
  std::int32_t Walk(std::int32_t blocks, TimePoint now, Take&& take) {
    const CacheView cache = view();
    return order_.Walk(cache, blocks, now, [&](const VictimOrder::Run& run) {
      const HeldVictim victim = order_.VictimOf(cache, run);
      if constexpr (std::same_as<decltype(take(victim)), bool>) return take(victim);
      else return take(victim), true;
    });
  }
  // The loss if as many blocks were taken, and how many there are.
  struct Loss {
    double value = 0;
    std::int32_t blocks = 0;
  };
  Loss LossOf(std::int32_t blocks, TimePoint now) {
    Loss loss;
    loss.blocks = Walk(blocks, now, [&loss](const HeldVictim& victim) { loss.value += victim.value; });
    return loss;
  }
  // Forgets as many blocks, or up to the end of a chunk; returns how many. Fewer if no more are idle.
  std::int32_t Evict(std::int32_t blocks, TimePoint now);

  // Chunks that have left since the list was last taken, and have not come back. Without allocation if room was made
  // since.
  std::vector<DroppedPrefix>& dropped() {
    std::erase_if(dropped_, [&](const DroppedPrefix& chunk) {
      return tree_.FindChunk(chunk.hash, chunk.blocks.value) != kNoSlot;
    });
    return dropped_;
  }
  // `more`: chunks that are published before the next call of this function.
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

  // Of nodes:
  void Split(Slot chunk);
  Slot MergeUp(Slot n);
  Slot Shrink(Slot n, std::int32_t end);

  // Of holdings:
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
